//! Taking over what dead sessions left behind.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{StreamExt as _, future::join_all};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    Book, Clock, Entry, Gate, ReportLine, ResourceRef, SystemClock, TeardownReport, Timestamp, Verb, control,
    gate::Gates,
    ledger::{self, Damage, DeletedHow, KeptThing, Ledger, LedgerFile, Row, StateFolder, Taken},
    session::Core,
    teardown::{Reclaimer, Resolution},
    timeout,
};
use crate::{
    error::{Code, Error, Result},
    names::{Owner, Stamp, ThingName},
    provider::{Provider, Registry, State},
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

/// Something that a sweep left alone, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotSwept {
    /// The ledger or thing.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// A thing that a look-only sweep would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owing {
    /// The thing.
    pub line: ReportLine,
    /// How old it is.
    pub age: Duration,
}

/// What a sweep did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SweepReport {
    /// Whether it deleted.
    pub delete: bool,
    /// Ledgers whose sessions live.
    pub in_use: Vec<PathBuf>,
    /// What could still be owned; only of a sweep that looks.
    pub owing: Vec<Owing>,
    /// What became of it; only of a sweep that deletes.
    pub result: TeardownReport,
    /// What was left alone.
    pub not_swept: Vec<NotSwept>,
    /// Lines of ledgers that could not be read.
    pub damage: Vec<NotSwept>,
}

impl SweepReport {
    /// Whether nothing of dead sessions is left, as far as could be seen.
    pub fn is_clean(&self) -> bool {
        self.owing.is_empty() && self.not_swept.is_empty() && self.result.is_clean()
    }

