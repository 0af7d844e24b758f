//! Layers: what a build changed, as a folder that overlays can stand on.

use super::files::{self, Held, Want};
use super::listing::Listing;
use super::manifest::{self, FORM, Head};
use super::{Store, StoreError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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

/// The files of a layer beside `fs`: its description, what was in it when it was built, and when it was last used
/// (as the time of its last change).
const DESCRIPTION: &str = "meta.json";
const MANIFEST: &str = "manifest";
const USED: &str = "used";

/// `meta.json` of a layer. It says again what the head of the manifest says, which the digest covers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    form: u32,
    layout: Layout,
    /// The digest of the manifest.
    manifest: String,
    meta: serde_json::Value,
}

/// A published layer.
#[derive(Clone, Debug)]
pub struct Layer {
    key: LayerKey,
    path: PathBuf,
    layout: Layout,
    manifest: String,
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

    /// The SHA-256 of its manifest, in hexadecimal digits: it stands for the whole content and the description.
    pub fn digest(&self) -> &str {
        &self.manifest
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

    pub(super) fn manifest_path(&self) -> PathBuf {
        self.path.join(MANIFEST)
    }

    pub(super) fn head(&self) -> Head {
        Head { form: FORM, key: self.key.clone(), layout: self.layout, meta: self.meta.clone() }
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
    /// A layer, if it was built. One that was built by a version without manifests is not found; a collection
    /// removes it.
    ///
    /// # Errors
    /// Its description cannot be read or understood.
    pub fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, StoreError> {
        let path = self.layer_path(key);
        let meta_path = path.join(DESCRIPTION);
        let Some(text) = files::read_if_there(&meta_path)? else {
            return Ok(None);
        };
        match serde_json::from_slice::<Meta>(&text) {
            Ok(Meta { form: FORM, layout, manifest, meta }) => {
                Ok(Some(Layer { key: key.clone(), path, layout, manifest, meta }))
            }
            Err(error) if files::is_there(&path.join(MANIFEST)) => {
                Err(StoreError::Unreadable { path: meta_path, reason: error.to_string() })
            }
            // Of another version.
            Ok(_) | Err(_) => Ok(None),
        }
    }

    pub(crate) fn require_layer(&self, key: &LayerKey) -> Result<Layer, StoreError> {
        let missing = || StoreError::NoLayer { key: key.to_string(), path: self.root().to_owned() };
        self.layer(key)?.ok_or_else(missing)
    }

    /// All layers whose descriptions can be understood.
    ///
    /// # Errors
    /// The folder or a description cannot be read.
    pub fn layers(&self) -> Result<Vec<Layer>, StoreError> {
        let mut layers = Vec::new();
        for name in files::names(&self.path("layer"))? {
            if let Ok(key) = LayerKey::new(name) {
                match self.layer(&key) {
                    Err(StoreError::Unreadable { .. }) => {}
                    layer => layers.extend(layer?),
                }
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

    /// Notes that a layer is used now, for collections that spare what was used of late. What cannot be noted is no
    /// reason to stop.
    pub fn touch_layer(&self, layer: &Layer) {
        let path = layer.path.join(USED);
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
        if let Err(error) = file.and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::debug!(%error, layer = %layer.key, "the use of a layer could not be noted");
        }
    }

    /// When a layer was last used; `None` when that is not known.
    pub(super) fn last_use(&self, key: &LayerKey) -> Option<SystemTime> {
        self.layer_path(key).join(USED).metadata().and_then(|metadata| metadata.modified()).ok()
    }

    pub(super) fn layer_path(&self, key: &LayerKey) -> PathBuf {
        self.path("layer").join(key.as_str())
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

    /// `aside` holds `fs`; it gets its manifest, its description and its place. What is there under this key and
    /// is no layer, such as one of another version, is removed first if nobody uses it.
    pub(super) fn publish_layer(
        &self,
        lock: &LayerLock,
        aside: &Path,
        layout: Layout,
        meta: serde_json::Value,
    ) -> Result<Layer, StoreError> {
        let meta_path = aside.join(DESCRIPTION);
        let head = Head { form: FORM, key: lock.key.clone(), layout, meta };
        let manifest = write_manifest(aside, &head)?;
        let text = serde_json::to_vec(&Meta { form: FORM, layout, manifest, meta: head.meta })
            .map_err(|error| StoreError::Unreadable { path: meta_path.clone(), reason: error.to_string() })?;
        // What the build wrote was synced when its overlay was unmounted.
        let file = files::write_new(&meta_path, &text)?;
        files::sync(&file, &meta_path)?;
        files::write_new(&aside.join(USED), b"")?;
        files::sync_dir(aside)?;
        let place = self.layer_path(&lock.key);
        if !files::rename_new(aside, &place)? && !matches!(self.layer(&lock.key), Ok(Some(_))) {
            self.discard_layer(lock)?;
            files::rename_new(aside, &place)?;
        }
        files::sync_dir(&self.path("layer"))?;
        self.require_layer(&lock.key)
    }
}

/// Writes what is in `fs` beside it, and tells the digest of that.
fn write_manifest(aside: &Path, head: &Head) -> Result<String, StoreError> {
    let (path, files) = (aside.join(MANIFEST), aside.join("fs"));
    let unlisted = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidFilename => StoreError::Unfit { reason: error.to_string() },
        _ => StoreError::io("list the layer", &files, error),
    };
    let mut writer = manifest::Writer::new(&path, head)?;
    let mut listing = Listing::of(&files).map_err(unlisted)?;
    while let Some((name, entry)) = listing.next().map_err(unlisted)? {
        let entry = entry.map_err(|error| {
            let file = files.join(std::ffi::OsStr::from_bytes(&name));
            StoreError::io("read", &file, error)
        })?;
        writer.line(&entry)?;
    }
    writer.finish()
}
