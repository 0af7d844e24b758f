//! The verbs that a driver implements. They do one thing each: every loop, retry, wait, record and clean-up is in
//! [`lifecycle`](crate::lifecycle).

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::{
    capability::Capabilities,
    environment::{Artifact, BasePin, BaseRef, BuildRequest, EnvironmentSpec, Lockfile},
    error::{Code, Error, Result},
    lifecycle::{Creator, Intent, Owned, Progress, ResourceRef},
    names::{Owner, ProviderId},
    resources::Resources,
    sandbox::Sandbox,
};

/// One thing that is wrong with an input, found before anything was spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The place in the input, such as `spec.files[2].path`.
    pub place: String,
    /// What kind of problem it is.
    pub code: Code,
    /// The problem and what to do, in words.
    pub words: String,
}

impl Finding {
    /// Puts a finding together.
    pub fn new(place: impl Into<String>, code: Code, words: impl Into<String>) -> Self {
        Self { place: place.into(), code, words: words.into() }
    }

    /// One error that lists all findings, or `Ok` if there are none. The first decides the code.
    ///
    /// # Errors
    /// An error with the code of the first finding.
    pub fn refuse_all(findings: &[Finding]) -> Result<()> {
        let Some(first) = findings.first() else {
            return Ok(());
        };
        let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Err(Error::new(first.code, list.join("; ")))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.words)
    }
}

/// What a run is about to do, for [`Provider::preflight`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// The artifact or the sandboxes are to be kept, so that deleting them later must be possible.
    pub keeps: bool,
    /// How long the longest sandbox is to live.
    pub lifetime: Duration,
}

impl Plan {
    /// A plan with sandboxes that live for so long.
    pub fn new(lifetime: Duration) -> Self {
        Self { keeps: false, lifetime }
    }
}

/// Options of one launch.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LaunchOptions {
    /// The sandbox's server-side life; absent means what is left of the session's budget.
    pub lifetime: Option<Duration>,
    /// Variables added to those of the artifact.
    pub env_vars: BTreeMap<String, String>,
    /// What it asks for.
    pub resources: Resources,
}

impl LaunchOptions {
    /// Adds a variable.
    #[must_use]
    pub fn env_var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env_vars.insert(name.into(), value.into());
        self
    }

    /// Sets the server-side life.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets what it asks for.
    #[must_use]
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }
}

/// The answer to a lookup by intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// These things carry exactly the intent's mark.
    Things(Vec<ResourceRef>),
    /// Nothing does, as far as the provider shows.
    Absent,
}

/// The state of one thing, as its own read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being made.
    Pending,
    /// It is there and works.
    Ready,
    /// It is there and does not run.
    Stopped,
    /// It is there and broken.
    Failed,
    /// It is being deleted.
    Deleting,
    /// It is not there.
    Absent,
}

impl State {
    /// Whether the step that made the thing can go on with it.
    pub fn can_go_on(self) -> bool {
        matches!(self, State::Pending | State::Ready)
    }
}

/// The answer to a delete request. Neither is proof that the thing is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deletion {
    /// The provider took the request.
    Accepted,
    /// The provider knows no such thing.
    AlreadyGone,
}

/// Whether an artifact exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existence {
    /// It can be launched.
    Yes,
    /// It is not there.
    No,
    /// The provider cannot tell.
    Unknown,
}

/// What a finished build hands over: the record, and the guards of all that it made. Guards that are not handed
/// over are deleted, so that forgetting one is no leak.
#[derive(Debug)]
pub struct Built {
    /// The record.
    pub artifact: Artifact,
    /// The guards of the artifact and of what it needs to go on existing.
    pub owned: Vec<Owned<ResourceRef>>,
}

/// What a launch hands over.
#[derive(Debug)]
pub struct Launched {
    /// The running machine.
    pub sandbox: Arc<dyn Sandbox>,
    /// The guards of all that the launch made.
    pub owned: Vec<Owned<ResourceRef>>,
}

/// What a provider knows about an artifact, as shown to a user; for comparing, not for launching.
pub type Inspection = BTreeMap<String, String>;

/// Verbs about recipes and artifacts.
#[async_trait]
pub trait Builder {
    /// What this provider cannot honour in a specification. Pure: no network, no credentials, no files.
    fn validate(&self, spec: &EnvironmentSpec, lockfile: &Lockfile) -> Vec<Finding>;

