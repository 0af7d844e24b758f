//! What removes the remains of killed processes, and layers that nobody needs.

use super::boxes::check_id;
use super::files::{self, Held, Want};
use super::{LayerKey, LayerLock, Removal, Store, StoreError};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

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

/// What a collection is to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collection<'a> {
    /// Layers that stay, beside those that are needed.
    pub in_use: &'a [LayerKey],
    /// Only what was not used for this long goes. What was used at a time yet to come was used just now.
    pub unused_for: Option<Duration>,
    /// Nothing is removed: what would go is told as removed.
    pub only_look: bool,
}

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// The layers that were removed, each with the disk space that it took, in bytes.
    pub layers: Vec<(LayerKey, u64)>,
    /// The disk space that they all took.
    pub bytes: u64,
    /// Layers that stay since a record names them.
    pub recorded: Vec<LayerKey>,
    /// Layers that stay since a box stands on them, a builder has locked them, or the caller asked for it.
    pub busy: Vec<LayerKey>,
    /// Layers that stay since they were used of late.
    pub recent: Vec<LayerKey>,
}

/// Why a layer stays.
#[derive(Clone, Debug)]
enum Need {
    Record(String),
    Box(String),
    Caller,
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
    /// As for [`Store::collect_with`].
    pub fn collect(&self, in_use: &[LayerKey]) -> Result<Collected, StoreError> {
        self.collect_with(&Collection { in_use, ..Collection::default() })
    }

    /// As [`Store::collect`], with further wishes.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process does not let go of the layers for seconds; a record that cannot
    /// be read (then nothing is removed, since it may name any layer), or the system refuses.
    pub fn collect_with(&self, wishes: &Collection<'_>) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        let mut going = Vec::new();
        {
            let _deciding = Held::wait(&self.path("collect.lock"), Want::Exclusive)?;
            let mut needs = self.needs()?;
            for key in wishes.in_use {
                needs.entry(key.clone()).or_insert(Need::Caller);
            }
            for key in self.layer_keys()? {
                match needs.get(&key) {
                    Some(Need::Record(_)) => collected.recorded.push(key),
                    Some(Need::Box(_) | Need::Caller) => collected.busy.push(key),
                    None => self.collect_one(key, wishes, &mut collected, &mut going)?,
                }
            }
        }
        for (key, path) in going {
            let bytes = files::tree_size(&path);
            collected.bytes = collected.bytes.saturating_add(bytes);
            collected.layers.push((key, bytes));
            if !wishes.only_look {
                files::remove_tree(&path)?;
            }
        }
        Ok(collected)
    }

    /// Moves a layer that nothing needs away, unless a builder has it or it was used of late.
    fn collect_one(
        &self,
        key: LayerKey,
        wishes: &Collection<'_>,
        collected: &mut Collected,
        going: &mut Vec<(LayerKey, std::path::PathBuf)>,
    ) -> Result<(), StoreError> {
        let (lock, layer) = (self.lock_path(&key), self.layer_path(&key));
        if wishes.only_look {
            if Self::is_locked(&lock)? {
                collected.busy.push(key);
            } else if self.is_recent(&key, wishes) {
                collected.recent.push(key);
            } else if files::is_there(&layer) {
                going.push((key, layer));
            }
            return Ok(());
        }
        let Some(_held) = self.try_lock(&lock)? else {
            collected.busy.push(key);
            return Ok(());
        };
        if self.is_recent(&key, wishes) {
            collected.recent.push(key);
            return Ok(());
        }
        if let Some(path) = self.to_trash(&layer)? {
            going.push((key, path));
        }
        std::fs::remove_file(&lock).map_err(|error| StoreError::io("remove", &lock, error))
    }

    fn is_recent(&self, key: &LayerKey, wishes: &Collection<'_>) -> bool {
        let Some((wanted, used)) = wishes.unused_for.zip(self.last_use(key)) else {
            return false;
        };
        SystemTime::now().duration_since(used).unwrap_or_default() < wanted
    }

    /// What the records and the busy boxes need, each with one of those that need it.
    fn needs(&self) -> Result<HashMap<LayerKey, Need>, StoreError> {
        let mut needs = HashMap::new();
        for entry in self.boxes()?.into_iter().filter(|entry| entry.busy) {
            needs.extend(entry.layers.into_iter().map(|key| (key, Need::Box(entry.id.clone()))));
        }
        for (name, record) in self.records()? {
            needs.extend(record.layers.into_iter().map(|key| (key, Need::Record(name.clone()))));
        }
        Ok(needs)
    }

    /// Removes what is there under the key of a lock, such as a layer that is not what was built; says whether
    /// something was.
    ///
    /// # Errors
    /// [`StoreError::LayerInUse`] when a record names it or a busy box stands on it, and nothing is removed then;
    /// else as for [`Store::collect_with`].
    pub fn discard_layer(&self, lock: &LayerLock) -> Result<bool, StoreError> {
        let trashed = {
            let _deciding = Held::wait(&self.path("collect.lock"), Want::Exclusive)?;
            let user = match self.needs()?.remove(lock.key()) {
                Some(Need::Record(name)) => Some(format!("the artifact {name}")),
                Some(Need::Box(id)) => Some(format!("the box {id}")),
                Some(Need::Caller) | None => None,
            };
            if let Some(user) = user {
                return Err(StoreError::LayerInUse { key: lock.key().to_string(), user });
            }
            self.to_trash(&self.layer_path(lock.key()))?
        };
        match trashed {
            Some(path) => files::remove_tree(&path).map(|()| true),
            None => Ok(false),
        }
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
