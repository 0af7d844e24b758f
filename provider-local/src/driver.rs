//! The driver: what it is, and which room does what.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use provider_core::{
    capability::{Capabilities, Settle},
    environment::{Artifact, BasePin, BaseRef, BuildRequest, EnvironmentSpec, Lockfile},
    error::{Code, Result},
    lifecycle::{Creator, Intent, Progress, ResourceKind, ResourceRef},
    names::{Owner, ProviderId},
    provider::{
        Builder, Built, Deletion, Existence, Finding, Found, Inspection, LaunchOptions, Launched, Plan,
        Provider, Reclaim, State,
    },
    sandbox::Sandbox,
};

use crate::{
    CacheLimits, CacheReport, LocalConfig,
    bases::Bases,
    blocking::blocking,
    boxes::{Boxes, Standing},
    builder::{self, Installers},
    engine::{Engine, EngineConfig},
    errors::{ID, error, from_engine, from_store},
    keeper::Keeper,
    launch,
    layers::{self, Verified},
    reclaim, record,
    sandbox::LocalSandbox,
    store::{Collection, Layer},
};

/// The driver of this machine. Clones share it. When the last one and all handles of its sandboxes are dropped, the
/// sandboxes end, but a [`Session`](provider_core::lifecycle::Session) has long ended them by then.
///
/// See the [crate's documentation](crate) for an example and for what it cannot do.
#[derive(Clone)]
pub struct LocalProvider {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) bases: Bases,
    pub(crate) boxes: Boxes,
    pub(crate) keeper: Keeper,
    pub(crate) verified: Verified,
    pub(crate) installers: Installers,
    /// Whether ids in a box are this machine's: as root.
    pub(crate) real_ids: bool,
    account: String,
    endpoint: String,
    capabilities: Capabilities,
}

