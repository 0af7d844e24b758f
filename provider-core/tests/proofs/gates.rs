//! The task stops at each gate in turn, and there the caller goes away, its runtime ends, or the session closes.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::Thread,
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt as _};
use provider_core::{
    error::Result,
    lifecycle::{
        Busy, Clock, Gate, Lifetime, Point, Session, SessionConfig, Side, TeardownReport, Timestamp, Verb,
        sweep::{SweepOptions, sweep},
    },
    memory::{Call, Fault, FaultKind, ManualClock, World},
    provider::{LaunchOptions, Provider},
    sandbox::Command,
};
use tokio::sync::Notify;

use crate::{
    stage::{CLOSE, OWNER, Stage, block_on, block_on_until, leg, request},
    tally,
};

/// A place, and the how manieth time that it is passed, counted from 1. How often a lookup is repeated depends on
/// random waits, so a place is named by its step and not by its number among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) point: Point,
    pub(crate) nth: usize,
}

impl Spot {
    /// The spot as words of a child's command line.
    pub(crate) fn to_words(self) -> [String; 2] {
        [self.point.to_string(), self.nth.to_string()]
    }

    pub(crate) fn of_words(point: &str, nth: &str) -> Self {
        let points =
            Verb::ALL.iter().flat_map(|&verb| [Side::Before, Side::After].map(|side| Point { verb, side }));
        let point = points.into_iter().find(|known| known.to_string() == point).expect("a known place");
        Self { point, nth: nth.parse().expect("a number") }
    }
}

/// Runs `case` at each spot of each step, until one is not reached any more, and counts it.
pub(crate) fn at_every_spot(table: &str, verbs: &[Verb], column: &str, case: impl Fn(Spot) -> bool) {
    for &verb in verbs {
        for side in [Side::Before, Side::After] {
            let point = Point { verb, side };
            tally::expect(table, point, column);
            for nth in 1.. {
                if !case(Spot { point, nth }) {
                    break;
                }
                tally::count(table, point, column);
            }
        }
    }
}

/// The steps of a session.
pub(crate) const SESSION_STEPS: [Verb; 12] = [
    Verb::Build,
    Verb::Launch,
    Verb::Create,
    Verb::Find,
    Verb::Observe,
    Verb::Delete,
    Verb::WriteIntent,
    Verb::WriteAcquired,
    Verb::WriteOutcome,
    Verb::WriteDeleted,
    Verb::WriteKept,
    Verb::HandOut,
];

/// The steps of a sweep.
pub(crate) const SWEEP_STEPS: [Verb; 7] = [
    Verb::Find,
    Verb::Observe,
    Verb::Delete,
    Verb::List,
    Verb::WriteAcquired,
    Verb::WriteOutcome,
    Verb::WriteDeleted,
];

/// Stops the lifecycle at a spot after it was armed, until it is opened.
#[derive(Debug)]
pub(crate) struct StopAt {
    spot: Spot,
    armed: AtomicBool,
    passed: AtomicUsize,
    opened: AtomicBool,
    open: Notify,
    stopped_at: Mutex<Option<Point>>,
    waiter: Mutex<Option<Thread>>,
    clock: ManualClock,
}

impl StopAt {
    pub(crate) fn new(spot: Spot, clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            spot,
            armed: AtomicBool::new(false),
            passed: AtomicUsize::new(0),
            opened: AtomicBool::new(false),
            open: Notify::new(),
            stopped_at: Mutex::new(None),
            waiter: Mutex::new(None),
            clock: clock.clone(),
        })
    }

    /// From now on places are counted; this thread is told of the stop.
    pub(crate) fn arm(&self) {
        *self.waiter.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        self.armed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn stopped_at(&self) -> Option<Point> {
        *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(&self) {
        self.opened.store(true, Ordering::SeqCst);
        self.open.notify_one();
    }

    fn stop(&self, point: Point) -> Busy {
        *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(point);
        if let Some(waiter) = &*self.waiter.lock().unwrap_or_else(PoisonError::into_inner) {
            waiter.unpark();
        }
        // Time stands still here, else every deadline would pass while the task is stopped.
        self.clock.busy()
    }
}

/// A handle, since the gate needs itself in its future.
#[derive(Debug)]
pub(crate) struct StopGate(pub(crate) Arc<StopAt>);

impl Gate for StopGate {
    fn pass(&self, point: Point) -> BoxFuture<'static, ()> {
        let stop = Arc::clone(&self.0);
        async move {
            if point != stop.spot.point || !stop.armed.load(Ordering::SeqCst) {
                return;
            }
            if stop.passed.fetch_add(1, Ordering::SeqCst) + 1 != stop.spot.nth {
                return;
            }
            let _busy = stop.stop(point);
            while !stop.opened.load(Ordering::SeqCst) {
                stop.open.notified().await;
            }
        }
        .boxed()
    }
}

fn gated(stage: &Stage, spot: Spot) -> (Arc<StopAt>, SessionConfig) {
    let stop = StopAt::new(spot, &stage.clock);
    let config = stage.config().gate(Arc::new(StopGate(Arc::clone(&stop))));
    (stop, config)
}

/// The rows of the table: each step of a session, on both sides.
pub(crate) const SESSION: &str = "step of a session x what happens there";
/// The same for a sweep.
pub(crate) const SWEEP: &str = "step of a sweep x what happens there";

/// A step that neither table has would be a step that no proof stops at.
pub(crate) fn assert_every_step_has_a_table() {
    for verb in Verb::ALL {
        assert!(SESSION_STEPS.contains(&verb) || SWEEP_STEPS.contains(&verb), "{verb:?} is in no table");
    }
}

