//! What removes the remains of killed processes, and layers that nobody needs.

use super::boxes::check_id;
use super::files::{self, Held, Want};
use super::{LayerKey, Removal, Store, StoreError};
use std::collections::HashSet;
use std::path::Path;

/// What a reap did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reaped {
    /// The ids of the boxes that were removed: their driver and all their processes were dead.
    pub boxes: Vec<String>,
    /// The ids of the boxes that are in use, by this process or another.
    pub busy: Vec<String>,
    /// How many other remains were removed.
    pub others: usize,
}

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// The layers that were removed.
    pub layers: Vec<LayerKey>,
    /// The disk space that they took, in bytes.
    pub bytes: u64,
}

impl Store {
    /// Removes what killed processes left: boxes whose lock is free, unfinished things, the trash. Touches
    /// nothing that a living process uses, and nothing that has no name of ours. Idempotent; waits for a few
    /// seconds while another process reaps.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while another process goes on reaping; or the first thing that could not be removed; everything else was tried.
    pub fn reap(&self) -> Result<Reaped, StoreError> {
        let _one_at_a_time = Held::wait(&self.path("reap.lock"), Want::Exclusive)?;
        let mut reaped = Reaped::default();
        let mut first_error = None;
        let mut note = |answer: Result<Removal, StoreError>| match answer {
            Ok(removal) => Some(removal),
            Err(error) => {
                first_error.get_or_insert(error);
                None
            }
        };
        for id in files::names(&self.path("box"))? {
            if !is_box(&self.path("box"), &id) {
                continue;
            }
            match note(self.remove_if_free(&self.path("box").join(&id))) {
                Some(Removal::Removed) => reaped.boxes.push(id),
                Some(Removal::Busy) => reaped.busy.push(id),
                Some(Removal::AlreadyGone) | None => {}
            }
        }
        for answer in self.sweep_unfinished()? {
            reaped.others += usize::from(note(answer) == Some(Removal::Removed));
        }
        for name in files::names(&self.path("trash"))?.into_iter().filter(|name| files::is_unique(name)) {
            let answer = files::remove_tree(&self.path("trash").join(name)).map(|()| Removal::Removed);
            reaped.others += usize::from(note(answer).is_some());
        }
        first_error.map_or(Ok(reaped), Err)
    }

    fn sweep_unfinished(&self) -> Result<Vec<Result<Removal, StoreError>>, StoreError> {
        let folder = self.path("tmp");
        // Exclusive: whoever is between making a thing and locking it has finished.
        let _no_newborns = Held::wait(&folder, Want::Exclusive)?;
        let names = files::names(&folder)?;
        let ours = names.iter().filter(|name| files::is_unique(name));
        Ok(ours.map(|name| self.remove_unfinished(&folder.join(name))).collect())
    }

    fn remove_unfinished(&self, path: &Path) -> Result<Removal, StoreError> {
        let Ok(metadata) = path.symlink_metadata() else {
            return Ok(Removal::AlreadyGone);
        };
        if metadata.is_dir() {
            return self.remove_if_free(path);
        }
        if !metadata.is_file() {
            // We make neither links nor pipes here; opening one may lead elsewhere, or wait.
            return Ok(Removal::AlreadyGone);
        }
        let Some(file) = files::open_lock(path)? else {
            return Ok(Removal::AlreadyGone);
        };
        let Some(_held) = Held::attempt(file, path, Want::Exclusive)? else {
            return Ok(Removal::Busy);
        };
        files::remove_tree(path).map(|()| Removal::Removed)
    }

    /// Removes layers that no record names, no busy box stands on, no builder has locked, and `in_use` does
    /// not list.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process does not let go of the layers for seconds; a record that cannot be read (then nothing is removed, since it may name any layer), or the system
    /// refuses.
    pub fn collect(&self, in_use: &[LayerKey]) -> Result<Collected, StoreError> {
        let mut trashed = Vec::new();
        let mut collected = Collected::default();
        {
            let _deciding = Held::wait(&self.path("collect.lock"), Want::Exclusive)?;
            let mut needed: HashSet<LayerKey> = in_use.iter().cloned().collect();
            needed.extend(self.records()?.into_iter().flat_map(|(_, record)| record.layers));
            needed
                .extend(self.boxes()?.into_iter().filter(|entry| entry.busy).flat_map(|entry| entry.layers));
            for key in self.layer_keys()? {
                if needed.contains(&key) {
                    continue;
                }
                let lock = self.lock_path(&key);
                let Some(_held) = self.try_lock(&lock)? else {
                    continue;
                };
                if let Some(path) = self.to_trash(&self.path("layer").join(key.as_str()))? {
                    trashed.push(path);
                    collected.layers.push(key);
                }
                std::fs::remove_file(&lock).map_err(|error| StoreError::io("remove", &lock, error))?;
            }
        }
        for path in trashed {
            collected.bytes = collected.bytes.saturating_add(files::tree_size(&path));
            files::remove_tree(&path)?;
        }
        Ok(collected)
    }

    /// Keys with a layer, and keys of which only the lock is left.
    fn layer_keys(&self) -> Result<Vec<LayerKey>, StoreError> {
        let names = files::names(&self.path("layer"))?;
        let mut keys: Vec<LayerKey> = names
            .into_iter()
            .filter_map(|name| LayerKey::new(name.strip_suffix(".lock").unwrap_or(&name)).ok())
            .collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

/// Whether this is a folder as the store makes them for boxes: with a name of ours, and nothing else in it.
fn is_box(folder: &Path, id: &str) -> bool {
    const PARTS: [&str; 6] = ["lock", "journal.json", "up", "work", "root", "layer"];
    let path = folder.join(id);
    check_id(id).is_ok()
        && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
        && files::names(&path).is_ok_and(|names| names.iter().all(|name| PARTS.contains(&name.as_str())))
}
