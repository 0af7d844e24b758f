//! File operations of the store: each error names its path, and what is written is whole or absent.

use super::{StoreError, tree};
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Makes one folder for the owner alone.
pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().mode(0o700).create(path).map_err(|error| StoreError::io("make the folder", path, error))
}

/// Makes one folder with exactly this mode, whatever the umask.
pub(crate) fn make_dir_with_mode(path: &Path, mode: u32) -> Result<(), StoreError> {
    make_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(|error| StoreError::io("set the permissions of", path, error))
}

/// Makes one folder if it is not there.
pub(crate) fn make_missing_dir(path: &Path) -> Result<(), StoreError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(StoreError::io("make the folder", path, error))
        }
        _ => Ok(()),
    }
}

/// A new file with these contents.
pub(crate) fn write_new(path: &Path, contents: &[u8]) -> Result<File, StoreError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| StoreError::io("create", path, error))?;
    file.write_all(contents).map_err(|error| StoreError::io("write", path, error))?;
    Ok(file)
}

/// Makes what was written to a file or a folder survive a power cut.
pub(crate) fn sync(file: &File, path: &Path) -> Result<(), StoreError> {
    file.sync_all().map_err(|error| StoreError::io("sync", path, error))
}

/// As [`sync`], for the names in a folder.
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    let folder = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    sync(&folder, path)
}

/// Renames; `false` when the new name is taken.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<bool, StoreError> {
    let here = rustix::fs::CWD;
    match rustix::fs::renameat_with(here, from, here, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
        Err(error) => Err(StoreError::io("rename", from, error)),
    }
}

/// The names in a folder; none when the folder is absent.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", path, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io("list", path, error))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// A file's contents; `None` when it is absent.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    // A pipe in its place must not be waited for, and a link must not lead elsewhere.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::new(ErrorKind::InvalidData, "it is no regular file"));
        }
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)?;
        Ok(contents)
    };
    match read() {
        Ok(contents) => Ok(Some(contents)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

/// Removes a tree, also where folders in it forbid that to their owner (an overlay leaves such a folder
/// behind).
pub(crate) fn remove_tree(path: &Path) -> Result<(), StoreError> {
    let mut attempts = 0;
    loop {
        match tree::remove(path) {
            Ok(()) => return Ok(()),
            // Somebody put something into it meanwhile.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && attempts < 3 => attempts += 1,
            Err(error) => return Err(StoreError::io("remove", path, error)),
        }
    }
}

pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The disk space that a tree takes, in bytes.
pub(crate) fn tree_size(path: &Path) -> u64 {
    tree::size(path)
}

/// A name part that no other process and no other call uses.
pub(crate) fn unique() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{:x}-{:x}-{time:x}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Whether a name ends with a part that [`unique`] made: alone, or after a dot.
pub(crate) fn is_unique(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_number =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    last.split('-').count() == 3 && last.split('-').all(is_number)
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Shared,
    Exclusive,
}

/// A held flock; dropping it lets go, unless another process shares the open file.
#[derive(Debug)]
pub(crate) struct Held {
    file: File,
}

impl Held {
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Waits for the lock of a file or folder that exists and never goes away, but not for ever: whoever holds
    /// it may be stopped, or hang in the kernel.
    pub(crate) fn wait(path: &Path, want: Want) -> Result<Self, StoreError> {
        const LIMIT: Duration = Duration::from_secs(5);
        let held = retry(LIMIT, || {
            let file = open_lock(path)?.ok_or_else(|| StoreError::io("open", path, ErrorKind::NotFound))?;
            Held::attempt(file, path, want)
        })?;
        held.ok_or_else(|| StoreError::Locked { path: path.to_owned() })
    }

    /// The lock if it is free now.
    pub(crate) fn attempt(file: File, path: &Path, want: Want) -> Result<Option<Self>, StoreError> {
        let operation = match want {
            Want::Shared => FlockOperation::NonBlockingLockShared,
            Want::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(Self { file })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(StoreError::io("lock", path, error)),
        }
    }

    /// Whether the locked file is still the one at `path`.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let (Ok(held), Ok(named)) = (self.file.metadata(), path.symlink_metadata()) else {
            return false;
        };
        (held.dev(), held.ino()) == (named.dev(), named.ino())
    }
}

/// Opens a file or folder for locking; `None` when it is absent.
pub(crate) fn open_lock(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}

/// Tries until it works or the time is over.
pub(crate) fn retry<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    const PAUSE: Duration = Duration::from_millis(5);
    let start = Instant::now();
    loop {
        if let Some(value) = attempt()? {
            return Ok(Some(value));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(PAUSE.min(limit));
    }
}

/// Checks a name that will be part of a path.
pub(crate) fn check_name(
    what: &'static str,
    name: &str,
    longest: usize,
    dots: bool,
) -> Result<(), StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || dots && c == '.';
    if !name.is_empty() && name.len() <= longest && !name.starts_with('.') && name.chars().all(allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    let allowed = if dots { "a-z, A-Z, 0-9, '-', '_' and '.'" } else { "a-z, A-Z, 0-9, '-' and '_'" };
    Err(StoreError::BadName { what, name: shown, longest, allowed })
}

/// Where something goes on its way out.
pub(crate) fn trash_name(trash: &Path, name: &str) -> PathBuf {
    trash.join(format!("{name}.{}", unique()))
}
