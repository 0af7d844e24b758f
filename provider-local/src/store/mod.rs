//! The state folder: layers, records of artifacts, boxes, and what removes them.
//!
//! ```text
//! VERSION  owner-id  collect.lock  reap.lock
//! layer/<key>/{fs,manifest,meta.json,used}         built layers, immutable, published by one rename
//! layer/<key>.lock                                 who builds or looks for that layer
//! art/<name>.json                                  records of the driver, which name the layers they need
//! box/<id>/{lock,journal.json,up,work,root}        one for each box
//! tmp/  trash/  bin/                               on the way in and out; the helper as a file, where needed
//! ```
//!
//! The lock of a box is one open file that driver and helper share: it is free exactly when both are dead,
//! and with the helper every process of the box. So a free lock is the proof that a box can be deleted, and
//! no process numbers are needed. A box is made aside in `tmp`, locked, and renamed; it leaves by a rename to
//! `trash`. Whatever moment a process is killed at, [`Store::reap`] of any later process removes the rest.
//!
//! The manifest of a layer lists all that is in it with digests. Its own digest stands in `meta.json`, and wherever
//! the driver writes it; [`Store::verify_layer`] compares the layer with it.
//!
//! Functions here block for the time of a few file operations, and are safe to call from several threads and
//! processes.

mod adopt;
mod boxes;
mod error;
mod files;
mod layers;
mod listing;
mod manifest;
mod records;
mod sweep;
mod tree;
mod verify;

#[cfg(test)]
mod tests;

pub use boxes::{BoxEntry, Removal};
pub use error::StoreError;
pub use layers::{Layer, LayerKey, LayerLock};
pub use records::Record;
pub use sweep::{Collected, Collection, Reaped};
pub use verify::{Difference, Differences};

pub(crate) use boxes::{BoxDir, Journal};
pub(crate) use files::{is_there, make_dir, make_dir_with_mode, unique};
pub(crate) use layers::Layout;

use files::{Held, Want};
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const VERSION: &str = "1";

/// The state folder, opened. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    root: Arc<PathBuf>,
    owner_id: Arc<str>,
}

impl Store {
    /// Opens the folder, and makes it (for this user alone) if it is not there. A folder that holds anything and
    /// is no state folder is refused untouched.
    ///
    /// # Errors
    /// The folder cannot be made or written, belongs to another user, holds somebody's files, or has another
    /// layout version.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let builder_error = |error| StoreError::io("make the state folder", root, error);
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(builder_error)?;
        let root = fs::canonicalize(root).map_err(|error| StoreError::io("find", root, error))?;
        adopt::claim(&root)?;
        // These two first: with them the folder is known as ours, and before them it holds nothing else.
        let found = write_once(&root, adopt::VERSION_FILE, VERSION)?;
        if found != VERSION {
            return Err(StoreError::Version { path: root, found, expected: VERSION });
        }
        let owner_id = write_once(&root, adopt::OWNER_FILE, &new_owner_id()?)?;
        for folder in ["layer", "art", "box", "tmp", "trash", "bin"] {
            files::make_missing_dir(&root.join(folder))?;
        }
        for lock in ["reap.lock", "collect.lock"] {
            write_once(&root, lock, "")?;
        }
        Ok(Self { root: Arc::new(root), owner_id: owner_id.into() })
    }

    /// The folder itself, absolute and without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A random name of this state folder, made once, 32 hexadecimal digits.
    pub fn owner_id(&self) -> &str {
        &self.owner_id
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes and removes a file.
    pub(crate) fn try_writing(&self) -> Result<(), StoreError> {
        let _newborn = self.newborn_guard()?;
        let path = self.path("tmp").join(unique());
        let written = files::write_new(&path, b"probe");
        let removed = fs::remove_file(&path).map_err(|error| StoreError::io("remove", &path, error));
        written.and(removed)
    }

    /// Held while something is made in `tmp` and not yet locked itself.
    fn newborn_guard(&self) -> Result<Held, StoreError> {
        Held::wait(&self.path("tmp"), Want::Shared)
    }

    /// While it is held, no collection decides which layers are unused.
    pub(crate) fn collection_guard(&self) -> Result<Held, StoreError> {
        Held::wait(&self.path("collect.lock"), Want::Shared)
    }

    /// Moves something out of sight, by one rename; `false` when it was gone.
    fn to_trash(&self, path: &Path) -> Result<Option<PathBuf>, StoreError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let target = files::trash_name(&self.path("trash"), name.trim_start_matches('.'));
        match fs::rename(path, &target) {
            Ok(()) => Ok(Some(target)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("move to the trash", path, error)),
        }
    }

    /// Whether a box of this process, or of any other, holds the lock at `path`.
    fn is_locked(path: &Path) -> Result<bool, StoreError> {
        let Some(file) = files::open_lock(path)? else {
            return Ok(false);
        };
        Ok(Held::attempt(file, path, Want::Shared)?.is_none())
    }
}

/// The contents of a small file that is written once by whoever comes first, whole or not at all.
fn write_once(root: &Path, name: &str, contents: &str) -> Result<String, StoreError> {
    let path = root.join(name);
    if !is_there(&path) {
        let aside = root.join(format!(".{name}.{}", unique()));
        let written = files::write_new(&aside, contents.as_bytes()).and_then(|file| {
            // An empty file after a power cut would make the folder somebody else's for good.
            files::sync(&file, &aside)?;
            files::rename_new(&aside, &path)
        });
        if !matches!(written, Ok(true)) {
            let _ = fs::remove_file(&aside);
        }
        written?;
    }
    let found = fs::read(&path).map_err(|error| StoreError::io("read", &path, error))?;
    Ok(String::from_utf8_lossy(&found).trim().to_owned())
}

fn new_owner_id() -> Result<String, StoreError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| StoreError::io("read", path, error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
