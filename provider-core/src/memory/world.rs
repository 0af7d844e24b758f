//! The provider's side: things with states, names, owners and delays.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{Fault, FaultKind};
use crate::{
    lifecycle::{Clock, ResourceKind, Timestamp, control},
    provider::State,
};

/// A kind of call, by which faults are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Creates a context.
    CreateContext,
    /// Creates an artifact, which is then built.
    CreateArtifact,
    /// Creates a sandbox.
    CreateSandbox,
    /// Finds things by name.
    Find,
    /// Reads one thing.
    Observe,
    /// Deletes one thing.
    Delete,
    /// Lists an owner's things.
    List,
    /// Runs a command.
    Exec,
}

impl Call {
    /// Every kind.
    pub const ALL: [Call; 8] = [
        Call::CreateContext,
        Call::CreateArtifact,
        Call::CreateSandbox,
        Call::Find,
        Call::Observe,
        Call::Delete,
        Call::List,
        Call::Exec,
    ];
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Creates a thing.
    Create {
        /// What sort of thing.
        kind: ResourceKind,
        /// The name that it is to have.
        name: String,
        /// What it is made from and cannot exist without.
        parents: Vec<String>,
        /// When it ends by itself.
        expires: Option<Timestamp>,
    },
    /// Finds things by their exact name.
    Find {
        /// The name.
        name: String,
    },
    /// Reads one thing.
    Observe {
        /// Its id.
        id: String,
    },
    /// Deletes one thing.
    Delete {
        /// Its id.
        id: String,
    },
    /// Lists things whose name begins so.
    List {
        /// The beginning.
        prefix: String,
    },
    /// Asks whether a sandbox takes a command.
    Exec {
        /// Its id.
        id: String,
    },
}

impl Request {
    /// Its kind.
    pub fn call(&self) -> Call {
        match self {
            Request::Create { kind: ResourceKind::Sandbox, .. } => Call::CreateSandbox,
            Request::Create { kind: ResourceKind::Artifact, .. } => Call::CreateArtifact,
            Request::Create { .. } => Call::CreateContext,
            Request::Find { .. } => Call::Find,
            Request::Observe { .. } => Call::Observe,
            Request::Delete { .. } => Call::Delete,
            Request::List { .. } => Call::List,
            Request::Exec { .. } => Call::Exec,
        }
    }
}

/// A thing as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// What sort of thing.
    pub kind: ResourceKind,
    /// Its id.
    pub id: String,
    /// Its name, which may be missing.
    pub name: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The id of what was created.
    Created(String),
    /// Things.
    Things(Vec<Holding>),
    /// A state.
    State(State),
    /// The request was taken.
    Accepted,
}

/// What a client sees instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The connection was refused.
    Refused,
    /// The connection was lost.
    Lost,
    /// The answer cannot be read.
    Garbled,
    /// A status that is no success.
    Status {
        /// The status, as in HTTP.
        code: u16,
        /// How long to wait.
        wait: Option<Duration>,
        /// Words of the provider.
        words: String,
    },
}

/// How slow the world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// How long a request takes before its effect, and again after it.
    pub half_request: Duration,
    /// How long an artifact is built.
    pub build: Duration,
    /// How long a sandbox starts.
    pub start: Duration,
    /// How long something is being deleted.
    pub delete: Duration,
    /// How long something new cannot be found by name, and how far a list lags behind.
    pub lag: Duration,
    /// How long after sending a create the driver goes on looking for it.
    pub settle: Duration,
    /// How long the driver waits for an answer.
    pub request_deadline: Duration,
}

impl Pace {
    /// A slow provider, for a [`ManualClock`](super::ManualClock).
    pub const SLOW: Pace = Pace {
        half_request: Duration::from_millis(200),
        build: Duration::from_secs(5),
        start: Duration::from_secs(2),
        delete: Duration::from_secs(3),
        lag: Duration::from_secs(10),
        settle: Duration::from_secs(75),
        request_deadline: Duration::from_secs(60),
    };

    /// The same provider, so many times faster, for real time.
    #[must_use]
    pub fn times_faster(self, factor: u32) -> Self {
        Pace {
            half_request: self.half_request / factor,
            build: self.build / factor,
            start: self.start / factor,
            delete: self.delete / factor,
            lag: self.lag / factor,
            settle: self.settle / factor,
            request_deadline: self.request_deadline / factor,
        }
    }
}

/// The provider's side. See the [module](super).
pub struct World {
    clock: Arc<dyn Clock>,
    pace: Pace,
    state: Mutex<WorldState>,
}

