//! From what a client sees to an error that says what the request may have done.

use super::world::{Call, Failure};
use crate::error::{Code, Effect, Error};

/// The design's table, for the statuses that the world gives.
pub(super) fn to_error(call: Call, failure: Failure) -> Error {
    match failure {
        Failure::Refused => Error::new(Code::ConnectionFailed, "the connection was refused"),
        Failure::Lost => {
            Error::new(Code::ConnectionFailed, "the connection was lost").with_effect(Effect::Unknown)
        }
        Failure::Garbled => {
            Error::new(Code::ProviderError, "the answer cannot be read").with_effect(Effect::Unknown)
        }
        Failure::Status { code, wait, words } => {
            let error = of_status(call, code, words);
            match wait {
                Some(wait) => error.with_wait(wait),
                None => error,
            }
        }
    }
}

fn of_status(call: Call, code: u16, words: String) -> Error {
    let creates = matches!(call, Call::CreateContext | Call::CreateArtifact | Call::CreateSandbox);
    match code {
        401 => Error::new(Code::Unauthenticated, words),
        403 => Error::new(Code::PermissionDenied, words),
        404 => Error::new(Code::NotFound, words),
        408 => Error::new(Code::Timeout, words).with_effect(Effect::Unknown),
        409 if creates => Error::new(Code::NameTaken, words).with_effect(Effect::Unknown),
        409 => Error::new(Code::WrongState, words).with_effect(Effect::Unknown),
        429 => Error::new(Code::RateLimited, words),
        500..=599 => Error::new(Code::ProviderError, words).with_effect(Effect::Unknown),
        _ => Error::unmapped(format!("status {code}: {words}")),
    }
}
