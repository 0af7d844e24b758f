//! The session: the owner of all that a run creates.

mod checks;
mod close;
mod config;
mod core;

use std::{fmt, sync::Arc, time::Duration};

use self::checks::check_request;
pub use self::config::SessionConfig;
pub(crate) use self::core::Core;
use super::{
    Entry, Lifetime, Owned, Progress, TeardownReport, Verb, control, creator::Scope, lease::Lease,
    owned::Deed,
};
use crate::{
    environment::{Artifact, BuildRequest},
    error::{Code, Error, Result},
    names::{Owner, RunId},
    provider::{Built, LaunchOptions, Launched, Provider},
    sandbox::Sandbox,
};

/// The owner of all that a run creates. Without one nothing can be created.
///
/// Call [`Session::close`] at the end: it deletes what is still there and tells what became of everything.
/// Dropping the session does the same with a bounded wait and only logs the report. When the process dies, the
/// session's ledger remains for a [sweep](super::sweep).
///
/// All methods can be called on any runtime, or on none.
pub struct Session {
    core: Arc<Core>,
}

impl Session {
    /// Opens a session: its ledger stands on the disk when this returns.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] if the state folder cannot be written; [`Code::SpecInvalid`] if a setting is
    /// wrong; [`Code::MachineUnsuitable`] if no thread can be started.
    pub fn open(config: SessionConfig) -> Result<Self> {
        Ok(Self { core: Core::open(config)? })
    }

    /// The run's id, as it appears in each name.
    pub fn run(&self) -> &RunId {
        &self.core.run
    }

    /// Whose things they are.
    pub fn owner(&self) -> &Owner {
        &self.core.owner
    }

    /// Builds an artifact.
    ///
    /// Cancel safe: dropping the future cancels the build and deletes what it made.
    ///
    /// # Errors
    /// What [`Builder::validate`](crate::provider::Builder::validate) finds, before anything is sent;
    /// [`Code::BuildFailed`], [`Code::BuildTimeout`] and what the provider answers; [`Code::SessionClosed`];
    /// [`Code::LedgerUnavailable`].
    #[track_caller]
    pub fn build(
        &self,
        provider: &Arc<dyn Provider>,
        request: BuildRequest,
    ) -> impl Future<Output = Result<Owned<Artifact>>> + Send + use<> {
        self.build_observed(provider, request, Progress::none())
    }

    /// As [`Session::build`], and tells its progress.
    #[track_caller]
    pub fn build_observed(
        &self,
        provider: &Arc<dyn Provider>,
        request: BuildRequest,
        progress: Progress,
    ) -> impl Future<Output = Result<Owned<Artifact>>> + Send + use<> {
        let (core, provider) = (Arc::clone(&self.core), Arc::clone(provider));
        let site = std::panic::Location::caller();
        async move {
            check_request(&provider, &request)?;
            let lifetime = request.lifetime().clone();
            let scope =
                Scope::new(&core, &provider, core.expiry_of(&lifetime), lifetime, site, progress.clone());
            let limit = provider.capabilities().build_deadline;
            let driver = Arc::clone(&provider);
            let work = move |creator| async move { driver.build(Arc::new(request), creator, progress).await };
            let finish = move |mut built: Built| {
                // Whoever deletes the artifact by its record alone deletes these with it.
                for made in &built.owned {
                    if **made != built.artifact.thing && !built.artifact.intermediates.contains(made) {
                        built.artifact.intermediates.push((**made).clone());
                    }
                }
                let deeds = built.owned.into_iter().flat_map(Owned::into_deeds).collect();
                Owned::new(built.artifact, deeds)
            };
            let late = Error::new(Code::BuildTimeout, format!("the build was not done within {limit:?}"));
            scope.run(Verb::Build, "build", limit, late, work, finish).await
        }
    }

    /// Launches a sandbox from an artifact, which stays whoever's it is.
    ///
    /// Cancel safe: dropping the future cancels the launch and deletes what it made.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the artifact is another provider's or account's, before anything is sent;
    /// [`Code::CapabilityUnsupported`] if the options cannot be honoured; [`Code::ArtifactMissing`] and what the
    /// provider answers; [`Code::SessionClosed`]; [`Code::LedgerUnavailable`].
    #[track_caller]
    pub fn launch(
        &self,
        provider: &Arc<dyn Provider>,
        artifact: &Artifact,
        options: LaunchOptions,
    ) -> impl Future<Output = Result<Owned<Arc<dyn Sandbox>>>> + Send + use<> {
        let (core, provider, artifact) = (Arc::clone(&self.core), Arc::clone(provider), artifact.clone());
        let site = std::panic::Location::caller();
        async move {
            artifact.check_for(&*provider).map_err(|error| error.with_operation("launch"))?;
            let options = core.checked_options(&*provider, options)?;
            let life = options.lifetime.unwrap_or_default();
            let expires = core.clock.now().after(life);
            let lifetime = Lifetime::Until(expires);
            let scope = Scope::new(&core, &provider, Some(expires), lifetime, site, Progress::none());
            let limit = provider.capabilities().build_deadline;
            let driver = Arc::clone(&provider);
            let work = move |creator| async move { driver.launch(&artifact, options, creator).await };
            let leasing = Arc::clone(&core);
            let finish = move |launched: Launched| {
                let deeds: Vec<Deed> = launched.owned.into_iter().flat_map(Owned::into_deeds).collect();
                let lease = Lease::new(launched.sandbox);
                for deed in &deeds {
                    leasing.beside(deed.ordinal, |beside| beside.lease = Some(lease.clone()));
                }
                let sandbox: Arc<dyn Sandbox> = Arc::new(lease);
                Owned::new(sandbox, deeds)
            };
            let late = Error::new(Code::Timeout, format!("the launch was not done within {limit:?}"));
            scope.run(Verb::Launch, "launch", limit, late, work, finish).await
        }
    }

    /// Everything that the session has tried to create so far, and where it stands.
    pub fn entries(&self) -> Vec<Entry> {
        self.core.state().book.entries().cloned().collect()
    }

    /// Shuts the door, cancels what is under way, deletes everything that is still there, children before
    /// parents, and tells what became of it. What is not done within `deadline` is reported as stuck and stays
    /// in the ledger.
    ///
    /// Cancel safe: dropping the future changes nothing, and calling again joins the same close (whose deadline
    /// is then that of the first call).
    pub fn close(&self, deadline: Duration) -> impl Future<Output = TeardownReport> + Send + use<> {
        let mut report = self.core.start_close(deadline);
        async move {
            match report.wait_for(Option::is_some).await {
                Ok(report) => report.clone().unwrap_or_default(),
                Err(_) => TeardownReport {
                    notes: vec!["the close ended without a report; run a sweep".into()],
                    ..TeardownReport::default()
                },
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("run", &self.core.run)
            .field("owner", &self.core.owner)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let grace = self.core.config.drop_grace;
        let mut report = self.core.start_close(grace);
        if report.borrow_and_update().is_some() {
            return;
        }
        let (done, wait) = std::sync::mpsc::channel();
        control::spawn(&self.core.control, async move {
            let _ = report.wait_for(Option::is_some).await;
            let _ = done.send(());
        });
        if wait.recv_timeout(grace).is_err() {
            tracing::warn!(session = %self.core.run, "the session was dropped before everything was seen to be gone; its ledger remains for a sweep");
        }
    }
}
