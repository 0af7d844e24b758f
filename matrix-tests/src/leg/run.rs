//! Running a leg.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _};
use provider_core::{
    contract::checks::{CORE_TIER, CheckContext, run_check},
    environment::{Artifact, BuildRequest, Environment, Lockfile},
    error::{Code, Error, Result},
    lifecycle::{Event, Owned, Progress, Session, SessionConfig, TeardownReport, Timestamp, timeout},
    names::ThingName,
    provider::{Finding, LaunchOptions, Plan, Provider, State},
    sandbox::Sandbox,
    secret::SecretSet,
};

use super::{
    LegReport, RowReport,
    report::{RowStatus, rows},
};
use crate::providers::Entrant;

/// A build that began before this, as another clock tells it, may have written a file that is looked at.
const CLOCK_MARGIN: Duration = Duration::from_secs(60);

/// What a leg needs.
#[derive(Debug)]
pub struct LegPlan {
    /// The provider.
    pub entrant: Entrant,
    /// The Environment.
    pub environment: Environment,
    /// Its resolved packages.
    pub lockfile: Lockfile,
    /// The values of its build secrets.
    pub secrets: SecretSet,
    /// How the session works.
    pub session: SessionConfig,
    /// How long the clean-up may take.
    pub close_within: Duration,
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
    let request = Arc::new(prepare(plan, watch).await?);
    let session = Session::open(plan.session.clone())?;
    let mut board = Board { watch, rows: Vec::new(), watcher_panicked: false };
    board.add(RowReport::passed(
        rows::PREFLIGHT,
        began.elapsed(),
        "the machine and the account can carry it out",
    ));

    let mut attempt = Attempt { plan, session: &session, board: &mut board };
    let work = AssertUnwindSafe(attempt.run(&request)).catch_unwind();
    let (error, was_interrupted) = tokio::select! {
        biased;
        () = interrupted => (Some(Error::new(Code::Cancelled, "the leg was interrupted")), true),
        ended = work => (ended.unwrap_or_else(|_| Err(Error::new(Code::Internal, "the leg panicked"))).err(), false),
    };
    board.fill_up(if was_interrupted { "interrupted" } else { "an earlier row failed" });

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
async fn prepare(plan: &LegPlan, watch: &dyn Watch) -> Result<BuildRequest> {
    watch.event(&Event::Stage("preflight".into()));
    let provider = &plan.entrant.provider;
    Finding::refuse_all(&provider.preflight(&Plan::new(plan.session.budget)).await?)
        .map_err(|error| error.with_provider(provider.id()).with_operation("preflight"))?;
    let base = plan.entrant.pin_base(&plan.environment.spec().spec.base.name)?;
    BuildRequest::new(plan.environment.clone(), plan.lockfile.clone(), base, plan.secrets.clone())
}

/// The rows so far.
struct Board<'a> {
    watch: &'a dyn Watch,
    rows: Vec<RowReport>,
    watcher_panicked: bool,
}

impl Board<'_> {
    /// A watcher that panics must not stop the clean-up; the leg has failed all the same.
    fn add(&mut self, row: RowReport) {
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| self.watch.row(&row)));
        self.watcher_panicked |= told.is_err();
        self.rows.push(row);
    }

    /// Runs a step as a row of its own.
    async fn step<T>(&mut self, id: &str, step: impl Future<Output = Result<(T, String)>>) -> Result<T> {
        self.watch.event(&Event::Stage(id.to_owned()));
        let began = Instant::now();
        match step.await {
            Ok((value, summary)) => {
                self.add(RowReport::passed(id, began.elapsed(), summary));
                Ok(value)
            }
            Err(error) => {
                self.add(RowReport::failed(id, began.elapsed(), &error));
                Err(error)
            }
        }
    }

    /// Rows behind a failed one are rows too.
    fn fill_up(&mut self, why: &str) {
        for id in LegReport::row_ids().filter(|id| ![rows::CLOSE, rows::LEAKS].contains(id)) {
            if !self.rows.iter().any(|row| row.id == id) {
                self.add(RowReport::not_reached(id, why));
            }
        }
    }

    async fn close(&mut self, session: &Session, within: Duration) -> TeardownReport {
        self.watch.event(&Event::Stage("clean-up".into()));
        let began = Instant::now();
        let report = session.close(within).await;
        let row = match report.clone().into_result() {
            Ok(()) => {
                let gone = report.deleted.len() + report.already_gone.len();
                RowReport::passed(
                    rows::CLOSE,
                    began.elapsed(),
                    format!("{gone} things deleted and seen to be gone"),
                )
            }
            Err(error) => RowReport::failed(rows::CLOSE, began.elapsed(), &error),
        };
        self.add(row);
        report
    }

    /// The session's own books are not asked here, but the provider.
    async fn look_for_leaks(&mut self, plan: &LegPlan, session: &Session) {
        let began = Instant::now();
        let (leaks, trouble) = things_of_run(plan, session).await;
        let took = began.elapsed();
        let row = match (leaks.is_empty(), trouble) {
            (true, None) => RowReport::passed(rows::LEAKS, took, "the provider lists nothing of this run"),
            (true, Some(error)) => RowReport::failed(rows::LEAKS, took, &error),
            (false, _) => {
                let error =
                    Error::new(Code::NotSeenGone, format!("{} things of this run exist", leaks.len()));
                RowReport { details: leaks, ..RowReport::failed(rows::LEAKS, took, &error) }
            }
        };
        self.add(row);
    }
}

