//! The driver's side.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};

#[cfg(unix)]
use super::ManualClock;
use super::{
    abilities::capabilities,
    errors::to_error,
    lockfiles::Lockfiles,
    sandbox::MemorySandbox,
    world::{Failure, Holding, Pace, Reply, Request, World},
};
use crate::{
    capability::Capabilities,
    contract::fixtures::MachineFacts,
    environment::{Artifact, BuildRequest, EnvironmentSpec, Lockfile},
    error::{Code, Effect, Error, Result},
    lifecycle::{Busy, Clock, Creator, Intent, Made, Progress, ResourceKind, ResourceRef, control, timeout},
    names::{Owner, ProviderId},
    provider::{
        Builder, Built, Deletion, Existence, Finding, Found, Inspection, LaunchOptions, Launched, Plan,
        Provider, Reclaim, State,
    },
    sandbox::Sandbox,
};

/// The driver of a [`World`].
#[derive(Clone)]
pub struct MemoryProvider {
    inner: Arc<Inner>,
}

struct Inner {
    id: ProviderId,
    account: String,
    endpoint: String,
    link: Link,
    clock: Arc<dyn Clock>,
    capabilities: Capabilities,
    facts: MachineFacts,
    lockfiles: Lockfiles,
}

enum Link {
    Here(Arc<World>),
    #[cfg(unix)]
    Socket(PathBuf, ManualClock),
}

/// The account of a world that is served.
#[cfg(unix)]
const SERVED: &str = "account-served";

impl MemoryProvider {
    /// A driver of a world in this process. Each has an account of its own.
    pub fn new(world: &Arc<World>, clock: Arc<dyn Clock>) -> Self {
        let account = format!("account-{:p}", Arc::as_ptr(world));
        Self::with(Link::Here(Arc::clone(world)), account, "memory:".into(), world.pace(), clock)
    }

    /// A driver of a world that another process [serves](super::serve) at `socket`.
    #[cfg(unix)]
    pub fn remote(socket: impl Into<PathBuf>, pace: Pace, clock: ManualClock) -> Self {
        let socket = socket.into();
        let endpoint = socket.display().to_string();
        Self::with(Link::Socket(socket, clock.clone()), SERVED.into(), endpoint, pace, Arc::new(clock))
    }

    /// A driver of a world in this process, for the account and endpoint by which another process knows it at
    /// `socket`.
    #[cfg(unix)]
    pub fn serving(world: &Arc<World>, socket: &std::path::Path, clock: Arc<dyn Clock>) -> Self {
        Self::with(
            Link::Here(Arc::clone(world)),
            SERVED.into(),
            socket.display().to_string(),
            world.pace(),
            clock,
        )
    }

    fn with(link: Link, account: String, endpoint: String, pace: Pace, clock: Arc<dyn Clock>) -> Self {
        let id = ProviderId::new("memory").unwrap_or_else(|_| unreachable!("the id is well formed"));
        let facts = MachineFacts::default();
        Self {
            inner: Arc::new(Inner {
                id,
                account,
                endpoint,
                link,
                clock,
                capabilities: capabilities(pace),
                facts,
                lockfiles: Lockfiles::default(),
            }),
        }
    }

    /// The same driver, whose sandboxes show other facts.
    #[must_use]
    pub fn with_facts(self, facts: MachineFacts) -> Self {
        self.changed(|inner| inner.facts = facts)
    }

    /// The same driver under another id, so that several take part in one run.
    #[must_use]
    pub fn with_id(self, id: ProviderId) -> Self {
        self.changed(|inner| inner.id = id)
    }

    fn changed(self, change: impl FnOnce(&mut Inner)) -> Self {
        let Inner { id, account, endpoint, capabilities, facts, .. } = &*self.inner;
        let link = match &self.inner.link {
            Link::Here(world) => Link::Here(Arc::clone(world)),
            #[cfg(unix)]
            Link::Socket(path, clock) => Link::Socket(path.clone(), clock.clone()),
        };
        let mut inner = Inner {
            id: id.clone(),
            account: account.clone(),
            endpoint: endpoint.clone(),
            link,
            clock: Arc::clone(&self.inner.clock),
            capabilities: capabilities.clone(),
            facts: facts.clone(),
            lockfiles: self.inner.lockfiles.clone(),
        };
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }
}

