//! Deleting until a thing is seen to be gone, and finding what a lost answer may have made.

mod entry;
mod records;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    entry::{Reclaimed, not_found, reclaim_entry},
    records::{Records, verb_of},
};
use super::{
    Clock, Intent, ResourceRef, Timestamp, Verb, control::catch_panic, gate::Gates, ledger::DeletedHow,
    timeout,
};
use crate::{
    capability::Settle,
    error::{Code, Error, Result},
    limits::{AccountLimits, LONGEST_WAIT},
    names::ProviderId,
    provider::{Deletion, Found, Provider, State},
    retry::Backoff,
};

/// How long an accepted delete may show no effect before it is asked for again.
const ASK_AGAIN_AFTER: u32 = 3;

/// What the loops below need to know about where they work.
#[derive(Clone, Debug)]
pub(crate) struct Reclaimer {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gates: Gates,
    pub(crate) limits: Arc<AccountLimits>,
    /// Ends the loops early; what they could not finish stays open.
    pub(crate) stop: CancellationToken,
}

/// What a lookup by intent came to.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// These carry exactly the intent's mark.
    Things(Vec<ResourceRef>),
    /// It is certain that nothing was made.
    NotMade,
    /// Nothing was found for as long as it could be invisible. That is no proof.
    NotFound,
    /// It could not be asked.
    Unknown(Error),
}

impl Reclaimer {
    pub(crate) fn new(
        provider: Arc<dyn Provider>,
        clock: Arc<dyn Clock>,
        gates: Gates,
        stop: CancellationToken,
    ) -> Self {
        let limits = AccountLimits::of(
            provider.id(),
            provider.account(),
            provider.endpoint(),
            provider.capabilities(),
        );
        Self { provider, clock, gates, limits, stop }
    }

    fn id(&self) -> &ProviderId {
        self.provider.id()
    }

    /// One verb, between its gates, with a deadline of its own and a panic made an error.
    async fn ask<T>(
        &self,
        verb: Verb,
        what: &'static str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let limit = self.provider.capabilities().request_deadline;
        let answer = self.gates.around(verb, timeout(&self.clock, limit, catch_panic(what, request))).await;
        answer
            .unwrap_or_else(|_| Err(Error::new(Code::Timeout, format!("no answer within {limit:?}"))))
            .map_err(|error| error.with_provider(self.id()).with_operation(what))
    }

    pub(crate) async fn observe(&self, thing: &ResourceRef) -> Result<State> {
        self.ask(Verb::Observe, "observe", self.provider.observe(thing)).await
    }

    /// Waits, but not past `until` and not after a stop. Says whether there is time left.
    async fn pause(&self, wait: Duration, until: Timestamp) -> bool {
        let left = until.since(self.clock.now());
        if left.is_zero() || self.stop.is_cancelled() {
            return false;
        }
        tokio::select! {
            () = self.clock.sleep(wait.min(left)) => true,
            () = self.stop.cancelled() => false,
        }
    }

    /// Looks for what a request may have made, from `sent` on for as long as the provider may hide it.
    pub(crate) async fn resolve(&self, intent: &Intent, sent: Timestamp, until: Timestamp) -> Resolution {
        let mut waits = Backoff::POLL.waits();
        // A sender whose clock was ahead of ours did not send in the future.
        let sent = sent.min(self.clock.now());
        loop {
            let asked_at = self.clock.now();
            let answer = self.ask(Verb::Find, "find", self.provider.find(intent)).await;
            let trouble = match answer {
                Ok(Found::Things(things)) if !things.is_empty() => match only_ours(intent, things) {
                    Ok(things) => return Resolution::Things(things),
                    Err(error) => return Resolution::Unknown(error),
                },
                Ok(_) => match self.provider.capabilities().settle {
                    Settle::Immediate => return Resolution::NotMade,
                    Settle::After(window) if asked_at.since(sent) >= window => return Resolution::NotFound,
                    Settle::After(_) => None,
                },
                Err(error) if is_refusal_of_credentials(&error) => return Resolution::Unknown(error),
                Err(error) => Some(error),
            };
            let wait = waits.next().unwrap_or(Backoff::POLL.max);
            if !self.pause(wait, until).await {
                return Resolution::Unknown(trouble.unwrap_or_else(|| {
                    Error::new(Code::Timeout, format!("{intent} was not found yet and may still appear"))
                }));
            }
        }
    }

