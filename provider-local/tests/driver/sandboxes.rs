//! Sandboxes and what becomes of them: shared nothing, lost, expired, attached to, refused.

use std::{fs, time::Duration};

use provider_core::{
    environment::{Artifact, EnvironmentSpec},
    error::Code,
    lifecycle::{ResourceKind, Session, SessionConfig},
    provider::{Builder as _, Deletion, Existence, LaunchOptions, Provider as _, Reclaim as _, State},
    resources::{MiB, Resources},
    sandbox::Command,
};

use crate::{common::*, leg::full_spec};

pub(crate) fn two_sandboxes_of_one_artifact_share_nothing() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, artifact, first) = world.sandbox().await;
        let options = LaunchOptions::default().env_var("WHO", "second");
        let second = session.launch(&world.provider, &artifact, options).await.expect("a sandbox");
        say(&**first, "echo first >here; echo x >/tmp/there; sleep 471401 >/dev/null 2>&1 &").await;
        assert_eq!(say(&**second, "ls; ls /tmp; echo $WHO").await, "second\n");
        assert_eq!(say(&**first, "echo $WHO").await, "\n");
        let killer = exec(&**second, Command::shell("kill -9 -1; exit 3")).await;
        assert!(!killer.status.success(), "it killed itself as well");
        assert_eq!(processes_with("471401").len(), 1, "the other's process lives");
        first.close().await.expect("closed");
        assert_eq!(processes_with("471401"), [0; 0]);
        say(&**second, "true").await;
        let third = world.launch(&session, &artifact).await;
        assert_eq!(say(&**third, "ls").await, "", "a new one is empty");
        world.close(&session).await;
    });
    Ok(())
}

/// A67: its processes are killed from outside. Every use is a loud, typed error, and a new one is empty.
pub(crate) fn a_lost_sandbox_answers_loudly() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, artifact, lost) = world.sandbox().await;
        say(&**lost, "echo kept >file; sleep 471402 >/dev/null 2>&1 &").await;
        let open = lost.exec(Command::argv(["sleep", &*marked("471403")]));
        let kill = async {
            wait_until("it runs", || !processes_with("471403").is_empty()).await;
            kill_first_process("471402");
        };
        let (cut, ()) = tokio::join!(open, kill);
        assert_code(cut, Code::SandboxGone);
        assert_code(lost.exec(Command::argv(["true"])).await, Code::SandboxGone);
        assert_code(lost.spawn(Command::argv(["true"])).await, Code::SandboxGone);
        assert_code(lost.read("file").await, Code::SandboxGone);
        assert_code(
            lost.write("file", provider_core::sandbox::reader_of("x"), 0o644).await,
            Code::SandboxGone,
        );
        assert_code(lost.stat("file").await, Code::SandboxGone);
        assert_code(lost.list(".").await, Code::SandboxGone);
        assert_code(lost.remove("file").await, Code::SandboxGone);
        assert_eq!(world.provider.observe(lost.reference()).await.expect("a state"), State::Stopped);
        assert_code(world.provider.attach(lost.reference()).await, Code::SandboxGone);
        let next = world.launch(&session, &artifact).await;
        assert_eq!(say(&**next, "ls").await, "");
        world.close(&session).await;
    });
    Ok(())
}

/// Kills the first process of the box in which a process with this word runs.
fn kill_first_process(word: &str) {
    let process = processes_with(word)[0];
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
    let parent = rustix::process::Pid::from_raw(parent.expect("a parent")).expect("a parent");
    rustix::process::kill_process(parent, rustix::process::Signal::KILL).expect("killed");
}

pub(crate) fn a_dropped_session_takes_everything_along() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        say(&**sandbox, "sleep 471404 >/dev/null 2>&1 &").await;
        tokio::task::spawn_blocking(move || drop(session)).await.expect("dropped");
        assert_eq!(processes_with("471404"), [0; 0]);
        world.assert_clean();
        assert_code(sandbox.exec(Command::argv(["true"])).await, Code::SandboxGone);
    });
    Ok(())
}

