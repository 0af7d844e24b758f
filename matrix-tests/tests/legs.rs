//! Legs that go wrong, on a provider in memory: the first error stays the first, and what is left is named.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use matrix_tests::{
    exit::Exit,
    leg::{LegKind, LegPlan, LegReport, Recipe, RowReport, RowStatus, Start, Watch, rows, run_leg},
    providers::Entrant,
};
use provider_core::{
    capability::Capabilities,
    contract::{SANDBOX_V1, fixtures::MachineFacts},
    environment::{
        Artifact, BasePin, BuildRequest, BuildSecret, Environment, EnvironmentSpec, InstallerVariables,
        Lockfile, SecretMount,
    },
    error::{Code, Result},
    lifecycle::{
        Clock, Creator, Event, Intent, Progress, ResourceRef, SessionConfig,
        ledger::StateFolder,
        sweep::{SweepOptions, sweep},
    },
    memory::{Call, Fault, FaultKind, ManualClock, MemoryProvider, Pace, World},
    names::{Owner, ProviderId},
    provider::{
        Builder, Built, Deletion, Existence, Finding, Found, Inspection, LaunchOptions, Launched, Plan,
        Provider, Reclaim, Registry, State,
    },
    sandbox::Sandbox,
    secret::SecretSet,
};

const CANARY: &str = "canary-0815-must-not-be-seen";

struct Stage {
    clock: ManualClock,
    world: Arc<World>,
    provider: Arc<dyn Provider>,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(facts: MachineFacts) -> Self {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let world = World::new(Arc::clone(&shared), Pace::SLOW);
        let provider: Arc<dyn Provider> = Arc::new(MemoryProvider::new(&world, shared).with_facts(facts));
        Self { clock, world, provider, folder: tempfile::tempdir().unwrap() }
    }

    fn plan(&self, provider: Arc<dyn Provider>) -> LegPlan {
        let mut spec = EnvironmentSpec::named("leg");
        let secret = BuildSecret { id: "token".into(), mount_as: SecretMount::Env, name: "TOKEN".into() };
        spec.spec.build_secrets.push(secret);
        let mut secrets = SecretSet::new();
        secrets.insert("token", CANARY).unwrap();
        LegPlan {
            entrant: Entrant::own(provider, SANDBOX_V1),
            start: Start::Build(Box::new(Recipe {
                environment: Environment::new(spec, None).unwrap(),
                lockfile: Lockfile::without_packages(),
                base: BasePin::unpinned("memory", "x").unwrap(),
                variables: InstallerVariables::new(),
            })),
            secrets,
            session: SessionConfig::new("legs")
                .state_folder(self.folder.path())
                .owner(Owner::new("acme").unwrap())
                .clock(Arc::new(self.clock.clone())),
            close_within: Duration::from_secs(3600),
        }
    }

    async fn run(&self) -> LegReport {
        run_leg(&self.plan(Arc::clone(&self.provider)), &Quiet, std::future::pending()).await.unwrap()
    }

    async fn sweep(&self) {
        self.world.heal();
        let mut registry = Registry::new();
        registry.insert(Arc::clone(&self.provider));
        let options = SweepOptions::delete().clock(Arc::new(self.clock.clone()));
        let folder = StateFolder::at(self.folder.path());
        sweep(folder, Owner::new("acme").ok(), registry, options).await.unwrap();
        assert!(self.world.holdings().is_empty(), "left: {:?}", self.world.holdings());
    }
}

struct Quiet;

impl Watch for Quiet {
    fn event(&self, _event: &Event) {}
    fn row(&self, _row: &RowReport) {}
}

fn status(report: &LegReport, id: &str) -> RowStatus {
    report.rows.iter().find(|row| row.id == id).unwrap().status
}

fn failed(report: &LegReport) -> Vec<&str> {
    report.rows.iter().filter(|row| row.status.counts_as_failed()).map(|row| row.id.as_str()).collect()
}

#[tokio::test]
async fn a_good_leg_passes_and_leaves_nothing() {
    let stage = Stage::new(MachineFacts::default());
    let report = stage.run().await;
    assert_eq!(report.exit(), Exit::Passed, "{report:#?}");
    assert_eq!(
        report.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
        LegReport::row_ids(LegKind::Build).collect::<Vec<_>>()
    );
    assert!(stage.world.holdings().is_empty() && stage.world.created() == 3);
}

