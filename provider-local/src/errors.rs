//! Errors of the engine and the store, in the words of provider-core.
//!
//! The engine undoes what it could not finish, so the effect of each of its errors is
//! [`None`](provider_core::error::Effect::None).

use std::sync::LazyLock;

use provider_core::{
    error::{Code, Error},
    names::ProviderId,
};

use crate::engine::EngineError;
#[cfg(embedded)]
use crate::store::StoreError;

/// The id of this driver.
pub(crate) static ID: LazyLock<ProviderId> =
    LazyLock::new(|| ProviderId::new("local").unwrap_or_else(|_| unreachable!("the id is well formed")));

/// An error of this driver.
pub(crate) fn error(code: Code, message: impl Into<String>) -> Error {
    Error::new(code, message).with_provider(&ID)
}

/// What the engine says about this machine, a plan or a box.
pub(crate) fn from_engine(source: EngineError) -> Error {
    match source {
        #[cfg(embedded)]
        EngineError::Store(source) => from_store(source),
        EngineError::Unavailable { .. } | EngineError::Spawn { .. } | EngineError::Start { .. } => {
            advised(Code::MachineUnsuitable, source)
        }
        EngineError::BadInput { .. } => plain(Code::SpecInvalid, source),
        EngineError::Exec { .. } => plain(Code::ExecFailed, source),
        EngineError::File { .. } => plain(Code::FileError, source),
        EngineError::NoProcess => plain(Code::NotFound, source),
        EngineError::Signal { .. } => plain(Code::SpecInvalid, source),
        EngineError::BoxEnded { .. } => plain(Code::SandboxGone, source),
        EngineError::Timeout { .. } => plain(Code::Timeout, source),
        EngineError::Connection { .. } => plain(Code::ConnectionFailed, source),
        EngineError::ForeignLayer { .. } => advised(Code::ArtifactMissing, source),
        EngineError::Base { .. } => plain(Code::ArtifactMissing, source)
            .with_advice("correct the folder of the base in the driver's configuration"),
    }
}

/// What the store says about the state folder.
#[cfg(embedded)]
pub(crate) fn from_store(source: StoreError) -> Error {
    let code = match source {
        StoreError::BadName { .. } => Code::SpecInvalid,
        StoreError::BoxExists { .. } => Code::NameTaken,
        StoreError::NoLayer { .. } => Code::ArtifactMissing,
        StoreError::Locked { .. } | StoreError::LayerInUse { .. } => Code::WrongState,
        StoreError::Unfit { .. } => Code::BuildFailed,
        StoreError::Io { .. }
        | StoreError::ForeignOwner { .. }
        | StoreError::NotOurs { .. }
        | StoreError::Version { .. }
        | StoreError::Unreadable { .. } => Code::MachineUnsuitable,
    };
    advised(code, source)
}

/// The error of a start. The door sends a request again whose code lets hope; what is missing stays missing, and a
/// helper that dies will die again, so here they have codes without hope.
#[cfg(embedded)]
pub(crate) fn from_start(source: EngineError) -> Error {
    let error = from_engine(source);
    match error.code() {
        Code::ArtifactMissing => again_as(Code::NotFound, error),
        Code::ConnectionFailed => again_as(Code::MachineUnsuitable, error)
            .with_advice("see whether something on this machine kills processes, such as a lack of memory"),
        _ => error,
    }
}

/// The same words under another code.
#[cfg(embedded)]
pub(crate) fn again_as(code: Code, error: Error) -> Error {
    Error::new(code, error.message().to_owned())
        .with_provider(&ID)
        .with_effect(error.effect())
        .with_advice(error.advice().to_owned())
        .with_source(error)
}

fn plain(code: Code, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    error(code, source.to_string()).with_source(source)
}

/// Errors that end with what to do, after a semicolon.
fn advised(code: Code, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = source.to_string();
    let told = match text.rsplit_once("; ") {
        Some((message, advice)) => error(code, message).with_advice(advice),
        None => error(code, text),
    };
    told.with_source(source)
}

#[cfg(all(test, embedded))]
mod tests {
    use std::{io, path::PathBuf};

    use super::*;
    use crate::engine::Step;

    #[test]
    fn a_start_that_the_machine_forbids_names_the_fix_as_advice() {
        let error = from_engine(EngineError::Start {
            step: Step::Namespaces,
            subject: String::new(),
            source: io::Error::from_raw_os_error(1),
            advice: "; sudo sysctl -w a=0".into(),
        });
        assert_eq!(error.code(), Code::MachineUnsuitable);
        assert_eq!(error.advice(), "sudo sysctl -w a=0");
        assert!(!error.message().contains("sysctl"), "{error}");
    }

    #[test]
    fn a_full_disk_names_the_place_and_what_to_do() {
        let error = from_store(StoreError::Io {
            action: "write",
            path: PathBuf::from("/state/art/x.json"),
            source: io::Error::from_raw_os_error(28),
        });
        assert_eq!(error.code(), Code::MachineUnsuitable);
        assert!(error.message().contains("/state/art/x.json"), "{error}");
        assert!(error.advice().contains("free some space"), "{error}");
    }

    #[test]
    fn what_is_missing_is_not_asked_for_again() {
        let missing = || EngineError::ForeignLayer { key: "k".into() };
        assert_eq!(from_engine(missing()).code(), Code::ArtifactMissing);
        assert_eq!(from_start(missing()).code(), Code::NotFound);
    }
}
