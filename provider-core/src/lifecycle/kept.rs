//! Deleting what an earlier run kept.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    Clock, Intent, ReportLine, ResourceRef, SystemClock, TeardownReport, Timestamp,
    clock::share_of_time,
    control,
    gate::Gates,
    ledger::{DeletedHow, StateFolder},
    teardown::{Reclaimer, Resolution},
};
use crate::{
    error::{Code, Error, Result},
    names::{Owner, ThingName},
    provider::{Provider, State},
};

/// How kept things are deleted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// How long it may take.
    pub deadline: Duration,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for DeleteOptions {
    /// Ten minutes by the system's clock.
    fn default() -> Self {
        Self { deadline: Duration::from_secs(600), clock: Arc::new(SystemClock::new()) }
    }
}

impl DeleteOptions {
    /// Sets how long it may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets where time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

/// Deletes things that were kept, such as all [things of an artifact](crate::environment::Artifact::things) or those
/// that [`StateFolder::kept`] lists, and forgets that they were kept. Whoever has the artifact's record can do so, on
/// another machine too, if the things carry `owner`'s mark: what is not provably ours is left alone. What stands in the
/// report's `stuck` is still remembered as kept, and can be asked for again.
///
/// Cancel safe: dropping the future does not stop the deletion.
///
/// # Errors
/// [`Code::SpecInvalid`] if one is another provider's, account's or owner's, or if they were made by different runs;
/// [`Code::NameTaken`] if one does not carry the mark that its reference says; errors of the connection before anything was deleted.
pub async fn delete_kept(
    folder: StateFolder,
    owner: Owner,
    provider: Arc<dyn Provider>,
    things: Vec<ResourceRef>,
    options: DeleteOptions,
) -> Result<TeardownReport> {
    things.iter().try_for_each(|thing| check_place(thing, &*provider))?;
    let mut things = things;
    things.sort_by_key(|thing| thing.kind);
    let marked = things
        .into_iter()
        .map(|thing| mark_of(&thing, &owner).map(|name| (thing, name)))
        .collect::<Result<Vec<_>>>()?;
    of_one_run(&marked)?;
    let control = control::handle()?;
    let (tell, told) = tokio::sync::oneshot::channel();
    control::spawn(&control, async move {
        let until = options.clock.now().after(options.deadline);
        let gates = Gates(None);
        let reclaimer = Reclaimer::new(provider, Arc::clone(&options.clock), gates, CancellationToken::new());
        let _ = tell.send(Deleter { folder, reclaimer, until }.run(marked).await);
    });
    told.await.unwrap_or_else(|_| Err(Error::new(Code::Internal, "the deletion ended without an answer")))
}

fn check_place(thing: &ResourceRef, provider: &dyn Provider) -> Result<()> {
    let is_here = thing.provider == *provider.id()
        && thing.account == provider.account()
        && thing.endpoint == provider.endpoint();
    if is_here {
        return Ok(());
    }
    let words = format!("{thing} belongs to account {} at {}", thing.account, thing.endpoint);
    Err(Error::new(Code::SpecInvalid, words)
        .with_provider(provider.id())
        .with_operation("delete")
        .with_advice("use that account; a local one is that of its state folder"))
}

/// What belongs together was made by one run. A forged record could name what another run keeps.
fn of_one_run(marked: &[(ResourceRef, ThingName)]) -> Result<()> {
    let Some((first, name)) = marked.first() else { return Ok(()) };
    match marked.iter().find(|(_, other)| other.run != name.run) {
        None => Ok(()),
        Some((other, _)) => {
            let words = format!("{first} and {other} were made by different runs; neither is deleted");
            Err(Error::new(Code::SpecInvalid, words).with_advice("delete each by its own record"))
        }
    }
}

/// The mark in a thing's name, which must be the owner's.
fn mark_of(thing: &ResourceRef, owner: &Owner) -> Result<ThingName> {
    let name = thing.name.as_deref().and_then(|name| name.parse::<ThingName>().ok());
    match name {
        Some(name) if name.owner == *owner => Ok(name),
        Some(name) => Err(Error::new(
            Code::SpecInvalid,
            format!("{thing} belongs to owner {}, and this one is {owner}", name.owner),
        )
        .with_advice("set PROVIDER_OWNER to the owner who built it")),
        None => Err(Error::new(Code::SpecInvalid, format!("{thing} carries no mark of ours"))
            .with_advice("it is left alone; delete it at its provider if it is yours")),
    }
}

struct Deleter {
    folder: StateFolder,
    reclaimer: Reclaimer,
    until: Timestamp,
}

impl Deleter {
    async fn run(self, marked: Vec<(ResourceRef, ThingName)>) -> Result<TeardownReport> {
        // Before anything is deleted: one that is not ours speaks against the whole record.
        let mut present = Vec::new();
        for (thing, name) in &marked {
            present.push(self.is_ours(thing, name).await?);
        }
        let mut report = TeardownReport::default();
        for (done, ((thing, name), is_there)) in marked.iter().zip(present).enumerate() {
            let until = share_of_time(&self.reclaimer.clock, self.until, marked.len() - done);
            let gone = if is_there {
                self.reclaimer.delete_until_gone(thing, until).await
            } else {
                Ok(DeletedHow::AlreadyGone)
            };
            let line = |reason| ReportLine::of(thing, name.stamp.expiry(), reason);
            match gone {
                Ok(how) => {
                    tracing::info!(provider = %thing.provider, kind = %thing.kind, id = %thing.id, "deleted");
                    match how {
                        DeletedHow::Deleted => report.deleted.push(line(None)),
                        DeletedHow::AlreadyGone => report.already_gone.push(line(None)),
                    }
                    report.notes.extend(self.forget(thing).await.err().map(|error| error.to_string()));
                }
                Err(error) => report.stuck.push(line(Some(error.to_string()))),
            }
        }
        Ok(report)
    }

