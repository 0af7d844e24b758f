//! What goes wrong, what is said about it, and that nothing is left.

use super::child;
use super::common::*;
use provider_local::engine::{
    Base, BoxPlan, Engine, EngineConfig, EngineError, Fault, Identity, SecretBytes, Step,
};
use std::fs;
use std::path::Path;
use std::time::Duration;

pub(crate) fn every_step_of_a_start_can_fail() -> Outcome {
    let faults = [
        Fault::AfterFolder,
        Fault::AfterPlan,
        Fault::AfterSpawn,
        Fault::KillHelper,
        Fault::BadMap,
        Fault::AfterReady,
    ];
    // The host's plan is the small one's and many more masks, of which some will do.
    for (base, stride) in [(small_base(), 1), (Base::Host, 9)] {
        let mut failed = 0;
        for fault in faults.into_iter().chain((0..).step_by(stride).map(Fault::AtAction)) {
            let world = World::with(|config| config.fault = Some(fault));
            let mut plan = BoxPlan::run(new_id(), base.clone());
            plan.secrets = vec![("s".to_owned(), SecretBytes::new(vec![1]))];
            plan.reserved = vec!["/opt/provider".into()];
            let answer = world.engine.start(&plan);
            let started = answer.is_ok();
            drop(answer);
            world.assert_clean();
            assert!(processes_with(&plan.id).is_empty(), "{fault:?} left {:?}", processes_with(&plan.id));
            let may_start = match fault {
                // There is no map as root; and a fast helper is ready before the signal is there.
                Fault::BadMap => !world.engine.isolation().user_namespace,
                Fault::KillHelper => true,
                _ => false,
            };
            if started && !may_start {
                // The last action has been passed.
                assert!(matches!(fault, Fault::AtAction(_)), "{fault:?} had no effect");
                break;
            }
            failed += 1;
        }
        assert!(failed > 20, "only {failed} steps failed");
    }
    Ok(())
}

pub(crate) fn bad_plans_are_refused() -> Outcome {
    let world = World::new();
    let change = |change: fn(&mut BoxPlan)| {
        let mut plan = BoxPlan::run(new_id(), small_base());
        change(&mut plan);
        plan
    };
    for plan in [
        change(|plan| plan.id = "a/b".to_owned()),
        change(|plan| plan.id = String::new()),
        change(|plan| plan.hostname = String::new()),
        change(|plan| plan.hostname = "a b".to_owned()),
        change(|plan| plan.hostname = "x".repeat(64)),
        change(|plan| plan.reserved = vec!["relative".into()]),
        change(|plan| plan.reserved = vec!["/".into()]),
        change(|plan| plan.reserved = vec!["/a/../b".into()]),
        change(|plan| plan.secrets = vec![("../x".to_owned(), SecretBytes::new(vec![]))]),
        change(|plan| plan.secrets = vec![(String::new(), SecretBytes::new(vec![]))]),
        change(|plan| plan.layers = vec![provider_local::store::LayerKey::new("none").expect("a key")]),
    ] {
        let error = world.engine.start(&plan).expect_err("an error");
        assert!(matches!(error, EngineError::BadInput { .. } | EngineError::Store(_)), "{error}");
        world.assert_clean();
    }
    if is_root() {
        let plan = change(|plan| plan.identity = Identity::ROOT);
        assert!(matches!(world.engine.start(&plan), Err(EngineError::BadInput { .. })));
    }
    let twice = BoxPlan::run(new_id(), small_base());
    let _first = world.start(&twice);
    let error = world.engine.start(&twice).expect_err("an error");
    assert!(error.to_string().contains("exists already"), "{error}");
    Ok(())
}

pub(crate) fn a_base_that_is_not_there() -> Outcome {
    let world = World::new();
    let file = world.state.join("VERSION");
    for base in ["/no/such/base".into(), file] {
        let error =
            world.engine.start(&BoxPlan::run(new_id(), Base::Dir(base.clone()))).expect_err("an error");
        assert!(matches!(error, EngineError::Base { .. }), "{error}");
        assert!(error.to_string().contains(&*base.to_string_lossy()), "{error}");
        world.assert_clean();
    }
    Ok(())
}

/// In a mount namespace of its own, since it needs a small file system.
pub(crate) fn a_full_disk() -> Outcome {
    child::in_own_mounts("full-disk")
}

