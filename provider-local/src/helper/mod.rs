//! The helper: the only code of ours inside a box.
//!
//! `bin.rs` is the root of a tiny static program that the build script makes from these same files, with no
//! libraries at all. The crate compiles them a second time, as this module, so that formatting, lints and
//! unit tests reach them, and because driver and helper share the packets ([`codec`], [`packet`], [`plan`],
//! [`step`]).
//!
//! One program plays all parts: stage 1 ([`supervisor`]) stays outside the box, its child ([`init`]) is the
//! box's first process, and that one's children become commands ([`exec`]) or do file operations ([`files`]).
#![cfg_attr(not(embedded), allow(rustdoc::broken_intra_doc_links))]
#![allow(dead_code, reason = "most of this runs only in the helper program")]
#![allow(missing_docs, reason = "wrappers are named after the calls they wrap")]
#![allow(unsafe_code, reason = "system calls; each block says why it is sound")]

#[cfg(embedded)]
pub(crate) mod codec;
#[cfg(embedded)]
pub(crate) mod credentials;
#[cfg(embedded)]
pub(crate) mod exec;
#[cfg(embedded)]
pub(crate) mod files;
#[cfg(embedded)]
pub(crate) mod init;
#[cfg(embedded)]
pub(crate) mod mount_api;
#[cfg(embedded)]
pub(crate) mod mounts;
#[cfg(embedded)]
pub(crate) mod nr;
#[cfg(embedded)]
pub(crate) mod overlay;
#[cfg(embedded)]
pub(crate) mod packet;
#[cfg(embedded)]
pub(crate) mod plan;
#[cfg(embedded)]
pub(crate) mod processes;
#[cfg(embedded)]
pub(crate) mod socket;
pub(crate) mod step;
#[cfg(embedded)]
pub(crate) mod supervisor;
#[cfg(embedded)]
pub(crate) mod sys;
#[cfg(embedded)]
pub(crate) mod table;

#[cfg(all(test, embedded))]
mod tests;