    fn leave(&mut self, what: impl fmt::Display, reason: impl Into<String>) {
        self.not_swept.push(NotSwept { what: what.to_string(), reason: reason.into() });
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

/// What became of one open entry of a dead ledger.
enum Swept {
    Left(NotSwept),
    Entry(Box<Entry>, Option<String>),
}

struct Sweeper {
    folder: StateFolder,
    kept: Vec<KeptThing>,
    registry: Registry,
    options: SweepOptions,
    until: Timestamp,
    report: SweepReport,
}

impl Sweeper {
    fn new(folder: StateFolder, registry: Registry, options: SweepOptions) -> Self {
        let until = options.clock.now().after(options.deadline);
        let report = SweepReport { delete: options.delete, ..SweepReport::default() };
        Self { folder, kept: Vec::new(), registry, options, until, report }
    }

    async fn run(mut self, owner: Option<Owner>) -> Result<SweepReport> {
        let folder = self.folder.clone();
        let (kept, unreadable) = self.blocking(move || folder.kept()).await??;
        if unreadable > 0 {
            self.report
                .leave("kept.jsonl", format!("{unreadable} lines cannot be read, so nothing is deleted"));
            return Ok(self.report);
        }
        self.kept = kept;
        let folder = self.folder.clone();
        let ledgers = self.blocking(move || ledger::files(&folder)).await??;
        for (done, path) in ledgers.iter().enumerate() {
            let until = self.share_of_time(self.until, ledgers.len() - done + 1);
            let (path, look_only) = (path.clone(), !self.options.delete);
            let taken = path.clone();
            match self.blocking(move || ledger::take(&taken, look_only)).await? {
                Taken::InUse => self.report.in_use.push(path),
                Taken::Finished | Taken::Newborn => {}
                Taken::Dead(file) => self.sweep_ledger(*file, until).await?,
                Taken::UnknownVersion(reason) | Taken::Unreadable(reason) => {
                    self.report.leave(path.display(), reason);
                }
            }
        }
        if let Some(owner) = owner {
            self.sweep_marks(&owner).await?;
        }
        Ok(self.report)
    }

    /// Work with the disk has no place on the control thread.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let _busy = self.options.clock.busy();
        tokio::task::spawn_blocking(work).await.map_err(|source| {
            Error::new(Code::Internal, "reading the state folder panicked").with_source(source)
        })
    }

    fn reclaimer(&self, provider: &Arc<dyn Provider>) -> Reclaimer {
        let gates = Gates(self.options.gate.clone());
        Reclaimer::new(Arc::clone(provider), Arc::clone(&self.options.clock), gates, CancellationToken::new())
    }

    async fn sweep_ledger(&mut self, file: LedgerFile, until: Timestamp) -> Result<()> {
        let path = file.path.display().to_string();
        for damage in &file.damage {
            let reason = match damage {
                Damage::TornLastLine => "its last line was not written to the end".to_owned(),
                Damage::UnreadableLine(line) => format!("line {line} cannot be read"),
            };
            self.report.damage.push(NotSwept { what: path.clone(), reason });
        }
        let book = Book::replay(&file.rows);
        if !self.options.delete {
            for entry in book.entries().filter(|entry| entry.is_open()) {
                self.look_at(entry);
            }
            return Ok(());
        }
        let ledger = Ledger::write_on(file.opened, Arc::clone(&self.options.clock))?;
        let mut all_closed = file.damage.iter().all(|damage| *damage == Damage::TornLastLine);
        let kinds = book.open_by_kind();
        for (done, (_, ordinals)) in kinds.iter().enumerate() {
            let until = self.share_of_time(until, kinds.len() - done);
            // Side by side, since each may have to wait for as long as a provider hides what is new.
            let entries = ordinals.iter().filter_map(|ordinal| book.get(*ordinal));
            let swept = join_all(entries.map(|entry| self.sweep_entry(entry, &ledger, until))).await;
            for swept in swept {
                match swept {
                    Swept::Left(left) => {
                        all_closed = false;
                        self.report.not_swept.push(left);
                    }
                    Swept::Entry(entry, reason) => {
                        all_closed &= !entry.is_open();
                        self.report.result.add(&entry, reason.as_deref());
                    }
                }
            }
        }
        if all_closed { ledger.remove().await } else { ledger.release().await }
    }

    fn look_at(&mut self, entry: &Entry) {
        let intent = &entry.intent;
        let age = self.options.clock.now().since(intent.at);
        if entry.things.is_empty() {
            let line = ReportLine::of_intent(intent, Some("perhaps made".into()));
            self.report.owing.push(Owing { line, age });
        }
        for thing in entry.open_things() {
            self.report.owing.push(Owing { line: ReportLine::of_thing(intent, &thing, None), age });
        }
        if let Err(reason) = self.driver_of(entry) {
            self.report.leave(intent, reason);
        }
    }

    fn driver_of(&self, entry: &Entry) -> Result<Arc<dyn Provider>, String> {
        let intent = &entry.intent;
        let provider =
            self.registry.get(&intent.provider).ok_or(format!("{} is not configured", intent.provider))?;
        if provider.account() != intent.account || provider.endpoint() != intent.endpoint {
            return Err(format!("it belongs to account {} at {}", intent.account, intent.endpoint));
        }
        Ok(Arc::clone(provider))
    }

    async fn sweep_entry(&self, entry: &Entry, ledger: &Ledger, until: Timestamp) -> Swept {
        let intent = &entry.intent;
        let left = |reason| Swept::Left(NotSwept { what: intent.to_string(), reason });
        let provider = match self.driver_of(entry) {
            Ok(provider) => provider,
            Err(reason) => return left(reason),
        };
        let reclaimer = self.reclaimer(&provider);
        let records = SweepRecords { ledger, gates: reclaimer.gates.clone(), rows: Mutex::default() };
        let mut reason = None;
        if let Some(kept) =
            self.kept.iter().find(|kept| self.holds(kept) && entry.open_things().contains(&kept.thing))
        {
            // The process died between remembering that it is kept and writing it here.
            let (reason, until) = (kept.reason.clone(), kept.until);
            let _ = records.record(Row::Kept { ordinal: intent.ordinal, reason, until }).await;
        } else if let Err(error) = reclaim_entry(&reclaimer, entry, until, &records).await {
            // It cannot be there any more, whoever looks for it.
            if error.code() == Code::NotFound && self.has_expired(intent.expires) {
                let _ = records.record(Row::NotMade { ordinal: intent.ordinal }).await;
            }
            reason = Some(error.to_string());
        }
        let mut now = entry.clone();
        records.rows.into_inner().unwrap_or_default().iter().for_each(|row| now.apply(row));
        Swept::Entry(Box::new(now), reason)
    }

    /// Whether a kept thing is still to be left alone.
    fn holds(&self, kept: &KeptThing) -> bool {
        !self.has_expired(kept.until)
    }

    /// What does not go must not take the time of what would.
    fn share_of_time(&self, until: Timestamp, parts_left: usize) -> Timestamp {
        share_of_time(&self.options.clock, until, parts_left)
    }

    fn has_expired(&self, expires: Option<Timestamp>) -> bool {
        expires.is_some_and(|expires| expires.after(self.options.margin) < self.options.clock.now())
    }

    /// The things that carry the owner's mark and should be gone by now.
    async fn sweep_marks(&mut self, owner: &Owner) -> Result<()> {
        let providers: Vec<_> = self.registry.iter().map(Arc::clone).collect();
        for provider in providers {
            let reclaimer = self.reclaimer(&provider);
            for hint in reclaimer.gates.around(Verb::List, hints_of(&reclaimer, owner)).await {
                let thing = match hint {
                    Ok(thing) => thing,
                    Err(error) => {
                        self.report.leave(format!("{}'s list", provider.id()), error.to_string());
                        continue;
                    }
                };
                let Some(stamp) = self.expired_mark_of(&thing, owner) else {
                    continue;
                };
                let bound = stamp.expiry();
                let is_kept = self.kept.iter().any(|kept| kept.thing == thing && self.holds(kept));
                if !is_kept {
                    self.sweep_marked(&reclaimer, thing, bound).await;
                }
            }
        }
        Ok(())
    }

    /// The stamp of a thing whose name is exactly ours and has passed; a list may show anything.
    fn expired_mark_of(&self, thing: &ResourceRef, owner: &Owner) -> Option<Stamp> {
        let name: ThingName = thing.name.as_deref()?.parse().ok()?;
        (name.owner == *owner && self.has_expired(name.stamp.expiry())).then_some(name.stamp)
    }

    async fn sweep_marked(&mut self, reclaimer: &Reclaimer, thing: ResourceRef, bound: Option<Timestamp>) {
        let line = |reason| ReportLine {
            kind: thing.kind,
            provider: thing.provider.clone(),
            id: Some(thing.id.clone()),
            name: thing.name.clone().unwrap_or_default(),
            reason,
            bound,
        };
        if !self.options.delete {
            let age = bound.map(|bound| self.options.clock.now().since(bound)).unwrap_or_default();
            self.report.owing.push(Owing { line: line(Some("past its stamp".into())), age });
            return;
        }
        match reclaimer.observe(&thing).await {
            Ok(State::Absent) => return,
            Ok(_) => {}
            Err(error) => return self.report.leave(&thing, error.to_string()),
        }
        match reclaimer.delete_until_gone(&thing, self.until).await {
            Ok(DeletedHow::Deleted) => self.report.result.deleted.push(line(None)),
            Ok(DeletedHow::AlreadyGone) => self.report.result.already_gone.push(line(None)),
            Err(error) => self.report.result.stuck.push(line(Some(error.to_string()))),
        }
        let _ = self.folder.forget_kept(&thing);
    }
}

/// What the provider lists, with each answer awaited for as long as a request may take. An error ends it.
async fn hints_of(reclaimer: &Reclaimer, owner: &Owner) -> Vec<Result<ResourceRef>> {
    let limit = reclaimer.provider.capabilities().request_deadline;
    let mut stream = reclaimer.provider.list(owner);
    let mut hints = Vec::new();
    loop {
        let next = control::catch_panic("list", async { stream.next().await.transpose() });
        let next = timeout(&reclaimer.clock, limit, next).await;
        match next.unwrap_or_else(|_| Err(Error::new(Code::Timeout, format!("no answer within {limit:?}")))) {
            Ok(Some(thing)) => hints.push(Ok(thing)),
            Ok(None) => return hints,
            Err(error) => {
                hints.push(Err(error.with_provider(reclaimer.provider.id()).with_operation("list")));
                return hints;
            }
        }
    }
}

/// Where the steps of a clean-up are written down.
#[async_trait]
pub(crate) trait Records: Sync {
    /// Writes a row down. A clean-up goes on if that fails.
    async fn record(&self, row: Row) -> Result<()>;
}

#[async_trait]
impl Records for Core {
    async fn record(&self, row: Row) -> Result<()> {
        let written = self.write(verb_of(&row), row, false).await;
        if let Err(error) = &written {
            self.note(format!("a deletion could not be written down: {error}"));
        }
        written
    }
}

struct SweepRecords<'a> {
    ledger: &'a Ledger,
    gates: Gates,
    rows: Mutex<Vec<Row>>,
}