impl Inner {
    /// One request, with a deadline of its own, wherever it is sent from.
    async fn call(&self, request: Request) -> Result<Reply> {
        let call = request.call();
        let limit = self.capabilities.request_deadline;
        // The clock must not move between the answer and the end of the wait for it.
        let (answer, _busy) = match timeout(&self.clock, limit, self.send(request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let error = Error::new(Code::Timeout, format!("no answer within {limit:?}"));
                return Err(error.with_effect(Effect::Unknown).with_provider(&self.id));
            }
        };
        answer.map_err(|failure| to_error(call, failure).with_provider(&self.id))
    }

    async fn send(&self, request: Request) -> (Result<Reply, Failure>, Option<Busy>) {
        match &self.link {
            Link::Here(world) => world.call_and_hold(request).await,
            #[cfg(unix)]
            Link::Socket(path, clock) => {
                let busy = clock.busy();
                let Ok(control) = control::handle() else { return (Err(Failure::Refused), Some(busy)) };
                // A caller without a runtime has no reactor for the socket.
                let (path, sender) = (path.clone(), clock.clone());
                let sent = control.spawn(async move { super::remote::call(&path, &sender, &request).await });
                let (now, answer) = sent.await.unwrap_or((clock.now(), Err(Failure::Lost)));
                clock.catch_up(now);
                (answer, Some(busy))
            }
        }
    }

    /// One creating request.
    async fn create(&self, intent: Intent, parents: Vec<String>) -> Result<Made> {
        let name = intent.name().to_string();
        let request = Request::Create { kind: intent.kind, name, parents, expires: intent.expires };
        match self.call(request).await? {
            Reply::Created(id) => Ok(intent.made(id).into()),
            other => Err(unexpected(&other)),
        }
    }

    fn reference(&self, holding: Holding) -> ResourceRef {
        ResourceRef {
            kind: holding.kind,
            provider: self.id.clone(),
            account: self.account.clone(),
            endpoint: self.endpoint.clone(),
            id: holding.id,
            name: holding.name,
            details: BTreeMap::new(),
        }
    }

