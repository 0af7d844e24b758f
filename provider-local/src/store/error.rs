//! What can go wrong with the state folder.

use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// An error of the state folder. `Display` says what happened, to which path, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused.
    #[error("could not {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// To which path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The folder belongs to another user.
    #[error(
        "the state folder {} belongs to user {owner}, but this process runs as user {user}; choose another \
         state folder, one for each user",
        path.display()
    )]
    ForeignOwner {
        /// The state folder.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// The folder is no state folder and holds files, which are somebody's.
    #[error(
        "{} is no state folder of this program and is not empty, so that nothing in it was touched; choose \
         another state folder: a new or an empty one",
        path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written by another version.
    #[error(
        "the state folder {} has the layout version {found:?}, this program knows {expected:?}; choose \
         another state folder, or remove this one when nothing uses it",
        path.display()
    )]
    Version {
        /// The state folder.
        path: PathBuf,
        /// What its `VERSION` says.
        found: String,
        /// What this program writes.
        expected: &'static str,
    },
    /// A name that cannot be a file name here.
    #[error(
        "{name:?} is no valid {what}: 1 to {longest} of the characters {allowed} are, with no dot in front"
    )]
    BadName {
        /// What the name should have been.
        what: &'static str,
        /// The name.
        name: String,
        /// How long it may be.
        longest: usize,
        /// What it may consist of.
        allowed: &'static str,
    },
    /// A file of ours holds something else.
    #[error(
        "{} cannot be understood: {reason}; it was not written by this version, or was damaged",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A box with this id exists.
    #[error("a box with the id {id:?} exists already; ids must be new")]
    BoxExists {
        /// The id.
        id: String,
    },
    /// A layer that is needed is not there.
    #[error("there is no layer {key:?} in {}; build it again", path.display())]
    NoLayer {
        /// The key.
        key: String,
        /// The state folder.
        path: PathBuf,
    },
    /// What a build made cannot be a layer.
    #[error("what was built cannot become a layer: {reason}; change what the build does")]
    Unfit {
        /// Why.
        reason: String,
    },
    /// A layer would have to go, and is needed.
    #[error("the layer {key:?} is used by {user}; end or delete that first")]
    LayerInUse {
        /// The key.
        key: String,
        /// The record, or the box.
        user: String,
    },
    /// Somebody else holds a lock for longer than the caller would wait.
    #[error("{} is locked by another process or task; wait for it, or end it", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        StoreError::Io { action, path: path.to_owned(), source: source.into() }
    }

    /// The system's error number, when the system refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            StoreError::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "; free some space there, or choose a state folder on another disk"
        }
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => "; choose a state folder that this user can write",
        Some(Errno::NOENT) => "; the folder cannot hold files or was removed: choose another state folder",
        Some(Errno::NOTDIR) => "; a part of the path is no folder: choose another state folder",
        Some(Errno::NAMETOOLONG) => "; choose a state folder with a shorter path",
        Some(Errno::MFILE | Errno::NFILE) => "; raise the limit of open files",
        _ => "",
    }
}