    /// A base that the driver has of its own, such as a folder of this machine, as it is now. `None` means that the
    /// approved bases decide, which is all that most drivers answer, and what each answers for a base with a channel.
    /// Nothing is started and nothing is asked over a network; work that blocks goes to a thread that may block.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] with the names of all bases, where only the driver can have the base and it does not;
    /// [`Code::ArtifactMissing`] if the base cannot be read.
    async fn own_base(&self, base: &BaseRef) -> Result<Option<BasePin>> {
        let _ = base;
        Ok(None)
    }

    /// What the provider says about an artifact.
    ///
    /// # Errors
    /// [`Code::ArtifactMissing`] if it is not there; errors of the connection.
    async fn inspect(&self, artifact: &Artifact) -> Result<Inspection>;

    /// Whether an artifact is there.
    ///
    /// # Errors
    /// Errors of the connection. What the provider cannot tell is [`Existence::Unknown`], not an error.
    async fn exists(&self, artifact: &Artifact) -> Result<Existence>;

    /// Compares what the provider stores of an artifact with what was built, without a launch: one finding for each
    /// thing that differs, none if nothing does. It may read all of the artifact. A provider whose store cannot be
    /// changed from outside answers none; that is the default.
    ///
    /// # Errors
    /// Errors of the connection, or of the place where the artifact is stored.
    async fn verify(&self, artifact: &Artifact) -> Result<Vec<Finding>> {
        let _ = artifact;
        Ok(Vec::new())
    }
}

/// Verbs for taking things back. Each is one request; each may be sent again.
#[async_trait]
pub trait Reclaim {
    /// The things that carry exactly the mark of this intent.
    ///
    /// # Errors
    /// What the provider answered. An error means that it is unknown.
    async fn find(&self, intent: &Intent) -> Result<Found>;

    /// The state of one thing by its id: the only source of truth.
    ///
    /// # Errors
    /// What the provider answered. Only an answer that the thing is not there is [`State::Absent`]; a refusal of
    /// the credentials never is.
    async fn observe(&self, thing: &ResourceRef) -> Result<State>;

    /// Asks for a thing to be deleted, by its id.
    ///
    /// # Errors
    /// What the provider answered. Only an answer that the thing is not there is [`Deletion::AlreadyGone`].
    async fn delete(&self, thing: &ResourceRef) -> Result<Deletion>;

    /// The things that may carry this owner's mark. Hints for a sweep, never a proof.
    fn list<'a>(&'a self, owner: &'a Owner) -> BoxStream<'a, Result<ResourceRef>>;
}

/// A driver of one provider, for one account.
#[async_trait]
pub trait Provider: Builder + Reclaim + fmt::Display + fmt::Debug + Send + Sync + 'static {
    /// Which provider.
    fn id(&self) -> &ProviderId;

    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Which account: a fingerprint that is no secret.
    fn account(&self) -> &str;

    /// Where the provider is.
    fn endpoint(&self) -> &str;

    /// Whether the plan can be carried out: credentials, permissions (also to delete), quota, the machine.
    ///
    /// # Errors
    /// Errors of the connection. What speaks against the plan is a finding.
    async fn preflight(&self, plan: &Plan) -> Result<Vec<Finding>>;

    /// Makes an artifact. The future may be dropped at any await; what was made through `creator` is then deleted.
    ///
    /// # Errors
    /// [`Code::BuildFailed`] with the failed step and the end of its log, or what the provider answered.
    async fn build(&self, request: Arc<BuildRequest>, creator: Creator, progress: Progress) -> Result<Built>;

    /// Makes a sandbox from the artifact's immutable reference. The future may be dropped at any await.
    ///
    /// # Errors
    /// [`Code::ArtifactMissing`] if it is not there, or what the provider answered.
    async fn launch(&self, artifact: &Artifact, options: LaunchOptions, creator: Creator)
    -> Result<Launched>;

    /// A handle on a sandbox that runs already. It owns nothing.
    ///
    /// # Errors
    /// [`Code::SandboxGone`] if it does not run, [`Code::CapabilityUnsupported`] if sandboxes cannot be attached to.
    async fn attach(&self, thing: &ResourceRef) -> Result<Arc<dyn Sandbox>>;
}

/// The drivers of a run, by id. The caller fills it, so that a driver of a stranger takes part like ours.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<ProviderId, Arc<dyn Provider>>);

impl Registry {
    /// No drivers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a driver under its own id; it replaces one of the same id.
    pub fn insert(&mut self, provider: Arc<dyn Provider>) {
        self.0.insert(provider.id().clone(), provider);
    }

    /// The driver of an id.
    pub fn get(&self, id: &ProviderId) -> Option<&Arc<dyn Provider>> {
        self.0.get(id)
    }

    /// All drivers, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.0.values()
    }
}
