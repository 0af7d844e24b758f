//! The world, the driver and the state folder of one case, and what must hold at its end.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};

use provider_core::{
    environment::{Artifact, BasePin, BuildRequest, Environment, EnvironmentSpec, Lockfile},
    error::Result,
    lifecycle::{
        Clock, Owned, ResourceKind, Session, SessionConfig, TeardownReport, Timestamp,
        ledger::{self, StateFolder},
        sweep::{SweepOptions, SweepReport, sweep},
    },
    memory::{ManualClock, MemoryProvider, Pace, World},
    names::{Owner, RunId, Stamp, ThingName},
    provider::{LaunchOptions, Provider, Registry},
    sandbox::{Command, Sandbox},
    secret::SecretSet,
};

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, with no runtime of any kind: the lifecycle must need none.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    match block_on_until(future, || false) {
        Some(output) => output,
        None => unreachable!("nothing asked it to stop"),
    }
}

/// As [`block_on`], but gives the future up, and drops it, once `stop` says so after a wake-up of this thread.
pub(crate) fn block_on_until<F: Future>(future: F, stop: impl Fn() -> bool) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if stop() {
            return None;
        }
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        std::thread::park();
    }
}

pub(crate) const OWNER: &str = "acme";

/// Far longer than any wait of the lifecycle, and still no time on a manual clock.
pub(crate) const CLOSE: Duration = Duration::from_secs(3600);

