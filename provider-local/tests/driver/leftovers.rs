//! What a killed process leaves is found and deleted by another, through find, observe and delete alone.

use std::{
    io::BufReader,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use provider_core::{
    lifecycle::{
        Session, SessionConfig,
        ledger::StateFolder,
        sweep::{SweepOptions, SweepReport, sweep},
    },
    provider::{LaunchOptions, Provider, Registry},
};
use provider_local::{LocalConfig, LocalProvider};

use crate::{common::*, leg::full_spec};

/// The first argument that makes this program the one that is killed.
pub(crate) const CHILD: &str = "the-one-that-is-killed";

/// Builds, launches, says so, and waits to be killed.
pub(crate) fn child(folder: &Path) {
    on_a_runtime(async {
        let driver = LocalProvider::open(LocalConfig::new(folder.join("local"))).expect("a driver");
        println!("begins");
        let session = Session::open(SessionConfig::new("killed").state_folder(folder.join("ledgers")));
        let session = session.expect("a session");
        let world = World::at(folder, driver);
        let artifact = world.build(&session, full_spec()).await.expect("an artifact");
        let provider: Arc<dyn Provider> = Arc::clone(&world.provider);
        let sandbox =
            session.launch(&provider, &artifact, LaunchOptions::default()).await.expect("a sandbox");
        say(&**sandbox, "sleep 471501 >/dev/null 2>&1 &").await;
        println!("ready");
        pause(LIMIT).await;
    });
}

fn start(world: &World) -> (Child, BufReader<std::process::ChildStdout>) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .arg(CHILD)
        .arg(world.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let stdout = BufReader::new(child.stdout.take().expect("its output"));
    (child, stdout)
}

fn wait_for(word: &str, stdout: &mut impl std::io::BufRead) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        let read = stdout.read_line(&mut line).expect("a line");
        assert_ne!(read, 0, "the other process ended before {word:?}");
    }
}

async fn sweep_up(world: &World) -> SweepReport {
    let mut registry = Registry::new();
    registry.insert(Arc::clone(&world.provider));
    let options = SweepOptions::delete().deadline(Duration::from_secs(20));
    sweep(StateFolder::at(world.ledgers()), None, registry, options).await.expect("a sweep")
}

pub(crate) fn a_killed_process_leaves_what_another_deletes() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (mut child, mut stdout) = start(&world);
        wait_for("ready", &mut stdout);
        assert_eq!(processes_with("471501").len(), 1);
        let in_use = sweep_up(&world).await;
        assert_eq!(in_use.in_use.len(), 1, "a living session is left alone: {in_use:?}");
        assert_eq!(processes_with("471501").len(), 1);
        child.kill().expect("killed");
        child.wait().expect("reaped");
        let report = sweep_up(&world).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.result.deleted.len(), 2, "sandbox and record: {report:?}");
        assert_eq!(processes_with("471501"), [0; 0]);
        world.assert_clean();
    });
    Ok(())
}

/// Killed at moments spread over its whole work.
pub(crate) fn a_process_killed_at_any_moment_leaves_nothing_for_good() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let start_of_work = Instant::now();
        let (mut child, mut stdout) = start(&world);
        wait_for("begins", &mut stdout);
        let begin = start_of_work.elapsed();
        wait_for("ready", &mut stdout);
        let whole = start_of_work.elapsed() - begin;
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(sweep_up(&world).await.is_clean());
        world.assert_clean();
        let moments = 10;
        for moment in 0..moments {
            // Without the layers of the one before, each has all the work to do.
            let world = World::new();
            let (mut child, mut stdout) = start(&world);
            wait_for("begins", &mut stdout);
            pause(whole * moment / moments).await;
            child.kill().expect("killed");
            child.wait().expect("reaped");
            let report = sweep_up(&world).await;
            assert!(report.is_clean(), "moment {moment}: {report:?}");
            world.assert_clean();
            let session = world.session();
            drop(world.build(&session, full_spec()).await.expect("the next build works"));
            world.close(&session).await;
        }
    });
    Ok(())
}
