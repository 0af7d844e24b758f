//! The rows of a leg, as they come.

use std::{panic::AssertUnwindSafe, time::Instant};

use provider_core::{
    error::{Code, Error, Result},
    lifecycle::{Event, Session, TeardownReport},
};

use super::{LegPlan, LegReport, RowReport, Watch, leaks::things_of_run, report::rows};

/// The rows so far.
pub(super) struct Board<'a> {
    pub(super) watch: &'a dyn Watch,
    pub(super) rows: Vec<RowReport>,
    pub(super) watcher_panicked: bool,
}

impl Board<'_> {
    /// A watcher that panics must not stop the clean-up; the leg has failed all the same.
    pub(super) fn add(&mut self, row: RowReport) {
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| self.watch.row(&row)));
        self.watcher_panicked |= told.is_err();
        self.rows.push(row);
    }

    /// Runs a step as a row of its own.
    pub(super) async fn step<T>(
        &mut self,
        id: &str,
        step: impl Future<Output = Result<(T, String)>>,
    ) -> Result<T> {
        self.watch.event(&Event::Stage(id.to_owned()));
        let began = Instant::now();
        match step.await {
            Ok((value, summary)) => {
                self.add(RowReport::passed(id, began.elapsed(), summary));
                Ok(value)
            }
            Err(error) => {
                self.add(RowReport::failed(id, began.elapsed(), &error));
                Err(error)
            }
        }
    }

    /// Rows behind a failed one are rows too.
    pub(super) fn fill_up(&mut self, plan: &LegPlan, why: &str) {
        for id in LegReport::row_ids(plan.start.kind()).filter(|id| ![rows::CLOSE, rows::LEAKS].contains(id))
        {
            if !self.rows.iter().any(|row| row.id == id) {
                self.add(RowReport::not_reached(id, why));
            }
        }
    }

    pub(super) async fn close(&mut self, session: &Session, within: std::time::Duration) -> TeardownReport {
        self.watch.event(&Event::Stage("clean-up".into()));
        let began = Instant::now();
        let report = session.close(within).await;
        let row = match report.clone().into_result() {
            Ok(()) => {
                let gone = report.deleted.len() + report.already_gone.len();
                RowReport::passed(
                    rows::CLOSE,
                    began.elapsed(),
                    format!(
                        "{gone} {} deleted and seen to be gone",
                        if gone == 1 { "thing" } else { "things" }
                    ),
                )
            }
            Err(error) => RowReport::failed(rows::CLOSE, began.elapsed(), &error),
        };
        self.add(row);
        report
    }

    /// The session's own books are not asked here, but the provider.
    pub(super) async fn look_for_leaks(&mut self, plan: &LegPlan, session: &Session) {
        let began = Instant::now();
        let (leaks, trouble) = things_of_run(plan, session).await;
        let took = began.elapsed();
        let row = match (leaks.is_empty(), trouble) {
            (true, None) => RowReport::passed(rows::LEAKS, took, "the provider lists nothing of this run"),
            (true, Some(error)) => RowReport::failed(rows::LEAKS, took, &error),
            (false, _) => {
                let error =
                    Error::new(Code::NotSeenGone, format!("{} things of this run exist", leaks.len()));
                RowReport { details: leaks, ..RowReport::failed(rows::LEAKS, took, &error) }
            }
        };
        self.add(row);
    }
}
