//! Layers: what a build changed, as a folder that overlays can stand on.

use super::files::{self, Held, Want};
use super::{Store, StoreError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of a layer, by content or recipe: 1 to 64 of `a-z A-Z 0-9 - _`. Usually the hexadecimal digest of
/// all that went into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LayerKey(String);

impl LayerKey {
    /// Checks the name.
    ///
    /// # Errors
    /// It is empty, too long, or has other characters.
    pub fn new(key: impl Into<String>) -> Result<Self, StoreError> {
        let key = key.into();
        files::check_name("layer key", &key, 64, false)?;
        Ok(Self(key))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LayerKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for LayerKey {
    type Error = StoreError;

    fn try_from(key: String) -> Result<Self, StoreError> {
        Self::new(key)
    }
}

impl From<LayerKey> for String {
    fn from(key: LayerKey) -> String {
        key.0
    }
}

/// How the folder of a layer is to be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layout {
    /// One folder for the whole root.
    Whole,
    /// `rest` for the root, `top/<name>` for each of its folders.
    Split,
}

/// `meta.json` of a layer.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    layout: Layout,
    meta: serde_json::Value,
}

/// A published layer.
#[derive(Clone, Debug)]
pub struct Layer {
    key: LayerKey,
    path: PathBuf,
    layout: Layout,
    meta: serde_json::Value,
}

impl Layer {
    /// Its name.
    pub fn key(&self) -> &LayerKey {
        &self.key
    }

    /// What its builder wrote down.
    pub fn meta(&self) -> &serde_json::Value {
        &self.meta
    }

    /// The disk space it takes, in bytes; walks the whole layer.
    pub fn size(&self) -> u64 {
        files::tree_size(&self.path)
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("fs")
    }
}

/// The right to build one layer. Hold it from the look whether the layer exists until the record that names
/// the layer is written: then no collection takes the layer away in between.
#[derive(Debug)]
pub struct LayerLock {
    key: LayerKey,
    _held: Held,
}

impl LayerLock {
    /// The layer it is for.
    pub fn key(&self) -> &LayerKey {
        &self.key
    }
}

impl Store {
    /// A layer, if it was built.
    ///
    /// # Errors
    /// Its description cannot be read.
    pub fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, StoreError> {
        let path = self.path("layer").join(key.as_str());
        let meta_path = path.join("meta.json");
        let Some(text) = files::read_if_there(&meta_path)? else {
            return Ok(None);
        };
        let meta: Meta = serde_json::from_slice(&text)
            .map_err(|error| StoreError::Unreadable { path: meta_path, reason: error.to_string() })?;
        Ok(Some(Layer { key: key.clone(), path, layout: meta.layout, meta: meta.meta }))
    }

    pub(crate) fn require_layer(&self, key: &LayerKey) -> Result<Layer, StoreError> {
        let missing = || StoreError::NoLayer { key: key.to_string(), path: self.root().to_owned() };
        self.layer(key)?.ok_or_else(missing)
    }

    /// All layers.
    ///
    /// # Errors
    /// The folder or a description cannot be read.
    pub fn layers(&self) -> Result<Vec<Layer>, StoreError> {
        let mut layers = Vec::new();
        for name in files::names(&self.path("layer"))? {
            if let Ok(key) = LayerKey::new(name) {
                layers.extend(self.layer(&key)?);
            }
        }
        Ok(layers)
    }

    /// The right to build this layer. When another builder has it, this waits for at most `limit`; then look
    /// with [`Store::layer`] whether that one built it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] after `limit`; or the system refuses.
    pub fn lock_layer(&self, key: &LayerKey, limit: Duration) -> Result<LayerLock, StoreError> {
        let path = self.lock_path(key);
        let held = files::retry(limit, || self.try_lock(&path))?;
        match held {
            Some(held) => Ok(LayerLock { key: key.clone(), _held: held }),
            None => Err(StoreError::Locked { path }),
        }
    }

    pub(super) fn lock_path(&self, key: &LayerKey) -> PathBuf {
        self.path("layer").join(format!("{key}.lock"))
    }

    pub(super) fn try_lock(&self, path: &Path) -> Result<Option<Held>, StoreError> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| StoreError::io("open", path, error))?;
        let held = Held::attempt(file, path, Want::Exclusive)?;
        // A collection removes the lock with its layer; a lock on the removed file is worth nothing.
        Ok(held.filter(|held| held.is_at(path)))
    }

    /// `aside` holds `fs`; it gets its description and its place.
    pub(super) fn publish_layer(
        &self,
        lock: &LayerLock,
        aside: &Path,
        layout: Layout,
        meta: serde_json::Value,
    ) -> Result<Layer, StoreError> {
        let meta_path = aside.join("meta.json");
        let text = serde_json::to_vec(&Meta { layout, meta })
            .map_err(|error| StoreError::Unreadable { path: meta_path.clone(), reason: error.to_string() })?;
        // What the build wrote was synced when its overlay was unmounted.
        let file = files::write_new(&meta_path, &text)?;
        files::sync(&file, &meta_path)?;
        files::sync_dir(aside)?;
        files::rename_new(aside, &self.path("layer").join(lock.key.as_str()))?;
        files::sync_dir(&self.path("layer"))?;
        self.require_layer(&lock.key)
    }
}
