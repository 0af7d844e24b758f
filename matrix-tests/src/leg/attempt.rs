//! The part of a leg that may fail, panic or be interrupted: build, launch, verify, check.

use std::{ops::Deref, sync::Arc, time::Duration};

use provider_core::{
    contract::checks::{CORE_TIER, CheckContext, ids, run_check},
    environment::{Artifact, BuildRequest, verify_lockfile},
    error::{Code, Error, Result},
    lifecycle::{Event, Owned, Progress, Session, Timestamp},
    provider::{Finding, LaunchOptions, Provider},
    sandbox::Sandbox,
};

use super::{LegPlan, RowReport, Watch, board::Board, report::rows, run::Start};

/// A build that began before this, as another clock tells it, may have written a file that is looked at.
const CLOCK_MARGIN: Duration = Duration::from_secs(60);

/// Builds, and tells each event of the build, the last ones too.
///
/// # Errors
/// Those of [`Session::build`].
pub(crate) async fn build_watched(
    session: &Session,
    provider: &Arc<dyn Provider>,
    request: BuildRequest,
    watch: &dyn Watch,
) -> Result<Owned<Artifact>> {
    let (progress, mut events) = Progress::channel();
    let mut build = std::pin::pin!(session.build_observed(provider, request, progress));
    let built = loop {
        tokio::select! {
            built = &mut build => break built,
            Some(event) = events.next() => watch.event(&event),
        }
    };
    while let Some(event) = events.try_next() {
        watch.event(&event);
    }
    built
}

/// So long before a moment.
fn before(moment: Timestamp, time: Duration) -> Timestamp {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(moment.as_millis().saturating_sub(millis))
}

/// The part of a leg that may fail, panic or be interrupted.
pub(super) struct Attempt<'a, 'b> {
    pub(super) plan: &'a LegPlan,
    pub(super) session: &'a Session,
    pub(super) board: &'a mut Board<'b>,
}

/// The artifact of a leg: its own, or one that stays.
enum Subject<'a> {
    Built(Box<Owned<Artifact>>),
    Given(&'a Artifact),
}

impl Deref for Subject<'_> {
    type Target = Artifact;

    fn deref(&self) -> &Artifact {
        match self {
            Subject::Built(artifact) => artifact,
            Subject::Given(artifact) => artifact,
        }
    }
}

impl Attempt<'_, '_> {
    pub(super) async fn run(&mut self, request: Option<BuildRequest>) -> Result<()> {
        let began = self.plan.session.clock.now();
        let artifact = match (&self.plan.start, request) {
            (Start::Artifact(artifact), _) => Subject::Given(artifact),
            (Start::Build(_), Some(request)) => Subject::Built(Box::new(self.build(request).await?)),
            (Start::Build(_), None) => return Err(Error::new(Code::Internal, "there is nothing to build")),
        };
        let sandbox = self.launch(&artifact).await?;
        self.verify(&artifact, &sandbox).await?;
        let since = match &artifact {
            Subject::Built(_) => began,
            // It was finished then; what its build wrote is older, but not older than a build may take.
            Subject::Given(artifact) => {
                before(artifact.built, self.plan.entrant.provider.capabilities().build_deadline)
            }
        };
        let failed = self.check(&artifact, &sandbox, since).await;
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error::new(Code::SmokeTestFailed, format!("failed: {}", failed.join(", ")))
            .with_provider(self.plan.entrant.provider.id()))
    }

    async fn build(&mut self, request: BuildRequest) -> Result<Owned<Artifact>> {
        let base = request.base().to_string();
        let build = build_watched(self.session, &self.plan.entrant.provider, request, self.board.watch);
        let step = async {
            let artifact = build.await?;
            let note = if artifact.reproducible { "" } else { ", not reproducible: its base has no digest" };
            let summary = format!("{} from base {base}{note}", artifact.environment);
            Ok((artifact, summary))
        };
        self.board.step(rows::BUILD, step).await
    }

    async fn launch(&mut self, artifact: &Artifact) -> Result<Owned<Arc<dyn Sandbox>>> {
        let launch = self.session.launch(&self.plan.entrant.provider, artifact, LaunchOptions::default());
        let step = async {
            let sandbox = launch.await?;
            let summary = sandbox.reference().id.clone();
            Ok((sandbox, summary))
        };
        self.board.step(rows::LAUNCH, step).await
    }

    /// Whether the artifact is what its record says.
    async fn verify(&mut self, artifact: &Artifact, sandbox: &Arc<dyn Sandbox>) -> Result<()> {
        let (provider, contract) = (&self.plan.entrant.provider, &self.plan.entrant.contract);
        let step = async {
            let mut findings = provider.verify(artifact).await?;
            let inspection = provider.inspect(artifact).await?;
            findings.extend(verify_lockfile(artifact, contract, &inspection, &**sandbox).await?);
            Finding::refuse_all(&findings)
                .map_err(|error| error.with_provider(provider.id()).with_operation("verify"))?;
            Ok(((), format!("lockfile {}", artifact.lockfile_digest)))
        };
        self.board.step(rows::VERIFY, step).await
    }

    /// The ids of the checks that failed.
    async fn check(
        &mut self,
        artifact: &Artifact,
        sandbox: &Arc<dyn Sandbox>,
        began: Timestamp,
    ) -> Vec<String> {
        let plan = self.plan;
        let secrets = match &plan.start {
            Start::Build(recipe) => plan.secrets.clone().and(&recipe.variables.secrets()),
            Start::Artifact(_) => plan.secrets.clone(),
        };
        let unknown = artifact.build_secrets.iter().any(|id| secrets.get(id).is_none());
        let mut context = CheckContext::new(sandbox, &secrets);
        context.contract = plan.entrant.contract.clone();
        context.groups_cannot_be_dropped = plan.entrant.keeps_groups;
        context.language = artifact.language.clone();
        context.since = Some(before(began, CLOCK_MARGIN));
        context.search_as = plan.entrant.sees_all;
        context.metadata = vec![
            ("the artifact's record".to_owned(), serde_json::to_string(artifact).unwrap_or_default()),
            (
                "the sandbox's reference".to_owned(),
                serde_json::to_string(sandbox.reference()).unwrap_or_default(),
            ),
        ];
        match plan.entrant.provider.inspect(artifact).await {
            Ok(inspection) => {
                context.metadata.push(("the provider's record".to_owned(), format!("{inspection:?}")))
            }
            Err(error) => context.metadata.push(("the provider's record".to_owned(), error.to_string())),
        }
        let mut failed = Vec::new();
        for check in CORE_TIER {
            self.board.watch.event(&Event::Stage(check.id.to_owned()));
            let row = if check.id == ids::SECRETS && unknown {
                let ids = artifact.build_secrets.join(", ");
                let why =
                    format!("no value was given for build secret {ids}; --secret ID=VARIABLE gives one");
                RowReport::not_asked(check.id, why)
            } else {
                let Some(result) = run_check(check.id, &context).await else { continue };
                RowReport::of_check(result)
            };
            if row.status.counts_as_failed() {
                failed.push(row.id.clone());
            }
            self.board.add(row);
        }
        failed
    }
}
