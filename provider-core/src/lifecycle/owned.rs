//! The guard of a remote thing.

use std::{fmt, ops::Deref, panic::Location, sync::Arc};

use super::{
    Lifetime, Verb, control,
    ledger::{KeptThing, Row},
    session::Core,
};
use crate::error::{Code, Error, Result};

/// The only owner of what one or several door calls made.
///
/// [`Owned::close`] deletes it and returns once it is seen to be gone. Dropping it only asks the session to do
/// so: that needs no runtime, never blocks and never panics. The session's own close deletes what is still owned;
/// afterwards dropping the guard does nothing.
#[must_use = "dropping the guard deletes what it owns"]
pub struct Owned<T> {
    value: Option<T>,
    deeds: Vec<Deed>,
}

/// The right, and the duty, to delete what one door call made.
pub(crate) struct Deed {
    pub(crate) core: Arc<Core>,
    pub(crate) ordinal: u32,
    pub(crate) lifetime: Lifetime,
    pub(crate) site: &'static Location<'static>,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T, deeds: Vec<Deed>) -> Self {
        Self { value: Some(value), deeds }
    }

    /// Takes the duty to delete out of the guard.
    pub(crate) fn into_deeds(mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    /// Deletes it and waits until it is seen to be gone, for at most the session's background deadline.
    ///
    /// Cancel safe: dropping the future does not stop the deletion.
    ///
    /// # Errors
    /// [`Code::NotSeenGone`] with the reason. The session goes on trying at its close.
    pub async fn close(self) -> Result<()> {
        let mut deeds = self.into_deeds();
        // Children before parents, as at the close of the session.
        deeds.sort_by_key(|deed| deed.core.entry(deed.ordinal).map(|entry| entry.intent.kind));
        let Some(core) = deeds.first().map(|deed| Arc::clone(&deed.core)) else { return Ok(()) };
        let (tell, told) = tokio::sync::oneshot::channel();
        control::spawn(&core.control, async move {
            let mut ended = Ok(());
            for deed in deeds {
                ended = ended.and(deed.core.tear_down(deed.ordinal, deed.core.background_deadline()).await);
            }
            let _ = tell.send(ended);
        });
        told.await.unwrap_or_else(|_| Err(Error::new(Code::Internal, "a deletion ended without an answer")))
    }

    /// Leaves it where it is beyond the session, for this reason, until the end of the lifetime with which it was
    /// made. Remembered on the disk before this returns.
    ///
    /// Cancel safe: once asked for, it is kept or the error says why not; without an answer, the report of the
    /// session's close tells.
    ///
    /// # Errors
    /// [`Code::CapabilityUnsupported`] if it cannot outlive its session there; [`Code::SpecInvalid`] without a
    /// reason; [`Code::LedgerUnavailable`] if it cannot be remembered. It is then deleted as if dropped.
    pub async fn keep(self, reason: impl Into<String>) -> Result<T> {
        let reason = reason.into();
        let mut this = self;
        for deed in &this.deeds {
            deed.may_be_kept(&reason)?;
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        let deeds = std::mem::take(&mut this.deeds);
        if let Some(first) = deeds.first() {
            let core = Arc::clone(&first.core);
            core.spawn(async move {
                let kept = keep_all(&deeds, &reason).await;
                if kept.is_err() {
                    deeds.iter().for_each(Deed::give_up);
                }
                let _ = tell.send(kept);
            });
            told.await
                .unwrap_or_else(|_| Err(Error::new(Code::Internal, "keeping ended without an answer")))?;
        }
        this.value.take().ok_or_else(|| Error::new(Code::Internal, "the guard is empty"))
    }
}

/// Keeps all that one guard owns, or nothing of it: half of it might need the other half.
async fn keep_all(deeds: &[Deed], reason: &str) -> Result<()> {
    let Some(core) = deeds.first().map(|deed| &deed.core) else {
        return Ok(());
    };
    // A close that has begun may be deleting it: whoever has the turn goes first.
    let mut turns = Vec::new();
    for deed in deeds {
        turns.extend(core.turn_of(deed.ordinal));
    }
    let mut held = Vec::new();
    for turn in &turns {
        held.push(turn.lock().await);
    }
    let entries: Vec<_> = deeds.iter().filter_map(|deed| core.entry(deed.ordinal)).collect();
    if core.closing.is_cancelled() || entries.iter().any(|entry| !entry.is_open()) {
        return Err(Error::new(
            Code::SessionClosed,
            "the session is closing, and may have deleted it already",
        ));
    }
    let mut kept = Vec::new();
    for entry in &entries {
        kept.extend(entry.open_things().into_iter().map(|thing| KeptThing {
            run: core.run.clone(),
            thing,
            reason: reason.to_owned(),
            until: entry.intent.expires,
            at: core.clock.now(),
        }));
    }
    let folder = core.folder().clone();
    let remembered = {
        let _busy = core.clock.busy();
        core.control.spawn_blocking(move || folder.remember_kept(&kept)).await
    };
    remembered.unwrap_or_else(|_| Err(Error::new(Code::Internal, "remembering panicked")))?;
    for entry in &entries {
        let ordinal = entry.intent.ordinal;
        let row = Row::Kept { ordinal, reason: reason.to_owned(), until: entry.intent.expires };
        // It is remembered already; a sweep that does not find this row looks there.
        if let Err(error) = core.write(Verb::WriteKept, row, true).await {
            core.note(format!("that something is kept stands in kept.jsonl, but not in the ledger: {error}"));
        }
        tracing::info!(session = %core.run, ordinal, reason, "kept");
    }
    Ok(())
}

impl Deed {
    fn may_be_kept(&self, reason: &str) -> Result<()> {
        if reason.trim().is_empty() {
            return Err(Error::new(Code::SpecInvalid, "keeping something needs a reason"));
        }
        if self.lifetime == Lifetime::Session {
            return Err(Error::new(
                Code::CapabilityUnsupported,
                "it was made for its session, and its name says so",
            )
            .with_advice("choose Lifetime::Until or Lifetime::Unbounded before making it"));
        }
        if self.core.closing.is_cancelled() {
            return Err(Error::new(Code::SessionClosed, "the session is closing"));
        }
        self.core.may_keep(self.ordinal)
    }

    /// Asks the session to delete it.
    fn give_up(&self) {
        if self.core.entry(self.ordinal).is_some_and(|entry| entry.is_open())
            && !self.core.closing.is_cancelled()
        {
            tracing::warn!(
                session = %self.core.run, ordinal = self.ordinal, site = %self.site,
                "a guard was dropped; what it owns is deleted in the background"
            );
            let _ = self.core.enqueue(self.ordinal);
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        for deed in &self.deeds {
            deed.give_up();
        }
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("the value leaves the guard only together with the guard"),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinals: Vec<u32> = self.deeds.iter().map(|deed| deed.ordinal).collect();
        f.debug_struct("Owned").field("value", &self.value).field("ordinals", &ordinals).finish()
    }
}

impl<T: fmt::Display> fmt::Display for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
