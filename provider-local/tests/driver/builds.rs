//! Builds: reuse, failures, and builds that nobody waits for any more.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use provider_core::{
    environment::{BasePin, BaseRef, BuildRequest, Environment, EnvironmentSpec, Lockfile},
    error::Code,
    lifecycle::{Event, Lifetime, Progress, Timestamp},
    provider::{Builder as _, Existence},
    secret::SecretSet,
};

use provider_local::CacheLimits;

use crate::{common::*, leg::full_spec};

/// An Environment whose layers are all cache.
fn without_secrets() -> EnvironmentSpec {
    let mut spec = full_spec();
    spec.spec.build_secrets.clear();
    spec.spec.commands.post_install.truncate(1);
    spec
}

pub(crate) fn layers_are_reused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let first = world.build(&session, without_secrets()).await.expect("an artifact");
        let layers = world.layers();
        let second = world.build(&session, without_secrets()).await.expect("an artifact");
        assert_eq!(world.layers(), layers);
        assert_ne!(first.thing.id, second.thing.id, "each build has a record of its own");
        assert_eq!(say(&**world.launch(&session, &second).await, "cat /opt/greeting").await, "good day\n");

        let mut other = without_secrets();
        other.spec.commands.post_install.push("echo more >/opt/more".into());
        let third = world.build(&session, other).await.expect("an artifact");
        assert_eq!(world.layers().len(), layers.len() + 1, "only the last layer is another");
        assert_eq!(say(&**world.launch(&session, &third).await, "cat /opt/more").await, "more\n");
        let report = world.driver.collect_cache(&CacheLimits::default()).expect("collected");
        assert_eq!(report.removed, [], "all are used");
        assert_eq!(report.kept_for_artifacts, world.layers());
        world.close(&session).await;
        assert!(world.driver.collect_cache(&CacheLimits::default()).expect("collected").removed_bytes > 0);
        assert_eq!(world.names_in("layer"), [""; 0]);
    });
    Ok(())
}

/// What commands made of a secret belongs to their build alone, and goes with its artifact.
pub(crate) fn a_layer_made_with_secrets_is_no_cache() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let first = world.build(&session, full_spec()).await.expect("an artifact");
        let layers = world.layers();
        let second = world.build(&session, full_spec()).await.expect("an artifact");
        assert_eq!(world.layers().len(), layers.len() + 1, "each build has its own last layer");
        second.close().await.expect("deleted");
        assert_eq!(world.layers(), layers, "it went with its artifact, and no other did");
        assert_eq!(say(&**world.launch(&session, &first).await, "cat /opt/greeting").await, "good day\n");
        world.close(&session).await;
        assert_eq!(world.layers().len(), layers.len() - 1, "the layers of contract and files are cache");
    });
    Ok(())
}

pub(crate) fn builds_of_one_environment_at_once_build_once() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut spec = without_secrets();
        spec.spec.commands.post_install.push("sleep 0.1; od -An -N8 -tx1 /dev/urandom >/opt/random".into());
        let builds = (0..4).map(|_| world.build(&session, spec.clone()));
        let artifacts = futures_util::future::join_all(builds).await;
        assert_eq!(world.layers().len(), 3);
        let mut seen = std::collections::BTreeSet::new();
        for artifact in &artifacts {
            let artifact = artifact.as_ref().expect("an artifact");
            seen.insert(say(&**world.launch(&session, artifact).await, "cat /opt/random").await);
        }
        assert_eq!(seen.len(), 1, "{seen:?}");
        world.close(&session).await;
    });
    Ok(())
}

