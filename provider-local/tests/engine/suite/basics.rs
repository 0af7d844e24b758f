//! Start, run, stop, and what is left.

use super::common::*;
use provider_local::engine::{Base, BoxPlan, Engine, EngineConfig, Exit, Identity};
use provider_local::store::Removal;
use std::fs;
use std::time::Duration;

pub(crate) fn identity_and_groups() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let running = world.run(base);
        assert_eq!(say(&running, "id -u; id -g; hostname; pwd").ok(), "1000\n100\nsandbox\n/\n");
        let groups = say(&running, "id -G").ok();
        // What cannot be dropped shows as the group that stands for all unknown ones.
        let kept = !world.engine.isolation().kept_groups.is_empty();
        assert_eq!(groups.trim(), if kept { "100 65534" } else { "100" });
        running.stop(Duration::ZERO)?;
    }
    world.assert_clean();
    Ok(())
}

pub(crate) fn needs_are_met() -> Outcome {
    let needs = World::new().engine.preflight();
    assert!(needs.iter().all(|need| need.ok && need.fix.is_empty()), "{needs:?}");
    let names: Vec<&str> = needs.iter().map(|need| need.name).collect();
    for name in ["state_folder", "namespaces", "overlay", "proc", "exec"] {
        assert!(names.contains(&name), "{names:?}");
    }
    Ok(())
}

pub(crate) fn a_preflight_leaves_nothing() -> Outcome {
    let world = World::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(world.engine.preflight().iter().all(|need| need.ok)));
        }
    });
    world.assert_clean();
    Ok(())
}

/// A death signal tied to the starting thread would end the box with it.
pub(crate) fn a_thread_may_end() -> Outcome {
    let world = World::new();
    let engine = world.engine.clone();
    let start = move || engine.start(&BoxPlan::run(new_id(), small_base()));
    let running = std::thread::spawn(start).join().expect("a thread")?;
    assert_eq!(say(&running, "sleep 0.05; echo alive").ok(), "alive\n");
    running.stop(Duration::ZERO)?;
    Ok(())
}

pub(crate) fn twenty_boxes_at_once() -> Outcome {
    let world = World::new();
    std::thread::scope(|scope| {
        for number in 0..20 {
            let world = &world;
            scope.spawn(move || {
                let running = world.run(if number % 2 == 0 { Base::Host } else { small_base() });
                let said = say(&running, &format!("echo {number} >/tmp/n; cat /tmp/n")).ok();
                assert_eq!(said.trim(), number.to_string());
                running.stop(Duration::ZERO).expect("stopped");
            });
        }
    });
    world.assert_clean();
    Ok(())
}

pub(crate) fn stop_is_idempotent() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let sleeper = spawn(&running, &shell("sleep 1000", Identity::SANDBOX));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let running = running.clone();
            scope.spawn(move || running.stop(Duration::from_secs(5)).expect("stopped"));
        }
    });
    running.stop(Duration::ZERO)?;
    assert!(!running.is_alive());
    assert_eq!(finish(sleeper).exit, Exit::Signal(15));
    assert!(running.spawn(&shell("true", Identity::SANDBOX)).is_err());
    world.assert_clean();
    Ok(())
}

pub(crate) fn dropping_removes() -> Outcome {
    let world = World::new();
    let id = new_id();
    for plan in [BoxPlan::run(&id, small_base()), BoxPlan::build(&id, small_base())] {
        let running = world.start(&plan);
        let process = spawn(&running, &shell("trap '' TERM; sleep 1000", plan.identity));
        let clone = running.clone();
        drop(running);
        assert!(clone.is_alive());
        assert_eq!(world.engine.boxes()?.len(), 1);
        drop(clone);
        world.assert_clean();
        assert!(processes_with(&id).is_empty(), "{:?}", processes_with(&id));
        drop(process);
    }
    Ok(())
}

pub(crate) fn a_box_of_this_engine_can_be_removed() -> Outcome {
    let world = World::new();
    let mut plan = BoxPlan::run(new_id(), small_base());
    plan.name = "a name".to_owned();
    plan.journal = serde_json::json!({"run": 7});
    let running = world.start(&plan);
    let boxes = world.engine.boxes()?;
    let entry = boxes.first().expect("a box");
    assert!(entry.busy);
    assert_eq!((entry.name.as_str(), &entry.journal), ("a name", &plan.journal));
    // Another engine on the same folder does not own it.
    let other = Engine::open(EngineConfig::new(&world.state))?;
    assert_eq!(other.remove_box(&plan.id)?, Removal::Busy);
    assert_eq!(world.engine.remove_box(&plan.id)?, Removal::Removed);
    assert_eq!(world.engine.remove_box(&plan.id)?, Removal::AlreadyGone);
    assert_eq!(other.remove_box(&plan.id)?, Removal::AlreadyGone);
    assert!(!running.is_alive());
    world.assert_clean();
    running.stop(Duration::ZERO)?;
    Ok(())
}

pub(crate) fn fingerprints_follow_the_base() -> Outcome {
    let world = World::new();
    let folder = tempfile::tempdir()?;
    let base = Base::Dir(folder.path().to_owned());
    let empty = world.engine.fingerprint(&base)?;
    assert_eq!(empty.len(), 64);
    assert_eq!(world.engine.fingerprint(&base)?, empty);
    fs::create_dir(folder.path().join("a"))?;
    fs::write(folder.path().join("a/b"), "one")?;
    let filled = world.engine.fingerprint(&base)?;
    assert_ne!(filled, empty);
    fs::rename(folder.path().join("a/b"), folder.path().join("a/c"))?;
    assert_ne!(world.engine.fingerprint(&base)?, filled);
    assert_eq!(world.engine.fingerprint(&Base::Host)?, world.engine.fingerprint(&Base::Host)?);
    let missing = world.engine.fingerprint(&Base::Dir("/no/such/base".into()));
    assert!(missing.expect_err("an error").to_string().contains("/no/such/base"));
    Ok(())
}
