//! The things of the world, and what requests do to them.

use std::time::Duration;

use super::{Failure, Holding, Reply, Request, World, WorldState};
use crate::{
    lifecycle::{ResourceKind, Timestamp},
    provider::State,
};

pub(super) struct Thing {
    pub(super) kind: ResourceKind,
    pub(super) name: Option<String>,
    pub(super) parents: Vec<String>,
    pub(super) foreign: bool,
    pub(super) ready_at: Timestamp,
    pub(super) visible_at: Timestamp,
    pub(super) expires: Option<Timestamp>,
    pub(super) gone_at: Option<Timestamp>,
}

impl Thing {
    pub(super) fn state(&self, now: Timestamp) -> State {
        match self.gone_at {
            Some(gone) if gone <= now => State::Absent,
            Some(_) => State::Deleting,
            None if self
                .expires
                .is_some_and(|expires| expires <= now && self.kind == ResourceKind::Sandbox) =>
            {
                State::Absent
            }
            None if self.ready_at > now => State::Pending,
            None => State::Ready,
        }
    }

    pub(super) fn holding(&self, id: &str) -> Holding {
        Holding { kind: self.kind, id: id.to_owned(), name: self.name.clone() }
    }
}

impl World {
    pub(super) fn take_effect(&self, request: Request) -> Result<Reply, Failure> {
        let now = self.clock.now();
        let mut state = self.state();
        match request {
            Request::Create { kind, name, parents, expires } => {
                self.create(&mut state, now, kind, name, parents, expires)
            }
            Request::Find { name } => {
                let alike = state.sloppy_find.then(|| name.get(..7).unwrap_or_default());
                let is_it = |thing: &Thing| {
                    let named = thing.name.as_deref().unwrap_or_default();
                    let fits = named == name || alike.is_some_and(|alike| named.starts_with(alike));
                    fits && thing.visible_at <= now
                };
                Ok(Reply::Things(state.shown(now, is_it)))
            }
            Request::Observe { id } => {
                Ok(Reply::State(state.things.get(&id).map_or(State::Absent, |thing| thing.state(now))))
            }
            Request::Delete { id } => state.delete(&id, now, self.pace.delete),
            Request::List { prefix } => {
                // It lags: what is new is not shown yet, and what is gone is shown a while longer.
                let then = Timestamp::from_millis(now.as_millis().saturating_sub(millis(self.pace.lag)));
                let is_it = |thing: &Thing| {
                    thing.visible_at <= now
                        && thing.name.as_deref().is_none_or(|name| name.starts_with(&prefix))
                };
                Ok(Reply::Things(state.shown(then, is_it)))
            }
            Request::Exec { id } => match state.things.get(&id).map(|thing| thing.state(now)) {
                Some(State::Ready) => Ok(Reply::Accepted),
                Some(State::Absent) | None => Err(status(404, "no such sandbox")),
                Some(_) => Err(status(409, "the sandbox does not run")),
            },
        }
    }

    fn create(
        &self,
        state: &mut WorldState,
        now: Timestamp,
        kind: ResourceKind,
        name: String,
        parents: Vec<String>,
        expires: Option<Timestamp>,
    ) -> Result<Reply, Failure> {
        let exists = |thing: &Thing| thing.state(now) != State::Absent;
        if state.things.values().any(|thing| thing.name.as_deref() == Some(&name) && exists(thing)) {
            return Err(status(409, "a thing of this name exists"));
        }
        if let Some(parent) = parents.iter().find(|id| !state.things.get(*id).is_some_and(exists)) {
            return Err(status(404, &format!("{parent} does not exist")));
        }
        let duration = match kind {
            ResourceKind::Artifact => self.pace.build,
            ResourceKind::Sandbox => self.pace.start,
            _ => Duration::ZERO,
        };
        state.next_id += 1;
        state.created += 1;
        let id = format!("{kind}-{}", state.next_id);
        let thing = Thing {
            kind,
            name: Some(name),
            parents,
            foreign: false,
            ready_at: now.after(duration),
            visible_at: now.after(self.pace.lag),
            expires,
            gone_at: None,
        };
        state.things.insert(id.clone(), thing);
        Ok(Reply::Created(id))
    }
}

impl WorldState {
    fn shown(&self, at: Timestamp, is_it: impl Fn(&Thing) -> bool) -> Vec<Holding> {
        let shown = self.things.iter().filter(|(_, thing)| is_it(thing) && thing.state(at) != State::Absent);
        shown.map(|(id, thing)| thing.holding(id)).collect()
    }

    fn delete(&mut self, id: &str, now: Timestamp, takes: Duration) -> Result<Reply, Failure> {
        let has_children = self.things.values().any(|thing| {
            thing.parents.iter().any(|parent| parent == id) && thing.state(now) != State::Absent
        });
        let Some(thing) = self.things.get_mut(id) else {
            return Err(status(404, "no such thing"));
        };
        if thing.foreign {
            self.foreign_touched.push(id.to_owned());
        }
        match thing.state(now) {
            State::Absent => Err(status(404, "no such thing")),
            State::Pending => Err(status(409, "it is being made")),
            _ if has_children => Err(status(409, "something that exists was made from it")),
            State::Deleting => Ok(Reply::Accepted),
            _ => {
                thing.gone_at = Some(now.after(takes));
                Ok(Reply::Accepted)
            }
        }
    }
}

fn status(code: u16, words: &str) -> Failure {
    Failure::Status { code, wait: None, words: words.to_owned() }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
