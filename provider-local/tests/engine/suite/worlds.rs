//! Machines that are made otherwise than this one, each in namespaces of its own.

use super::child;
use super::common::*;
use provider_local::engine::{Base, BoxPlan, Engine, EngineConfig, EngineError, Step};
use provider_local::store::LayerKey;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn engine(state: &Path) -> Engine {
    Engine::open(EngineConfig::new(state)).expect("an engine")
}

/// Two layers on a base, and a run box that sees both.
fn stack(engine: &Engine, base: &Base, path: &str) {
    let mut layers = Vec::new();
    for name in ["one", "two"] {
        let key = LayerKey::new(name).expect("a key");
        let lock = engine.store().lock_layer(&key, Duration::ZERO).expect("a lock");
        let mut plan = BoxPlan::build(new_id(), base.clone());
        plan.layers = layers.clone();
        let build = engine.start(&plan).expect("a box");
        say_as_root(&build, &format!("mkdir -p {path}; echo {name} >{path}/{name}")).ok();
        build.publish(&lock, serde_json::Value::Null).expect("a layer");
        layers.push(key);
    }
    let mut plan = BoxPlan::run(new_id(), base.clone());
    plan.layers = layers;
    let running = engine.start(&plan).expect("a box");
    assert_eq!(say(&running, &format!("cat {path}/one {path}/two")).ok(), "one\ntwo\n");
    running.stop(Duration::ZERO).expect("stopped");
    assert!(engine.boxes().expect("a list").is_empty());
}

/// Paths that the new mount interface does not take, so that the old one is used.
pub(crate) fn a_state_folder_with_a_long_path() -> Outcome {
    child::in_own_mounts("deep-folder")
}

pub(crate) fn deep_folder_child(folder: &Path) {
    let state = folder.join("with:colon,comma\\and-more").join("x".repeat(200)).join("state");
    for base in both_bases() {
        let state = state.join(if base == Base::Host { "host" } else { "small" });
        stack(&engine(&state), &base, "/opt/deep");
    }
}

/// As an ordinary user, a system folder with mounts below it cannot be a layer: `/etc` is copied, another is
/// bound.
pub(crate) fn mounts_below_system_folders() -> Outcome {
    child::in_own_limits("mounts-below")
}

pub(crate) fn mounts_below_child(folder: &Path) {
    child::mount(&["--bind", "/etc/hosts", "/etc/hosts"]);
    child::mount(&["-t", "tmpfs", "tmpfs", "/var/cache"]);
    let engine = engine(&folder.join("state"));
    assert!(engine.isolation().user_namespace);
    stack(&engine, &Base::Host, "/etc/made");
    stack_is_read_only(&engine);
}

fn stack_is_read_only(engine: &Engine) {
    let running = engine.start(&BoxPlan::run(new_id(), Base::Host)).expect("a box");
    let said =
        say(&running, "test -d /var/lib && grep -q root /etc/passwd && ! touch /var/lib/x 2>/dev/null");
    said.ok();
}

/// As root, `/usr` and the like may be file systems of their own, which an overlay of the root would show
/// empty.
pub(crate) fn system_folders_with_file_systems_of_their_own() -> Outcome {
    if !is_root() {
        return skip("only root can mount on the system folders");
    }
    child::in_own_mounts("own-file-systems")
}

pub(crate) fn own_file_systems_child(folder: &Path) {
    child::mount(&["--make-rprivate", "/"]);
    child::mount(&["--bind", "/var", "/var"]);
    child::mount(&["--bind", "/opt", "/opt"]);
    let engine = engine(&folder.join("state"));
    stack(&engine, &Base::Host, "/opt/made");
    let running = engine.start(&BoxPlan::run(new_id(), Base::Host)).expect("a box");
    say(&running, "test -d /var/lib && ls /usr/bin/env && ! cat /etc/shadow 2>/dev/null").ok();
}

/// What a container does to /proc: parts of it are covered.
pub(crate) fn a_masked_proc_names_the_flag() -> Outcome {
    child::in_own_limits("masked-proc")
}

pub(crate) fn masked_proc_child(folder: &Path) {
    child::mount(&["-t", "tmpfs", "tmpfs", "/proc/irq"]);
    let engine = engine(&folder.join("state"));
    let needs = engine.preflight();
    let unmet = needs.iter().find(|need| !need.ok).expect("an unmet need");
    assert!(unmet.name == "proc" && unmet.fix.contains("systempaths=unconfined"), "{needs:?}");
    let error = engine.start(&BoxPlan::run(new_id(), small_base())).expect_err("an error");
    assert!(matches!(error, EngineError::Start { step: Step::Proc, .. }), "{error}");
    assert!(engine.boxes().expect("a list").is_empty());
}

/// Where nothing can be executed from memory, the helper lies in the state folder.
pub(crate) fn programs_in_memory_are_forbidden() -> Outcome {
    child::in_own_processes("no-memory-programs")
}

pub(crate) fn no_memory_programs_child(folder: &Path) {
    let switch = "/proc/sys/vm/memfd_noexec";
    if fs::write(switch, "2").is_err() || fs::read_to_string(switch).unwrap_or_default().trim() != "2" {
        child::skip("the kernel does not let this be switched here");
    }
    let state = folder.join("state");
    let engine = engine(&state);
    assert!(engine.preflight().iter().all(|need| need.ok), "{:?}", engine.preflight());
    let running = engine.start(&BoxPlan::run(new_id(), small_base())).expect("a box");
    assert_eq!(say(&running, "echo works").ok(), "works\n");
    assert_eq!(fs::read_dir(state.join("bin")).expect("a folder").count(), 1);
}
