//! The engine where it exists.

use super::facts::Facts;
use super::image::Image;
use super::running::Inner;
use super::{
    Base, BoxPlan, EngineConfig, EngineError, Isolation, Need, RunningBox, fingerprint, launch, preflight,
};
use crate::store::{BoxEntry, Reaped, Removal, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Starts boxes, and removes what is left of them. Clones share it.
///
/// All functions block for the time of some system calls (a start takes a few milliseconds), and may be
/// called from any thread. Dropping the engine leaves its boxes alone.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// What all clones of an engine share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: EngineConfig,
    pub(super) facts: Facts,
    pub(super) store: Store,
    pub(super) image: Image,
    running: Mutex<HashMap<String, Weak<Inner>>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Inner").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the engine on its state folder, which is made if it is not there. Nothing else is tested: see
    /// [`Engine::preflight`].
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] on systems without this engine; [`EngineError::Store`] when the state
    /// folder cannot be used.
    pub fn open(config: EngineConfig) -> Result<Self, EngineError> {
        let store = Store::open(&config.state_dir)?;
        let shared = Shared {
            config,
            facts: Facts::look(),
            store,
            image: Image::default(),
            running: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The state folder.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// How boxes of this engine are kept apart from this machine, and how not.
    pub fn isolation(&self) -> Isolation {
        let facts = &self.shared.facts;
        let user_namespace = facts.user_namespace();
        let kept = facts.groups.iter().copied().filter(|group| *group != facts.gid);
        let kept_groups = if user_namespace { kept.collect() } else { Vec::new() };
        Isolation { user_namespace, kept_groups, cgroups: false }
    }

    /// Tests each thing that boxes need, once and for real, with a tiny box that is removed again. Needs that
    /// could not be tested because an earlier one failed are reported as missing too.
    pub fn preflight(&self) -> Vec<Need> {
        preflight::run(self)
    }

    /// A text that changes when the base does: of [`Base::Host`] the release and the installed packages, of a
    /// folder the paths, types, permissions, sizes and times of everything in it. 64 hexadecimal digits.
    /// Walks the folder.
    ///
    /// # Errors
    /// [`EngineError::Base`] when the base cannot be read.
    pub fn fingerprint(&self, base: &Base) -> Result<String, EngineError> {
        fingerprint::of(base)
    }

    /// Starts a box. After any error nothing of it is left: no folder, no process, no mount.
    ///
    /// Not cancellable, but bounded by the start limit. When the calling process dies meanwhile, so does the
    /// box.
    ///
    /// # Errors
    /// [`EngineError::Start`] names the step, the thing and the fix; [`EngineError::BadInput`],
    /// [`EngineError::Store`], [`EngineError::ForeignLayer`], [`EngineError::Base`], [`EngineError::Spawn`],
    /// [`EngineError::Timeout`].
    pub fn start(&self, plan: &BoxPlan) -> Result<RunningBox, EngineError> {
        let running = launch::start(&self.shared, plan)?;
        let mut known = self.known();
        known.retain(|_, inner| inner.strong_count() > 0);
        known.insert(plan.id.clone(), Arc::downgrade(&running.inner));
        Ok(running)
    }

    /// All boxes of the state folder, those of other processes included.
    ///
    /// # Errors
    /// The state folder cannot be read.
    pub fn boxes(&self) -> Result<Vec<BoxEntry>, EngineError> {
        Ok(self.shared.store.boxes()?)
    }

    /// Removes a box, whatever its state: one of this engine is killed first; one whose lock is free is
    /// removed; one of another living process is [`Removal::Busy`]. Idempotent.
    ///
    /// # Errors
    /// The id is malformed, a process does not die, or the state folder refuses.
    pub fn remove_box(&self, id: &str) -> Result<Removal, EngineError> {
        let ours = self.known().get(id).and_then(Weak::upgrade);
        match ours {
            Some(inner) => {
                let there = self.shared.store.find_box(id)?.is_some();
                inner.destroy()?;
                self.known().remove(id);
                Ok(if there { Removal::Removed } else { Removal::AlreadyGone })
            }
            None => Ok(self.shared.store.remove_box(id)?),
        }
    }

    /// Removes what killed processes left. See [`Store::reap`].
    ///
    /// # Errors
    /// The first thing that could not be removed; everything else was tried.
    pub fn reap(&self) -> Result<Reaped, EngineError> {
        Ok(self.shared.store.reap()?)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Weak<Inner>>> {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}
