//! How long to wait before asking again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Waits that double from `min` to `max`, with jitter.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The first wait.
    pub min: Duration,
    /// No wait is longer, jitter apart.
    pub max: Duration,
    /// How many waits there are; absent means no end.
    pub times: Option<usize>,
}

impl Backoff {
    /// For requests that had no effect: five more tries.
    pub const REQUEST: Backoff =
        Backoff { min: Duration::from_millis(500), max: Duration::from_secs(20), times: Some(5) };

    /// For looking whether something has come or gone: without end, bounded by a deadline elsewhere.
    pub const POLL: Backoff =
        Backoff { min: Duration::from_millis(250), max: Duration::from_secs(5), times: None };

    /// The waits, one after the other.
    pub fn waits(&self) -> Waits {
        let builder = ExponentialBuilder::default()
            .with_min_delay(self.min)
            .with_max_delay(self.max)
            .with_factor(2.0)
            .with_jitter();
        let builder = match self.times {
            Some(times) => builder.with_max_times(times),
            None => builder.without_max_times(),
        };
        Waits(builder.build())
    }
}

/// The waits of a [`Backoff`].
#[derive(Debug)]
pub struct Waits(ExponentialBackoff);

impl Iterator for Waits {
    type Item = Duration;
    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound_and_end() {
        let waits: Vec<_> = Backoff::REQUEST.waits().collect();
        assert_eq!(waits.len(), 5);
        assert!(waits[0] >= Backoff::REQUEST.min && waits[0] <= 2 * Backoff::REQUEST.min);
        assert!(waits.iter().all(|wait| *wait <= 2 * Backoff::REQUEST.max));
        assert_eq!(Backoff::POLL.waits().take(1000).count(), 1000);
    }
}
