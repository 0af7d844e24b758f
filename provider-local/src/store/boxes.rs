//! Boxes on disk.

use super::files::{self, Held, Want};
use super::{Layer, LayerKey, LayerLock, Layout, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a look at a lock by somebody else may make it seem taken.
const GLANCE: Duration = Duration::from_millis(200);

/// `journal.json` of a box.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) name: String,
    pub(crate) created_unix: u64,
    pub(crate) layers: Vec<LayerKey>,
    pub(crate) journal: serde_json::Value,
}

impl Journal {
    pub(crate) fn new(name: &str, layers: &[LayerKey], journal: serde_json::Value) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { name: name.to_owned(), created_unix: created.as_secs(), layers: layers.to_vec(), journal }
    }
}

/// A box as the state folder shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BoxEntry {
    /// Its id, unique in the state folder.
    pub id: String,
    /// The name that the driver gave it; empty when the journal cannot be read.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created_unix: u64,
    /// The layers that it stands on.
    pub layers: Vec<LayerKey>,
    /// What the driver wrote down; null when the journal cannot be read.
    pub journal: serde_json::Value,
    /// Whether its lock is taken: its driver, or a process in it, is alive.
    pub busy: bool,
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was there and is gone.
    Removed,
    /// It was not there.
    AlreadyGone,
    /// Another process holds it; only that process can end it.
    Busy,
}

/// The folder of a box that this process owns, locked. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct BoxDir {
    store: Store,
    path: PathBuf,
    /// `None` once the folder is gone.
    lock: Option<Held>,
}

impl Store {
    /// All boxes of the state folder, those of other processes included.
    ///
    /// # Errors
    /// The folder cannot be read. A box that goes away meanwhile is left out; a journal that cannot be read
    /// is no error.
    pub fn boxes(&self) -> Result<Vec<BoxEntry>, StoreError> {
        let folder = self.path("box");
        let mut entries = Vec::new();
        for id in files::names(&folder)? {
            entries.extend(self.look_at_box(&id)?);
        }
        Ok(entries)
    }

    /// One box; `None` when there is none with this id.
    ///
    /// # Errors
    /// As for [`Store::boxes`].
    pub fn find_box(&self, id: &str) -> Result<Option<BoxEntry>, StoreError> {
        check_id(id)?;
        self.look_at_box(id)
    }

    fn look_at_box(&self, id: &str) -> Result<Option<BoxEntry>, StoreError> {
        let path = self.path("box").join(id);
        let busy = Self::is_locked(&path.join("lock"))?;
        let journal = files::read_if_there(&path.join("journal.json"))?;
        if journal.is_none() && !files::is_there(&path) {
            return Ok(None);
        }
        let journal: Option<Journal> = journal.and_then(|text| serde_json::from_slice(&text).ok());
        let journal = journal.unwrap_or_else(|| Journal {
            name: String::new(),
            created_unix: 0,
            layers: Vec::new(),
            journal: serde_json::Value::Null,
        });
        Ok(Some(BoxEntry {
            id: id.to_owned(),
            name: journal.name,
            created_unix: journal.created_unix,
            layers: journal.layers,
            journal: journal.journal,
            busy,
        }))
    }

    /// Removes a box whose lock is free. A box of this very process is busy here; [`Engine::remove_box`] ends
    /// it first.
    ///
    /// Idempotent, and safe against any number of callers in any number of processes.
    ///
    /// [`Engine::remove_box`]: crate::engine::Engine::remove_box
    ///
    /// # Errors
    /// The id is malformed, or the system refuses; what is left then is in the trash, for the next reap.
    pub fn remove_box(&self, id: &str) -> Result<Removal, StoreError> {
        check_id(id)?;
        self.remove_if_free(&self.path("box").join(id))
    }

