//! The things that carry an owner's mark, whichever ledger they were in.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::join_all};

use super::{Owing, sweeper::Sweeper};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{
        ReportLine, ResourceRef, Timestamp, Verb, control,
        ledger::{self, DeletedHow},
        teardown::Reclaimer,
        timeout,
    },
    names::{Owner, Stamp, ThingName},
    provider::State,
};

/// What became of a thing that carries a mark.
enum Marked {
    Absent,
    Left(Error),
    Gone(DeletedHow),
    Stuck(Error),
}

impl Sweeper {
    /// The things that carry the owner's mark and should be gone by now.
    pub(super) async fn sweep_marks(&mut self, owner: &Owner) {
        let providers: Vec<_> = self.registry.iter().map(Arc::clone).collect();
        for (done, provider) in providers.iter().enumerate() {
            let until = self.share_of_time(self.until, providers.len() - done);
            let reclaimer = self.reclaimer(provider);
            let mut marked = Vec::new();
            for hint in reclaimer.gates.around(Verb::List, hints_of(&reclaimer, owner)).await {
                match hint {
                    Ok(thing) => {
                        let is_kept = self.kept.iter().any(|kept| kept.thing == thing && self.holds(kept));
                        if let Some(stamp) = self.expired_mark_of(&thing, owner).filter(|_| !is_kept) {
                            marked.push((thing, stamp.expiry()));
                        }
                    }
                    Err(error) => self.report.leave(format!("{}'s list", provider.id()), error.to_string()),
                }
            }
            self.sweep_marked(&reclaimer, marked, until).await;
        }
    }

    /// The stamp of a thing whose name is exactly ours and has passed; a list may show anything.
    fn expired_mark_of(&self, thing: &ResourceRef, owner: &Owner) -> Option<Stamp> {
        let name: ThingName = thing.name.as_deref()?.parse().ok()?;
        // A run that lives deletes its own things, whatever a clock says.
        let lives = self.report.in_use.iter().any(|ledger| ledger::is_of_run(ledger, &name.run));
        let is_due = name.owner == *owner && self.has_expired(name.stamp.expiry());
        (is_due && !lives).then_some(name.stamp)
    }

    /// Children before parents, and those of one kind side by side, since one that does not go takes its time.
    async fn sweep_marked(
        &mut self,
        reclaimer: &Reclaimer,
        mut marked: Vec<(ResourceRef, Option<Timestamp>)>,
        until: Timestamp,
    ) {
        if !self.options.delete {
            for (thing, bound) in &marked {
                let age = bound.map(|bound| self.options.clock.now().since(bound)).unwrap_or_default();
                let line = ReportLine::of(thing, *bound, Some("past its stamp".into()));
                self.report.owing.push(Owing { line, age });
            }
            return;
        }
        marked.sort_by_key(|(thing, _)| thing.kind);
        let kinds: Vec<_> = marked.chunk_by(|(one, _), (other, _)| one.kind == other.kind).collect();
        for (done, things) in kinds.iter().enumerate() {
            let until = self.share_of_time(until, kinds.len() - done);
            let swept =
                join_all(things.iter().map(|(thing, _)| delete_marked(reclaimer, thing, until))).await;
            for ((thing, bound), marked) in things.iter().zip(swept) {
                let result = &mut self.report.result;
                match marked {
                    Marked::Absent => {}
                    Marked::Left(ref error) => self.report.leave(thing, error.to_string()),
                    Marked::Gone(DeletedHow::Deleted) => {
                        result.deleted.push(ReportLine::of(thing, *bound, None))
                    }
                    Marked::Gone(DeletedHow::AlreadyGone) => {
                        result.already_gone.push(ReportLine::of(thing, *bound, None));
                    }
                    Marked::Stuck(ref error) => {
                        result.stuck.push(ReportLine::of(thing, *bound, Some(error.to_string())))
                    }
                }
                if matches!(marked, Marked::Absent | Marked::Gone(_)) {
                    self.forget(thing).await;
                }
            }
        }
    }
}

async fn delete_marked(reclaimer: &Reclaimer, thing: &ResourceRef, until: Timestamp) -> Marked {
    match reclaimer.observe(thing).await {
        Ok(State::Absent) => return Marked::Absent,
        Ok(_) => {}
        Err(error) => return Marked::Left(error),
    }
    match reclaimer.delete_until_gone(thing, until).await {
        Ok(how) => Marked::Gone(how),
        Err(error) => Marked::Stuck(error),
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
