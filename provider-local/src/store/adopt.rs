//! Whose a folder is, found out before anything in it is changed.

use super::{StoreError, VERSION, files};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

pub(super) const VERSION_FILE: &str = "VERSION";
pub(super) const OWNER_FILE: &str = "owner-id";

/// Makes the folder private if it is a state folder, or may become one.
pub(super) fn claim(root: &Path) -> Result<(), StoreError> {
    let metadata = fs::metadata(root).map_err(|error| StoreError::io("look at", root, error))?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(StoreError::ForeignOwner { path: root.to_owned(), owner: metadata.uid(), user });
    }
    // The second look at the marks is for another process that made the folder its own during the first ones.
    if !(has_marks(root)? || is_barely_begun(root)? || has_marks(root)?) {
        return Err(StoreError::NotOurs { path: root.to_owned() });
    }
    if metadata.mode() & 0o7777 != 0o700 {
        let private = Permissions::from_mode(0o700);
        fs::set_permissions(root, private).map_err(|error| StoreError::io("make private", root, error))?;
    }
    Ok(())
}

/// Whether this is a state folder, of this version or another.
fn has_marks(root: &Path) -> Result<bool, StoreError> {
    let version = mark(root, VERSION_FILE)?;
    let owner = mark(root, OWNER_FILE)?;
    let is_version = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_owner = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((version, owner)) = version.zip(owner) else {
        return Ok(false);
    };
    if is_owner(&owner) && is_version(&version) && version != VERSION {
        return Err(StoreError::Version { path: root.to_owned(), found: version, expected: VERSION });
    }
    Ok(is_owner(&owner) && is_version(&version))
}

/// Whether it is empty, or holds only what a process made that was killed while it opened the folder.
fn is_barely_begun(root: &Path) -> Result<bool, StoreError> {
    let entries = fs::read_dir(root).map_err(|error| StoreError::io("list", root, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io("list", root, error))?;
        let name = entry.file_name();
        let is_ours = match name.to_str() {
            Some(VERSION_FILE) => mark(root, VERSION_FILE)?.as_deref() == Some(VERSION),
            Some(name) => [VERSION_FILE, OWNER_FILE].iter().any(|mark| {
                let rest = name.strip_prefix('.').and_then(|name| name.strip_prefix(mark));
                rest.and_then(|rest| rest.strip_prefix('.')).is_some_and(files::is_unique)
            }),
            None => false,
        };
        if !is_ours {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a file of ours says, if it is a plain file as short as ours are.
fn mark(root: &Path, name: &str) -> Result<Option<String>, StoreError> {
    let path = root.join(name);
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= 64) {
        return Ok(None);
    }
    let found = files::read_if_there(&path)?;
    Ok(found.map(|text| String::from_utf8_lossy(&text).trim().to_owned()))
}
