//! Files in a sandbox, used as the contract's user and inside its root: links cannot lead out, permissions hold.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use provider_core::{
    contract::SANDBOX_V1,
    error::{Code, Error, Result},
    identity::User,
    sandbox::{ByteReader, FileKind, FileStat},
};
use rustix::{fs::OFlags, io::Errno};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{child::gone, identity, paths};
use crate::{
    blocking::blocking,
    engine::{EngineError, RunningBox},
    errors::{error, from_engine},
};

/// How much of a file is held in memory at once.
const CHUNK: usize = 256 << 10;
/// The number of a user or group that has none in the sandbox.
const UNMAPPED: u32 = 65_534;

/// The files of one sandbox.
pub(super) struct Files {
    pub(super) running: RunningBox,
    pub(super) real_ids: bool,
}

impl Files {
    /// Cancel safe.
    pub(super) async fn read(self, path: &str) -> Result<ByteReader> {
        let path = checked(path)?;
        let file = blocking(move || {
            let file = self.open(&path, OFlags::RDONLY, 0)?;
            regular(&file, &path)?;
            Ok(file)
        })
        .await?;
        let mut file = tokio::fs::File::from_std(file);
        file.set_max_buf_size(CHUNK);
        Ok(Box::pin(file))
    }

    /// Not cancel safe: a part of the content may be left.
    pub(super) async fn write(self, path: &str, mut content: ByteReader, mode: u32) -> Result<()> {
        let path = checked(path)?;
        if mode & !0o7777 != 0 {
            return Err(error(Code::SpecInvalid, format!("{mode:o} are no permissions of a file")));
        }
        let opened = path.clone();
        let file = blocking(move || {
            let file = self.open(&opened, OFlags::WRONLY | OFlags::CREATE, mode)?;
            // The old content goes only once it is known to be a file's.
            regular(&file, &opened)?;
            file.set_len(0).map_err(|source| refused(&opened, source))?;
            Ok(file)
        })
        .await?;
        let mut file = tokio::fs::File::from_std(file);
        file.set_max_buf_size(CHUNK);
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = content.read(&mut chunk).await.map_err(|source| {
                let words = format!("the content for {} broke off", shown(&path));
                error(Code::FileError, words).with_source(source)
            })?;
            if count == 0 {
                break;
            }
            file.write_all(&chunk[..count]).await.map_err(|source| refused(&path, source))?;
        }
        file.flush().await.map_err(|source| refused(&path, source))
    }

    /// Cancel safe.
    pub(super) async fn stat(self, path: &str) -> Result<Option<FileStat>> {
        let path = checked(path)?;
        blocking(move || {
            let file = match self.opened(&path, OFlags::PATH | OFlags::NOFOLLOW, 0) {
                Ok(file) => file,
                Err(error) if is_absent(&error) => return Ok(None),
                Err(source) => return Err(self.not_opened(source)),
            };
            let metadata = file.metadata().map_err(|source| refused(&path, source))?;
            let kind = match metadata.file_type() {
                kind if kind.is_file() => FileKind::File,
                kind if kind.is_dir() => FileKind::Directory,
                kind if kind.is_symlink() => FileKind::Link,
                _ => FileKind::Other,
            };
            let owner = self.inside(User { uid: metadata.uid(), gid: metadata.gid() });
            Ok(Some(FileStat::new(kind, metadata.len(), metadata.mode() & 0o7777, owner)))
        })
        .await
    }

    /// Cancel safe.
    pub(super) async fn list(self, path: &str) -> Result<Vec<String>> {
        let path = checked(path)?;
        blocking(move || {
            let folder = self.open(&path, OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
            let entries = rustix::fs::Dir::new(folder).map_err(|source| refused(&path, source))?;
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry.map_err(|source| refused(&path, source))?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                names.push(String::from_utf8(name.to_vec()).map_err(|source| {
                    let words = format!(
                        "the folder {} holds a name that is not UTF-8: {:?}",
                        shown(&path),
                        entry.file_name()
                    );
                    error(Code::FileError, words).with_advice("list it with a command").with_source(source)
                })?);
            }
            names.sort();
            Ok(names)
        })
        .await
    }

    /// Cancel safe: once begun, it goes on.
    pub(super) async fn remove(self, path: &str) -> Result<()> {
        let path = checked(path)?;
        blocking(move || {
            let who = identity(SANDBOX_V1.user);
            let removed = match self.running.unlink(&path, who) {
                Err(error) if error.errno() == Some(Errno::ISDIR.raw_os_error()) => {
                    self.running.rmdir(&path, who)
                }
                answer => answer,
            };
            removed.map_err(|source| self.not_opened(source))
        })
        .await
    }

    fn open(&self, path: &Path, flags: OFlags, mode: u32) -> Result<File> {
        self.opened(path, flags, mode).map_err(|source| self.not_opened(source))
    }

    fn opened(&self, path: &Path, flags: OFlags, mode: u32) -> Result<File, EngineError> {
        let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
        self.running.open(path, flags, mode, identity(SANDBOX_V1.user)).map(File::from)
    }

    fn not_opened(&self, source: EngineError) -> Error {
        if self.running.is_alive() { from_engine(source) } else { gone(&self.running).with_source(source) }
    }

    /// The owner as the sandbox sees it.
    fn inside(&self, outside: User) -> User {
        if self.real_ids {
            return outside;
        }
        let ours = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let map = |outside, ours, inside| if outside == ours { inside } else { UNMAPPED };
        User {
            uid: map(outside.uid, ours.0, SANDBOX_V1.user.uid),
            gid: map(outside.gid, ours.1, SANDBOX_V1.user.gid),
        }
    }
}

fn checked(path: &str) -> Result<PathBuf> {
    if path.is_empty() || path.contains('\0') {
        return Err(error(Code::FileError, format!("{path:?} is no path: it is empty or holds a NUL")));
    }
    Ok(paths::absolute(path))
}

/// A pipe or a device may never end, and a folder has no content.
fn regular(file: &File, path: &Path) -> Result<()> {
    let kind = file.metadata().map_err(|source| refused(path, source))?.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(error(Code::FileError, format!("{} is {what}, and no file", shown(path))))
}

fn is_absent(error: &EngineError) -> bool {
    [Errno::NOENT, Errno::NOTDIR].iter().any(|errno| error.errno() == Some(errno.raw_os_error()))
}

fn refused(path: &Path, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    error(Code::FileError, format!("{} cannot be used: {source}", shown(path))).with_source(source)
}

fn shown(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}
