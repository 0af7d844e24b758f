//! The vocabulary, the traits, the lifecycle and the contract of provider drivers.
//!
//! A tool that imports this crate and a driver builds an [Environment](environment::EnvironmentSpec) into an
//! [artifact](environment::Artifact), launches [sandboxes](sandbox::Sandbox) from it, runs commands, and leaves
//! nothing behind: whatever was created, on any path, is deleted and seen to be gone, or named in a
//! [report](lifecycle::TeardownReport).

pub mod capability;
pub mod config;
pub mod contract;
pub mod environment;
pub mod error;
pub mod identity;
pub mod lifecycle;
pub mod limits;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod names;
pub mod provider;
pub mod resources;
pub mod retry;
pub mod sandbox;
pub mod secret;
