//! Taking over what dead sessions left behind.

mod ledgers;
mod marks;
mod records;
mod report;
mod sweeper;

use std::{sync::Arc, time::Duration};

pub use self::report::{NotSwept, Owing, SweepReport};
use self::sweeper::Sweeper;
use super::{Clock, Gate, SystemClock, control, ledger::StateFolder};
use crate::{
    error::{Code, Error, Result},
    names::Owner,
    provider::Registry,
};

/// How a sweep works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweepOptions {
    /// Delete; without it the sweep only looks, and changes nothing anywhere.
    pub delete: bool,
    /// How much later than its stamp a thing must be before it is taken as expired: for clocks that differ.
    pub margin: Duration,
    /// How long the whole sweep may take.
    pub deadline: Duration,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where a test stops the sweep.
    pub gate: Option<Arc<dyn Gate>>,
}

impl SweepOptions {
    /// Looks only.
    pub fn look() -> Self {
        Self {
            delete: false,
            margin: Duration::from_secs(15 * 60),
            deadline: Duration::from_secs(600),
            clock: Arc::new(SystemClock::new()),
            gate: None,
        }
    }

    /// Deletes.
    pub fn delete() -> Self {
        Self { delete: true, ..Self::look() }
    }

    /// Sets where time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long the whole sweep may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets where a test stops the sweep.
    #[must_use]
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }
}

/// Deletes what dead sessions left: first by the ledgers of the state folder whose lock is free, then the things
/// that carry `owner`'s mark and whose stamp has passed. Kept things are left alone until their stamp has passed.
///
/// The registry's drivers decide what can be swept: rows of another provider, account or endpoint are listed as
/// not swept. Cancel safe: dropping the future does not stop a sweep that deletes.
///
/// # Errors
/// [`Code::LedgerUnavailable`] if the state folder cannot be read; [`Code::MachineUnsuitable`] without a thread.
pub async fn sweep(
    folder: StateFolder,
    owner: Option<Owner>,
    registry: Registry,
    options: SweepOptions,
) -> Result<SweepReport> {
    let control = control::handle()?;
    let (tell, told) = tokio::sync::oneshot::channel();
    control::spawn(&control, async move {
        let _ = tell.send(Sweeper::new(folder, registry, options).run(owner).await);
    });
    told.await.unwrap_or_else(|_| Err(Error::new(Code::Internal, "the sweep ended without an answer")))
}
