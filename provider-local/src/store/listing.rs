//! What is in a tree, one thing after the other, in the order of a manifest and with the digests of its contents.
//!
//! Nothing is followed and nothing is changed. Memory is needed for one buffer and for the names of the folders on
//! the way, whatever the sizes of the files.

use super::manifest::{Entry, Kind, escape, hex};
use super::tree::{FOLDER, Walk};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// The longest path in a layer, in bytes: no program could name a longer one.
const LONGEST_PATH: usize = 4096;
/// The kernel has no longer lists of attributes, and no longer values.
const BUFFER: usize = 64 << 10;
/// A longer value of an attribute is told by its digest.
const LONGEST_VALUE: usize = 128;

/// Attributes by which the kernel or this machine keeps books about a file; they are no content. Those of the overlay
/// are `trusted.*` or `user.*`.
const BOOKKEEPING: [&str; 5] =
    ["security.SMACK64", "security.apparmor", "security.evm", "security.ima", "security.selinux"];
const OVERLAY_BOOKKEEPING: [&str; 5] =
    ["overlay.impure", "overlay.nlink", "overlay.origin", "overlay.upper", "overlay.uuid"];

/// A walk that tells what it comes across.
pub(super) struct Listing {
    walk: Walk,
    /// Where the walk is, from the root of the tree.
    here: Vec<u8>,
    /// How long `here` was in each folder above.
    lengths: Vec<usize>,
    buffer: Vec<u8>,
}

impl Listing {
    pub(super) fn of(root: &Path) -> io::Result<Self> {
        Ok(Self { walk: Walk::to(root)?, here: Vec::new(), lengths: Vec::new(), buffer: vec![0; BUFFER] })
    }

    /// The next thing: its path, and what it is or why that cannot be told. `None` at the end.
    ///
    /// # Errors
    /// The walk cannot go on.
    pub(super) fn next(&mut self) -> io::Result<Option<(Vec<u8>, io::Result<Entry>)>> {
        loop {
            let Some(name) = self.walk.next() else {
                if self.walk.up()?.is_none() {
                    return Ok(None);
                }
                self.here.truncate(self.lengths.pop().unwrap_or(0));
                continue;
            };
            let path = self.path_of(&name);
            if path.len() > LONGEST_PATH {
                let words = format!("a path in it is longer than {LONGEST_PATH} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidFilename, words));
            }
            let entry = self.look_at(name, &path);
            return Ok(Some((path, entry)));
        }
    }

    fn path_of(&self, name: &CStr) -> Vec<u8> {
        // The name of the root itself is no part of any path.
        if self.walk.depth() == 1 {
            return Vec::new();
        }
        let mut path = self.here.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        path
    }

    fn look_at(&mut self, name: CString, path: &[u8]) -> io::Result<Entry> {
        let stat = rustix::fs::statat(self.walk.here(), &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mut entry = Entry {
            path: path.to_owned(),
            kind: kind_of(kind, &stat),
            mode: format!("{:04o}", stat.st_mode & 0o7777),
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: None,
            sha256: None,
            target: None,
            device: None,
            attributes: BTreeMap::new(),
        };
        match entry.kind {
            Kind::File => self.look_into_file(&name, &mut entry)?,
            Kind::Directory => self.go_into(name, &mut entry)?,
            Kind::Link => {
                let target = rustix::fs::readlinkat(self.walk.here(), &name, Vec::new())?;
                entry.target = Some(target.into_bytes());
            }
            Kind::Whiteout => {}
            Kind::Other => entry.device = Some(device(kind, &stat)),
        }
        Ok(entry)
    }

    fn look_into_file(&mut self, name: &CStr, entry: &mut Entry) -> io::Result<()> {
        // Without waiting, should it have become a pipe.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(self.walk.here(), name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::ACCESS) => {
                let stat = rustix::fs::statat(self.walk.here(), name, AtFlags::SYMLINK_NOFOLLOW)?;
                entry.size = u64::try_from(stat.st_size).ok();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it was replaced meanwhile"));
        }
        entry.attributes = self.attributes(file.as_fd())?;
        let mut digest = Sha256::new();
        let mut size = 0;
        loop {
            let read = match rustix::io::read(&file, self.buffer.as_mut_slice()) {
                Ok(0) => break,
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            digest.update(self.buffer.get(..read).unwrap_or_default());
            size += read as u64;
        }
        entry.size = Some(size);
        entry.sha256 = Some(hex(&digest.finalize()));
        Ok(())
    }

    /// A folder that its own owner may not enter or list is told without what is in it.
    fn go_into(&mut self, name: CString, entry: &mut Entry) -> io::Result<()> {
        let folder = match rustix::fs::openat(self.walk.here(), &name, FOLDER, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::ACCESS) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        entry.attributes = self.attributes(folder.as_fd())?;
        match rustix::fs::statat(&folder, "..", AtFlags::empty()) {
            Ok(_) => {}
            Err(Errno::ACCESS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.walk.down(name, folder)?;
        self.walk.sort();
        self.lengths.push(self.here.len());
        self.here.clone_from(&entry.path);
        Ok(())
    }

    fn attributes(&mut self, file: BorrowedFd<'_>) -> io::Result<BTreeMap<String, String>> {
        let length = match rustix::fs::flistxattr(file, self.buffer.as_mut_slice()) {
            // There are none on this file system.
            Err(Errno::NOTSUP) => 0,
            length => length?,
        };
        if length == 0 {
            return Ok(BTreeMap::new());
        }
        let names = self.buffer.get(..length).unwrap_or_default().to_vec();
        let mut attributes = BTreeMap::new();
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else {
                continue;
            };
            let text = escape(name.to_bytes());
            if is_bookkeeping(&text) {
                continue;
            }
            let length = rustix::fs::fgetxattr(file, name, self.buffer.as_mut_slice())?;
            let value = self.buffer.get(..length).unwrap_or_default();
            let told = if length > LONGEST_VALUE {
                format!("sha256:{}", hex(&Sha256::digest(value)))
            } else {
                hex(value)
            };
            attributes.insert(text, told);
        }
        Ok(attributes)
    }
}

fn is_bookkeeping(name: &str) -> bool {
    let overlay = name.strip_prefix("trusted.").or_else(|| name.strip_prefix("user."));
    BOOKKEEPING.contains(&name) || overlay.is_some_and(|name| OVERLAY_BOOKKEEPING.contains(&name))
}

fn kind_of(kind: FileType, stat: &Stat) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
        _ => Kind::Other,
    }
}

fn device(kind: FileType, stat: &Stat) -> String {
    let numbers = || format!("{}:{}", rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    match kind {
        FileType::CharacterDevice => format!("character {}", numbers()),
        FileType::BlockDevice => format!("block {}", numbers()),
        FileType::Fifo => "pipe".to_owned(),
        FileType::Socket => "socket".to_owned(),
        _ => "unknown".to_owned(),
    }
}
