//! This machine's own root as a base: what of it a box may see.
//!
//! The rule: system folders, as an ordinary user without a home would see them. Everything else (homes,
//! root's home, memory folders, mounts, folders that no standard knows) is empty or absent.

use super::accounts::Accounts;
use super::mask::Mask;
use super::mounts::MountPoints;
use super::program::Program;
use crate::engine::EngineError;
use crate::engine::facts::Facts;
use crate::engine::plan::Purpose;
use crate::helper::plan::{Flags, Owner};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders of the root that make a system.
const SYSTEM: &[&str] =
    &["bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr", "var"];

/// Folders that a system has, and that are empty in a box.
const EMPTY: &[(&str, u32)] =
    &[("boot", 0o755), ("home", 0o755), ("media", 0o755), ("mnt", 0o755), ("root", 0o700), ("srv", 0o755)];

/// Folders further down that tell of this machine and its users, and that programs in a box want to write.
const PRIVATE_WRITABLE: &[(&str, &str)] = &[
    ("/var/tmp", "mode=1777"),
    ("/var/log", "mode=0755"),
    ("/var/mail", "mode=1777"),
    ("/var/spool", "mode=0755"),
];

/// Folders further down that nothing in a box needs.
const PRIVATE: &[&str] = &[
    "/var/backups",
    "/var/crash",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/lib/libvirt",
    "/var/lib/private",
    "/var/lib/systemd/coredump",
];

/// How deep folders are searched for files that only root can read.
const SEARCHED: &[(&str, usize)] = &[("etc", 6), ("var", 2), ("opt", 2), ("usr/local", 2)];

/// Folders that a build in a user namespace writes to. They belong to the real root, whom it does not know; a
/// folder of our own in the mask, at the same place, makes them writable.
const WRITABLE: &[(&str, usize)] = &[("usr/local", 4), ("var", 2), ("etc", 2), ("opt", 1)];

/// A folder of the root.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) name: String,
    pub(crate) mode: u32,
    /// Its files lie in the mask, since it cannot be a layer itself.
    pub(crate) copied: bool,
    /// It can only be bound, read-only.
    bound: bool,
}

/// What this machine's root looks like.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) must_split: bool,
    folders: Vec<Folder>,
    links: Vec<(String, PathBuf)>,
    others: Vec<String>,
}

impl Host {
    pub(crate) fn look(facts: &Facts) -> Result<Self, EngineError> {
        let root = Path::new("/");
        let base_error = |source| EngineError::Base { path: root.to_owned(), source };
        let points = MountPoints::look();
        let mut host = Self {
            must_split: facts.user_namespace(),
            folders: Vec::new(),
            links: Vec::new(),
            others: Vec::new(),
        };
        for entry in fs::read_dir(root).map_err(base_error)? {
            let entry = entry.map_err(base_error)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = root.join(&name);
            let Ok(metadata) = path.symlink_metadata() else {
                continue;
            };
            if metadata.is_symlink() && SYSTEM.contains(&name.as_str()) {
                host.links.push((name, fs::read_link(&path).map_err(base_error)?));
            } else if metadata.is_dir() && SYSTEM.contains(&name.as_str()) {
                // A file system of its own is not part of the root's, so an overlay of the root would show it
                // empty.
                host.must_split |= points.at(&path);
                let blocked = facts.user_namespace() && points.below(&path);
                let copied = blocked && name == "etc";
                let mode = metadata.mode() & 0o7777;
                host.folders.push(Folder { name, mode, copied, bound: blocked && !copied });
            } else {
                host.others.push(name);
            }
        }
        Ok(host)
    }

    pub(crate) fn overlaid(&self) -> impl Iterator<Item = &Folder> {
        self.folders.iter().filter(|folder| !folder.bound)
    }

    pub(crate) fn bound(&self) -> impl Iterator<Item = &Folder> {
        self.folders.iter().filter(|folder| folder.bound)
    }

    /// Writes into the mask what hides and replaces parts of this machine's root.
    pub(crate) fn fill(&self, mask: &mut Mask, facts: &Facts, purpose: Purpose) {
        for (name, mode) in EMPTY.iter().chain(super::MOUNT_POINTS) {
            // Split, the root's own overlay stands on the mask alone, so there is nothing to hide; and
            // marking a folder as opaque on a tmpfs is not possible in a user namespace of older kernels.
            if self.must_split { mask.dir(name, *mode) } else { mask.empty_dir(name, *mode) }
        }
        if self.must_split {
            for folder in &self.folders {
                mask.dir(&folder.name, folder.mode);
            }
            for (name, target) in &self.links {
                mask.link(name, target.clone());
            }
        } else {
            let known = |name: &str| EMPTY.iter().chain(super::MOUNT_POINTS).any(|(known, _)| *known == name);
            for name in self.others.iter().filter(|name| !known(name)) {
                mask.whiteout(name);
            }
        }
        if facts.user_namespace() {
            for (path, depth) in WRITABLE.iter().filter(|(path, _)| self.is_overlaid(path)) {
                make_writable(mask, Path::new(path), *depth);
            }
        } else {
            for (path, depth) in SEARCHED {
                hide_unreadable(mask, Path::new(path), *depth);
            }
        }
        if self.folders.iter().any(|folder| folder.copied) {
            copy_readable(mask, Path::new("etc"));
        }
        accounts(mask, facts, purpose);
    }