/// Layers that no record names yet are in nobody's way, and stay all the same.
pub(crate) fn a_collection_during_a_build_takes_nothing_of_it() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let is_over = Arc::new(AtomicBool::new(false));
        let (driver, over) = (world.driver.clone(), Arc::clone(&is_over));
        let collector = std::thread::spawn(move || {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                driver.collect_cache(&CacheLimits::default()).expect("collected");
                times += 1;
            }
            times
        });
        for _ in 0..4 {
            let artifact = world.build(&session, full_spec()).await.expect("an artifact");
            let sandbox = world.launch(&session, &artifact).await;
            assert_eq!(say(&**sandbox, "cat in/hello.txt /opt/greeting").await, "hello\ngood day\n");
            sandbox.close().await.expect("closed");
            artifact.close().await.expect("closed");
        }
        is_over.store(true, Ordering::Relaxed);
        let times = collector.join().expect("a number");
        assert!(times > 10, "{times} collections are too few");
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_failing_command_is_named_and_leaves_nothing() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut spec = full_spec();
        spec.spec.commands.post_install.push("echo about to fail; echo \"why: $TOKEN\" >&2; exit 7".into());
        spec.spec.commands.post_install.push("echo never".into());
        let (progress, mut events) = Progress::channel();
        let answer = session.build_observed(&world.provider, world.request(spec), progress).await;
        let error = assert_code(answer, Code::BuildFailed);
        assert!(error.message().contains("command 3 of 4"), "{error}");
        assert!(error.message().contains("exit code 7"), "{error}");
        let all = format!("{error:?}");
        assert!(all.contains("about to fail") && all.contains("why: [secret]"), "{all}");
        assert!(!all.contains("never"), "{all}");
        assert_eq!(world.layers().len(), 2, "no half layer");
        let (mut stages, mut logs) = (Vec::new(), Vec::new());
        while let Some(event) = events.try_next() {
            match event {
                Event::Stage(name) => stages.push(name),
                Event::Log(line) => logs.push(line),
                _ => {}
            }
        }
        assert_eq!(stages, ["contract", "files", "commands"]);
        assert!(logs.iter().any(|line| line == "why: [secret]"), "{logs:?}");
        assert!(!logs.concat().contains(CANARY), "{logs:?}");
        world.close(&session).await;
    });
    Ok(())
}

/// The box of a failed step cannot be removed for now. The build says why it failed all the same, and the session's
/// close has the box deleted.
pub(crate) fn a_failed_build_does_not_wait_for_its_box() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut spec = EnvironmentSpec::named("failing");
        spec.spec.commands.post_install = vec![marked("sleep 471203 & sleep 1; exit 7")];
        let build = world.build(&session, spec);
        let (trash, away) = (world.store().join("trash"), world.store().join("trash.away"));
        let break_trash = async {
            wait_until("the command runs", || !processes_with("471203").is_empty()).await;
            std::fs::rename(&trash, &away).expect("moved");
            std::fs::write(&trash, "").expect("a file");
        };
        let both = async { tokio::join!(build, break_trash).0 };
        let built = tokio::select! {
            built = both => Some(built),
            () = pause(Duration::from_secs(15)) => None,
        };
        std::fs::remove_file(&trash).expect("removed");
        std::fs::rename(&away, &trash).expect("moved");
        let built = built.expect("the build waits for its box");
        let error = assert_code(built, Code::BuildFailed);
        assert!(error.message().contains("exit code 7"), "{error}");
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_command_that_is_killed_says_by_what() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut spec = EnvironmentSpec::named("killed");
        spec.spec.commands.post_install = vec!["kill -9 $$".into()];
        let error = assert_code(world.build(&session, spec).await, Code::BuildFailed);
        assert!(error.message().contains("signal 9"), "{error}");
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn what_a_command_leaves_running_ends_with_the_build() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut spec = EnvironmentSpec::named("daemon");
        spec.spec.commands.post_install = vec![marked("sleep 471201 & echo started")];
        let start = Instant::now();
        drop(world.build(&session, spec).await.expect("an artifact"));
        assert!(start.elapsed() < Duration::from_secs(5), "it was waited for");
        assert_eq!(processes_with("471201"), [0; 0]);
        world.close(&session).await;
    });
    Ok(())
}