/// A60: a delete is safe at any moment, and more than once.
pub(crate) fn deleting_twice_or_at_once_is_safe() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, artifact, sandbox) = world.sandbox().await;
        let thing = sandbox.reference().clone();
        let deletes = (0..8).map(|_| world.provider.delete(&thing));
        for answer in futures_util::future::join_all(deletes).await {
            answer.expect("an answer");
        }
        assert_eq!(world.provider.observe(&thing).await.expect("a state"), State::Absent);
        assert_eq!(world.provider.delete(&thing).await.expect("an answer"), Deletion::AlreadyGone);
        assert_code(sandbox.exec(Command::argv(["true"])).await, Code::SandboxGone);
        let record = artifact.thing.clone();
        assert_eq!(world.provider.delete(&record).await.expect("an answer"), Deletion::Accepted);
        assert_eq!(world.provider.delete(&record).await.expect("an answer"), Deletion::AlreadyGone);
        assert_code(
            session.launch(&world.provider, &artifact, LaunchOptions::default()).await,
            Code::ArtifactMissing,
        );
        assert_eq!(world.driver.exists(&artifact).await.expect("an answer"), Existence::No);
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_life_ends_when_it_is_over() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let artifact = world.build(&session, EnvironmentSpec::named("short")).await.expect("an artifact");
        let options = LaunchOptions::default().lifetime(Duration::from_millis(400));
        let sandbox = session.launch(&world.provider, &artifact, options).await.expect("a sandbox");
        say(&**sandbox, "sleep 471405 >/dev/null 2>&1 &").await;
        wait_until("it ends", || processes_with("471405").is_empty()).await;
        // Its first process is the last to end.
        while sandbox.exec(Command::argv(["true"])).await.is_ok() {}
        assert_code(sandbox.exec(Command::argv(["true"])).await, Code::SandboxGone);
        for options in [
            LaunchOptions::default().lifetime(Duration::from_secs(365 * 24 * 3600)),
            LaunchOptions::default().resources(Resources { memory: Some(MiB(512)), ..Resources::default() }),
        ] {
            let answer = session.launch(&world.provider, &artifact, options).await;
            assert_code(answer, Code::CapabilityUnsupported);
        }
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn only_this_process_attaches() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        say(&**sandbox, "echo x >file").await;
        let again = world.provider.attach(sandbox.reference()).await.expect("attached");
        assert_eq!(say(&*again, "cat file").await, "x\n");
        // A driver of its own stands for another process: it knows of the box by its lock alone.
        let other = provider_local::LocalProvider::open(provider_local::LocalConfig::new(world.store()))
            .expect("a driver");
        assert_eq!(other.observe(sandbox.reference()).await.expect("a state"), State::Ready);
        let error = assert_code(other.attach(sandbox.reference()).await, Code::CapabilityUnsupported);
        assert!(error.advice().contains("does not outlive"), "{error}");
        assert_code(other.delete(sandbox.reference()).await, Code::WrongState);
        say(&*again, "cat file").await;
        let listed: Vec<_> = futures_util::StreamExt::collect(other.list(session.owner())).await;
        let mut kinds: Vec<_> = listed.into_iter().map(|thing| thing.expect("a thing").kind).collect();
        kinds.sort();
        assert_eq!(kinds, [ResourceKind::Sandbox, ResourceKind::Artifact]);
        assert_code(sandbox.keep("a trial").await, Code::CapabilityUnsupported);
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_record_that_was_changed_is_refused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let artifact = world.build(&session, full_spec()).await.expect("an artifact");
        let other = world.build(&session, EnvironmentSpec::named("other")).await.expect("an artifact");
        let path =
            |artifact: &Artifact| world.store().join("art").join(format!("{}.json", artifact.thing.id));
        let good = fs::read(path(&artifact)).expect("a record");
        let launch =
            |artifact: Artifact| session.launch(&world.provider, &artifact, LaunchOptions::default());
        let swapped = fs::read(path(&other)).expect("a record");
        for text in [&swapped[..], b"{}", b"not JSON", &good[..good.len() / 2]] {
            fs::write(path(&artifact), text).expect("written");
            let error = assert_code(launch(artifact.clone()).await, Code::ArtifactMissing);
            assert!(error.message().contains("record"), "{error}");
        }
        fs::write(path(&artifact), &good).expect("written");
        let mut wrong = artifact.clone();
        wrong.reference.replace_range(wrong.reference.len() - 1.., "x");
        assert_code(launch(wrong).await, Code::ArtifactMissing);
        let mut wrong = artifact.clone();
        wrong.thing.id = "../../etc/passwd".into();
        assert_code(launch(wrong).await, Code::SpecInvalid);
        drop(launch(artifact.clone()).await.expect("the true one works"));

        let away = world.folder.path().join("layers");
        fs::rename(world.store().join("layer"), &away).expect("moved");
        fs::create_dir(world.store().join("layer")).expect("a folder");
        assert_code(launch(artifact.clone()).await, Code::ArtifactMissing);
        fs::remove_dir(world.store().join("layer")).expect("removed");
        fs::rename(&away, world.store().join("layer")).expect("moved back");
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn an_artifact_of_another_state_folder_is_refused() -> Outcome {
    on_a_runtime(async {
        let (world, other) = (World::new(), World::new());
        let session =
            Session::open(SessionConfig::new("test").state_folder(world.ledgers())).expect("a session");
        let artifact = world.build(&session, EnvironmentSpec::named("a")).await.expect("an artifact");
        assert_code(
            session.launch(&other.provider, &artifact, LaunchOptions::default()).await,
            Code::SpecInvalid,
        );
        assert_code(other.provider.observe(&artifact.thing).await, Code::SpecInvalid);
        assert_code(other.provider.delete(&artifact.thing).await, Code::SpecInvalid);
        world.close(&session).await;
        other.assert_clean();
    });
    Ok(())
}
