//! What is known of a file in a sandbox.

use serde::{Deserialize, Serialize};

use crate::identity::User;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Facts about a path in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStat {
    /// What it is. Links are not followed.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner, as seen inside.
    pub user: User,
}

impl FileStat {
    /// Puts the facts together.
    pub fn new(kind: FileKind, size: u64, mode: u32, user: User) -> Self {
        Self { kind, size, mode, user }
    }
}