    async fn state(&self, id: &str) -> Result<State> {
        match self.call(Request::Observe { id: id.to_owned() }).await? {
            Reply::State(state) => Ok(state),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads until a new thing is ready. A failed read is no failed build.
    async fn wait_until_ready(&self, id: &str, progress: &Progress) -> Result<()> {
        let mut misses = 0;
        loop {
            match self.state(id).await {
                Ok(State::Ready) => return Ok(()),
                Ok(State::Pending) => progress.log(format!("{id} is being made")),
                Ok(state) => {
                    return Err(
                        Error::new(Code::BuildFailed, format!("{id} is {state:?}")).with_provider(&self.id)
                    );
                }
                Err(error) if misses >= 5 => return Err(error),
                Err(_) => misses += 1,
            }
            self.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    fn sandbox(self: &Arc<Self>, thing: &ResourceRef, lockfile_digest: Option<&str>) -> Arc<dyn Sandbox> {
        let machine = self.lockfiles.machine(&self.facts, lockfile_digest);
        let inner = Arc::clone(self);
        let id = thing.id.clone();
        let ask = move || {
            let (inner, id) = (Arc::clone(&inner), id.clone());
            Box::pin(async move { inner.call(Request::Exec { id }).await.map(|_| ()) }) as _
        };
        Arc::new(MemorySandbox::new(thing.clone(), machine, Box::new(ask)))
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::unmapped(format!("the answer does not fit the request: {reply:?}")).with_effect(Effect::Unknown)
}

#[async_trait]
impl Builder for MemoryProvider {
    fn validate(&self, _spec: &EnvironmentSpec, _lockfile: &Lockfile) -> Vec<Finding> {
        Vec::new()
    }

    async fn inspect(&self, artifact: &Artifact) -> Result<Inspection> {
        let state = self.inner.state(&artifact.reference).await?;
        Ok(BTreeMap::from([("state".to_owned(), format!("{state:?}"))]))
    }

    async fn exists(&self, artifact: &Artifact) -> Result<Existence> {
        Ok(match self.inner.state(&artifact.reference).await? {
            State::Ready => Existence::Yes,
            State::Absent => Existence::No,
            _ => Existence::Unknown,
        })
    }
}

#[async_trait]
impl Reclaim for MemoryProvider {
    async fn find(&self, intent: &Intent) -> Result<Found> {
        match self.inner.call(Request::Find { name: intent.name().to_string() }).await? {
            Reply::Things(things) if things.is_empty() => Ok(Found::Absent),
            Reply::Things(things) => {
                Ok(Found::Things(things.into_iter().map(|holding| self.inner.reference(holding)).collect()))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn observe(&self, thing: &ResourceRef) -> Result<State> {
        self.inner.state(&thing.id).await
    }

    async fn delete(&self, thing: &ResourceRef) -> Result<Deletion> {
        match self.inner.call(Request::Delete { id: thing.id.clone() }).await {
            Ok(_) => Ok(Deletion::Accepted),
            Err(error) if error.code() == Code::NotFound => Ok(Deletion::AlreadyGone),
            Err(error) => Err(error),
        }
    }

    fn list<'a>(&'a self, owner: &'a Owner) -> BoxStream<'a, Result<ResourceRef>> {
        let listed = async move {
            let things = match self.inner.call(Request::List { prefix: format!("px-{owner}") }).await {
                Ok(Reply::Things(things)) => {
                    things.into_iter().map(|holding| Ok(self.inner.reference(holding))).collect()
                }
                Ok(other) => vec![Err(unexpected(&other))],
                Err(error) => vec![Err(error)],
            };
            stream::iter(things)
        };
        stream::once(listed).flatten().boxed()
    }
}

#[async_trait]
impl Provider for MemoryProvider {
    fn id(&self) -> &ProviderId {
        &self.inner.id
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

    async fn preflight(&self, _plan: &Plan) -> Result<Vec<Finding>> {
        self.inner.state("none").await.map(|_| Vec::new())
    }

    async fn build(&self, request: Arc<BuildRequest>, creator: Creator, progress: Progress) -> Result<Built> {
        progress.stage("upload");
        let inner = Arc::clone(&self.inner);
        let context = creator
            .create(ResourceKind::Context, "context", move |intent| {
                let inner = Arc::clone(&inner);
                async move { inner.create(intent, Vec::new()).await }
            })
            .await?;
        progress.stage("build");
        let (inner, parents) = (Arc::clone(&self.inner), vec![context.id.clone()]);
        let thing = creator
            .create(ResourceKind::Artifact, "template", move |intent| {
                let (inner, parents) = (Arc::clone(&inner), parents.clone());
                async move { inner.create(intent, parents).await }
            })
            .await?;
        self.inner.wait_until_ready(&thing.id, &progress).await?;
        self.inner.lockfiles.remember(request.lockfile());
        let built = self.inner.clock.now();
        let mut artifact = Artifact::of_build(&request, &thing, thing.id.clone(), built, creator.expires())?;
        artifact.intermediates.push((*context).clone());
        Ok(Built { artifact, owned: vec![thing, context] })
    }

    async fn launch(
        &self,
        artifact: &Artifact,
        _options: LaunchOptions,
        creator: Creator,
    ) -> Result<Launched> {
        let (inner, parents) = (Arc::clone(&self.inner), vec![artifact.reference.clone()]);
        let thing = creator
            .create(ResourceKind::Sandbox, "sandbox", move |intent| {
                let (inner, parents) = (Arc::clone(&inner), parents.clone());
                async move { inner.create(intent, parents).await }
            })
            .await
            .map_err(|error| match error.code() {
                Code::NotFound => {
                    Error::new(Code::ArtifactMissing, error.message().to_owned()).with_source(error)
                }
                _ => error,
            })?;
        self.inner.wait_until_ready(&thing.id, &Progress::none()).await?;
        let sandbox = self.inner.sandbox(&thing, Some(&artifact.lockfile_digest));
        Ok(Launched { sandbox, owned: vec![thing] })
    }

    async fn attach(&self, thing: &ResourceRef) -> Result<Arc<dyn Sandbox>> {
        match self.inner.state(&thing.id).await? {
            State::Ready => Ok(self.inner.sandbox(thing, None)),
            state => Err(Error::new(Code::SandboxGone, format!("{thing} is {state:?}"))),
        }
    }
}

impl fmt::Display for MemoryProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory")
    }
}

impl fmt::Debug for MemoryProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryProvider").field("account", &self.inner.account).finish_non_exhaustive()
    }
}