    /// Whether the thing is there. One that is there without its mark is an error.
    async fn is_ours(&self, thing: &ResourceRef, name: &ThingName) -> Result<bool> {
        if self.reclaimer.observe(thing).await? == State::Absent {
            return Ok(false);
        }
        let now = self.reclaimer.clock.now();
        // It may be so new that lookups still hide it.
        let found = match self.reclaimer.resolve(&intent_of(thing, name, now), now, self.until).await {
            Resolution::Things(found) => found,
            Resolution::NotMade | Resolution::NotFound => Vec::new(),
            Resolution::Unknown(error) => return Err(error),
        };
        if found.iter().any(|other| other.id == thing.id && other.kind == thing.kind) {
            return Ok(true);
        }
        let words = format!("{thing} is not what was made under the name {name}; it is left alone");
        Err(Error::new(Code::NameTaken, words).with_provider(&thing.provider).with_operation("delete"))
    }

    async fn forget(&self, thing: &ResourceRef) -> Result<()> {
        let (folder, thing) = (self.folder.clone(), thing.clone());
        let _busy = self.reclaimer.clock.busy();
        let forgotten = tokio::task::spawn_blocking(move || folder.forget_kept(&thing)).await;
        forgotten.unwrap_or_else(|_| Err(Error::new(Code::Internal, "forgetting a kept thing panicked")))
    }
}

/// The intent that gave the thing its name, as far as a lookup needs it.
fn intent_of(thing: &ResourceRef, name: &ThingName, now: Timestamp) -> Intent {
    Intent {
        owner: name.owner.clone(),
        run: name.run.clone(),
        ordinal: name.ordinal,
        kind: thing.kind,
        slot: "kept".to_owned(),
        provider: thing.provider.clone(),
        account: thing.account.clone(),
        endpoint: thing.endpoint.clone(),
        expires: name.stamp.expiry(),
        at: now,
    }
}
