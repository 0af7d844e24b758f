//! One door call: from the intent to the guard, whatever happens on the way.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    Intent, Made, Owned, ResourceKind, ResourceRef, Timestamp, Verb,
    control::catch_panic,
    creator::{Request, Scope, closed},
    ledger::Row,
    owned::Deed,
    teardown::{Reclaimer, Resolution},
    timeout,
};
use crate::{
    error::{Code, Effect, Error, Result, Retry},
    limits::LONGEST_WAIT,
    retry::Backoff,
};

/// How often a thing is tried to be made under a new name, after the one of the old name was not found.
const NEW_INTENTS: usize = 2;

pub(super) struct Call {
    pub(super) scope: Arc<Scope>,
    pub(super) kind: ResourceKind,
    pub(super) slot: String,
    pub(super) request: Request,
}

type HandOut = oneshot::Sender<Result<Owned<ResourceRef>>>;

/// What came of one intent.
enum Attempt {
    /// It was made, and written down.
    Acquired(u32, ResourceRef),
    /// It was not made, or not seen; trying again may help.
    Again(Error),
    /// It failed for good, or nobody waits any more.
    Failed(Error),
}

/// Runs a door call to its end. Nobody can interrupt it once the intent is being written.
pub(super) async fn run(call: Call, mut hand_out: HandOut) {
    let scope = Arc::clone(&call.scope);
    // A lookup that takes its time is left to the close once that begins.
    let reclaimer = Reclaimer { stop: scope.core.closing.clone(), ..scope.core.reclaimer(&scope.provider) };
    let mut attempts = 0;
    let ended = loop {
        if let Err(error) = wait_for_a_place(&call, &reclaimer, &mut hand_out).await {
            break Err(error);
        }
        match attempt(&call, &reclaimer, &hand_out).await {
            Attempt::Acquired(ordinal, thing) => break Ok((ordinal, thing)),
            Attempt::Again(_) if attempts < NEW_INTENTS && is_awaited(&call, &hand_out) => attempts += 1,
            Attempt::Again(error) | Attempt::Failed(error) => break Err(error),
        }
    };
    let provider = scope.provider.id();
    let answer =
        ended.map_err(|error| error.with_provider(provider).with_operation(format!("create {}", call.kind)));
    let answer = answer.map(|(ordinal, thing)| {
        let deed = Deed {
            core: Arc::clone(&scope.core),
            ordinal,
            lifetime: scope.lifetime.clone(),
            site: scope.site,
        };
        Owned::new(thing, vec![deed])
    });
    // If the caller is gone, the guard comes back here and its drop has the thing deleted.
    scope.core.gates.around(Verb::HandOut, async { drop(hand_out.send(answer)) }).await;
}

fn is_awaited(call: &Call, hand_out: &HandOut) -> bool {
    !hand_out.is_closed() && !call.scope.cancelled.is_cancelled()
}

fn not_awaited(call: &Call) -> Error {
    if call.scope.core.closing.is_cancelled() {
        closed()
    } else {
        Error::new(Code::Cancelled, "the caller is gone")
    }
}

/// Until the intent is written, nothing has begun and the wait can be given up.
async fn wait_for_a_place(call: &Call, reclaimer: &Reclaimer, hand_out: &mut HandOut) -> Result<()> {
    if reclaimer.limits.creates_are_full() {
        call.scope.progress.waiting(format!("a place among the creates on {}", call.scope.provider.id()));
    }
    tokio::select! {
        biased;
        () = call.scope.cancelled.cancelled() => Err(not_awaited(call)),
        () = hand_out.closed() => Err(not_awaited(call)),
        place = reclaimer.limits.create_place(&reclaimer.clock) => {
            drop(place);
            Ok(())
        }
    }
}

/// One intent: written, sent, and resolved.
async fn attempt(call: &Call, reclaimer: &Reclaimer, hand_out: &HandOut) -> Attempt {
    let core = &call.scope.core;
    let intent = match write_intent(call).await {
        Ok(intent) => intent,
        Err(error) => return Attempt::Failed(error),
    };
    let ordinal = intent.ordinal;
    let (sent, answer) = send(call, reclaimer, hand_out, &intent).await;
    match answer {
        Ok(made) => {
            reclaimer.limits.create_succeeded();
            let things = std::iter::once(made.thing).chain(made.also).collect();
            acquire(call, &intent, things).await
        }
        Err(error) if error.effect() == Effect::None => {
            let _ = core.write(Verb::WriteOutcome, Row::NotMade { ordinal }, false).await;
            Attempt::Failed(error)
        }
        Err(error) => resolve(call, reclaimer, hand_out, &intent, sent, error).await,
    }
}

