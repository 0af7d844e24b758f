//! The one door through which things are made, as a driver sees it.

use std::{future::Future, panic::Location, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    Intent, Lifetime, Owned, Progress, ResourceKind, ResourceRef, Side, Timestamp, Verb,
    control::catch_panic, door, session::Core, timeout,
};
use crate::{
    error::{Code, Error, Result},
    provider::Provider,
};

/// What one creating request made: what was asked for, and what came with it.
#[derive(Clone, Debug)]
pub struct Made {
    /// What was asked for.
    pub thing: ResourceRef,
    /// What else there is now, each to be deleted on its own.
    pub also: Vec<ResourceRef>,
}

impl From<ResourceRef> for Made {
    fn from(thing: ResourceRef) -> Self {
        Self { thing, also: Vec::new() }
    }
}

/// A creating request that can be sent: once for each time that it is called.
pub(crate) type Request = Arc<dyn Fn(Intent) -> BoxFuture<'static, Result<Made>> + Send + Sync>;

/// The door of one build or launch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Creator {
    scope: Arc<Scope>,
}

impl Creator {
    /// Creates one remote thing: writes the intent, sends the request, writes the acquisition, and only then
    /// hands the guard out.
    ///
    /// `request` sends exactly one creating request and answers what it made. It is called again only after an
    /// answer that nothing was made ([`Effect::None`](crate::error::Effect)), or with a new intent once the thing
    /// of the old one could not be found. After an unclear answer the thing is looked up and adopted.
    ///
    /// Cancel safe: once begun, the call finishes and records; what it made is deleted if nobody waits for it.
    ///
    /// # Errors
    /// What `request` answered; [`Code::LedgerUnavailable`] if the intent cannot be written, before anything is
    /// sent; [`Code::LimitReached`]; [`Code::SessionClosed`]; [`Code::Cancelled`].
    pub async fn create<F, Fut>(
        &self,
        kind: ResourceKind,
        slot: &str,
        request: F,
    ) -> Result<Owned<ResourceRef>>
    where
        F: Fn(Intent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Made>> + Send + 'static,
    {
        let request: Request = Arc::new(move |intent| request(intent).boxed());
        let (hand_out, handed) = oneshot::channel();
        let call = door::Call { scope: Arc::clone(&self.scope), kind, slot: slot.to_owned(), request };
        self.scope.core.spawn(door::run(call, hand_out));
        handed
            .await
            .unwrap_or_else(|_| Err(Error::new(Code::Internal, "the door call ended without an answer")))
    }

    /// Completes when the caller is gone or the session closes. Cancel safe.
    pub async fn cancelled(&self) {
        self.scope.cancelled.cancelled().await;
    }

    /// Whether the caller is gone or the session closes.
    pub fn is_cancelled(&self) -> bool {
        self.scope.cancelled.is_cancelled()
    }

    /// When what is made expires; absent means never.
    pub fn expires(&self) -> Option<Timestamp> {
        self.scope.expires
    }

    /// When the work must be done.
    pub fn deadline(&self) -> Timestamp {
        self.scope.deadline()
    }
}

/// One build or launch.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) core: Arc<Core>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) lifetime: Lifetime,
    pub(crate) site: &'static Location<'static>,
    pub(crate) progress: Progress,
    pub(crate) cancelled: CancellationToken,
    began: Timestamp,
}

impl Scope {
    pub(crate) fn new(
        core: &Arc<Core>,
        provider: &Arc<dyn Provider>,
        expires: Option<Timestamp>,
        lifetime: Lifetime,
        site: &'static Location<'static>,
        progress: Progress,
    ) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            provider: Arc::clone(provider),
            expires,
            lifetime,
            site,
            progress,
            cancelled: core.closing.child_token(),
            began: core.clock.now(),
        })
    }

    fn deadline(&self) -> Timestamp {
        self.began.after(self.provider.capabilities().build_deadline)
    }

    /// Runs a driver's work on the control runtime while the caller waits. If the caller goes away, the session
    /// closes or the limit passes, the work is dropped; guards that it held are then deleted.
    pub(crate) async fn run<W, Fut, A, B>(
        self: Arc<Self>,
        verb: Verb,
        what: &'static str,
        limit: Duration,
        late: Error,
        work: W,
        finish: impl FnOnce(A) -> Owned<B> + Send + 'static,
    ) -> Result<Owned<B>>
    where
        W: FnOnce(Creator) -> Fut + Send + 'static,
        Fut: Future<Output = Result<A>> + Send + 'static,
        A: Send + 'static,
        B: Send + 'static,
    {
        let core = Arc::clone(&self.core);
        if core.closing.is_cancelled() {
            return Err(closed().with_operation(what));
        }
        let provider = self.provider.id().clone();
        let (mut tell, told) = oneshot::channel();
        let task_core = Arc::clone(&core);
        core.spawn(async move {
            let core = task_core;
            let cancelled = self.cancelled.clone();
            core.gates.pass(verb, Side::Before).await;
            let work = catch_panic(what, work(Creator { scope: self }));
            let ended = tokio::select! {
                biased;
                () = core.closing.cancelled() => Err(closed()),
                () = tell.closed() => Err(Error::new(Code::Cancelled, "the caller is gone")),
                ended = timeout(&core.clock, limit, work) => ended.unwrap_or(Err(late)),
            };
            if ended.is_err() {
                cancelled.cancel();
            }
            core.gates.pass(verb, Side::After).await;
            let ended =
                ended.map(finish).map_err(|error| error.with_provider(&provider).with_operation(what));
            // An answer that nobody takes is dropped here, and its guard deletes.
            core.gates.pass(Verb::HandOut, Side::Before).await;
            drop(tell.send(ended));
            core.gates.pass(Verb::HandOut, Side::After).await;
        });
        told.await.unwrap_or_else(|_| {
            Err(Error::new(Code::Internal, format!("the {what} ended without an answer")))
        })
    }
}

pub(crate) fn closed() -> Error {
    Error::new(Code::SessionClosed, "the session is closing or closed")
}
