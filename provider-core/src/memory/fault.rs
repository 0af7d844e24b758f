//! What can go wrong with a request, on request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::world::{Call, Failure};

/// One way of going wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FaultKind {
    /// The connection is refused.
    Refused,
    /// The connection is lost before the request has an effect.
    LostBefore,
    /// The request has its effect, and the connection is lost before the answer.
    LostAfter,
    /// Status 500 before the effect.
    ErrorBefore,
    /// Status 500 after the effect.
    ErrorAfter,
    /// Status 429 with a wait of two seconds.
    LimitedWithWait,
    /// Status 429 without a wait.
    Limited,
    /// No answer, and no effect.
    HangBefore,
    /// The effect, and no answer.
    HangAfter,
    /// The effect, and an answer that cannot be read.
    Garbled,
    /// Status 401.
    Unauthenticated,
    /// Status 403.
    Forbidden,
    /// Status 409.
    Conflict,
    /// Status 418, which no rule explains.
    Unheard,
    /// The driver panics before it sends the request.
    Panic,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 15] = [
        FaultKind::Refused,
        FaultKind::LostBefore,
        FaultKind::LostAfter,
        FaultKind::ErrorBefore,
        FaultKind::ErrorAfter,
        FaultKind::LimitedWithWait,
        FaultKind::Limited,
        FaultKind::HangBefore,
        FaultKind::HangAfter,
        FaultKind::Garbled,
        FaultKind::Unauthenticated,
        FaultKind::Forbidden,
        FaultKind::Conflict,
        FaultKind::Unheard,
        FaultKind::Panic,
    ];

    /// Whether the request still has its effect.
    pub fn has_effect(self) -> bool {
        matches!(
            self,
            FaultKind::LostAfter | FaultKind::ErrorAfter | FaultKind::HangAfter | FaultKind::Garbled
        )
    }

    /// Whether the client cannot know that nothing was done.
    pub(super) fn leaves_doubt(self) -> bool {
        self.has_effect()
            || matches!(self, FaultKind::LostBefore | FaultKind::ErrorBefore | FaultKind::HangBefore)
    }

    /// What the client sees instead of the answer; `None` if it sees nothing at all.
    pub(super) fn failure(self) -> Option<Failure> {
        let status = |code| Some(Failure::Status { code, wait: None, words: format!("injected {self:?}") });
        match self {
            FaultKind::Refused => Some(Failure::Refused),
            FaultKind::LostBefore | FaultKind::LostAfter => Some(Failure::Lost),
            FaultKind::ErrorBefore | FaultKind::ErrorAfter => status(500),
            FaultKind::LimitedWithWait => Some(Failure::Status {
                code: 429,
                wait: Some(Duration::from_secs(2)),
                words: "injected wait".into(),
            }),
            FaultKind::Limited => status(429),
            FaultKind::HangBefore | FaultKind::HangAfter | FaultKind::Panic => None,
            FaultKind::Garbled => Some(Failure::Garbled),
            FaultKind::Unauthenticated => status(401),
            FaultKind::Forbidden => status(403),
            FaultKind::Conflict => status(409),
            FaultKind::Unheard => status(418),
        }
    }
}

/// A fault of certain calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which kind of call.
    pub call: Call,
    /// Of the how manieth call of that kind, counted from 1.
    pub nth: usize,
    /// How many calls in a row; `usize::MAX` for all that follow.
    pub times: usize,
    /// What goes wrong.
    pub kind: FaultKind,
}

impl Fault {
    /// A fault of one call.
    pub fn once(call: Call, nth: usize, kind: FaultKind) -> Self {
        Self { call, nth, times: 1, kind }
    }

    /// A fault of all calls of a kind.
    pub fn always(call: Call, kind: FaultKind) -> Self {
        Self { call, nth: 1, times: usize::MAX, kind }
    }

    pub(super) fn hits(&self, call: Call, nth: usize) -> bool {
        self.call == call && nth >= self.nth && nth - self.nth < self.times
    }
}