/// A73: the answer comes from the specification and the configuration alone, and names place, cause and what to do.
pub(crate) fn an_unknown_base_is_refused_with_the_known_ones() -> Outcome {
    on_a_runtime(async {
        let world = World::with(|config| config.base("debian", "/nowhere/debian"));
        let error = assert_code(world.driver.pin_base("ubuntu"), Code::SpecInvalid);
        assert!(error.message().contains("debian, host"), "{error}");
        let error = assert_code(world.driver.pin_base("debian"), Code::ArtifactMissing);
        assert!(error.message().contains("/nowhere/debian"), "{error}");

        // A base without a channel is the driver's own; one with a channel is for the approved bases.
        let base = |name: &str, channel: Option<&str>| BaseRef {
            name: name.into(),
            channel: channel.map(Into::into),
        };
        let own = world.provider.own_base(&base("host", None)).await.expect("a base").expect("its own");
        assert_eq!(own, world.driver.pin_base("host").expect("a pin"));
        let error = assert_code(world.provider.own_base(&base("ubuntu", None)).await, Code::SpecInvalid);
        assert!(error.message().contains("debian, host"), "{error}");
        let other = world.provider.own_base(&base("ubuntu", Some("stable"))).await.expect("an answer");
        assert_eq!(other, None);

        let mut spec = EnvironmentSpec::named("a");
        spec.spec.base.name = "ubuntu".into();
        spec.spec.files = vec![file("/etc/x", "")];
        let findings = world.driver.validate(&spec, &Lockfile::without_packages());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].place, "spec.base.ref");
        assert!(findings[0].words.contains("debian, host"), "{findings:?}");
        spec.spec.base.name = "host".into();
        spec.spec.files = vec![file("/var/log/x", "")];
        let findings = world.driver.validate(&spec, &Lockfile::without_packages());
        assert_eq!(findings[0].code, Code::CapabilityUnsupported);
        assert_eq!(
            findings[0].to_string(),
            "spec.files[0].path: /var/log of a sandbox on base host is empty at each start, so that no file can be \
             built into it; choose another place"
        );
        world.assert_clean();
    });
    Ok(())
}

pub(crate) fn a_base_that_is_not_the_pinned_one_is_refused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let spec = EnvironmentSpec::named("a");
        let request = |pin| {
            let environment = Environment::new(spec.clone(), None).expect("an environment");
            BuildRequest::new(environment, Lockfile::without_packages(), pin, SecretSet::new())
                .expect("a request")
        };
        let stale = BasePin::unpinned("host", "0".repeat(63) + "1").expect("a pin");
        let digest = BasePin::digest(format!("debian@sha256:{}", "1".repeat(64))).expect("a pin");
        let other = BasePin::unpinned("other", "x").expect("a pin");
        for (pin, code) in
            [(stale, Code::ArtifactMissing), (digest, Code::SpecInvalid), (other, Code::SpecInvalid)]
        {
            assert_code(session.build(&world.provider, request(pin)).await, code);
        }
        let folder = world.folder.path().join("base");
        std::fs::create_dir(&folder).expect("a folder");
        let world = World::with(|config| config.base("small", &folder));
        let pin = world.driver.pin_base("small").expect("a pin");
        std::fs::write(folder.join("new"), "").expect("a file");
        let mut small = spec.clone();
        small.spec.base.name = "small".into();
        let environment = Environment::new(small, None).expect("an environment");
        let request = BuildRequest::new(environment, Lockfile::without_packages(), pin, SecretSet::new())
            .expect("a request");
        let error = assert_code(session.build(&world.provider, request).await, Code::ArtifactMissing);
        assert!(error.advice().contains("pin the base again"), "{error}");
        assert_eq!(world.layers(), [""; 0]);
        world.close(&session).await;
    });
    Ok(())
}

