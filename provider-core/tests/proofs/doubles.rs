//! Everything twice: closes, deletions, sweeps, sessions.

use std::sync::Arc;

use provider_core::{
    error::Code,
    lifecycle::{Gate, Point, Session, Side, Verb, sweep::SweepOptions},
    memory::{Call, Fault, FaultKind},
    provider::LaunchOptions,
    sandbox::Command,
};

use crate::{
    stage::{CLOSE, Stage, block_on, leg, request},
    tally,
};

fn case(name: &str, body: impl FnOnce(&Stage)) {
    let stage = Stage::new();
    body(&stage);
    assert!(stage.world.created() > 0, "{name}: nothing of ours ever existed");
    assert!(stage.world.holdings().is_empty(), "{name}: left {:?}", stage.world.holdings());
    stage.assert_sweep_cleans();
    tally::count("everything twice", name, "cases");
}

/// The control thread works by itself; this thread only looks.
fn wait_until(done: impl Fn() -> bool, what: &str) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("not seen: {what}");
}

/// The rows and requests of one thing come in the one order that survives a crash between any two of them.
pub(crate) fn order_of_steps() {
    #[derive(Debug, Default)]
    struct Record(std::sync::Mutex<Vec<Point>>);
    #[derive(Debug)]
    struct RecordGate(Arc<Record>);
    impl Gate for RecordGate {
        fn pass(&self, point: Point) -> futures_util::future::BoxFuture<'static, ()> {
            self.0.0.lock().expect("the record").push(point);
            Box::pin(async {})
        }
    }
    let stage = Stage::new();
    let record = Arc::new(Record::default());
    let gate = Arc::new(RecordGate(Arc::clone(&record)));
    let session = Session::open(stage.config().gate(gate)).expect("a session");
    let made = block_on(leg(&session, &stage.provider)).expect("a leg");
    let passed = record.0.lock().expect("the record").clone();
    let of_doors: Vec<Point> = passed
        .into_iter()
        .filter(|point| {
            matches!(point.verb, Verb::WriteIntent | Verb::Create | Verb::WriteAcquired | Verb::HandOut)
        })
        .collect();
    let pair = |verb| [Point { verb, side: Side::Before }, Point { verb, side: Side::After }];
    let door: Vec<Point> = [Verb::WriteIntent, Verb::Create, Verb::WriteAcquired, Verb::HandOut]
        .into_iter()
        .flat_map(pair)
        .collect();
    assert_eq!(of_doors[..16], [&door[..], &door[..]].concat(), "the two doors of a build");
    assert!(block_on(session.close(CLOSE)).is_clean());
    drop(made);
    tally::count("everything twice", "order of steps", "cases");
}

/// A lookup that answers with things of others: they are not adopted, not deleted, and what is ours is named.
pub(crate) fn sloppy_lookups() {
    for (call, kind) in [
        (Call::CreateContext, FaultKind::LostAfter),
        (Call::CreateArtifact, FaultKind::HangAfter),
        (Call::CreateSandbox, FaultKind::Garbled),
    ] {
        let stage = Stage::new();
        stage.world.find_sloppily();
        stage.world.inject(Fault::once(call, 1, kind));
        let session = stage.session();
        let error = block_on(leg(&session, &stage.provider)).expect_err("what was found is not ours");
        let report = block_on(session.close(CLOSE));
        assert_eq!(report.unresolved.len(), 1, "{error}\n{report}");
        stage.assert_named(&report);
        stage.assert_foreign_untouched();
        // It ends by its stamp: as a sandbox by itself, else by the next sweep past it.
        stage.clock.advance(std::time::Duration::from_secs(3 * 3600));
        stage.sweep(SweepOptions::delete());
        assert!(stage.world.holdings().is_empty(), "left: {:?}", stage.world.holdings());
        stage.assert_foreign_untouched();
        tally::count("everything twice", "sloppy lookups", "cases");
    }
}