pub(crate) fn full_disk_child(folder: &Path) {
    child::mount_tmpfs(folder, "size=2m,nr_inodes=400,mode=0755");
    let state = folder.join("state");
    let engine = Engine::open(EngineConfig::new(&state)).expect("an engine");
    let build = engine.start(&BoxPlan::build("b", small_base())).expect("a box");
    let said = say_as_root(&build, "dd if=/dev/zero of=/fill bs=64k; dd if=/dev/zero of=/fill2 bs=1");
    assert!(said.err.contains("No space left"), "{said:?}");
    let lock =
        engine.store().lock_layer(&provider_local::store::LayerKey::new("l").expect("a key"), Duration::ZERO);
    let lock = lock.expect("a lock");
    let answer = build.publish(&lock, serde_json::json!("x".repeat(100_000)));
    assert!(answer.is_err(), "published on a full disk");
    drop(build);
    assert!(engine.store().layers().expect("a list").is_empty());
    let fill = folder.join("fill");
    let _ = fs::write(&fill, vec![0; 4 << 20]);
    let mut number = 0;
    while fs::File::create(folder.join(format!("fill-{number}"))).is_ok() {
        number += 1;
    }
    let error = engine.start(&BoxPlan::run("r", small_base())).expect_err("an error");
    let text = error.to_string();
    assert!(text.contains(&*state.to_string_lossy()) && text.contains("free some space"), "{text}");
    let record = provider_local::store::Record { layers: vec![], body: serde_json::Value::Null };
    let text = engine.store().put_record("r", &record).expect_err("an error").to_string();
    assert!(text.contains("free some space"), "{text}");
    for name in ["box", "tmp", "trash", "art"] {
        assert_eq!(fs::read_dir(state.join(name)).expect("a folder").count(), 0, "left in {name}");
    }
}

pub(crate) fn a_state_folder_that_cannot_be_written() -> Outcome {
    for path in ["/proc/state", "/dev/null/state", "/sys/state"] {
        let error = Engine::open(EngineConfig::new(path)).expect_err("an error");
        let text = error.to_string();
        assert!(text.contains(path) && text.contains("choose"), "{text}");
    }
    if !is_root() {
        let error = Engine::open(EngineConfig::new("/etc/provider-state")).expect_err("an error");
        assert!(error.to_string().contains("/etc/provider-state"), "{error}");
        let error = Engine::open(EngineConfig::new("/usr")).expect_err("an error");
        assert!(error.to_string().contains("belongs to user 0"), "{error}");
    }
    Ok(())
}

/// An overlay cannot have its upper folder on an overlay.
pub(crate) fn a_state_folder_on_an_overlay() -> Outcome {
    child::in_own_mounts("overlay-state")
}

pub(crate) fn overlay_state_child(folder: &Path) {
    let path = |name: &str| folder.join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    child::mount_overlay(folder);
    let engine = Engine::open(EngineConfig::new(path("merged").join("state"))).expect("an engine");
    let needs = engine.preflight();
    let unmet = needs.iter().find(|need| !need.ok).expect("an unmet need");
    assert!(unmet.name == "overlay" && unmet.fix.contains("real file system"), "{needs:?}");
    let error = engine.start(&BoxPlan::run("r", small_base())).expect_err("an error");
    assert!(matches!(error, EngineError::Start { step: Step::Overlay, .. }), "{error}");
    assert!(error.to_string().contains("real file system"), "{error}");
    assert_eq!(engine.boxes().expect("a list").len(), 0);
}

/// A user namespace in which no further ones may be made.
pub(crate) fn forbidden_namespaces_name_the_setting() -> Outcome {
    child::in_own_limits("no-namespaces")
}

pub(crate) fn no_namespaces_child(folder: &Path) {
    if fs::write("/proc/sys/user/max_mnt_namespaces", "0").is_err() {
        child::skip("the limit of namespaces cannot be set here");
    }
    let engine = Engine::open(EngineConfig::new(folder.join("state"))).expect("an engine");
    let needs = engine.preflight();
    let unmet = needs.iter().find(|need| !need.ok).expect("an unmet need");
    assert!(unmet.name == "namespaces" && unmet.fix.contains("sysctl"), "{needs:?}");
    let error = engine.start(&BoxPlan::run("r", small_base())).expect_err("an error");
    assert!(matches!(error, EngineError::Start { step: Step::Namespaces, .. }), "{error}");
    assert_eq!(engine.boxes().expect("a list").len(), 0);
}

fn kill_helper(position: usize) -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let process = spawn(&running, &shell("sleep 7200", Identity::SANDBOX));
    let mut helpers: Vec<i32> = processes_with(&format!("sandbox-helper {}", running.id()))
        .iter()
        .filter_map(|line| line.split(':').next()?.parse().ok())
        .collect();
    helpers.sort_unstable();
    let pid = helpers.get(position).copied().and_then(rustix::process::Pid::from_raw).expect("a helper");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    let ended = process.exit.wait();
    assert!(matches!(ended, Err(EngineError::BoxEnded { .. })), "{ended:?}");
    wait_until("the box is known to have ended", || !running.is_alive());
    let error = running.spawn(&shell("true", Identity::SANDBOX)).expect_err("an error");
    assert!(matches!(error, EngineError::BoxEnded { .. }), "{error}");
    running.stop(Duration::from_secs(1))?;
    assert!(processes_with(running.id()).is_empty());
    world.assert_clean();
    Ok(())
}

pub(crate) fn a_killed_first_process_ends_the_box() -> Outcome {
    kill_helper(1)
}

pub(crate) fn a_killed_helper_ends_the_box() -> Outcome {
    kill_helper(0)
}