impl LocalProvider {
    /// Opens the driver on its state folder, which is made if it is not there. Blocks for some file operations.
    ///
    /// What this machine lacks is not looked for here: see [`Provider::preflight`].
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming a wrong setting; [`Code::MachineUnsuitable`] if the state folder cannot be used,
    /// or on a system without an engine.
    pub fn open(config: LocalConfig) -> Result<Self> {
        config.check()?;
        let mut settings = EngineConfig::new(&config.state_dir);
        settings.hidden.clone_from(&config.hidden);
        let engine = Engine::open(settings).map_err(from_engine)?;
        let real_ids = !engine.isolation().user_namespace;
        let boxes = Boxes::default();
        let inner = Inner {
            account: engine.store().owner_id().to_owned(),
            endpoint: engine.store().root().display().to_string(),
            capabilities: capabilities(real_ids),
            installers: Installers::of(&config),
            bases: Bases::new(config.bases),
            keeper: Keeper::new(boxes.clone()),
            verified: Verified::default(),
            boxes,
            real_ids,
            engine,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The base of this name as it is now, for a build request. Blocks: it reads the list of installed packages, or
    /// walks the base's folder.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] with the names of all bases, if there is none of this name; [`Code::ArtifactMissing`]
    /// if the base's folder cannot be read.
    pub fn pin_base(&self, name: &str) -> Result<BasePin> {
        self.inner.bases.pin(&self.inner.engine, name)
    }

    /// The supplementary groups of the caller that every process of a sandbox keeps. Empty as root; an ordinary user
    /// cannot drop them. They have no number inside, and show as 65534.
    pub fn kept_groups(&self) -> Vec<u32> {
        self.inner.engine.isolation().kept_groups
    }

    /// Removes what killed processes left in the state folder and no name leads to: half-made and half-removed
    /// folders, and the boxes of a look at the machine. Says how many. What somebody uses is left alone. Blocks.
    ///
    /// # Errors
    /// [`Code::MachineUnsuitable`] if the state folder cannot be read or written.
    pub fn tidy(&self) -> Result<usize> {
        let reaped = self.inner.engine.reap().map_err(from_engine)?;
        layers::remove_private(self.inner.engine.store())?;
        Ok(reaped.boxes.len() + reaped.others)
    }

    /// Removes the layers that no artifact needs and nobody uses, as far as the limits allow, and says which stay and
    /// why. They are cache: a build makes them again. What killed processes left goes too, unless this only looks.
    /// Blocks.
    ///
    /// A layer is used by a box that stands on it, and by a build from its look for the layer until its record names
    /// it.
    ///
    /// # Errors
    /// [`Code::MachineUnsuitable`] if the state folder cannot be used, or a record in it cannot be read, since it may
    /// name any layer.
    pub fn collect_cache(&self, limits: &CacheLimits) -> Result<CacheReport> {
        let wishes =
            Collection { unused_for: limits.older_than, only_look: limits.dry_run, ..Collection::default() };
        let collected = self.inner.engine.store().collect_with(&wishes).map_err(from_store)?;
        if !limits.dry_run {
            self.inner.engine.reap().map_err(from_engine)?;
        }
        Ok(CacheReport::new(limits, collected))
    }
}

impl Inner {
    /// Whether a thing of this account and endpoint is in this state folder.
    pub(crate) fn is_here(&self, account: &str, endpoint: &str) -> bool {
        self.account == account && self.endpoint == endpoint
    }

    /// What lies in the state folder under this name.
    pub(crate) fn reference(&self, kind: ResourceKind, name: String) -> ResourceRef {
        ResourceRef {
            kind,
            provider: ID.clone(),
            account: self.account.clone(),
            endpoint: self.endpoint.clone(),
            id: name.clone(),
            name: Some(name),
            details: BTreeMap::new(),
        }
    }
}

fn capabilities(real_ids: bool) -> Capabilities {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    Capabilities {
        artifact_delete: true,
        artifact_keep: true,
        sandbox_keep: false,
        unpinned_base: true,
        exec_streams_apart: true,
        exec_user: real_ids,
        exec_stdin: true,
        // A box has its folder before it starts, and a look at the folder is the truth.
        settle: Settle::Immediate,
        reads_until_gone: 1,
        request_deadline: Duration::from_secs(120),
        build_deadline: Duration::from_secs(30 * 60),
        sandbox_lifetime_max: 7 * DAY,
        cpu: None,
        memory: None,
        disk: None,
        // A crash of the machine ends the boxes, and the store syncs its records itself.
        ledger_sync: false,
        creates_at_once: 16,
        deletes_at_once: 16,
    }
}

#[async_trait]
impl Builder for LocalProvider {
    fn validate(&self, spec: &EnvironmentSpec, _lockfile: &Lockfile) -> Vec<Finding> {
        builder::findings(&self.inner, spec)
    }

    /// A base without a channel is always this driver's own. Cancel safe.
    async fn own_base(&self, base: &BaseRef) -> Result<Option<BasePin>> {
        if base.channel.is_some() {
            return Ok(None);
        }
        let (driver, name) = (self.clone(), base.name.clone());
        blocking(move || driver.pin_base(&name)).await.map(Some)
    }

    /// Cancel safe.
    async fn inspect(&self, artifact: &Artifact) -> Result<Inspection> {
        artifact.check_for(self)?;
        let (inner, artifact) = (Arc::clone(&self.inner), artifact.clone());
        let (layers, body) = blocking(move || record::load(&inner.engine, &artifact)).await?;
        let keys: Vec<&str> = layers.iter().map(|layer| layer.key().as_str()).collect();
        let digests: Vec<&str> = layers.iter().map(Layer::digest).collect();
        Ok(BTreeMap::from([
            ("environment".to_owned(), body.environment),
            ("contract".to_owned(), body.contract),
            ("base".to_owned(), body.base),
            ("base fingerprint".to_owned(), body.base_fingerprint),
            ("lockfile digest".to_owned(), body.lockfile_digest),
            ("layers".to_owned(), keys.join(" ")),
            ("layer digests".to_owned(), digests.join(" ")),
        ]))
    }

    /// Reads the record and all layers of the artifact. Cancel safe.
    async fn verify(&self, artifact: &Artifact) -> Result<Vec<Finding>> {
        artifact.check_for(self)?;
        let (inner, artifact) = (Arc::clone(&self.inner), artifact.clone());
        blocking(move || layers::verify(&inner, &artifact)).await
    }

    /// Cancel safe.
    async fn exists(&self, artifact: &Artifact) -> Result<Existence> {
        match self.inspect(artifact).await {
            Ok(_) => Ok(Existence::Yes),
            Err(error) if error.code() == Code::ArtifactMissing => Ok(Existence::No),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Reclaim for LocalProvider {
    async fn find(&self, intent: &Intent) -> Result<Found> {
        reclaim::find(&self.inner, intent).await
    }

    async fn observe(&self, thing: &ResourceRef) -> Result<State> {
        reclaim::observe(&self.inner, thing).await
    }

    async fn delete(&self, thing: &ResourceRef) -> Result<Deletion> {
        reclaim::delete(&self.inner, thing).await
    }

    fn list<'a>(&'a self, owner: &'a Owner) -> BoxStream<'a, Result<ResourceRef>> {
        reclaim::list(&self.inner, owner)
    }
}

#[async_trait]
impl Provider for LocalProvider {
    fn id(&self) -> &ProviderId {
        &ID
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn account(&self) -> &str {
        &self.inner.account
    }

    fn endpoint(&self) -> &str {
        &self.inner.endpoint
    }

    /// Starts a tiny box and removes it again. Cancel safe.
    async fn preflight(&self, plan: &Plan) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let longest = self.inner.capabilities.sandbox_lifetime_max;
        if plan.lifetime > longest {
            let words = format!("a sandbox lives for at most {longest:?}; ask for less");
            findings.push(Finding::new("plan.lifetime", Code::CapabilityUnsupported, words));
        }
        let inner = Arc::clone(&self.inner);
        let needs = blocking(move || Ok(inner.engine.preflight())).await?;
        let mut fixes = BTreeSet::new();
        for need in needs.into_iter().filter(|need| !need.ok) {
            // What could not be tested because of an earlier need has the same fix, and is no news.
            if need.fix.is_empty() || fixes.insert(need.fix.clone()) {
                let place = format!("machine.{}", need.name);
                let fix = if need.fix.is_empty() { String::new() } else { format!("; {}", need.fix) };
                findings.push(Finding::new(place, Code::MachineUnsuitable, format!("{}{fix}", need.detail)));
            }
        }
        Ok(findings)
    }

    async fn build(&self, request: Arc<BuildRequest>, creator: Creator, progress: Progress) -> Result<Built> {
        builder::build(Arc::clone(&self.inner), request, creator, progress).await
    }

    /// Refuses an artifact with a layer that is not what was built, as [`Code::ArtifactMissing`]. The first launch from
    /// a layer reads all of it.
    async fn launch(
        &self,
        artifact: &Artifact,
        options: LaunchOptions,
        creator: Creator,
    ) -> Result<Launched> {
        artifact.check_for(self)?;
        launch::launch(Arc::clone(&self.inner), artifact.clone(), options, creator).await
    }

    /// Only for sandboxes of this very process.
    async fn attach(&self, thing: &ResourceRef) -> Result<Arc<dyn Sandbox>> {
        if let Standing::Held(held) = self.inner.boxes.standing(&thing.id)
            && held.thing == *thing
            && held.running.is_alive()
        {
            return Ok(Arc::new(LocalSandbox::new(&self.inner, held)));
        }
        match self.observe(thing).await? {
            State::Pending | State::Ready => {
                Err(error(Code::CapabilityUnsupported, format!("{thing} belongs to another process"))
                    .with_operation("attach")
                    .with_advice(
                        "use it there: a local sandbox does not outlive the process that launched it",
                    ))
            }
            _ => Err(error(Code::SandboxGone, format!("{thing} does not run")).with_operation("attach")),
        }
    }
}

impl fmt::Display for LocalProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("local")
    }
}

impl fmt::Debug for LocalProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalProvider")
            .field("state_dir", &self.inner.endpoint)
            .field("real_ids", &self.inner.real_ids)
            .finish_non_exhaustive()
    }
}
