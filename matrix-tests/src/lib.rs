//! The matrix: one leg for each provider builds an Environment, launches it, certifies the sandbox against the
//! contract and deletes everything, and tells what became of each thing.
//!
//! The binary `matrix` runs it from a shell; the test `matrix` runs the same leg as trials of `cargo test`.

pub mod cli;
pub mod command;
pub mod exit;
pub mod leg;
pub mod providers;
pub mod settings;
mod show;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
