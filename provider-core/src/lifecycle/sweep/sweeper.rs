//! One sweep: first what stands in ledgers, then what carries the owner's mark.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{SweepOptions, SweepReport};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{
        ReportLine, ResourceRef, Timestamp,
        clock::share_of_time,
        gate::Gates,
        ledger::{self, KeptThing, StateFolder, Taken},
        teardown::Reclaimer,
    },
    names::Owner,
    provider::{Provider, Registry},
};

pub(super) struct Sweeper {
    pub(super) folder: StateFolder,
    pub(super) kept: Vec<KeptThing>,
    pub(super) registry: Registry,
    pub(super) options: SweepOptions,
    pub(super) until: Timestamp,
    pub(super) report: SweepReport,
}

impl Sweeper {
    pub(super) fn new(folder: StateFolder, registry: Registry, options: SweepOptions) -> Self {
        let until = options.clock.now().after(options.deadline);
        let report = SweepReport { delete: options.delete, ..SweepReport::default() };
        Self { folder, kept: Vec::new(), registry, options, until, report }
    }

    pub(super) async fn run(mut self, owner: Option<Owner>) -> Result<SweepReport> {
        if !self.read_kept().await? {
            return Ok(self.report);
        }
        let line = |kept: &KeptThing| ReportLine::of(&kept.thing, kept.until, Some(kept.reason.clone()));
        self.report.kept = self.kept.iter().map(line).collect();
        let folder = self.folder.clone();
        let ledgers = self.blocking(move || ledger::files(&folder)).await??;
        for (done, path) in ledgers.iter().enumerate() {
            let until = self.share_of_time(self.until, ledgers.len() - done + 1);
            let (path, look_only) = (path.clone(), !self.options.delete);
            let taken = path.clone();
            match self.blocking(move || ledger::take(&taken, look_only)).await? {
                Taken::InUse => self.report.in_use.push(path),
                Taken::Finished | Taken::Newborn => {}
                Taken::Dead(file) => {
                    // What its session remembered as kept is known only now that nobody writes there any more.
                    if !self.read_kept().await? {
                        return Ok(self.report);
                    }
                    self.sweep_ledger(*file, until).await;
                }
                Taken::UnknownVersion(reason) | Taken::Unreadable(reason) => {
                    self.report.leave(path.display(), reason);
                }
            }
        }
        if let Some(owner) = owner {
            self.sweep_marks(&owner).await;
        }
        Ok(self.report)
    }

    /// Reads what is kept. `false` if that is not known, and so nothing may be deleted.
    async fn read_kept(&mut self) -> Result<bool> {
        let folder = self.folder.clone();
        let (kept, unreadable) = self.blocking(move || folder.kept()).await??;
        self.kept = kept;
        if unreadable > 0 {
            let reason = format!("{unreadable} lines cannot be read, so nothing more is deleted");
            self.report.leave("kept.jsonl", reason);
        }
        Ok(unreadable == 0)
    }

    /// Work with the disk has no place on the control thread.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let _busy = self.options.clock.busy();
        tokio::task::spawn_blocking(work).await.map_err(|source| {
            Error::new(Code::Internal, "reading the state folder panicked").with_source(source)
        })
    }

    /// Forgets a thing that was kept, now that it is gone.
    pub(super) async fn forget(&mut self, thing: &ResourceRef) {
        if !self.kept.iter().any(|kept| kept.thing == *thing) {
            return;
        }
        let (folder, gone) = (self.folder.clone(), thing.clone());
        let forgotten = self.blocking(move || folder.forget_kept(&gone)).await;
        if let Err(error) = forgotten.and_then(|forgotten| forgotten) {
            self.report.leave(thing, error.to_string());
        }
    }

    pub(super) fn reclaimer(&self, provider: &Arc<dyn Provider>) -> Reclaimer {
        let gates = Gates(self.options.gate.clone());
        Reclaimer::new(Arc::clone(provider), Arc::clone(&self.options.clock), gates, CancellationToken::new())
    }

    /// Whether a kept thing is still to be left alone.
    pub(super) fn holds(&self, kept: &KeptThing) -> bool {
        !self.has_expired(kept.until)
    }

    /// What does not go must not take the time of what would.
    pub(super) fn share_of_time(&self, until: Timestamp, parts_left: usize) -> Timestamp {
        share_of_time(&self.options.clock, until, parts_left)
    }

    pub(super) fn has_expired(&self, expires: Option<Timestamp>) -> bool {
        expires.is_some_and(|expires| expires.after(self.options.margin) < self.options.clock.now())
    }
}
