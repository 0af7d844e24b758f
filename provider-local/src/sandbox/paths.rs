//! Paths in a sandbox.

use std::path::{Path, PathBuf};

use provider_core::contract::SANDBOX_V1;

/// The path itself if it is absolute, else in the contract's working directory.
pub(super) fn absolute(path: &str) -> PathBuf {
    Path::new(SANDBOX_V1.workdir).join(path)
}