    /// Removes a folder if nobody holds the lock in it.
    pub(super) fn remove_if_free(&self, path: &Path) -> Result<Removal, StoreError> {
        let lock = path.join("lock");
        let held = match files::open_lock(&lock)? {
            Some(_) => files::retry(GLANCE, || match files::open_lock(&lock)? {
                Some(file) => Ok(Held::attempt(file, &lock, Want::Exclusive)?.map(Some)),
                None => Ok(Some(None)),
            })?,
            // No lock was ever made: whoever began died before that, since newborns are not seen unlocked.
            None => Some(None),
        };
        let Some(held) = held else {
            return Ok(Removal::Busy);
        };
        if held.as_ref().is_some_and(|held| !held.is_at(&lock)) {
            // It was removed, and perhaps made anew, between opening and locking.
            return Ok(if files::is_there(path) { Removal::Busy } else { Removal::AlreadyGone });
        }
        let trashed = self.to_trash(path)?;
        drop(held);
        match trashed {
            Some(trashed) => files::remove_tree(&trashed).map(|()| Removal::Removed),
            None => Ok(Removal::AlreadyGone),
        }
    }

    /// Makes the folder of a box, locked before anybody can see it. Its layers exist, and stay while it is
    /// busy.
    pub(crate) fn create_box(&self, id: &str, journal: &Journal) -> Result<BoxDir, StoreError> {
        check_id(id)?;
        let _no_collection = self.collection_guard()?;
        let newborn = self.path("tmp").join(format!("{id}.{}", files::unique()));
        let mut folder = {
            let _newborn = self.newborn_guard()?;
            files::make_dir(&newborn)?;
            let mut folder = BoxDir { store: self.clone(), path: newborn, lock: None };
            let answer = folder.take_lock();
            if answer.is_err() {
                let _ = files::remove_tree(&folder.path);
            }
            answer?;
            folder
        };
        let text = serde_json::to_vec(journal).map_err(|error| StoreError::Unreadable {
            path: folder.path.join("journal.json"),
            reason: error.to_string(),
        })?;
        files::write_new(&folder.path.join("journal.json"), &text)?;
        let path = self.path("box").join(id);
        if !files::rename_new(&folder.path, &path)? {
            return Err(StoreError::BoxExists { id: id.to_owned() });
        }
        folder.path = path;
        for key in &journal.layers {
            self.require_layer(key)?;
        }
        Ok(folder)
    }
}

impl BoxDir {
    fn take_lock(&mut self) -> Result<(), StoreError> {
        let path = self.path.join("lock");
        let file = files::write_new(&path, b"")?;
        // Nobody else can know of it: the sweep keeps out while the newborn guard is held.
        self.lock = Held::attempt(file, &path, Want::Exclusive)?;
        if self.lock.is_none() { Err(StoreError::Locked { path }) } else { Ok(()) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file whose lock stands for the life of the box.
    pub(crate) fn lock(&self) -> Option<&File> {
        self.lock.as_ref().map(Held::file)
    }

    /// Turns `up`, which no mount uses any more, into a layer. With a layer of this key already there, that
    /// one stays.
    pub(crate) fn publish(
        &self,
        lock: &LayerLock,
        layout: Layout,
        meta: serde_json::Value,
    ) -> Result<Layer, StoreError> {
        let aside = self.path.join("layer");
        files::make_dir_with_mode(&aside, 0o700)?;
        let upper = self.path.join("up");
        if !files::rename_new(&upper, &aside.join("fs"))? {
            return Err(StoreError::Locked { path: aside });
        }
        self.store.publish_layer(lock, &aside, layout, meta)
    }

    /// Removes the folder, in one step out of sight and then for good.
    pub(crate) fn discard(mut self) -> Result<(), StoreError> {
        self.remove()
    }

    fn remove(&mut self) -> Result<(), StoreError> {
        let Some(lock) = self.lock.take() else {
            return Ok(());
        };
        let trashed = self.store.to_trash(&self.path);
        drop(lock);
        match trashed? {
            Some(trashed) => files::remove_tree(&trashed),
            None => Ok(()),
        }
    }
}

impl Drop for BoxDir {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(%error, "the folder of a box could not be removed; the next reap will try again");
        }
    }
}

pub(crate) fn check_id(id: &str) -> Result<(), StoreError> {
    files::check_name("box id", id, 100, true)
}
