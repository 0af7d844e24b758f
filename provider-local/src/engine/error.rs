//! What can go wrong with the engine.

pub use crate::helper::step::Step;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of the engine. `Display` says what happened, to which thing, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no engine for this system, or it was not built.
    #[error("boxes are not available on this system: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// The state folder.
    #[cfg(embedded)]
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// The plan or the command asks for something impossible; nothing was done.
    #[error("{what}")]
    BadInput {
        /// What is wrong, and with what.
        what: String,
    },
    /// The helper program could not be started.
    #[error("could not start the helper program of the box: {source}{advice}")]
    Spawn {
        /// The system's reason.
        source: io::Error,
        /// What to do, or nothing.
        advice: &'static str,
    },
    /// The box could not be made; nothing is left of it.
    #[error("could not {}{subject}: {source}{advice}", step.words())]
    Start {
        /// At which step.
        step: Step,
        /// A blank and the thing in question, or nothing.
        subject: String,
        /// The system's reason.
        source: io::Error,
        /// What to do, or nothing.
        advice: String,
    },
    /// A command did not start: this is not the command's own exit code 127.
    #[error("could not {} {subject:?} in the box: {source}", step.words())]
    Exec {
        /// At which step: [`Step::Exec`] for the program itself, [`Step::WorkingDirectory`], [`Step::User`],
        /// ...
        step: Step,
        /// The program, or the folder.
        subject: String,
        /// The system's reason: "not found" and "permission denied" are the usual ones.
        source: io::Error,
    },
    /// A file operation was refused inside the box.
    #[error("could not {} {path:?} in the box: {source}", step.words())]
    File {
        /// Which operation, or at which step.
        step: Step,
        /// The path inside the box.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no such process any more.
    #[error("the process is not running any more")]
    NoProcess,
    /// A signal was refused.
    #[error("could not send the signal: {source}")]
    Signal {
        /// The system's reason.
        source: io::Error,
    },
    /// The box has ended: it was stopped, or its first process was killed.
    #[error("the box {id:?} has ended")]
    BoxEnded {
        /// The id of the box.
        id: String,
    },
    /// The helper did not answer in time.
    #[error("the box {id:?} did not {what} within {limit:?}")]
    Timeout {
        /// The id of the box.
        id: String,
        /// What it should have done.
        what: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The connection to the helper broke or carried nonsense.
    #[error("the connection to the box {id:?} failed: {source}")]
    Connection {
        /// The id of the box.
        id: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A layer was built for another kind of base or machine.
    #[error(
        "the layer {key:?} was built on another base or in another way than this box needs; build it again"
    )]
    ForeignLayer {
        /// The key of the layer.
        key: String,
    },
    /// A base cannot be used.
    #[error("the base {} cannot be used: {source}", path.display())]
    Base {
        /// Its folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl EngineError {
    /// Whether the program of a command does not exist, or may not be executed.
    pub fn is_missing_program(&self) -> bool {
        matches!(self, EngineError::Exec { step: Step::Exec, source, .. } if is_missing(source))
    }

    /// Whether the working directory of a command does not exist, or may not be entered.
    pub fn is_missing_directory(&self) -> bool {
        matches!(self, EngineError::Exec { step: Step::WorkingDirectory, source, .. } if is_missing(source))
    }

    /// The system's error number, where the system refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            #[cfg(embedded)]
            EngineError::Store(error) => error.errno(),
            EngineError::Spawn { source, .. }
            | EngineError::Start { source, .. }
            | EngineError::Exec { source, .. }
            | EngineError::File { source, .. }
            | EngineError::Signal { source }
            | EngineError::Connection { source, .. }
            | EngineError::Base { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
