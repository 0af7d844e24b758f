//! Ledger files: creating, finding, locking and reading them.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Row, StateFolder, VERSION};
use crate::{
    error::{Code, Error, Result},
    names::RunId,
};

const NEWBORN: &str = ".new-";
const SUFFIX: &str = ".jsonl";

/// No ledger grows to this size; a larger file was not written by us.
const LARGEST: u64 = 256 << 20;

/// A ledger file whose lock we hold.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) good_len: u64,
}

impl Opened {
    /// Creates a ledger with its first line. A sweeper may take the newborn file before it is locked; then it is
    /// created again.
    pub(crate) fn create(folder: &StateFolder, run: &RunId, first_line: &[u8]) -> Result<Self> {
        let ledgers = folder.ledgers();
        let path = ledgers.join(format!("{run}{SUFFIX}"));
        let newborn = ledgers.join(format!("{NEWBORN}{run}{SUFFIX}"));
        for _ in 0..100 {
            match create_aside(&newborn, &path, first_line) {
                Ok(Some(file)) => {
                    sync_folder(&ledgers).map_err(|source| cannot_create(&path, &newborn, source))?;
                    return Ok(Self { file, path, good_len: first_line.len() as u64 });
                }
                Ok(None) => {}
                Err(source) => return Err(cannot_create(&path, &newborn, source)),
            }
        }
        Err(Error::new(
            Code::LedgerUnavailable,
            format!("ledger {}: a sweep takes it again and again", path.display()),
        ))
    }
}

/// `None` means that a sweeper was faster.
fn create_aside(newborn: &Path, path: &Path, first_line: &[u8]) -> io::Result<Option<File>> {
    let mut file = OpenOptions::new().append(true).create(true).open(newborn)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(source)) => return Err(source),
    }
    if !is_at(&file, newborn) {
        return Ok(None);
    }
    file.write_all(first_line)?;
    file.sync_all()?;
    std::fs::rename(newborn, path)?;
    Ok(Some(file))
}

fn cannot_create(path: &Path, newborn: &Path, source: io::Error) -> Error {
    for leftover in [newborn, path] {
        let _ = std::fs::remove_file(leftover);
    }
    Error::new(Code::LedgerUnavailable, format!("ledger {} cannot be created: {source}", path.display()))
        .with_source(source)
}

/// A rename or removal lasts only once its folder is on the disk. Systems that cannot sync a folder do it themselves.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Whether the open file is still the one at this path.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        matches!((file.metadata(), std::fs::metadata(path)), (Ok(open), Ok(there)) if same(&open, &there))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// The ledger files of a state folder, newborn ones included, sorted by name.
///
/// # Errors
/// [`Code::LedgerUnavailable`] if the folder cannot be read. A folder that does not exist holds no ledgers.
pub fn files(folder: &StateFolder) -> Result<Vec<PathBuf>> {
    let ledgers = folder.ledgers();
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&ledgers)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    };
    match read() {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::new(
            Code::LedgerUnavailable,
            format!("state folder {} cannot be read: {source}", ledgers.display()),
        )
        .with_source(source)),
        Ok(paths) => Ok(paths),
    }
}

/// Whether this is the path of a run's ledger.
pub(crate) fn is_of_run(path: &Path, run: &RunId) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy() == format!("{run}{SUFFIX}"))
}

/// What stands in a ledger that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The last line is not complete: the process died, or the disk was full, while it was written. The request
    /// that it speaks of was not sent, or its answer is found by looking it up.
    TornLastLine,
    /// This line, counted from 1, is no row that this version knows.
    UnreadableLine(usize),
}

/// The content of a ledger whose session is dead, with its lock held.
#[derive(Debug)]
pub struct LedgerFile {
    /// Where it is.
    pub path: PathBuf,
    /// The rows that could be read.
    pub rows: Vec<Row>,
    /// What could not.
    pub damage: Vec<Damage>,
    pub(crate) opened: Opened,
}

/// The result of trying to take a ledger over.
#[derive(Debug)]
pub enum Taken {
    /// Its session lives.
    InUse,
    /// It was finished and removed while we looked.
    Finished,
    /// It was created but never used; it is removed.
    Newborn,
    /// It is ours now.
    Dead(Box<LedgerFile>),
    /// It is of a version that this code does not know.
    UnknownVersion(String),
    /// It cannot be read.
    Unreadable(String),
}

/// Tries to take over the ledger at `path`. With `look_only`, nothing is changed. Blocks for as long as the disk
/// needs, and a few milliseconds for a lock.
pub fn take(path: &Path, look_only: bool) -> Taken {
    let file = match OpenOptions::new().read(true).append(true).open(path) {
        Ok(file) => file,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Taken::Finished,
        Err(source) => return Taken::Unreadable(source.to_string()),
    };
    match lock_if_free(&file, look_only) {
        Ok(true) => {}
        Ok(false) => return Taken::InUse,
        Err(source) => return Taken::Unreadable(source.to_string()),
    }
    // The lock of a file that was removed meanwhile says nothing about the file at this path.
    if !is_at(&file, path) {
        return Taken::Finished;
    }
    if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NEWBORN)) {
        return match if look_only { Ok(()) } else { std::fs::remove_file(path) } {
            Ok(()) => Taken::Newborn,
            Err(source) => Taken::Unreadable(source.to_string()),
        };
    }
    read(file, path, look_only).unwrap_or_else(|source| Taken::Unreadable(source.to_string()))
}

/// A process that is just being started shares all locks of its parent until it runs its own program, so a lock
/// counts as held only if it still is a moment later.
fn lock_if_free(file: &File, shared: bool) -> io::Result<bool> {
    for _ in 0..LOCK_TRIES {
        // Those who only look must not keep others from deleting.
        match if shared { file.try_lock_shared() } else { file.try_lock() } {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(source)) => return Err(source),
        }
    }
    Ok(false)
}

const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

fn read(mut file: File, path: &Path, look_only: bool) -> io::Result<Taken> {
    if file.metadata()?.len() > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let good_len = content.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
    let mut damage = Vec::new();
    let mut rows = Vec::new();
    for (index, line) in
        content[..good_len].split(|&b| b == b'\n').enumerate().filter(|(_, line)| !line.is_empty())
    {
        match serde_json::from_slice(line) {
            Ok(row) => rows.push(row),
            Err(_) => damage.push(Damage::UnreadableLine(index + 1)),
        }
    }
    let is_torn = good_len < content.len();
    if is_torn {
        damage.push(Damage::TornLastLine);
    }
    Ok(match rows.first() {
        Some(Row::Open { version: VERSION, .. }) => {
            if is_torn && !look_only {
                file.set_len(good_len as u64)?;
            }
            let opened = Opened { file, path: path.to_owned(), good_len: good_len as u64 };
            Taken::Dead(Box::new(LedgerFile { path: path.to_owned(), rows, damage, opened }))
        }
        Some(Row::Open { version, .. }) => {
            Taken::UnknownVersion(format!("its version is {version}, and this tool knows version {VERSION}"))
        }
        _ => Taken::UnknownVersion("its first line is not one that this tool writes".into()),
    })
}
