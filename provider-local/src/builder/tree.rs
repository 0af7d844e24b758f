//! Files and folders in a build box, put there by its root and without any program of the base.

use std::{
    fs::{File, Permissions},
    io::{Read as _, Write as _},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
};

use provider_core::{
    error::{Code, Error, Result},
    identity::User,
};
use rustix::{
    fs::{Gid, OFlags, Uid},
    io::Errno,
};

use crate::{
    engine::{EngineError, Identity, RunningBox},
    errors::error,
};

/// A file of the base is read for changing it only up to this size.
const READ_MAX: u64 = 16 << 20;

/// The root file system of a build box. All functions block.
#[derive(Clone, Copy)]
pub(super) struct Tree<'a> {
    pub(super) running: &'a RunningBox,
    /// Whether ids in the box are this machine's. If not, it has one user, who owns everything.
    pub(super) real_ids: bool,
}

/// A file's content, and whose it is.
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
    pub(super) owner: User,
}

impl Tree<'_> {
    /// A file; `None` where nothing is.
    pub(super) fn read(&self, path: &str) -> Result<Option<Found>> {
        let file = match self.open(path, OFlags::RDONLY, 0) {
            Ok(file) => file,
            Err(error) if error.errno() == Some(Errno::NOENT.raw_os_error()) => return Ok(None),
            Err(source) => return Err(refused(path, source)),
        };
        let broken = |source: std::io::Error| refused(path, source);
        let metadata = file.metadata().map_err(broken)?;
        if !metadata.is_file() || metadata.len() > READ_MAX {
            return Err(error(Code::BuildFailed, format!("{path} of the base is no file of a usual size")));
        }
        let mut bytes = Vec::new();
        file.take(READ_MAX).read_to_end(&mut bytes).map_err(broken)?;
        let owner = User { uid: metadata.uid(), gid: metadata.gid() };
        Ok(Some(Found { bytes, mode: metadata.mode() & 0o7777, owner }))
    }

    /// A file with exactly this content, mode and owner, in place of whatever file or link was there.
    pub(super) fn put(&self, path: &str, bytes: &[u8], mode: u32, owner: User) -> Result<()> {
        // A short name, since the file's own may have the full length.
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let aside = format!("{folder}/.provider-new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mut file = self.open(&aside, flags, mode).map_err(|source| refused(path, source))?;
        file.write_all(bytes).map_err(|source| refused(path, source))?;
        self.give(&file, path, mode, owner)?;
        self.running
            .rename(Path::new(&aside), Path::new(path), Identity::ROOT)
            .map_err(|source| refused(path, source))
    }

    /// A folder with exactly this mode and owner, made if it is not there.
    pub(super) fn folder(&self, path: &str, mode: u32, owner: User) -> Result<()> {
        self.make(path, mode)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let folder = self.open(path, flags, 0).map_err(|source| refused(path, source))?;
        self.give(&folder, path, mode, owner)
    }

    /// The folders above a path, as far as they are missing. `owner_of` says whose each is.
    pub(super) fn folders_above(&self, path: &str, owner_of: impl Fn(&str) -> User) -> Result<()> {
        let slashes = path.match_indices('/').map(|(index, _)| index);
        for folder in slashes.skip(1).map(|index| &path[..index]) {
            if self.make(folder, 0o755)? && owner_of(folder) != User::ROOT {
                self.folder(folder, 0o755, owner_of(folder))?;
            }
        }
        Ok(())
    }

    /// Removes a file or link, if it is there.
    pub(super) fn remove(&self, path: &str) -> Result<()> {
        match self.running.unlink(Path::new(path), Identity::ROOT) {
            Err(error) if error.errno() == Some(Errno::NOENT.raw_os_error()) => Ok(()),
            answer => answer.map_err(|source| refused(path, source)),
        }
    }

    /// Whether it was not there before.
    fn make(&self, path: &str, mode: u32) -> Result<bool> {
        match self.running.mkdir(Path::new(path), mode, Identity::ROOT) {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(Errno::EXIST.raw_os_error()) => Ok(false),
            Err(source) => Err(refused(path, source)),
        }
    }

    fn open(&self, path: &str, flags: OFlags, mode: u32) -> Result<File, EngineError> {
        let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
        let opened = self.running.open(Path::new(path), flags, mode, Identity::ROOT)?;
        Ok(File::from(opened))
    }

    fn give(&self, file: &File, path: &str, mode: u32, owner: User) -> Result<()> {
        if self.real_ids {
            let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
            rustix::fs::fchown(file.as_fd(), Some(uid), Some(gid)).map_err(|source| refused(path, source))?;
        }
        // Last, since a change of the owner takes bits away.
        file.set_permissions(Permissions::from_mode(mode)).map_err(|source| refused(path, source))
    }
}

fn refused(path: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    error(
        Code::BuildFailed,
        format!("{path} cannot be put into the image: {source}"),
    )
    .with_advice(
        "as an ordinary user, only folders that this user may write in can be changed; else check the base",
    )
    .with_source(source)
}