#[tokio::test]
async fn a70_a_failed_check_stays_the_first_error_when_the_clean_up_fails_too() {
    let facts = MachineFacts { reserved_writable: true, ..MachineFacts::default() };
    let stage = Stage::new(facts);
    stage.world.inject(Fault::always(Call::Delete, FaultKind::ErrorBefore));
    let report = stage.run().await;
    let error = report.error.as_deref().unwrap();
    assert!(error.contains("core.filesystem") && !error.contains("injected"), "{error}");
    assert_eq!(report.cleanup.stuck.len(), 3, "{}", report.cleanup);
    assert!(report.cleanup.stuck.iter().all(|line| line.reason.as_deref().unwrap().contains("injected")));
    assert_eq!(report.exit(), Exit::LeftBehind);
    // A64: the rows stay in the ledger, and a sweep goes on with them.
    stage.sweep().await;
}

#[tokio::test]
async fn a61_a_launch_that_fails_keeps_its_error_and_cleans_up() {
    for kind in [FaultKind::Forbidden, FaultKind::Unheard, FaultKind::Panic] {
        let stage = Stage::new(MachineFacts::default());
        stage.world.inject(Fault::always(Call::CreateSandbox, kind));
        let report = stage.run().await;
        assert_eq!(status(&report, rows::BUILD), RowStatus::Passed);
        assert_eq!(status(&report, rows::LAUNCH), RowStatus::Failed);
        assert_eq!(status(&report, "core.doctor"), RowStatus::NotReached);
        assert!(report.error.as_deref().unwrap().contains("injected"), "{:?}", report.error);
        stage.sweep().await;
    }
}

