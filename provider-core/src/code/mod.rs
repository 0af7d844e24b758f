//! Code sessions: Python code that runs piece after piece, with its state kept in between.
//!
//! A [`CodeSession`] is one `python3` command that it starts with [`Sandbox::spawn`](crate::sandbox::Sandbox::spawn),
//! and uses nothing else of a sandbox. What the code does wrong is in the [`CodeOutput`]; an error means that the code
//! could not be run, or that what became of it is unknown.
//!
//! The code runs in a child of that command, whose standard output and error are pipes: what the code and its own
//! children print is captured, and cannot be taken for an answer. Its input is at its end. The command that the
//! sandbox started only passes on, so that it answers even where the code does not. At the end of its input it kills
//! what runs and ends: a session that is dropped leaves nothing behind, but for processes that the code has moved to
//! process groups of their own, and those end with the sandbox at the latest.
//!
//! Sessions share the sandbox's files and nothing else.

pub(crate) mod frame;
mod interrupt;
mod options;
mod output;
mod process;
mod run;
mod session;

pub use interrupt::Interrupter;
pub use options::CodeOptions;
pub use output::{CodeEnd, CodeError, CodeOutput};
pub use session::CodeSession;

/// What runs in the sandbox: one program, of which each file is a part.
pub(crate) const DRIVER: &str = concat!(
    include_str!("driver/frames.py"),
    include_str!("driver/worker.py"),
    include_str!("driver/supervisor.py"),
);

/// The name and version of the frames' meaning, which the driver's first answer begins with.
pub(crate) const PROTOCOL: &str = "code/1";

#[cfg(test)]
mod tests;
