//! What an image contains, and what is made of it.
//!
//! An [`EnvironmentSpec`] is what a user writes, in TOML or JSON. With the content of its files it is an
//! [`Environment`]. [`resolve_for`] makes its [`Lockfile`] and finds a [`BasePin`] for each provider of a run; with
//! both and the values of its secrets it is a [`BuildRequest`]; built, it is an [`Artifact`].

mod artifact;
mod attest;
mod base;
mod bases;
mod check;
mod check_options;
mod check_packages;
mod content;
mod features;
mod locked;
mod lockfile;
mod options;
mod packages;
mod parse;
mod pins;
mod request;
mod resolve;
mod spec;
mod variables;

pub use artifact::Artifact;
pub use attest::{LOCKFILE_DIGEST, verify_lockfile};
pub use base::BasePin;
pub use bases::ApprovedBases;
pub use content::{Environment, FileContent};
pub use features::Feature;
pub use locked::LockedPackage;
pub use lockfile::Lockfile;
pub use options::{
    Accelerator, BuildSource, Compatibility, Platform, Resources, SizeClass, SourceKind, Variants,
};
pub use packages::{Language, Manager, Packages, PythonPackages, Requirement, SystemPackages, normalised};
pub use parse::{Format, SPEC_MAX};
pub use pins::{PIP, PROTECTED, PinnedPackage};
pub use request::{BuildId, BuildRequest};
pub use resolve::{Resolution, ResolveInputs, ResolveRunner, UvRunner, pin_bases, resolve, resolve_for};
pub use spec::{BaseRef, BuildSecret, Commands, EnvironmentSpec, FileSpec, Metadata, SecretMount, Spec};
pub use variables::InstallerVariables;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of some bytes, as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the text is a SHA-256 as [`sha256_hex`] writes it, and not the placeholder of zeros.
fn is_sha256_hex(text: &str) -> bool {
    text.len() == 64
        && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && text.bytes().any(|b| b != b'0')
}
