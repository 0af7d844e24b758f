//! The driver's death.

use super::child::{self, Driver};
use super::common::*;
use provider_local::engine::{Base, BoxPlan, Engine, EngineConfig, Identity};
use provider_local::store::LayerKey;
use std::io::Write;
use std::time::Duration;

/// A driver that is killed at moments spread over all it does: no process, no mount; and one reap leaves no
/// folder.
pub(crate) fn a_killed_driver_leaves_nothing_alive() -> Outcome {
    const KILLS: u32 = 60;
    let world = World::new();
    let (mut boxes, mut alive) = (0, 0);
    for number in 0..KILLS {
        let mark = format!("storm{}-{number:03}", std::process::id());
        let mut driver = Driver::start("storm", &world.state, &mark);
        driver.wait_for_line();
        // Uneven steps, so that the moments do not fall into the rhythm of the work.
        std::thread::sleep(Duration::from_micros(u64::from(number * 7919 % 60) * 1000));
        alive += usize::from(!processes_with(&mark).is_empty());
        driver.kill();
        wait_until("every process is dead", || processes_with(&mark).is_empty());
        boxes += world.engine.reap()?.boxes.len();
        world.assert_clean();
    }
    assert!(alive > 10 && boxes > 10, "the moments were badly chosen: {alive} alive, {boxes} boxes");
    Ok(())
}

/// The work of the killed driver: boxes on both bases with commands in them, and builds.
pub(crate) fn storm(state: &std::path::Path, mark: &str) {
    let engine = Engine::open(EngineConfig::new(state)).expect("an engine");
    println!("go");
    std::io::stdout().flush().expect("a line");
    for number in 0.. {
        let plan = BoxPlan::run(format!("{mark}-r{number}"), Base::Host);
        let running = engine.start(&plan).expect("a box");
        let sleeper =
            running.spawn(&shell(&format!("sleep 7300; echo {mark}"), Identity::SANDBOX)).expect("a command");
        let build = engine.start(&BoxPlan::build(format!("{mark}-b{number}"), Base::Host)).expect("a box");
        let key = LayerKey::new(format!("{mark}-{number}")).expect("a key");
        let lock = engine.store().lock_layer(&key, Duration::ZERO).expect("a lock");
        let said = finish(build.spawn(&shell("echo x >/etc/x", Identity::ROOT)).expect("a command"));
        said.ok();
        build.publish(&lock, serde_json::json!(mark)).expect("a layer");
        drop((running, sleeper));
    }
}

/// A process that forks without executing keeps a copy of the socket; the driver's death is noticed all the
/// same.
pub(crate) fn a_forked_copy_of_the_driver_does_not_keep_boxes() -> Outcome {
    let world = World::new();
    let mark = format!("forked{}", std::process::id());
    let mut driver = Driver::start("hold", &world.state, &mark);
    driver.wait_for_line();
    // The descriptors of the driver, held by this process as a fork of it would hold them.
    let copies = child::copy_descriptors(driver.id());
    if copies.is_empty() {
        driver.kill();
        world.engine.reap()?;
        return skip("the kernel does not let one process copy descriptors of another here");
    }
    assert!(!processes_with(&mark).is_empty());
    driver.kill();
    wait_until("every process is dead", || processes_with(&mark).is_empty());
    // The lock is one of the copies: the box stays busy until the copy is gone, which is the safe side.
    assert_eq!(world.engine.reap()?.busy.len(), 1);
    drop(copies);
    assert_eq!(world.engine.reap()?.boxes.len(), 1);
    world.assert_clean();
    Ok(())
}

pub(crate) fn hold(state: &std::path::Path, mark: &str) {
    let engine = Engine::open(EngineConfig::new(state)).expect("an engine");
    let running = engine.start(&BoxPlan::run(mark, small_base())).expect("a box");
    let _sleeper = running.spawn(&shell("sleep 7400", Identity::SANDBOX)).expect("a command");
    println!("go");
    std::io::stdout().flush().expect("a line");
    loop {
        std::thread::park();
    }
}

pub(crate) fn a_driver_that_panics_leaves_nothing() -> Outcome {
    let world = World::new();
    let mark = format!("panic{}", std::process::id());
    let mut driver = Driver::start("panic", &world.state, &mark);
    driver.wait();
    assert!(processes_with(&mark).is_empty(), "{:?}", processes_with(&mark));
    world.assert_clean();
    Ok(())
}

pub(crate) fn panicking(state: &std::path::Path, mark: &str) {
    let engine = Engine::open(EngineConfig::new(state)).expect("an engine");
    let running = engine.start(&BoxPlan::run(mark, small_base())).expect("a box");
    let _sleeper = running.spawn(&shell("sleep 7500", Identity::SANDBOX)).expect("a command");
    panic!("on purpose");
}
