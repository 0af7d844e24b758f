//! A child process is killed at each gate in turn; a sweep by its parent finds what it left.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::BoxFuture;
use provider_core::{
    lifecycle::{
        Clock, Gate, Point, Session, SessionConfig,
        ledger::StateFolder,
        sweep::{SweepOptions, sweep},
    },
    memory::{ManualClock, MemoryProvider, Pace, World, serve},
    names::Owner,
    provider::{Plan, Provider, Registry},
};

use crate::{
    gates::{
        SESSION, SESSION_STEPS, SWEEP, SWEEP_STEPS, Spot, at_every_spot, everything, leave_a_ledger,
        lose_answers,
    },
    stage::{CLOSE, OWNER, Stage, block_on, leg},
};

const AS_CHILD: &str = "--as-child";
const SIGKILL: i32 = 9;

/// Kills its own process at a spot.
#[derive(Debug)]
struct KillAt {
    spot: Spot,
    passed: AtomicUsize,
}

impl Gate for KillAt {
    fn pass(&self, point: Point) -> BoxFuture<'static, ()> {
        if point == self.spot.point && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.spot.nth {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal may take a moment, in which nothing more must happen.
            loop {
                std::thread::park();
            }
        }
        Box::pin(async {})
    }
}

/// The child's part: a whole session, or a sweep, against the world of the parent.
pub(crate) fn be_the_child_if_asked() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, as_child, part, socket, folder, point, nth] = &arguments[..] else {
        return;
    };
    if as_child != AS_CHILD {
        return;
    }
    let clock = ManualClock::new();
    let provider: Arc<dyn Provider> = Arc::new(MemoryProvider::remote(socket, Pace::SLOW, clock.clone()));
    // The first answer tells the time of the parent.
    block_on(provider.preflight(&Plan::default())).expect("a world");
    let gate = Arc::new(KillAt { spot: Spot::of_words(point, nth), passed: AtomicUsize::new(0) });
    let owner = Owner::new(OWNER).expect("a valid owner");
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    if part == "sweep" {
        let mut registry = Registry::new();
        registry.insert(provider);
        let options = SweepOptions::delete().clock(shared).gate(gate);
        block_on(sweep(StateFolder::at(folder), Some(owner), registry, options)).expect("a sweep");
    } else {
        let config = SessionConfig::new("child").state_folder(folder).owner(owner).clock(shared).gate(gate);
        let session = Session::open(config).expect("a session");
        block_on(everything(&session, &provider, clock.now())).expect("everything");
        let report = block_on(session.close(CLOSE));
        assert!(report.stuck.is_empty(), "{report}");
    }
    std::process::exit(0);
}

/// The parent's world, served at a socket.
struct Parent {
    stage: Stage,
    socket: PathBuf,
}

impl Parent {
    fn new() -> Self {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let world = World::new(Arc::clone(&shared), Pace::SLOW);
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let socket = folder.keep().join("world");
        let provider: Arc<dyn Provider> = Arc::new(MemoryProvider::serving(&world, &socket, shared));
        block_on(serve(Arc::clone(&world), clock.clone(), &socket)).expect("a served world");
        Self { stage: Stage::with(clock, world, provider), socket }
    }

    /// Runs the child, and says whether it was killed before it came to its end.
    fn child_is_killed(&self, part: &str, spot: Spot) -> bool {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args([AS_CHILD, part])
            .args([self.socket.as_path(), self.stage.folder.path()])
            .args(spot.to_words())
            .output()
            .expect("a child");
        if child.status.success() {
            return false;
        }
        assert_eq!(
            child.status.signal(),
            Some(SIGKILL),
            "{part} {spot:?}: {}",
            String::from_utf8_lossy(&child.stderr)
        );
        true
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.socket.parent().map(std::fs::remove_dir_all::<&Path>);
    }
}

/// A44: what a killed process left is what its ledger names, and a second sweep has nothing to do.
pub(crate) fn kill_at_every_gate() {
    at_every_spot(SESSION, &SESSION_STEPS, "killed", |spot| {
        let parent = Parent::new();
        let stage = &parent.stage;
        // A session of the parent lives through all of it.
        let session = stage.session();
        let first = block_on(leg(&session, &stage.provider)).expect("a first leg");
        lose_answers(&stage.world);
        let killed = parent.child_is_killed("session", spot);
        let swept = stage.sweep(SweepOptions::delete());
        assert_eq!(swept.in_use.len(), 1, "the parent's own session was swept: {swept:?}");
        assert!(block_on(first.1.exec(provider_core::sandbox::Command::argv(["true"]))).is_ok());
        assert!(block_on(session.close(CLOSE)).is_clean());
        for left in stage.world.holdings() {
            let named = swept.result.unresolved.iter().any(|line| Some(&line.name) == left.name.as_ref());
            let kept = stage.state_folder().kept().expect("the kept things").0;
            let kept = kept.iter().any(|kept| kept.thing.id == left.id);
            assert!(named || kept, "{spot:?}: {left:?} is left and not named: {swept:?}");
        }
        stage.assert_sweep_cleans();
        killed
    });
}

pub(crate) fn kill_a_sweep_at_every_gate() {
    at_every_spot(SWEEP, &SWEEP_STEPS, "killed", |spot| {
        let parent = Parent::new();
        let stage = &parent.stage;
        leave_a_ledger(stage);
        stage.clock.advance(std::time::Duration::from_secs(2 * 3600));
        let killed = parent.child_is_killed("sweep", spot);
        stage.assert_sweep_cleans();
        killed
    });
}
