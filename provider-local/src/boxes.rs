//! The boxes of this process, by id.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use provider_core::{
    error::{Code, Result},
    lifecycle::{Intent, Made, ResourceRef},
    secret::Secret,
};

use crate::{
    blocking::blocking,
    driver::Inner,
    engine::{Base, BoxPlan, BuildInput, Purpose, RunningBox, SecretBytes},
    errors::{error, from_start},
    store::LayerKey,
};

/// A box that was started and not deleted yet. It may have ended since.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) running: RunningBox,
    pub(crate) thing: ResourceRef,
    /// The variables that every command starts with.
    pub(crate) env_vars: Arc<BTreeMap<String, String>>,
}

/// Where a box of this process stands.
#[derive(Debug)]
pub(crate) enum Standing {
    /// A thread is starting it.
    Starting,
    /// It was started.
    Held(Held),
    /// This process has none of this id.
    None,
}

/// The boxes of one driver. When they are dropped, the boxes end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boxes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    starting: HashSet<String>,
    held: HashMap<String, Held>,
}

impl Boxes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn standing(&self, id: &str) -> Standing {
        let state = self.state();
        if state.starting.contains(id) {
            return Standing::Starting;
        }
        state.held.get(id).cloned().map_or(Standing::None, Standing::Held)
    }

    /// The box of a thing that was just made.
    ///
    /// # Errors
    /// [`Code::SandboxGone`] if it was deleted meanwhile.
    pub(crate) fn held(&self, id: &str) -> Result<Held> {
        match self.standing(id) {
            Standing::Held(held) => Ok(held),
            Standing::Starting | Standing::None => {
                Err(error(Code::SandboxGone, format!("the box {id} was deleted")))
            }
        }
    }

    /// Says that a box is being started, until the answer is dropped or becomes a box.
    fn start(&self, id: &str) -> Starting {
        self.state().starting.insert(id.to_owned());
        Starting { boxes: self.clone(), id: id.to_owned() }
    }

    pub(crate) fn forget(&self, id: &str) {
        let held = self.state().held.remove(id);
        // Dropped after the lock: the last clone of a box ends it.
        drop(held);
    }
}

struct Starting {
    boxes: Boxes,
    id: String,
}

impl Starting {
    fn started(self, held: Held) {
        self.boxes.state().held.insert(self.id.clone(), held);
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.boxes.state().starting.remove(&self.id);
    }
}

/// What a box is to be, but for its name.
pub(crate) struct Shape {
    pub(crate) purpose: Purpose,
    pub(crate) base: Base,
    /// The lowest first.
    pub(crate) layers: Vec<LayerKey>,
    /// Files under `/run/secrets`.
    pub(crate) secrets: Vec<(String, Secret)>,
    /// What a build box can read below `/run/inputs`.
    pub(crate) inputs: Vec<BuildInput>,
    /// Folders that the box cannot change.
    pub(crate) reserved: Vec<String>,
    pub(crate) env_vars: Arc<BTreeMap<String, String>>,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape")
            .field("purpose", &self.purpose)
            .field("base", &self.base)
            .field("layers", &self.layers)
            .field("inputs", &self.inputs)
            .finish_non_exhaustive()
    }
}

impl Shape {
    fn plan(&self, id: &str, intent: &Intent) -> BoxPlan {
        let mut plan = match self.purpose {
            Purpose::Build => BoxPlan::build(id, self.base.clone()),
            Purpose::Run => BoxPlan::run(id, self.base.clone()),
        };
        plan.journal = serde_json::json!({ "kind": intent.kind });
        plan.layers.clone_from(&self.layers);
        plan.inputs.clone_from(&self.inputs);
        plan.reserved = self.reserved.iter().map(Into::into).collect();
        let bytes = |secret: &Secret| SecretBytes::new(secret.expose().as_bytes().to_vec());
        plan.secrets = self.secrets.iter().map(|(name, secret)| (name.clone(), bytes(secret))).collect();
        plan
    }
}

/// The creating request of a box: its id is the intent's name.
///
/// Dropping the future does not stop the start. From the call on, until it is deleted, the box is found by its id.
///
/// # Errors
/// Those of the engine; nothing of the box is left then.
pub(crate) async fn start(inner: Arc<Inner>, shape: Arc<Shape>, intent: Intent) -> Result<Made> {
    let id = intent.name().to_string();
    let starting = inner.boxes.start(&id);
    blocking(move || {
        let running = inner.engine.start(&shape.plan(&id, &intent)).map_err(from_start)?;
        let thing = intent.made(&id);
        starting.started(Held { running, thing: thing.clone(), env_vars: Arc::clone(&shape.env_vars) });
        Ok(thing.into())
    })
    .await
}
