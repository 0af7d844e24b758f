//! The driver on a system without an engine: it compiles, and cannot be opened.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use provider_core::{
    capability::Capabilities,
    environment::{Artifact, BasePin, BuildRequest, EnvironmentSpec, Lockfile},
    error::Result,
    lifecycle::{Creator, Intent, Progress, ResourceRef},
    names::{Owner, ProviderId},
    provider::{
        Builder, Built, Deletion, Existence, Finding, Found, Inspection, LaunchOptions, Launched, Plan,
        Provider, Reclaim, State,
    },
    sandbox::Sandbox,
};

use crate::{
    CacheLimits, CacheReport, LocalConfig,
    engine::{Engine, EngineConfig},
    errors::from_engine,
};

/// The driver of this machine. There is none for this system.
#[derive(Clone)]
pub struct LocalProvider(Engine);

impl LocalProvider {
    /// There is no engine for this system, or it was built without the feature `embedded`.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`](provider_core::error::Code) naming a wrong setting; else always `MachineUnsuitable`.
    pub fn open(config: LocalConfig) -> Result<Self> {
        config.check()?;
        let engine = Engine::open(EngineConfig::new(config.state_dir)).map_err(from_engine)?;
        Ok(Self(engine))
    }

    /// Cannot be called, as there is no driver.
    ///
    /// # Errors
    /// None.
    pub fn pin_base(&self, _name: &str) -> Result<BasePin> {
        match self.0 {}
    }

    /// Cannot be called, as there is no driver.
    ///
    /// # Errors
    /// None.
    pub fn collect_cache(&self, _limits: &CacheLimits) -> Result<CacheReport> {
        match self.0 {}
    }

    /// Cannot be called, as there is no driver.
    pub fn kept_groups(&self) -> Vec<u32> {
        match self.0 {}
    }

    /// Cannot be called, as there is no driver.
    ///
    /// # Errors
    /// None.
    pub fn tidy(&self) -> Result<usize> {
        match self.0 {}
    }
}

#[async_trait]
impl Builder for LocalProvider {
    fn validate(&self, _spec: &EnvironmentSpec, _lockfile: &Lockfile) -> Vec<Finding> {
        match self.0 {}
    }

    async fn inspect(&self, _artifact: &Artifact) -> Result<Inspection> {
        match self.0 {}
    }

    async fn exists(&self, _artifact: &Artifact) -> Result<Existence> {
        match self.0 {}
    }
}

#[async_trait]
impl Reclaim for LocalProvider {
    async fn find(&self, _intent: &Intent) -> Result<Found> {
        match self.0 {}
    }

    async fn observe(&self, _thing: &ResourceRef) -> Result<State> {
        match self.0 {}
    }

    async fn delete(&self, _thing: &ResourceRef) -> Result<Deletion> {
        match self.0 {}
    }

    fn list<'a>(&'a self, _owner: &'a Owner) -> BoxStream<'a, Result<ResourceRef>> {
        match self.0 {}
    }
}

#[async_trait]
impl Provider for LocalProvider {
    fn id(&self) -> &ProviderId {
        match self.0 {}
    }

    fn capabilities(&self) -> &Capabilities {
        match self.0 {}
    }

    fn account(&self) -> &str {
        match self.0 {}
    }

    fn endpoint(&self) -> &str {
        match self.0 {}
    }

    async fn preflight(&self, _plan: &Plan) -> Result<Vec<Finding>> {
        match self.0 {}
    }

    async fn build(
        &self,
        _request: Arc<BuildRequest>,
        _creator: Creator,
        _progress: Progress,
    ) -> Result<Built> {
        match self.0 {}
    }

    async fn launch(
        &self,
        _artifact: &Artifact,
        _options: LaunchOptions,
        _creator: Creator,
    ) -> Result<Launched> {
        match self.0 {}
    }

    async fn attach(&self, _thing: &ResourceRef) -> Result<Arc<dyn Sandbox>> {
        match self.0 {}
    }
}

impl fmt::Display for LocalProvider {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl fmt::Debug for LocalProvider {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}
