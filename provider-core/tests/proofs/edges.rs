//! Deadlines that pass at the worst moment, and one thing that must not take the time or the record of others.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use provider_core::{
    error::Code,
    lifecycle::{Clock, Gate, Point, Session, Side, Verb, ledger, sweep::SweepOptions},
    memory::{Call, Fault, FaultKind, MemoryProvider, Pace, World},
    provider::{LaunchOptions, Provider},
};

use crate::{
    gates::leave_a_ledger,
    stage::{CLOSE, Stage, block_on, leg, request},
    tally,
};

pub(crate) fn edges() {
    for (name, case) in [
        ("a torn line of a kept thing", torn_kept_line as fn()),
        ("one thing that does not go, before a close", close_is_shared),
        ("one marked thing that does not go", marks_are_shared),
        ("a torn ledger of a later version", later_version_is_not_cut),
        ("a launch after the budget", no_life_left),
        ("a close that ends while an intent is written", late_intent),
        ("a close that ends while a create is under way", late_answer),
    ] {
        case();
        tally::count("edges", name, "cases");
    }
}

/// It was never relied on, and must not keep any sweep from its work.
fn torn_kept_line() {
    let stage = Stage::new();
    leave_a_ledger(&stage);
    lose_ledgers(&stage);
    fs::write(stage.folder.path().join("kept.jsonl"), "{\"run\":\"torn").expect("a torn line");
    stage.clock.advance(Duration::from_secs(3 * 3600));
    for _ in 0..2 {
        let swept = stage.sweep(SweepOptions::delete());
        assert!(swept.not_swept.is_empty(), "{swept:?}");
    }
    assert!(stage.world.holdings().is_empty(), "left: {:?}", stage.world.holdings());
}

fn lose_ledgers(stage: &Stage) {
    fs::remove_dir_all(stage.folder.path().join("ledgers")).expect("the ledgers are lost");
}

/// A deletion in the background does not take the close's time from the things of a healthy provider.
fn close_is_shared() {
    let stage = Stage::new();
    let shared: Arc<dyn Clock> = Arc::new(stage.clock.clone());
    let other = World::new(Arc::clone(&shared), Pace::SLOW);
    let bad: Arc<dyn Provider> = Arc::new(MemoryProvider::new(&other, shared));
    let session = stage.session();
    let good = block_on(leg(&session, &stage.provider)).expect("a leg");
    let stuck = block_on(leg(&session, &bad)).expect("a leg");
    other.inject(Fault::always(Call::Delete, FaultKind::ErrorBefore));
    drop(stuck.1);
    let report = block_on(session.close(Duration::from_secs(300)));
    assert!(stage.world.holdings().is_empty(), "left: {:?}\n{report}", stage.world.holdings());
    assert_eq!(report.stuck.len(), 3, "{report}");
    drop((good, stuck.0));
}

fn marks_are_shared() {
    let stage = Stage::new();
    leave_a_ledger(&stage);
    lose_ledgers(&stage);
    stage.clock.advance(Duration::from_secs(3 * 3600));
    let done = stage.world.calls().get(&Call::Delete).copied().unwrap_or(0);
    // The first kinds are the children; only the last answers at all.
    stage.world.inject(Fault { times: 9, ..Fault::once(Call::Delete, done + 1, FaultKind::HangBefore) });
    let swept = stage.sweep(SweepOptions::delete());
    assert!(!swept.result.deleted.is_empty(), "{swept:?}");
    stage.assert_sweep_cleans();
}

fn later_version_is_not_cut() {
    let stage = Stage::new();
    leave_a_ledger(&stage);
    let path = ledger::files(&stage.state_folder()).expect("the ledgers").remove(0);
    let strange = "{\"row\":\"open\",\"version\":2}\nfrom the future, without an end";
    let ours = fs::read(&path).expect("the ledger");
    fs::write(&path, strange).expect("a strange ledger");
    stage.sweep(SweepOptions::delete());
    assert_eq!(fs::read_to_string(&path).expect("the ledger"), strange);
    fs::write(&path, ours).expect("the old ledger");
    stage.assert_sweep_cleans();
}

fn no_life_left() {
    let stage = Stage::new();
    let session = stage.session();
    let artifact = block_on(session.build(&stage.provider, request())).expect("an artifact");
    stage.clock.advance(Duration::from_secs(3601));
    let before = stage.world.created();
    let error = block_on(session.launch(&stage.provider, &artifact, LaunchOptions::default()));
    assert_eq!(error.expect_err("no time is left").code(), Code::LimitReached);
    assert_eq!(stage.world.created(), before);
    let report = block_on(session.close(CLOSE));
    assert!(report.is_clean(), "{report}");
}

/// Holds the lifecycle at a place until it is let go.
#[derive(Debug)]
struct Hold {
    point: Point,
    reached: AtomicBool,
    let_go: AtomicBool,
}

#[derive(Debug)]
struct HoldGate(Arc<Hold>);

impl Gate for HoldGate {
    fn pass(&self, point: Point) -> BoxFuture<'static, ()> {
        let hold = Arc::clone(&self.0);
        Box::pin(async move {
            while point == hold.point && !hold.let_go.load(Ordering::SeqCst) {
                hold.reached.store(true, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        })
    }
}

/// Closes without any time while a build is held at `point`, and says what is in the world when it has been let go.
fn closed_at(point: Point) -> (Stage, usize) {
    let stage = Stage::new();
    let hold = Arc::new(Hold { point, reached: AtomicBool::new(false), let_go: AtomicBool::new(false) });
    let config = stage.config().gate(Arc::new(HoldGate(Arc::clone(&hold))));
    let session = Session::open(config).expect("a session");
    let provider = Arc::clone(&stage.provider);
    let building = session.build(&provider, request());
    let built = std::thread::spawn(move || block_on(building).map(|_| ()));
    while !hold.reached.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let report = block_on(session.close(Duration::ZERO));
    hold.let_go.store(true, Ordering::SeqCst);
    let error = built.join().expect("no panic").expect_err("the session is closed");
    assert_eq!(error.code(), Code::SessionClosed, "{error}");
    drop(session);
    (stage, report.unresolved.len() + report.stuck.len())
}

fn late_intent() {
    let (stage, _) = closed_at(Point { verb: Verb::WriteIntent, side: Side::After });
    assert_eq!(stage.world.created(), 0, "something was created after the session had ended");
    stage.assert_sweep_cleans();
}

fn late_answer() {
    let (stage, named) = closed_at(Point { verb: Verb::Create, side: Side::After });
    assert_eq!((stage.world.created(), named), (1, 1), "what was created is not named");
    assert_eq!(stage.ledgers(), 1);
    stage.assert_sweep_cleans();
}
