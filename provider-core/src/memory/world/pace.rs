//! How slow the world is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How slow the world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// How long a request takes before its effect, and again after it.
    pub half_request: Duration,
    /// How long an artifact is built.
    pub build: Duration,
    /// How long a sandbox starts.
    pub start: Duration,
    /// How long something is being deleted.
    pub delete: Duration,
    /// How long something new cannot be found by name, and how far a list lags behind.
    pub lag: Duration,
    /// How long after sending a create the driver goes on looking for it.
    pub settle: Duration,
    /// How long the driver waits for an answer.
    pub request_deadline: Duration,
}

impl Pace {
    /// A slow provider, for a [`ManualClock`](crate::memory::ManualClock).
    pub const SLOW: Pace = Pace {
        half_request: Duration::from_millis(200),
        build: Duration::from_secs(5),
        start: Duration::from_secs(2),
        delete: Duration::from_secs(3),
        lag: Duration::from_secs(10),
        settle: Duration::from_secs(75),
        request_deadline: Duration::from_secs(60),
    };

    /// The same provider, so many times faster, for real time.
    #[must_use]
    pub fn times_faster(self, factor: u32) -> Self {
        Pace {
            half_request: self.half_request / factor,
            build: self.build / factor,
            start: self.start / factor,
            delete: self.delete / factor,
            lag: self.lag / factor,
            settle: self.settle / factor,
            request_deadline: self.request_deadline / factor,
        }
    }
}
