//! A text that changes when a base does.

use super::EngineError;
use super::plan::Base;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What tells of the release and the installed packages, by distribution family.
const HOST_FILES: &[&str] = &[
    "/etc/os-release",
    "/etc/debian_version",
    "/var/lib/dpkg/status",
    "/lib/apk/db/installed",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/rpm/Packages",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
];
/// Folders whose entries are the installed packages.
const HOST_FOLDERS: &[&str] = &["/var/lib/pacman/local", "/nix/var/nix/profiles"];

pub(super) fn of(base: &Base) -> Result<String, EngineError> {
    let mut hash = Sha256::new();
    match base {
        Base::Host => host(&mut hash),
        Base::Dir(path) => {
            let base_error = |source| EngineError::Base { path: path.clone(), source };
            let path = fs::canonicalize(path).map_err(base_error)?;
            walk(&mut hash, &path).map_err(base_error)?;
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn host(hash: &mut Sha256) {
    add(hash, b"host");
    add(hash, std::env::consts::ARCH.as_bytes());
    for path in HOST_FILES {
        if let Ok(contents) = fs::read(path) {
            add(hash, path.as_bytes());
            add(hash, &contents);
        }
    }
    for path in HOST_FOLDERS {
        let mut names: Vec<_> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names.iter().for_each(|name| add(hash, name.as_bytes()));
    }
}

fn walk(hash: &mut Sha256, root: &Path) -> io::Result<()> {
    add(hash, b"folder");
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        let mut entries = fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let metadata = path.symlink_metadata()?;
            add(hash, path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes());
            let facts = [
                u64::from(metadata.mode()),
                u64::from(metadata.uid()),
                u64::from(metadata.gid()),
                if metadata.is_dir() { 0 } else { metadata.size() },
                metadata.mtime().cast_unsigned(),
                metadata.mtime_nsec().cast_unsigned(),
            ];
            facts.iter().for_each(|fact| hash.update(fact.to_le_bytes()));
            if metadata.is_symlink() {
                add(hash, fs::read_link(&path)?.as_os_str().as_bytes());
            } else if metadata.is_dir() {
                pending.push(path);
            }
        }
    }
    Ok(())
}

/// With the length in front, so that two lists of texts never look alike.
fn add(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