pub(crate) fn double_everything() {
    case("close twice, one after the other", |stage| {
        let session = stage.session();
        let made = block_on(leg(&session, &stage.provider));
        let first = block_on(session.close(CLOSE));
        assert_eq!(first, block_on(session.close(CLOSE)));
        assert_eq!(first.deleted.len(), 3);
        drop(made);
    });
    case("close twice at once, one of them dropped", |stage| {
        let session = stage.session();
        let _made = block_on(leg(&session, &stage.provider));
        drop(session.close(CLOSE));
        let (one, two) = block_on(futures_util::future::join(session.close(CLOSE), session.close(CLOSE)));
        assert!(one == two && one.is_clean());
    });
    case("guard closed, then session closed", |stage| {
        let session = stage.session();
        let (artifact, sandbox) = block_on(leg(&session, &stage.provider)).expect("a leg");
        block_on(sandbox.close()).expect("deleted");
        block_on(artifact.close()).expect("deleted");
        let report = block_on(session.close(CLOSE));
        assert_eq!((report.deleted.len(), report.already_gone.len()), (3, 0), "{report}");
    });
    case("guard dropped without a runtime, on another thread", |stage| {
        let session = stage.session();
        let made = block_on(leg(&session, &stage.provider)).expect("a leg");
        std::thread::spawn(move || drop(made)).join().expect("dropping never panics");
        wait_until(|| stage.world.holdings().is_empty(), "what was dropped is deleted before the close");
        assert!(block_on(session.close(CLOSE)).is_clean());
    });
    case("guard used and dropped after the close", |stage| {
        let session = stage.session();
        let (artifact, sandbox) = block_on(leg(&session, &stage.provider)).expect("a leg");
        assert!(block_on(session.close(CLOSE)).is_clean());
        let late = block_on(sandbox.exec(Command::argv(["true"]))).expect_err("it is gone");
        assert_eq!(late.code(), Code::SandboxGone);
        let late = block_on(session.launch(&stage.provider, &artifact, LaunchOptions::default()));
        assert_eq!(late.expect_err("the session is closed").code(), Code::SessionClosed);
        let before = stage.world.calls();
        drop((artifact, sandbox));
        assert_eq!(before, stage.world.calls());
    });
    case("session dropped instead of closed", |stage| {
        let session = Session::open(stage.config().drop_grace(CLOSE)).expect("a session");
        let made = block_on(leg(&session, &stage.provider)).expect("a leg");
        drop(session);
        assert_eq!(stage.ledgers(), 0);
        drop(made);
    });
    case("caller panics between build and launch", |stage| {
        let session = stage.session();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _artifact = block_on(session.build(&stage.provider, request())).expect("an artifact");
            panic!("injected panic of the caller");
        }));
        assert!(panicked.is_err());
        assert!(block_on(session.close(CLOSE)).is_clean());
    });
    sessions_and_sweeps();
    crate::kept::kept_things();
}

fn sessions_and_sweeps() {
    case("a sweep while the owner lives", |stage| {
        let session = stage.session();
        let made = block_on(leg(&session, &stage.provider)).expect("a leg");
        let swept = stage.sweep(SweepOptions::delete());
        assert_eq!(swept.in_use.len(), 1, "{swept:?}");
        assert_eq!(stage.world.holdings().len(), 3, "a living session's things were deleted");
        assert!(block_on(made.1.exec(Command::argv(["true"]))).is_ok());
        assert!(block_on(session.close(CLOSE)).is_clean());
    });
    case("a sweep while the owner lives past its budget", |stage| {
        let session = stage.session();
        let made = block_on(leg(&session, &stage.provider)).expect("a leg");
        stage.clock.advance(std::time::Duration::from_secs(3 * 3600));
        let swept = stage.sweep(SweepOptions::delete());
        assert_eq!((swept.in_use.len(), swept.result.deleted.len()), (1, 0), "{swept:?}");
        assert_eq!(
            stage.world.holdings().len(),
            2,
            "the sandbox has expired; the rest belongs to a living session"
        );
        assert!(block_on(session.close(CLOSE)).is_clean());
        drop(made);
    });
    case("two sessions of one owner", |stage| {
        let (one, two) = (stage.session(), stage.session());
        let first = block_on(leg(&one, &stage.provider)).expect("a leg");
        let second = block_on(leg(&two, &stage.provider)).expect("a leg");
        assert!(block_on(one.close(CLOSE)).is_clean());
        assert_eq!(stage.world.holdings().len(), 3, "the other session's things were deleted");
        assert!(block_on(second.1.exec(Command::argv(["true"]))).is_ok());
        assert!(block_on(two.close(CLOSE)).is_clean());
        drop((first, second));
    });
    case("two sweeps at once", |stage| {
        let session = stage.session();
        let made = block_on(leg(&session, &stage.provider)).expect("a leg");
        stage.world.inject(Fault::always(Call::Delete, FaultKind::Unauthenticated));
        let report = block_on(session.close(CLOSE));
        assert_eq!(report.stuck.len(), 3, "a refusal of the credentials was taken for gone: {report}");
        assert!(
            report
                .stuck
                .iter()
                .all(|line| line.reason.as_deref().is_some_and(|why| why.contains("injected")))
        );
        stage.world.heal();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| stage.sweep(SweepOptions::delete()));
            }
        });
        drop(made);
    });
    case("a look, then a sweep", |stage| {
        let session = stage.session();
        let made = block_on(leg(&session, &stage.provider)).expect("a leg");
        stage.world.inject(Fault::always(Call::Delete, FaultKind::Forbidden));
        let _ = block_on(session.close(CLOSE));
        stage.world.heal();
        let calls = stage.world.calls().get(&Call::Delete).copied();
        let looked = stage.sweep(SweepOptions::look());
        assert_eq!(looked.owing.len(), 3, "{looked:?}");
        assert_eq!((stage.world.holdings().len(), stage.ledgers()), (3, 1), "looking changed something");
        assert_eq!(stage.world.calls().get(&Call::Delete).copied(), calls, "looking deleted");
        let swept = stage.sweep(SweepOptions::delete());
        assert_eq!(swept.result.deleted.len(), 3, "{swept:?}");
        drop(made);
    });
    case("more things than allowed", |stage| {
        let session = Session::open(stage.config().max_things(4)).expect("a session");
        let first = block_on(leg(&session, &stage.provider)).expect("a leg of three things");
        let error = block_on(leg(&session, &stage.provider)).expect_err("the fifth thing is refused");
        assert_eq!(error.code(), Code::LimitReached);
        assert!(block_on(session.close(CLOSE)).is_clean());
        assert_eq!(stage.world.created(), 4);
        drop(first);
    });
}
