//! The provider's side: things with states, names, owners and delays.

mod answers;
mod pace;
mod protocol;
mod things;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use self::things::Thing;
pub use self::{
    pace::Pace,
    protocol::{Call, Failure, Holding, Reply, Request},
};
use super::{Fault, FaultKind};
use crate::{
    lifecycle::{Clock, ResourceKind, Timestamp},
    provider::State,
};

/// The provider's side. See the [module](crate::memory).
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
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("holdings", &self.holdings()).finish_non_exhaustive()
    }
}
