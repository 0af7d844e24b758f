//! Time, from one place, so that tests can advance it.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A moment: milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment so many milliseconds after 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This moment moved by `by` into the future. It stops at the end of time.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this moment is; zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    /// `2026-11-30T08:45:00Z`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = Duration::from_millis(self.0.min(LAST_PRINTABLE));
        f.pad(&humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string())
    }
}

/// The end of the year 9999, past which a date has no common form.
const LAST_PRINTABLE: u64 = 253_402_300_799_999;

/// Where the lifecycle takes its time from: backoff, settle windows, deadlines and expiry.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment. It never goes back.
    fn now(&self) -> Timestamp;

    /// Waits. Cancel safe: dropping the future ends the wait.
    async fn sleep(&self, duration: Duration);

    /// Tells a clock of tests that work is under way on another thread, until the answer is dropped. A system's
    /// clock does not care.
    fn busy(&self) -> Busy {
        Busy(None)
    }
}

/// See [`Clock::busy`].
pub struct Busy(pub(crate) Option<Box<dyn FnOnce() + Send>>);

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done();
        }
    }
}

/// The operating system's clock, with tokio's timer. It follows the time of day as it was when it was made, so
/// that setting the machine's clock does not end or prolong a deadline.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    made: Timestamp,
    since: Instant,
}

impl SystemClock {
    /// A clock that shows the time of day.
    pub fn new() -> Self {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { made: Timestamp(u64::try_from(day.as_millis()).unwrap_or(u64::MAX)), since: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.made.after(self.since.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The work did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done in time")]
pub struct Elapsed;

/// Runs `work` for at most `limit`. Cancel safe if `work` is; at the limit `work` is dropped.
pub async fn timeout<F: Future>(
    clock: &Arc<dyn Clock>,
    limit: Duration,
    work: F,
) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = work => Ok(output),
        () = clock.sleep(limit) => Err(Elapsed),
    }
}

/// The end of one part of a time that is shared evenly by the parts that are left.
pub(crate) fn share_of_time(clock: &Arc<dyn Clock>, until: Timestamp, parts_left: usize) -> Timestamp {
    let now = clock.now();
    let parts = u32::try_from(parts_left.max(1)).unwrap_or(u32::MAX);
    now.after(until.since(now) / parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_printed_as_a_date() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_796_028_309, "2026-11-30T08:45:09Z"),
            (u64::MAX / 1000, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Timestamp::from_millis(seconds * 1000).to_string(), text);
        }
    }
}