pub(crate) struct Stage {
    pub(crate) clock: ManualClock,
    pub(crate) world: Arc<World>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) folder: tempfile::TempDir,
    foreign: usize,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let world = World::new(Arc::clone(&shared), Pace::SLOW);
        let provider: Arc<dyn Provider> = Arc::new(MemoryProvider::new(&world, shared));
        Self::with(clock, world, provider)
    }

    pub(crate) fn with(clock: ManualClock, world: Arc<World>, provider: Arc<dyn Provider>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the state");
        // Things of others whose names resemble ours, and a thing of ours from another run that still may live.
        for name in [
            Some("px-acme"),
            Some("px-acme-build"),
            Some("px-acmex-zzzzzz-abcdefghijklmn-01"),
            Some("px-acme-000001-abcdefghijklmn-01x"),
            Some("PX-ACME-000001-abcdefghijklmn-010"),
            Some("my-px-acme-000001-abcdefghijklmn-010"),
            None,
        ] {
            for kind in [ResourceKind::Sandbox, ResourceKind::Artifact] {
                world.add_foreign(kind, name);
            }
        }
        let far_future = Timestamp::from_millis(2_524_608_000_000);
        world.add_foreign(ResourceKind::Sandbox, Some(&name_of(OWNER, far_future)));
        // Past its stamp, but of an owner whose mark begins as ours does.
        world.add_foreign(ResourceKind::Sandbox, Some(&name_of("acmeother", Timestamp::from_millis(0))));
        let foreign = world.foreign_left();
        Self { clock, world, provider, folder, foreign }
    }

    pub(crate) fn config(&self) -> SessionConfig {
        SessionConfig::new("proofs")
            .state_folder(self.folder.path())
            .owner(Owner::new(OWNER).expect("a valid owner"))
            .clock(Arc::new(self.clock.clone()))
    }

    pub(crate) fn session(&self) -> Session {
        Session::open(self.config()).expect("a session")
    }

    pub(crate) fn state_folder(&self) -> StateFolder {
        StateFolder::at(self.folder.path())
    }

    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        registry.insert(Arc::clone(&self.provider));
        registry
    }

    pub(crate) fn sweep(&self, options: SweepOptions) -> SweepReport {
        let owner = Owner::new(OWNER).expect("a valid owner");
        let options = options.clock(Arc::new(self.clock.clone()));
        block_on(sweep(self.state_folder(), Some(owner), self.registry(), options)).expect("a sweep")
    }

    pub(crate) fn ledgers(&self) -> usize {
        ledger::files(&self.state_folder()).expect("a list of ledgers").len()
    }

    fn changes(&self) -> usize {
        use provider_core::memory::Call::{CreateArtifact, CreateContext, CreateSandbox, Delete};
        let calls = self.world.calls();
        [CreateArtifact, CreateContext, CreateSandbox, Delete].iter().filter_map(|call| calls.get(call)).sum()
    }

    /// What must hold after a close, whatever went wrong: all that exists is named in the report; after the faults
    /// are gone, one sweep now and one past every stamp leave nothing; a further one changes nothing; nobody
    /// else's thing was touched.
    pub(crate) fn assert_nothing_left(&self, report: &TeardownReport) {
        self.assert_named(report);
        let left = usize::from(!report.stuck.is_empty() || !report.unresolved.is_empty());
        assert_eq!(self.ledgers(), left, "a ledger stays if, and only if, something is left: {report}");
        self.assert_sweep_cleans();
    }

    /// A sweep after all sessions have ended. A process that another thread is just starting shares the locks of
    /// this one until it runs its own program; then the sweep is early, and comes again.
    fn sweep_the_dead(&self) -> SweepReport {
        for _ in 0..1000 {
            let report = self.sweep(SweepOptions::delete());
            if report.in_use.is_empty() {
                return report;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the lock of a dead session is held");
    }

    pub(crate) fn assert_sweep_cleans(&self) {
        self.world.heal();
        self.sweep_the_dead();
        self.clock.advance(Duration::from_secs(3 * 3600));
        let last = self.sweep_the_dead();
        assert!(self.world.holdings().is_empty(), "left: {:?}\n{last:?}", self.world.holdings());
        assert_eq!(self.ledgers(), 0, "{last:?}");
        let before = self.changes();
        let again = self.sweep(SweepOptions::delete());
        assert_eq!(self.changes(), before, "a sweep of nothing changed something: {again:?}");
        self.assert_foreign_untouched();
    }

    pub(crate) fn assert_named(&self, report: &TeardownReport) {
        for thing in self.world.holdings() {
            let named = [&report.stuck, &report.unresolved, &report.kept].into_iter().flatten().any(|line| {
                line.id.as_deref() == Some(&thing.id) || Some(line.name.as_str()) == thing.name.as_deref()
            });
            assert!(named, "{thing:?} exists and is not named in the report:\n{report}");
        }
    }

    pub(crate) fn assert_foreign_untouched(&self) {
        assert!(self.world.foreign_touched().is_empty(), "touched: {:?}", self.world.foreign_touched());
        assert_eq!(self.world.foreign_left(), self.foreign);
        assert!(
            self.world.resent_names().is_empty(),
            "creates were sent again: {:?}",
            self.world.resent_names()
        );
    }
}

/// A name of another run.
fn name_of(owner: &str, expires: Timestamp) -> String {
    let owner = Owner::new(owner).expect("a valid owner");
    ThingName { owner, stamp: Stamp::at(expires), run: RunId::random(), ordinal: 3 }.to_string()
}

pub(crate) fn request() -> BuildRequest {
    let environment = Environment::new(EnvironmentSpec::named("proof"), None).expect("an environment");
    let base = BasePin::unpinned("memory", "fingerprint").expect("a base");
    BuildRequest::new(environment, Lockfile::without_packages(), base, SecretSet::new()).expect("a request")
}

/// Builds, launches and runs a command.
pub(crate) async fn leg(
    session: &Session,
    provider: &Arc<dyn Provider>,
) -> Result<(Owned<Artifact>, Owned<Arc<dyn Sandbox>>)> {
    let artifact = session.build(provider, request()).await?;
    let sandbox = session.launch(provider, &artifact, LaunchOptions::default()).await?;
    sandbox.exec(Command::argv(["true"])).await?;
    Ok((artifact, sandbox))
}
