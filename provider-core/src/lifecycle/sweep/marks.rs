//! The things that carry an owner's mark, whichever ledger they were in.

use std::sync::Arc;

use futures_util::StreamExt as _;

use super::{Owing, sweeper::Sweeper};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{
        ReportLine, ResourceRef, Timestamp, Verb, control, ledger::DeletedHow, teardown::Reclaimer, timeout,
    },
    names::{Owner, Stamp, ThingName},
    provider::State,
};

impl Sweeper {
    /// The things that carry the owner's mark and should be gone by now.
    pub(super) async fn sweep_marks(&mut self, owner: &Owner) -> Result<()> {
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