/// What is done while the gate is armed. All steps of a session are passed, those after a lost answer too.
pub(crate) async fn everything(
    session: &Session,
    provider: &Arc<dyn Provider>,
    now: Timestamp,
) -> Result<()> {
    let until = Lifetime::Until(now.after(Duration::from_secs(3600)));
    let artifact = session.build(provider, request().with_lifetime(until, now)?).await?;
    let sandbox = session.launch(provider, &artifact, LaunchOptions::default()).await?;
    sandbox.exec(Command::argv(["true"])).await?;
    sandbox.close().await?;
    artifact.keep("for the proof").await?;
    Ok(())
}

/// The context's answer is lost before it has an effect, the sandbox's after it.
pub(crate) fn lose_answers(world: &World) {
    let done = world.calls();
    let next = |call| done.get(&call).copied().unwrap_or(0) + 1;
    world.inject(Fault::once(Call::CreateContext, next(Call::CreateContext), FaultKind::LostBefore));
    world.inject(Fault::once(Call::CreateSandbox, next(Call::CreateSandbox), FaultKind::LostAfter));
}

/// Runs a session that stops at each of its spots.
fn at_every_gate(column: &str, case: impl Fn(&Stage, &StopAt, Session) -> TeardownReport) {
    at_every_spot(SESSION, &SESSION_STEPS, column, |spot| {
        let stage = Stage::new();
        let (stop, config) = gated(&stage, spot);
        let session = Session::open(config).expect("a session");
        // Something of ours exists from the start, so that no case is about nothing.
        let first = block_on(leg(&session, &stage.provider)).expect("a first leg");
        assert_eq!(stage.world.holdings().len(), 3);
        lose_answers(&stage.world);
        stop.arm();
        let report = case(&stage, &stop, session);
        assert!(report.stuck.is_empty(), "{report}");
        stage.assert_nothing_left(&report);
        drop(first);
        stop.stopped_at().is_some()
    });
}

/// A62: the caller goes away at each step.
pub(crate) fn drop_at_every_gate() {
    at_every_gate("caller dropped", |stage, stop, session| {
        let now = stage.clock.now();
        // Stopped, the future is dropped, and the task goes on.
        let ended =
            block_on_until(everything(&session, &stage.provider, now), || stop.stopped_at().is_some());
        stop.open();
        assert!(ended.is_none_or(|ended| ended.is_ok()));
        block_on(session.close(CLOSE))
    });
}

pub(crate) fn close_at_every_gate() {
    at_every_gate("session closed", |stage, stop, session| {
        let now = stage.clock.now();
        let mut work = std::pin::pin!(everything(&session, &stage.provider, now));
        let ended = block_on_until(&mut work, || stop.stopped_at().is_some());
        let closing = session.close(CLOSE);
        stop.open();
        if ended.is_none() {
            // It ends by itself, with an answer, however far it was.
            drop(block_on(work));
        }
        block_on(closing)
    });
}

pub(crate) fn runtime_gone_at_every_gate() {
    at_every_gate("runtime gone", |stage, stop, session| {
        let session = Arc::new(session);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (provider, user, now) = (Arc::clone(&stage.provider), Arc::clone(&session), stage.clock.now());
        let me = std::thread::current();
        let task = runtime.spawn(async move {
            let made = everything(&user, &provider, now).await;
            me.unpark();
            made
        });
        while stop.stopped_at().is_none() && !task.is_finished() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        // The caller's runtime ends while the request is in flight, with guards alive in its tasks.
        runtime.shutdown_background();
        stop.open();
        drop(task);
        block_on(session.close(CLOSE))
    });
}

/// What a dead session may leave: an acquired sandbox, artifact and context, and an intent without an answer.
pub(crate) fn leave_a_ledger(stage: &Stage) {
    let session = stage.session();
    let made = block_on(leg(&session, &stage.provider)).expect("a leg");
    stage.world.inject(Fault::always(Call::Delete, FaultKind::Forbidden));
    stage.world.inject(Fault::always(Call::Find, FaultKind::Forbidden));
    lose_answers(&stage.world);
    let _ = block_on(session.build(&stage.provider, request()));
    let calls = stage.world.calls();
    let next = calls.get(&Call::CreateContext).copied().unwrap_or(0) + 1;
    stage.world.inject(Fault::once(Call::CreateContext, next, FaultKind::LostAfter));
    let _ = block_on(session.build(&stage.provider, request()));
    let report = block_on(session.close(CLOSE));
    assert_eq!((report.stuck.len(), report.unresolved.len()), (3, 2), "{report}");
    stage.world.heal();
    drop(made);
}

pub(crate) fn sweep_dropped_at_every_gate() {
    at_every_spot(SWEEP, &SWEEP_STEPS, "caller dropped", |spot| {
        let stage = Stage::new();
        leave_a_ledger(&stage);
        assert_eq!(stage.world.holdings().len(), 4);
        stage.clock.advance(Duration::from_secs(2 * 3600));
        let stop = StopAt::new(spot, &stage.clock);
        stop.arm();
        let gate = Arc::new(StopGate(Arc::clone(&stop)));
        let options = SweepOptions::delete().clock(Arc::new(stage.clock.clone())).gate(gate);
        let owner = provider_core::names::Owner::new(OWNER).expect("a valid owner");
        let sweeping = sweep(stage.state_folder(), Some(owner), stage.registry(), options);
        let ended = block_on_until(sweeping, || stop.stopped_at().is_some());
        stop.open();
        assert!(ended.is_none_or(|ended| ended.is_ok()));
        // The sweep goes on by itself; another one passes over what it holds and comes again.
        stage.assert_sweep_cleans();
        stop.stopped_at().is_some()
    });
}