fn late(provider: &Arc<dyn Provider>, limit: Duration) -> Error {
    Error::new(Code::Timeout, format!("no answer within {limit:?}")).with_provider(provider.id())
}

/// The things of this run that the provider lists and that exist by their own read, since a list may lag behind; and
/// the first error on the way.
async fn things_of_run(plan: &LegPlan, session: &Session) -> (Vec<String>, Option<Error>) {
    let provider = &plan.entrant.provider;
    let limit = provider.capabilities().request_deadline;
    let mut listed = provider.list(session.owner());
    let mut existing = Vec::new();
    loop {
        let next = async { listed.next().await.transpose() };
        let thing = match timeout(&plan.session.clock, limit, next)
            .await
            .unwrap_or_else(|_| Err(late(provider, limit)))
        {
            Ok(Some(thing)) => thing,
            Ok(None) => return (existing, None),
            Err(error) => return (existing, Some(error)),
        };
        let name = thing.name.as_deref().and_then(|name| name.parse::<ThingName>().ok());
        if name.is_some_and(|name| name.run == *session.run()) {
            let observed = timeout(&plan.session.clock, limit, provider.observe(&thing)).await;
            match observed.unwrap_or_else(|_| Err(late(provider, limit))) {
                Ok(State::Absent) => {}
                Ok(state) => existing.push(format!("{thing} is {state:?}")),
                Err(error) => return (existing, Some(error)),
            }
        }
    }
}

/// The part of a leg that may fail, panic or be interrupted.
struct Attempt<'a, 'b> {
    plan: &'a LegPlan,
    session: &'a Session,
    board: &'a mut Board<'b>,
}

impl Attempt<'_, '_> {
    async fn run(&mut self, request: &BuildRequest) -> Result<()> {
        let began = self.plan.session.clock.now();
        let artifact = self.build(request).await?;
        let sandbox = self.launch(&artifact).await?;
        let failed = self.check(&artifact, &sandbox, began).await;
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error::new(Code::SmokeTestFailed, format!("failed: {}", failed.join(", ")))
            .with_provider(self.plan.entrant.provider.id()))
    }

    async fn build(&mut self, request: &BuildRequest) -> Result<Owned<Artifact>> {
        let (progress, mut events) = Progress::channel();
        let build = self.session.build_observed(&self.plan.entrant.provider, request.clone(), progress);
        let watch = self.board.watch;
        let step = async {
            let mut build = std::pin::pin!(build);
            let artifact = loop {
                tokio::select! {
                    built = &mut build => break built?,
                    Some(event) = events.next() => watch.event(&event),
                }
            };
            while let Some(event) = events.try_next() {
                watch.event(&event);
            }
            let note = if artifact.reproducible { "" } else { ", not reproducible: its base has no digest" };
            let summary = format!("{} from base {}{note}", artifact.environment, request.base());
            Ok((artifact, summary))
        };
        self.board.step(rows::BUILD, step).await
    }

    async fn launch(&mut self, artifact: &Owned<Artifact>) -> Result<Owned<Arc<dyn Sandbox>>> {
        let launch = self.session.launch(&self.plan.entrant.provider, artifact, LaunchOptions::default());
        let step = async {
            let sandbox = launch.await?;
            let summary = sandbox.reference().id.clone();
            Ok((sandbox, summary))
        };
        self.board.step(rows::LAUNCH, step).await
    }

    /// The ids of the checks that failed.
    async fn check(
        &mut self,
        artifact: &Artifact,
        sandbox: &Arc<dyn Sandbox>,
        began: Timestamp,
    ) -> Vec<String> {
        let plan = self.plan;
        let mut context = CheckContext::new(&**sandbox, &plan.secrets);
        context.contract = plan.entrant.contract.clone();
        context.groups_cannot_be_dropped = plan.entrant.keeps_groups;
        context.names_language = artifact.language.is_some();
        context.since = Some(Timestamp::from_millis(
            began.as_millis().saturating_sub(u64::try_from(CLOCK_MARGIN.as_millis()).unwrap_or(u64::MAX)),
        ));
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
        for check in CORE_TIER.iter().filter(|check| check.present) {
            self.board.watch.event(&Event::Stage(check.id.to_owned()));
            let Some(result) = run_check(check.id, &context).await else { continue };
            let row = RowReport::of_check(result);
            if row.status != RowStatus::Passed {
                failed.push(row.id.clone());
            }
            self.board.add(row);
        }
        failed
    }
}