#[derive(Default)]
struct WorldState {
    things: BTreeMap<String, Thing>,
    next_id: u64,
    calls: BTreeMap<Call, usize>,
    faults: Vec<Fault>,
    fired: Vec<(Call, usize, FaultKind)>,
    created: usize,
    /// Names of creating requests that may have had an effect.
    sent_names: BTreeSet<String>,
    resent_names: Vec<String>,
    sloppy_find: bool,
    foreign_touched: Vec<String>,
}

struct Thing {
    kind: ResourceKind,
    name: Option<String>,
    parents: Vec<String>,
    foreign: bool,
    ready_at: Timestamp,
    visible_at: Timestamp,
    expires: Option<Timestamp>,
    gone_at: Option<Timestamp>,
}

impl Thing {
    fn state(&self, now: Timestamp) -> State {
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

    fn holding(&self, id: &str) -> Holding {
        Holding { kind: self.kind, id: id.to_owned(), name: self.name.clone() }
    }
}

impl World {
    /// An empty world.
    pub fn new(clock: Arc<dyn Clock>, pace: Pace) -> Arc<Self> {
        Arc::new(Self { clock, pace, state: Mutex::default() })
    }

    /// How slow it is.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds somebody else's thing, which nobody of us may touch.
    pub fn add_foreign(&self, kind: ResourceKind, name: Option<&str>) -> String {
        let long_ago = Timestamp::from_millis(0);
        let mut state = self.state();
        state.next_id += 1;
        let id = format!("foreign-{}", state.next_id);
        let thing = Thing {
            kind,
            name: name.map(ToOwned::to_owned),
            parents: Vec::new(),
            foreign: true,
            ready_at: long_ago,
            visible_at: long_ago,
            expires: None,
            gone_at: None,
        };
        state.things.insert(id.clone(), thing);
        id
    }

    /// Places a fault.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// From now on a lookup by name answers with everything whose name begins alike, as some providers do.
    pub fn find_sloppily(&self) {
        self.state().sloppy_find = true;
    }

    /// Names of creating requests that were sent again although an earlier one may have had its effect.
    pub fn resent_names(&self) -> Vec<String> {
        self.state().resent_names.clone()
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Our things that exist now.
    pub fn holdings(&self) -> Vec<Holding> {
        let now = self.clock.now();
        let state = self.state();
        let ours =
            state.things.iter().filter(|(_, thing)| !thing.foreign && thing.state(now) != State::Absent);
        ours.map(|(id, thing)| thing.holding(id)).collect()
    }

    /// The faults that have happened.
    pub fn fired(&self) -> Vec<(Call, usize, FaultKind)> {
        self.state().fired.clone()
    }

    /// How many things of ours there have ever been.
    pub fn created(&self) -> usize {
        self.state().created
    }

    /// How often each kind of call was made.
    pub fn calls(&self) -> BTreeMap<Call, usize> {
        self.state().calls.clone()
    }

    /// The foreign things that somebody tried to change.
    pub fn foreign_touched(&self) -> Vec<String> {
        self.state().foreign_touched.clone()
    }

    /// How many foreign things still exist.
    pub fn foreign_left(&self) -> usize {
        let now = self.clock.now();
        self.state()
            .things
            .values()
            .filter(|thing| thing.foreign && thing.state(now) != State::Absent)
            .count()
    }

    /// Answers a request, or fails it as a fault says. Once the request has arrived, dropping the future changes
    /// nothing: it has its effect.
    ///
    /// # Panics
    /// If a fault of kind [`FaultKind::Panic`] is placed here.
    pub async fn call(self: &Arc<Self>, request: Request) -> Result<Reply, Failure> {
        let call = request.call();
        let fault = self.take_fault(call);
        if let Request::Create { name, .. } = &request {
            self.note_sent(name, fault);
        }
        assert!(fault != Some(FaultKind::Panic), "injected panic at {call:?}");
        let (tell, told) = oneshot::channel();
        if fault.is_none_or(FaultKind::has_effect) {
            let world = Arc::clone(self);
            let control = control::handle().map_err(|_| Failure::Refused)?;
            control::spawn(&control, async move {
                let _ = tell.send(world.perform(request).await);
            });
        } else {
            drop(tell);
        }
        match fault {
            None => told.await.unwrap_or(Err(Failure::Lost)),
            Some(fault) => {
                let _ = told.await;
                match fault.failure() {
                    Some(failure) => Err(failure),
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

    fn take_effect(&self, request: Request) -> Result<Reply, Failure> {
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

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("holdings", &self.holdings()).finish_non_exhaustive()
    }
}
