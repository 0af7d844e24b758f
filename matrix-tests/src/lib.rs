//! The matrix: one leg for each provider builds an Environment, launches it, certifies the sandbox against the
//! contract and deletes everything, and tells what became of each thing.
//!
//! The binary `matrix` runs it from a shell; the test `matrix` runs the same leg as trials of `cargo test`.

pub mod cli;
pub mod command;
pub mod exit;
mod junit;
pub mod leg;
pub mod providers;
pub mod recipe;
pub mod settings;
mod show;
mod signals;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
