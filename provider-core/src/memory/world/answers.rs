//! Answering a request, or failing it as a fault says.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Call, Failure, Reply, Request, World};
use crate::{
    lifecycle::{Busy, control},
    memory::FaultKind,
};

impl World {
    /// Answers a request, or fails it as a fault says. Once the request has arrived, dropping the future changes
    /// nothing: it has its effect.
    ///
    /// # Panics
    /// If a fault of kind [`FaultKind::Panic`] is placed here.
    pub async fn call(self: &Arc<Self>, request: Request) -> Result<Reply, Failure> {
        self.call_and_hold(request).await.0
    }

    /// As [`World::call`]. The clock stands still until the caller, on whatever thread, has taken the answer and drops
    /// what comes with it.
    pub(in crate::memory) async fn call_and_hold(
        self: &Arc<Self>,
        request: Request,
    ) -> (Result<Reply, Failure>, Option<Busy>) {
        let call = request.call();
        let fault = self.take_fault(call);
        if let Request::Create { name, .. } = &request {
            self.note_sent(name, fault);
        }
        assert!(fault != Some(FaultKind::Panic), "injected panic at {call:?}");
        let (tell, told) = oneshot::channel();
        if fault.is_none_or(FaultKind::has_effect) {
            let world = Arc::clone(self);
            let Ok(control) = control::handle() else { return (Err(Failure::Refused), None) };
            control::spawn(&control, async move {
                let reply = world.perform(request).await;
                let _ = tell.send((reply, world.clock.busy()));
            });
        } else {
            drop(tell);
        }
        match fault {
            None => match told.await {
                Ok((reply, busy)) => (reply, Some(busy)),
                Err(_) => (Err(Failure::Lost), None),
            },
            Some(fault) => {
                drop(told.await);
                match fault.failure() {
                    Some(failure) => (Err(failure), None),
                    None => std::future::pending().await,
                }
            }
        }
    }

    fn take_fault(&self, call: Call) -> Option<FaultKind> {
        let mut state = self.state();
        let nth = state.calls.entry(call).or_default();
        *nth += 1;
        let nth = *nth;
        let kind = state.faults.iter().find(|fault| fault.hits(call, nth)).map(|fault| fault.kind)?;
        state.fired.push((call, nth, kind));
        Some(kind)
    }

    /// Only after an answer that nothing was done may a create be sent again.
    fn note_sent(&self, name: &str, fault: Option<FaultKind>) {
        let mut state = self.state();
        if state.sent_names.contains(name) {
            state.resent_names.push(name.to_owned());
        }
        if fault.is_none_or(FaultKind::leaves_doubt) {
            state.sent_names.insert(name.to_owned());
        }
    }

    async fn perform(&self, request: Request) -> Result<Reply, Failure> {
        self.clock.sleep(self.pace.half_request).await;
        let reply = self.take_effect(request);
        self.clock.sleep(self.pace.half_request).await;
        reply
    }
}