async fn write_intent(call: &Call) -> Result<Intent> {
    let Call { scope, kind, slot, .. } = call;
    let core = &scope.core;
    let intent = Intent {
        owner: core.owner.clone(),
        run: core.run.clone(),
        ordinal: core.next_ordinal()?,
        kind: *kind,
        slot: slot.clone(),
        provider: scope.provider.id().clone(),
        account: scope.provider.account().to_owned(),
        endpoint: scope.provider.endpoint().to_owned(),
        expires: scope.expires,
        at: core.clock.now(),
    };
    core.remember_driver(intent.ordinal, &scope.provider);
    let sync = scope.provider.capabilities().ledger_sync;
    core.write(Verb::WriteIntent, Row::Intent(intent.clone()), sync).await?;
    if core.has_ended() {
        // The session's report was made without this intent, and perhaps its ledger is gone.
        return Err(closed());
    }
    Ok(intent)
}

/// Sends the request; again only after an answer that it changed nothing.
async fn send(
    call: &Call,
    reclaimer: &Reclaimer,
    hand_out: &HandOut,
    intent: &Intent,
) -> (Timestamp, Result<Made>) {
    let clock = &reclaimer.clock;
    let limit = call.scope.provider.capabilities().request_deadline;
    let mut waits = Backoff::REQUEST.waits();
    loop {
        let place = reclaimer.limits.create_place(clock).await;
        let sent = clock.now();
        let request = catch_panic("create", (call.request)(intent.clone()));
        let answer = reclaimer.gates.around(Verb::Create, timeout(clock, limit, request)).await;
        drop(place);
        let answer = answer.unwrap_or_else(|_| {
            Err(Error::new(Code::Timeout, format!("no answer within {limit:?}")).with_effect(Effect::Unknown))
        });
        let Err(error) = &answer else {
            return (sent, answer);
        };
        tracing::debug!(session = %intent.run, ordinal = intent.ordinal, provider = %intent.provider, "create: {error}");
        if matches!(error.code(), Code::RateLimited) {
            reclaimer.limits.asked_to_slow_down(clock.now(), error.wait());
        }
        let helps = matches!(error.code().retry(), Retry::Yes);
        let wait =
            waits.next().filter(|_| error.effect() == Effect::None && helps && is_awaited(call, hand_out));
        let Some(wait) = wait else { return (sent, answer) };
        call.scope.progress.waiting(format!("{} before asking again: {}", call.kind, error.message()));
        tokio::select! {
            () = clock.sleep(error.wait().unwrap_or(wait).min(LONGEST_WAIT)) => {}
            () = call.scope.cancelled.cancelled() => return (sent, answer),
        }
    }
}

/// Writes the acquisition down. What cannot be written down is deleted at once.
async fn acquire(call: &Call, intent: &Intent, things: Vec<ResourceRef>) -> Attempt {
    let core = &call.scope.core;
    let ordinal = intent.ordinal;
    let Some(first) = things.first().cloned() else {
        return Attempt::Failed(Error::new(Code::Internal, "the driver made nothing and said that it did"));
    };
    let sync = call.scope.provider.capabilities().ledger_sync;
    match core.write(Verb::WriteAcquired, Row::Acquired { ordinal, things }, sync).await {
        Ok(()) => {
            tracing::info!(
                session = %intent.run, ordinal, provider = %intent.provider, kind = %first.kind, id = %first.id, "created"
            );
            Attempt::Acquired(ordinal, first)
        }
        Err(error) => {
            let until = core.background_deadline();
            if let Err(left) = core.tear_down(ordinal, until).await {
                core.note(format!("{first} could not be written down and {left}"));
            }
            Attempt::Failed(error)
        }
    }
}

/// After an unclear answer: looks the thing up, adopts it if the step can go on, or has it deleted.
async fn resolve(
    call: &Call,
    reclaimer: &Reclaimer,
    hand_out: &HandOut,
    intent: &Intent,
    sent: Timestamp,
    error: Error,
) -> Attempt {
    let core = &call.scope.core;
    let ordinal = intent.ordinal;
    let until = core.background_deadline();
    let can_help = error.code().retry() != Retry::No;
    match reclaimer.resolve(intent, sent, until).await {
        Resolution::Things(things) => {
            let usable = is_awaited(call, hand_out) && can_go_on(reclaimer, &things).await;
            match acquire(call, intent, things).await {
                Attempt::Acquired(..) if !usable => {
                    let until = core.background_deadline();
                    let _ = core.tear_down(ordinal, until).await;
                    if can_help { Attempt::Again(error) } else { Attempt::Failed(error) }
                }
                acquired => acquired,
            }
        }
        Resolution::NotMade => {
            let _ = core.write(Verb::WriteOutcome, Row::NotMade { ordinal }, false).await;
            if can_help { Attempt::Again(error) } else { Attempt::Failed(error) }
        }
        Resolution::NotFound => {
            let _ = core.write(Verb::WriteOutcome, Row::Unresolved { ordinal }, false).await;
            if can_help { Attempt::Again(error) } else { Attempt::Failed(error) }
        }
        Resolution::Unknown(cause) => {
            tracing::warn!(session = %intent.run, ordinal, "{intent} is unresolved: {cause}");
            Attempt::Failed(error)
        }
    }
}

async fn can_go_on(reclaimer: &Reclaimer, things: &[ResourceRef]) -> bool {
    for thing in things {
        if !reclaimer.observe(thing).await.is_ok_and(|state| state.can_go_on()) {
            return false;
        }
    }
    true
}
