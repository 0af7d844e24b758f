//! Deleting what a session made: when a guard is dropped, and at the close.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc, watch};

use super::Core;
use crate::{
    error::Result,
    lifecycle::{
        TeardownReport, Timestamp,
        clock::share_of_time,
        control,
        creator::closed,
        teardown::{Reclaimed, not_found, reclaim_entry},
        timeout,
    },
};

/// Deletes what dropped guards own, for as long as the session lives.
pub(super) async fn delete_dropped(core: Arc<Core>, mut to_delete: mpsc::UnboundedReceiver<u32>) {
    loop {
        let ordinal = tokio::select! {
            biased;
            () = core.closing.cancelled() => return,
            ordinal = to_delete.recv() => ordinal,
        };
        let Some(ordinal) = ordinal else { return };
        let task = Arc::clone(&core);
        let deadline = core.background_deadline();
        // A close does not wait for it: it takes its turn at the same entries.
        control::spawn(&core.control, async move {
            let _ = task.tear_down(ordinal, deadline).await;
        });
    }
}

impl Core {
    /// Deletes all that an entry made, until it is seen to be gone. Two calls for one entry run one after the
    /// other; the second finds nothing left to do.
    pub(crate) async fn tear_down(&self, ordinal: u32, until: Timestamp) -> Result<()> {
        let Some(turn) = self.turn_of(ordinal) else { return Ok(()) };
        let _turn = turn.lock().await;
        if self.has_ended() {
            return Err(closed());
        }
        let (entry, provider, lease) = {
            let state = self.state();
            let found = state.book.get(ordinal).zip(state.beside.get(&ordinal));
            let Some((entry, beside)) = found else {
                return Ok(());
            };
            (entry.clone(), Arc::clone(&beside.driver), beside.lease.clone())
        };
        if !entry.is_open() {
            return Ok(());
        }
        if let Some(lease) = lease {
            lease.end();
        }
        let reclaimed = reclaim_entry(&self.reclaimer(&provider), &entry, until, self).await;
        let result = reclaimed.and_then(|reclaimed| match reclaimed {
            Reclaimed::All => Ok(()),
            Reclaimed::NotFound => Err(not_found(&entry.intent)),
        });
        if let Err(error) = &result {
            tracing::warn!(session = %self.run, ordinal, "{error}");
            self.beside(ordinal, |beside| beside.reason = Some(error.to_string()));
        }
        result
    }

    /// Starts the close, or joins the one that was started.
    pub(super) fn start_close(
        self: &Arc<Self>,
        deadline: Duration,
    ) -> watch::Receiver<Option<TeardownReport>> {
        let mut started = self.close_report.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(report) = &*started {
            return report.clone();
        }
        let (tell, report) = watch::channel(None);
        *started = Some(report.clone());
        let core = Arc::clone(self);
        control::spawn(&self.control, async move {
            let closed = core.close(deadline).await;
            let _ = tell.send(Some(closed));
        });
        report
    }

    async fn close(self: &Arc<Self>, deadline: Duration) -> TeardownReport {
        let until = self.clock.now().after(deadline);
        self.closing.cancel();
        self.tasks.close();
        // What is being created must be known before it can be deleted, but must not take all the time.
        let half = share_of_time(&self.clock, until, 2).since(self.clock.now());
        let _ = timeout(&self.clock, half, self.tasks.wait()).await;
        let kinds = self.state().book.open_by_kind();
        for (done, (_, ordinals)) in kinds.iter().enumerate() {
            let until = share_of_time(&self.clock, until, kinds.len() - done);
            let teardowns = ordinals.iter().map(|ordinal| self.tear_down_by(*ordinal, until));
            futures_util::future::join_all(teardowns).await;
        }
        self.stop.cancel();
        self.finish().await
    }

    /// The row's turn may be taken by a deletion that does not end.
    async fn tear_down_by(&self, ordinal: u32, until: Timestamp) {
        let left = until.since(self.clock.now());
        let _ = timeout(&self.clock, left, self.tear_down(ordinal, until)).await;
    }

    async fn finish(&self) -> TeardownReport {
        let (mut report, settled) = {
            let state = self.state();
            let mut report = TeardownReport { notes: state.notes.clone(), ..TeardownReport::default() };
            for entry in state.book.entries() {
                report.add(
                    entry,
                    state.beside.get(&entry.intent.ordinal).and_then(|beside| beside.reason.as_deref()),
                );
            }
            (report, state.book.is_settled())
        };
        if let Err(error) = if settled { self.ledger.remove().await } else { self.ledger.release().await } {
            report.notes.push(error.to_string());
        }
        for line in report.stuck.iter().chain(&report.unresolved).chain(&report.undeletable) {
            tracing::info!(session = %self.run, "left: {line}");
        }
        report
    }
}