/// The image of a base without any program: what the driver puts there needs none.
pub(crate) fn an_empty_base_takes_the_contract_and_files() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let folder = world.folder.path().join("base");
        std::fs::create_dir(&folder).expect("a folder");
        let world = World::with(|config| config.base("empty", &folder));
        let session = world.session();
        let mut spec = EnvironmentSpec::named("empty");
        spec.spec.base.name = "empty".into();
        spec.spec.files = vec![file("/a/b/c", "text")];
        let artifact = world.build(&session, spec.clone()).await.expect("an artifact");
        let sandbox = world.launch(&session, &artifact).await;
        let passwd =
            provider_core::sandbox::read_all(sandbox.read("/etc/passwd").await.expect("a file"), 1000).await;
        assert_eq!(passwd.expect("text"), b"sandbox:x:1000:100::/home/sandbox:/bin/sh\n");
        assert_eq!(
            sandbox.list("/opt/provider").await.expect("names"),
            ["doctor", "environment.json", "lockfile"]
        );

        spec.spec.commands.post_install = vec!["true".into()];
        let error = assert_code(world.build(&session, spec).await, Code::BuildFailed);
        assert!(error.message().contains("command 1 of 1") && error.message().contains("/bin/sh"), "{error}");
        world.close(&session).await;
    });
    Ok(())
}

/// The build is given up at moments that cover all of it. Whatever layers there are then, they are whole.
pub(crate) fn a_dropped_build_leaves_nothing() -> Outcome {
    on_a_runtime(async {
        let whole = {
            let world = World::new();
            let session = world.session();
            let start = Instant::now();
            drop(world.build(&session, full_spec()).await.expect("an artifact"));
            let whole = start.elapsed();
            world.close(&session).await;
            whole
        };
        let (mut dropped, mut finished) = (0, 0);
        for step in 0..12 {
            let world = World::new();
            let session = world.session();
            let build = world.build(&session, full_spec());
            tokio::select! {
                biased;
                () = pause(whole * step / 10) => dropped += 1,
                built = build => { drop(built.expect("an artifact")); finished += 1 }
            }
            world.close(&session).await;
            let session = world.session();
            let artifact = world.build(&session, full_spec()).await.expect("an artifact");
            let sandbox = world.launch(&session, &artifact).await;
            assert_eq!(say(&**sandbox, "cat in/hello.txt /opt/greeting").await, "hello\ngood day\n");
            world.close(&session).await;
        }
        println!("{dropped} builds were dropped, {finished} came to their end");
        assert!(dropped >= 6);
    });
    Ok(())
}

pub(crate) fn a_build_is_cancelled_by_the_close() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let mut spec = EnvironmentSpec::named("long");
        spec.spec.commands.post_install = vec![marked("sleep 471202")];
        let build = world.build(&session, spec);
        let close = async {
            wait_until("the command runs", || !processes_with("471202").is_empty()).await;
            let start = Instant::now();
            let report = session.close(LIMIT).await;
            (report, start.elapsed())
        };
        let (built, (report, took)) = tokio::join!(build, close);
        assert_code(built, Code::SessionClosed);
        assert!(report.is_clean(), "{report:?}");
        assert!(took < Duration::from_secs(2), "the close took {took:?}");
        assert_eq!(processes_with("471202"), [0; 0]);
        world.assert_clean();
    });
    Ok(())
}

pub(crate) fn a_kept_artifact_is_launched_by_a_later_session() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let session = world.session();
        let until = Timestamp::from_millis(4_000_000_000_000);
        let request =
            world.request(full_spec()).with_lifetime(Lifetime::Until(until), Timestamp::from_millis(0));
        let built = session.build(&world.provider, request.expect("a request")).await.expect("an artifact");
        let artifact = built.keep("a trial").await.expect("kept");
        let report = session.close(LIMIT).await;
        assert_eq!(report.kept.len(), 1, "{report:?}");
        assert_eq!(world.names_in("art").len(), 1);

        let text = serde_json::to_string(&artifact).expect("JSON");
        let artifact = serde_json::from_str(&text).expect("an artifact");
        assert_eq!(world.driver.exists(&artifact).await.expect("an answer"), Existence::Yes);
        let session = world.session();
        let sandbox = world.launch(&session, &artifact).await;
        assert_eq!(say(&**sandbox, "echo $GREETING").await, "good day\n");
        assert!(session.close(LIMIT).await.is_clean());
        assert_eq!(world.names_in("art").len(), 1, "a launch does not own the artifact");
        assert_eq!(world.names_in("box"), [""; 0]);
    });
    Ok(())
}