    fn is_overlaid(&self, path: &str) -> bool {
        self.overlaid().any(|folder| Path::new(path).starts_with(&folder.name))
    }
}

/// Covers, inside the box, what lies too deep for the mask. The paths may not exist.
pub(crate) fn hide_private(program: &mut Program) -> Result<(), EngineError> {
    for (path, options) in PRIVATE_WRITABLE {
        program.tmpfs(Path::new(path), options, Flags::OPTIONAL)?;
    }
    PRIVATE.iter().try_for_each(|path| program.hide(Path::new(path)))
}

fn accounts(mask: &mut Mask, facts: &Facts, purpose: Purpose) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let accounts = Accounts::filter(&read("/etc/passwd"), &read("/etc/group"));
    let readable = Owner { mode: 0o644, uid: 0, gid: 0 };
    let shadow_group = fs::metadata("/etc/shadow").map_or(0, |metadata| metadata.gid());
    let private = match (facts.user_namespace(), purpose) {
        (false, _) => Owner { mode: 0o640, uid: 0, gid: shadow_group },
        (true, Purpose::Build) => Owner::mode(0o600),
        (true, Purpose::Run) => Owner::mode(0),
    };
    mask.file("etc/passwd", readable, accounts.passwd);
    mask.file("etc/group", readable, accounts.group);
    mask.file("etc/shadow", private, accounts.shadow);
    mask.file("etc/gshadow", private, accounts.gshadow);
    for name in ["subuid", "subgid"] {
        mask.file(Path::new("etc").join(name), readable, "");
    }
    for name in ["passwd-", "group-", "shadow-", "gshadow-", "subuid-", "subgid-"] {
        let path = Path::new("etc").join(name);
        if Path::new("/").join(&path).exists() {
            mask.whiteout(path);
        }
    }
}

/// Calls `each` for what lies in a folder of this machine, down to a depth; goes into a folder where `each`
/// says so.
fn walk(folder: &Path, depth: usize, each: &mut impl FnMut(&Path, &fs::Metadata) -> bool) {
    for entry in fs::read_dir(Path::new("/").join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        let Ok(metadata) = Path::new("/").join(&path).symlink_metadata() else {
            continue;
        };
        if each(&path, &metadata) && metadata.is_dir() && depth > 1 {
            walk(&path, depth - 1, each);
        }
    }
}

/// A build as root could read everything. What other users cannot read is private to this machine.
fn hide_unreadable(mask: &mut Mask, folder: &Path, depth: usize) {
    walk(folder, depth, &mut |path, metadata| {
        let mode = metadata.mode();
        if metadata.is_dir() {
            let open = mode & 0o005 == 0o005;
            if !open {
                mask.empty_dir(path, mode & 0o7777);
            }
            open
        } else {
            if !metadata.is_symlink() && mode & 0o004 == 0 {
                mask.whiteout(path);
            }
            false
        }
    });
}

fn make_writable(mask: &mut Mask, folder: &Path, depth: usize) {
    if Path::new("/").join(folder).is_dir() {
        mask.dir(folder, 0o755);
    }
    walk(folder, depth, &mut |path, metadata| {
        let wanted = metadata.is_dir() && fs::read_dir(Path::new("/").join(path)).is_ok();
        if wanted {
            mask.dir(path, 0o755);
        }
        wanted
    });
}

/// Puts everything readable of a folder into the mask; files of an unusual size are left out.
fn copy_readable(mask: &mut Mask, folder: &Path) {
    const LARGEST: u64 = 4 << 20;
    walk(folder, 12, &mut |path, metadata| {
        let full = Path::new("/").join(path);
        if metadata.is_symlink() {
            if let Ok(target) = fs::read_link(&full) {
                mask.link(path, target);
            }
        } else if metadata.is_dir() {
            mask.dir(path, metadata.mode() & 0o7777);
        } else if metadata.is_file()
            && metadata.len() <= LARGEST
            && let Ok(data) = fs::read(&full)
        {
            mask.file(path, Owner::mode(metadata.mode() & 0o7777), data);
        }
        true
    });
}
