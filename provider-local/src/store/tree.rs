//! Walks of whole trees, which may be as deep and as wide as what ran in a box made them.
//!
//! A walk holds one open folder and a list of the names above it, so that neither the stack nor the limit of open
//! files bounds the depth. It goes down without following links, and up by `..`, where it makes sure that it came
//! back to the folder that it had left.

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How to open a folder for its names, and never what a link points to.
pub(super) const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder on the way down.
struct Level {
    /// Its name in the folder above.
    name: CString,
    /// The folder above.
    above: (u64, u64),
    /// What is left to do in it.
    todo: Vec<CString>,
}

pub(super) struct Walk {
    here: OwnedFd,
    levels: Vec<Level>,
}

impl Walk {
    /// At the folder of `path`, with nothing but `path` to do.
    pub(super) fn to(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        // The way to it is the caller's and may have links.
        let here = rustix::fs::open(parent, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
        let todo = vec![CString::new(name.as_bytes())?];
        Ok(Self { here, levels: vec![Level { name: CString::default(), above: (0, 0), todo }] })
    }

    /// The open folder that the walk is in.
    pub(super) fn here(&self) -> &OwnedFd {
        &self.here
    }

    /// How many folders are open, so to say; 1 above the root of the tree.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Has what is left to do in this folder done in the order of the names' bytes.
    pub(super) fn sort(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.todo.sort_unstable_by(|left, right| right.cmp(left));
        }
    }

    pub(super) fn next(&mut self) -> Option<CString> {
        self.levels.last_mut().and_then(|level| level.todo.pop())
    }

    pub(super) fn down(&mut self, name: CString, folder: OwnedFd) -> io::Result<()> {
        let above = identity(&rustix::fs::fstat(&self.here)?);
        let todo = names(&folder)?;
        self.levels.push(Level { name, above, todo });
        self.here = folder;
        Ok(())
    }

    /// Back to the folder above, with the name of the one that was left; `None` at the end of the walk.
    pub(super) fn up(&mut self) -> io::Result<Option<CString>> {
        let Some(level) = self.levels.pop().filter(|_| !self.levels.is_empty()) else {
            return Ok(None);
        };
        let above = rustix::fs::openat(&self.here, "..", FOLDER, Mode::empty())?;
        if identity(&rustix::fs::fstat(&above)?) != level.above {
            return Err(io::Error::other("a folder in it was moved elsewhere meanwhile"));
        }
        self.here = above;
        Ok(Some(level.name))
    }
}

/// Removes what is at `path`, also where folders in it forbid that to their owner. What others remove meanwhile is
/// as good; what they add is [`io::ErrorKind::DirectoryNotEmpty`].
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let mut walk = match Walk::to(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        walk => walk?,
    };
    loop {
        if let Some(name) = walk.next() {
            match rustix::fs::unlinkat(&walk.here, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => match open_up(&walk.here, &name) {
                    Ok(folder) => walk.down(name, folder)?,
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
            continue;
        }
        let Some(name) = walk.up()? else {
            return Ok(());
        };
        match rustix::fs::unlinkat(&walk.here, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a folder so that its owner can list and change it.
fn open_up(above: &OwnedFd, name: &CString) -> rustix::io::Result<OwnedFd> {
    let folder = match rustix::fs::openat(above, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // A handle needs no permission, and what it stands for cannot become a link. fchmod(2) does not take
            // it, but its name in /proc does.
            let handle = rustix::fs::openat(above, name, FOLDER.union(OFlags::PATH), Mode::empty())?;
            let alias = format!("/proc/self/fd/{}", handle.as_raw_fd());
            std::fs::set_permissions(alias, Permissions::from_mode(0o700)).map_err(|_| Errno::ACCESS)?;
            rustix::fs::openat(above, name, FOLDER, Mode::empty())?
        }
        folder => folder?,
    };
    if rustix::fs::fstat(&folder)?.st_mode & 0o700 != 0o700 {
        // Where this is refused, the removal of what is in it says so.
        let _ = rustix::fs::fchmod(&folder, Mode::RWXU);
    }
    Ok(folder)
}

/// The disk space that a tree takes, in bytes, without what cannot be read.
pub(super) fn size(path: &Path) -> u64 {
    let mut sum = 0;
    // The walk ends early only where the tree is changed under it; then there is no right answer.
    let _ = Walk::to(path).and_then(|walk| add_sizes(walk, &mut sum));
    sum
}

fn add_sizes(mut walk: Walk, sum: &mut u64) -> io::Result<()> {
    loop {
        let Some(name) = walk.next() else {
            match walk.up()? {
                Some(_) => continue,
                None => return Ok(()),
            }
        };
        let Ok(stat) = rustix::fs::statat(&walk.here, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        *sum = sum.saturating_add(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512));
        // Most names are not those of folders, and opening them says so.
        if let Ok(folder) = rustix::fs::openat(&walk.here, &name, FOLDER, Mode::empty())
            // One that can be listed and not searched has no way back up.
            && rustix::fs::statat(&folder, "..", AtFlags::empty()).is_ok()
        {
            walk.down(name, folder)?;
        }
    }
}

/// The names in a folder; none when it was removed meanwhile.
fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        match entry {
            Ok(entry) if !matches!(entry.file_name().to_bytes(), b"." | b"..") => {
                names.push(entry.file_name().to_owned());
            }
            Ok(_) => {}
            Err(Errno::NOENT) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(names)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