    /// Deletes one thing and reads it until it is gone.
    ///
    /// An error means that it was not seen to be gone; it says why.
    pub(crate) async fn delete_until_gone(
        &self,
        thing: &ResourceRef,
        until: Timestamp,
    ) -> Result<DeletedHow> {
        let mut waits = Backoff::POLL.waits();
        let mut first_answer = None;
        loop {
            let asked = {
                let left = until.since(self.clock.now());
                let place = timeout(&self.clock, left, self.limits.delete_place()).await;
                let Ok(_place) = place else { return Err(not_seen_gone(thing, None)) };
                self.ask(Verb::Delete, "delete", self.provider.delete(thing)).await
            };
            let trouble = match asked {
                Ok(answer) => {
                    let how = *first_answer.get_or_insert(match answer {
                        Deletion::Accepted => DeletedHow::Deleted,
                        Deletion::AlreadyGone => DeletedHow::AlreadyGone,
                    });
                    match self.watch_it_go(thing, &mut waits, until).await {
                        Ok(true) => return Ok(how),
                        Ok(false) => None,
                        Err(error) => Some(error),
                    }
                }
                Err(error) => {
                    // What an unanswered request did, a later "already gone" may owe to it.
                    first_answer.get_or_insert(DeletedHow::Deleted);
                    Some(error)
                }
            };
            if let Some(error) = &trouble
                && is_refusal_of_credentials(error)
            {
                return Err(not_seen_gone(thing, trouble));
            }
            let wait = trouble
                .as_ref()
                .and_then(Error::wait)
                .map(|wait| wait.min(LONGEST_WAIT))
                .or_else(|| waits.next())
                .unwrap_or(Backoff::POLL.max);
            if !self.pause(wait, until).await {
                return Err(not_seen_gone(thing, trouble));
            }
        }
    }

    /// Reads a thing a few times after a delete. `true` once enough reads in a row found it absent.
    async fn watch_it_go(
        &self,
        thing: &ResourceRef,
        waits: &mut impl Iterator<Item = Duration>,
        until: Timestamp,
    ) -> Result<bool> {
        let needed = self.provider.capabilities().reads_until_gone.max(1);
        let (mut absent, mut present) = (0, 0);
        loop {
            match self.observe(thing).await? {
                State::Absent => absent += 1,
                _ => (absent, present) = (0, present + 1),
            }
            if absent >= needed {
                return Ok(true);
            }
            let wait = waits.next().unwrap_or(Backoff::POLL.max);
            if present >= ASK_AGAIN_AFTER || !self.pause(wait, until).await {
                return Ok(false);
            }
        }
    }
}

/// A lookup must answer what the intent made, and nothing else.
fn only_ours(intent: &Intent, things: Vec<ResourceRef>) -> Result<Vec<ResourceRef>> {
    match things.iter().find(|thing| !intent.made_this(thing)) {
        None => Ok(things),
        Some(other) => Err(Error::new(
            Code::NameTaken,
            format!("{other} was found for {intent}, but does not carry its mark; it is left alone"),
        )),
    }
}

fn is_refusal_of_credentials(error: &Error) -> bool {
    matches!(error.code(), Code::Unauthenticated | Code::PermissionDenied)
}

fn not_seen_gone(thing: &ResourceRef, cause: Option<Error>) -> Error {
    match cause {
        Some(cause) => {
            Error::new(Code::NotSeenGone, format!("{thing} was not seen to be gone: {}", cause.message()))
                .with_advice(cause.advice().to_owned())
                .with_source(cause)
        }
        None => Error::new(Code::NotSeenGone, format!("{thing} was not seen to be gone in time")),
    }
}