#[tokio::test]
async fn a62_an_interrupted_leg_cleans_up() {
    let stage = Stage::new(MachineFacts::default());
    let plan = stage.plan(Arc::clone(&stage.provider));
    let report = run_leg(&plan, &Quiet, async {
        // Interrupted as soon as something exists.
        while stage.world.holdings().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(report.exit(), Exit::Interrupted, "{report:#?}");
    assert!(stage.world.holdings().is_empty() && stage.world.created() > 0);
}

/// Panics when the first check is over.
struct PanicAtCheck;

impl Watch for PanicAtCheck {
    fn event(&self, _event: &Event) {}
    fn row(&self, row: &RowReport) {
        assert!(row.id != "core.doctor", "injected panic of the watcher");
    }
}

#[tokio::test]
async fn a71_a_panic_in_the_leg_is_its_failure_and_cleans_up() {
    let stage = Stage::new(MachineFacts::default());
    let plan = stage.plan(Arc::clone(&stage.provider));
    let report = run_leg(&plan, &PanicAtCheck, std::future::pending()).await.unwrap();
    assert!(report.error.as_deref().unwrap().contains("panicked"), "{report:#?}");
    assert!(stage.world.holdings().is_empty() && stage.world.created() == 3, "{:?}", stage.world.holdings());
}

#[tokio::test]
async fn a29_a_lockfile_that_is_not_the_artifacts_fails_the_leg() {
    let files =
        [(SANDBOX_V1.lockfile_path.to_owned(), b"# provider-lock: v1\n# provider-apt: x=1\n".to_vec())];
    let stage = Stage::new(MachineFacts { files: files.into(), ..MachineFacts::default() });
    let report = stage.run().await;
    let verified = report.rows.iter().find(|row| row.id == rows::VERIFY).unwrap();
    assert_eq!(verified.status, RowStatus::Failed);
    for digest in [
        Lockfile::without_packages().digest(),
        Lockfile::from_text("# provider-lock: v1\n# provider-apt: x=1\n").unwrap().digest(),
    ] {
        assert!(format!("{verified:?}").contains(digest), "{digest} is not named: {verified:?}");
    }
    assert_eq!(status(&report, "core.doctor"), RowStatus::NotReached);
    assert!(stage.world.holdings().is_empty());
}

/// A driver that says that everything is gone and deletes nothing.
#[derive(Debug)]
struct Liar {
    inner: Arc<dyn Provider>,
    said_gone: Mutex<Vec<String>>,
}

#[tokio::test]
async fn a49_a_leg_that_leaks_turns_red_whatever_its_driver_says() {
    let stage = Stage::new(MachineFacts::default());
    let liar = Arc::new(Liar { inner: Arc::clone(&stage.provider), said_gone: Mutex::default() });
    let report = run_leg(&stage.plan(liar), &Quiet, std::future::pending()).await.unwrap();
    assert_eq!(status(&report, rows::CLOSE), RowStatus::Passed, "the lie was not believed: {report:#?}");
    assert_eq!(failed(&report), [rows::LEAKS]);
    assert_eq!(report.exit(), Exit::LeftBehind);
}

#[tokio::test]
async fn a75_the_canary_is_in_no_report_and_no_file_whatever_fails() {
    for call in Call::ALL {
        for kind in FaultKind::ALL {
            let stage = Stage::new(MachineFacts::default());
            stage.world.inject(Fault::always(call, kind));
            let work = std::panic::AssertUnwindSafe(stage.run());
            let Ok(report) = futures_util::FutureExt::catch_unwind(work).await else { continue };
            let json = serde_json::to_string(&report).unwrap();
            assert!(
                !json.contains(CANARY) && !format!("{report:?}").contains(CANARY),
                "{call:?} {kind:?}: {json}"
            );
            for file in walk(stage.folder.path()) {
                let content = std::fs::read(&file).unwrap();
                assert!(
                    !String::from_utf8_lossy(&content).contains(CANARY),
                    "{call:?} {kind:?}: {}",
                    file.display()
                );
            }
        }
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

#[tokio::test]
async fn a_refused_leg_creates_nothing() {
    let stage = Stage::new(MachineFacts::default());
    let mut plan = stage.plan(Arc::clone(&stage.provider));
    plan.secrets = SecretSet::new();
    let error = run_leg(&plan, &Quiet, std::future::pending()).await.unwrap_err();
    assert_eq!(error.code(), Code::BuildSecretUnavailable);
    assert_eq!(stage.world.created(), 0);
}

#[async_trait]
impl Builder for Liar {
    fn validate(&self, spec: &EnvironmentSpec, lockfile: &Lockfile) -> Vec<Finding> {
        self.inner.validate(spec, lockfile)
    }
    async fn inspect(&self, artifact: &Artifact) -> Result<Inspection> {
        self.inner.inspect(artifact).await
    }
    async fn exists(&self, artifact: &Artifact) -> Result<Existence> {
        self.inner.exists(artifact).await
    }
}

#[async_trait]
impl Reclaim for Liar {
    async fn find(&self, intent: &Intent) -> Result<Found> {
        self.inner.find(intent).await
    }
    async fn observe(&self, thing: &ResourceRef) -> Result<State> {
        // It forgets its lie after the two reads that a clean-up makes.
        let lies_still = {
            let mut said_gone = self.said_gone.lock().unwrap();
            let lies = said_gone.iter().filter(|id| **id == thing.id).count();
            said_gone.push(thing.id.clone());
            (1..3).contains(&lies)
        };
        if lies_still {
            return Ok(State::Absent);
        }
        self.inner.observe(thing).await
    }
    async fn delete(&self, thing: &ResourceRef) -> Result<Deletion> {
        self.said_gone.lock().unwrap().push(thing.id.clone());
        Ok(Deletion::Accepted)
    }
    fn list<'a>(&'a self, owner: &'a Owner) -> BoxStream<'a, Result<ResourceRef>> {
        self.inner.list(owner)
    }
}

#[async_trait]
impl Provider for Liar {
    fn id(&self) -> &ProviderId {
        self.inner.id()
    }
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn account(&self) -> &str {
        self.inner.account()
    }
    fn endpoint(&self) -> &str {
        self.inner.endpoint()
    }
    async fn preflight(&self, plan: &Plan) -> Result<Vec<Finding>> {
        self.inner.preflight(plan).await
    }
    async fn build(&self, request: Arc<BuildRequest>, creator: Creator, progress: Progress) -> Result<Built> {
        self.inner.build(request, creator, progress).await
    }
    async fn launch(
        &self,
        artifact: &Artifact,
        options: LaunchOptions,
        creator: Creator,
    ) -> Result<Launched> {
        self.inner.launch(artifact, options, creator).await
    }
    async fn attach(&self, thing: &ResourceRef) -> Result<Arc<dyn Sandbox>> {
        self.inner.attach(thing).await
    }
}

impl std::fmt::Display for Liar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("liar")
    }
}