#[async_trait]
impl Records for SweepRecords<'_> {
    async fn record(&self, row: Row) -> Result<()> {
        let written = self.gates.around(verb_of(&row), self.ledger.append(&row, false)).await;
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        written
    }
}

fn verb_of(row: &Row) -> Verb {
    match row {
        Row::Open { .. } | Row::Intent(_) => Verb::WriteIntent,
        Row::Acquired { .. } => Verb::WriteAcquired,
        Row::NotMade { .. } | Row::Unresolved { .. } => Verb::WriteOutcome,
        Row::Deleted { .. } | Row::Undeletable { .. } => Verb::WriteDeleted,
        Row::Kept { .. } => Verb::WriteKept,
    }
}

/// The end of one part of a time that is shared evenly by the parts that are left.
pub(crate) fn share_of_time(clock: &Arc<dyn Clock>, until: Timestamp, parts_left: usize) -> Timestamp {
    let now = clock.now();
    let parts = u32::try_from(parts_left.max(1)).unwrap_or(u32::MAX);
    now.after(until.since(now) / parts)
}

/// Deletes all that an open entry made; first looks it up if that is not known. One failure strands nothing else.
///
/// # Errors
/// [`Code::NotFound`] if what the intent may have made was not found; else why something is still there.
pub(crate) async fn reclaim_entry(
    reclaimer: &Reclaimer,
    entry: &Entry,
    until: Timestamp,
    records: &dyn Records,
) -> Result<()> {
    let intent = &entry.intent;
    let ordinal = intent.ordinal;
    let mut things = entry.open_things();
    if entry.things.is_empty() {
        match reclaimer.resolve(intent, intent.at, until).await {
            Resolution::Things(found) => {
                let _ = records.record(Row::Acquired { ordinal, things: found.clone() }).await;
                things = found;
                things.sort_by_key(|thing| thing.kind);
            }
            Resolution::NotMade => {
                let _ = records.record(Row::NotMade { ordinal }).await;
                return Ok(());
            }
            Resolution::NotFound => {
                return Err(Error::new(
                    Code::NotFound,
                    format!("{intent} may have been made and was not found"),
                )
                .with_advice("sweep again later; it ends by itself at its stamp"));
            }
            Resolution::Unknown(error) => return Err(error),
        }
    }
    let mut first_error = Ok(());
    for thing in things {
        match reclaimer.delete_until_gone(&thing, until).await {
            Ok(how) => {
                let _ = records.record(Row::Deleted { ordinal, id: thing.id.clone(), how }).await;
                tracing::info!(session = %intent.run, ordinal, provider = %intent.provider, kind = %thing.kind, id = %thing.id, "deleted");
            }
            Err(error) => first_error = first_error.and(Err(error)),
        }
    }
    first_error
}
