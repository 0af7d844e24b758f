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
        Intent, ResourceKind, Session, SessionConfig, Timestamp,
        ledger::StateFolder,
        sweep::{SweepOptions, SweepReport, sweep},
    },
    names::{Owner, RunId},
    provider::{Deletion, Found, LaunchOptions, Provider, Registry, State},
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
        let marker = format!("48.{:07}", std::process::id());
        say(&**sandbox, &format!("sleep {marker} >/dev/null 2>&1 &")).await;
        println!("ready {marker}");
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

/// What follows the word in the line that begins with it.
fn wait_for(word: &str, stdout: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    while !line.starts_with(word) {
        line.clear();
        let read = stdout.read_line(&mut line).expect("a line");
        assert_ne!(read, 0, "the other process ended before {word:?}");
    }
    line.trim_start_matches(word).trim().to_owned()
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
        let marker = wait_for("ready", &mut stdout);
        assert_eq!(processes_with(&marker).len(), 1);
        let in_use = sweep_up(&world).await;
        assert_eq!(in_use.in_use.len(), 1, "a living session is left alone: {in_use:?}");
        assert_eq!(processes_with(&marker).len(), 1);
        child.kill().expect("killed");
        child.wait().expect("reaped");
        let report = sweep_up(&world).await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.result.deleted.len(), 2, "sandbox and record: {report:?}");
        assert_eq!(processes_with(&marker), [0; 0]);
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

/// What is cut off between the way in and the folder of boxes, or between that and the trash, has the name too.
pub(crate) fn what_was_cut_off_on_its_way_is_found_by_name() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let intent = |kind, ordinal| Intent {
            owner: Owner::random(),
            run: RunId::random(),
            ordinal,
            kind,
            slot: "test".into(),
            provider: world.provider.id().clone(),
            account: world.provider.account().to_owned(),
            endpoint: world.provider.endpoint().to_owned(),
            expires: None,
            at: Timestamp::from_millis(0),
        };
        for (ordinal, (kind, folder, ending)) in [
            (ResourceKind::Sandbox, "tmp", ".1-1-1"),
            (ResourceKind::Intermediate, "trash", ".1-2-1"),
            (ResourceKind::Artifact, "tmp", ".json.1-3-1"),
            (ResourceKind::Sandbox, "box", ""),
        ]
        .into_iter()
        .enumerate()
        {
            let intent = intent(kind, ordinal as u32 + 1);
            assert_eq!(world.provider.find(&intent).await.expect("an answer"), Found::Absent);
            let path = world.store().join(folder).join(format!("{}{ending}", intent.name()));
            if kind == ResourceKind::Artifact {
                std::fs::write(&path, "{}").expect("a file");
            } else {
                std::fs::create_dir(&path).expect("a folder");
                std::fs::write(path.join("lock"), "").expect("a file");
            }
            let Found::Things(things) = world.provider.find(&intent).await.expect("an answer") else {
                panic!("{folder}: not found");
            };
            assert_eq!(world.provider.observe(&things[0]).await.expect("a state"), State::Stopped);
            assert_eq!(world.provider.delete(&things[0]).await.expect("an answer"), Deletion::Accepted);
            assert_eq!(world.provider.observe(&things[0]).await.expect("a state"), State::Absent);
            assert_eq!(world.provider.delete(&things[0]).await.expect("an answer"), Deletion::AlreadyGone);
            world.assert_clean();
        }
    });
    Ok(())
}
