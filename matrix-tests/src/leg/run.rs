//! Running a leg.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use provider_core::{
    environment::{Artifact, BasePin, BuildRequest, Environment, InstallerVariables, Lockfile},
    error::{Code, Error, Result},
    lifecycle::{Event, Session, SessionConfig},
    provider::{Finding, Plan, Provider},
    secret::SecretSet,
};

use super::{LegKind, LegReport, RowReport, attempt::Attempt, board::Board, report::rows};
use crate::providers::Entrant;

/// What a leg needs.
#[derive(Debug)]
pub struct LegPlan {
    /// The provider.
    pub entrant: Entrant,
    /// What it starts from.
    pub start: Start,
    /// The values of the build's secrets, which must not be found.
    pub secrets: SecretSet,
    /// How the session works.
    pub session: SessionConfig,
    /// How long the clean-up may take.
    pub close_within: Duration,
}

/// What a leg starts from.
#[derive(Debug)]
pub enum Start {
    /// It builds this.
    Build(Box<Recipe>),
    /// It launches this, which was built before and stays.
    Artifact(Box<Artifact>),
}

impl Start {
    /// Which rows the leg has.
    pub fn kind(&self) -> LegKind {
        match self {
            Start::Build(_) => LegKind::Build,
            Start::Artifact(_) => LegKind::Artifact,
        }
    }

    /// The Environment's name.
    pub fn environment(&self) -> &str {
        match self {
            Start::Build(recipe) => &recipe.environment.spec().metadata.name,
            Start::Artifact(artifact) => &artifact.environment,
        }
    }
}

/// What is built.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The Environment.
    pub environment: Environment,
    /// Its resolved packages.
    pub lockfile: Lockfile,
    /// What it starts from on this provider.
    pub base: BasePin,
    /// What installers need of the caller.
    pub variables: InstallerVariables,
}

impl Recipe {
    /// The build of it.
    ///
    /// # Errors
    /// As for [`BuildRequest::new`].
    pub fn request(&self, secrets: &SecretSet) -> Result<BuildRequest> {
        let request = BuildRequest::new(
            self.environment.clone(),
            self.lockfile.clone(),
            self.base.clone(),
            secrets.clone(),
        )?;
        Ok(request.with_installer_variables(self.variables.clone()))
    }
}

/// Who watches a leg. Called from the task that runs it, so it must not block.
pub trait Watch: Sync {
    /// A stage began, or a build tells something.
    fn event(&self, event: &Event);
    /// A row is over.
    fn row(&self, row: &RowReport);
}

/// Runs a leg to its end: whatever happens in it, also a panic or `interrupted`, everything that it created is
/// deleted or named.
///
/// Not cancel safe: dropping the future leaves the clean-up to the session's drop. Use `interrupted`.
///
/// # Errors
/// An error means that the leg was refused before anything was created.
pub async fn run_leg(
    plan: &LegPlan,
    watch: &dyn Watch,
    interrupted: impl Future<Output = ()>,
) -> Result<LegReport> {
    let began = Instant::now();
    let request = prepare(plan, watch).await?;
    let session = Session::open(plan.session.clone())?;
    let mut board = Board { watch, rows: Vec::new(), watcher_panicked: false };
    board.add(RowReport::passed(
        rows::PREFLIGHT,
        began.elapsed(),
        "the machine and the account can carry it out",
    ));

    let mut attempt = Attempt { plan, session: &session, board: &mut board };
    let work = AssertUnwindSafe(attempt.run(request)).catch_unwind();
    let (error, was_interrupted) = tokio::select! {
        biased;
        () = interrupted => (Some(Error::new(Code::Cancelled, "the leg was interrupted")), true),
        ended = work => (ended.unwrap_or_else(|_| Err(Error::new(Code::Internal, "the leg panicked"))).err(), false),
    };
    board.fill_up(plan, if was_interrupted { "interrupted" } else { "an earlier row failed" });

    let cleanup = board.close(&session, plan.close_within).await;
    board.look_for_leaks(plan, &session).await;
    Ok(LegReport {
        provider: plan.entrant.provider.id().to_string(),
        run: session.run().to_string(),
        error: match error {
            None if board.watcher_panicked => Some("the watcher of the leg panicked".to_owned()),
            error => error.map(|error| error.to_string()),
        },
        rows: board.rows,
        cleanup,
        interrupted: was_interrupted,
    })
}

/// Everything that can be refused before something is created.
async fn prepare(plan: &LegPlan, watch: &dyn Watch) -> Result<Option<BuildRequest>> {
    watch.event(&Event::Stage("preflight".into()));
    let provider = &plan.entrant.provider;
    let request = match &plan.start {
        Start::Build(recipe) => {
            refuse_recipe(provider, recipe)?;
            Some(recipe.request(&plan.secrets)?)
        }
        Start::Artifact(artifact) => {
            artifact.check_for(&**provider)?;
            None
        }
    };
    refuse_machine(provider, plan.session.budget).await?;
    Ok(request)
}

/// Refuses what the provider cannot build.
pub(crate) fn refuse_recipe(provider: &Arc<dyn Provider>, recipe: &Recipe) -> Result<()> {
    Finding::refuse_all(&provider.validate(recipe.environment.spec(), &recipe.lockfile))
        .map_err(|error| error.with_provider(provider.id()).with_operation("validate"))
}

/// Refuses a machine or an account that cannot carry work of this budget out.
pub(crate) async fn refuse_machine(provider: &Arc<dyn Provider>, budget: Duration) -> Result<()> {
    Finding::refuse_all(&provider.preflight(&Plan::new(budget)).await?)
        .map_err(|error| error.with_provider(provider.id()).with_operation("preflight"))
}
