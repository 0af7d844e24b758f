//! What a build box gets of this machine.

use super::common::*;
use provider_local::engine::{Base, BoxPlan, BuildInput, EngineError, RunningBox};
use provider_local::store::LayerKey;
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// A folder with a text, a program and a folder; and beside it a link to it. In the temporary folder of this machine,
/// which boxes do not see.
fn prepare() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let wheels = folder.path().join("wheels");
    fs::create_dir_all(wheels.join("deep")).expect("a folder");
    fs::write(wheels.join("one"), "wheel one\n").expect("a file");
    fs::write(wheels.join("deep/two"), "wheel two\n").expect("a file");
    let program = wheels.join("program");
    fs::write(&program, "#!/bin/sh\necho \"ran with $1\"\n").expect("a file");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("a mode");
    std::os::unix::fs::symlink("wheels", folder.path().join("link")).expect("a link");
    folder
}

fn start(world: &World, base: &Base, inputs: Vec<BuildInput>) -> RunningBox {
    let mut plan = BoxPlan::build(new_id(), base.clone());
    plan.inputs = inputs;
    world.start(&plan)
}

fn inputs_of(folder: &Path) -> Vec<BuildInput> {
    vec![
        BuildInput::new("wheels", folder.join("link")),
        BuildInput::new("program", folder.join("wheels/program")),
        BuildInput::new("a file.txt", folder.join("wheels/deep/two")),
    ]
}

pub(crate) fn inputs_are_read_and_run_in_a_build() -> Outcome {
    let world = World::new();
    let folder = prepare();
    for base in both_bases() {
        let running = start(&world, &base, inputs_of(folder.path()));
        let said = say_as_root(
            &running,
            "cd /run/inputs && cat wheels/one wheels/deep/two 'a file.txt' && ./program x && wheels/program y",
        );
        assert_eq!(said.ok(), "wheel one\nwheel two\nwheel two\nran with x\nran with y\n");
        assert_eq!(say_as_root(&running, "ls /run/inputs").ok(), "a file.txt\nprogram\nwheels\n");
        let hidden = say_as_root(&running, &format!("ls {}", folder.path().display()));
        assert!(hidden.failed(), "all of the folder is in the box: {hidden:?}");
    }
    world.assert_clean();
    Ok(())
}

/// Whatever the root of a build box tries.
pub(crate) fn inputs_cannot_be_changed() -> Outcome {
    let world = World::new();
    let folder = prepare();
    let device = folder.path().join("wheels/device");
    let null = rustix::fs::makedev(1, 3);
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    let kind = rustix::fs::FileType::CharacterDevice;
    let has_device = rustix::fs::mknodat(rustix::fs::CWD, &device, kind, mode, null).is_ok();
    for base in both_bases() {
        let running = start(&world, &base, inputs_of(folder.path()));
        for script in [
            "echo x >/run/inputs/wheels/one",
            "echo x >>/run/inputs/program",
            "echo x >/run/inputs/wheels/deep/new",
            "echo x >/run/inputs/new",
            "rm /run/inputs/wheels/one",
            "rm /run/inputs/program",
            "mv /run/inputs/wheels /run/inputs/other",
            "mv /run/inputs /run/elsewhere",
            "chmod 777 /run/inputs/wheels/one",
            "chmod 777 /run/inputs/wheels",
            "chown 1:1 /run/inputs/wheels/one",
            "touch /run/inputs/wheels/one",
            "mknod /run/inputs/wheels/other c 1 3",
        ] {
            assert!(say_as_root(&running, script).failed(), "{script}");
        }
        if has_device {
            let said = say_as_root(&running, "echo x >/run/inputs/wheels/device");
            assert!(said.failed() && said.err.contains("ermission denied"), "{said:?}");
        }
        let options = say_as_root(&running, "grep ' /run/inputs/' /proc/self/mountinfo | cut -d' ' -f6").ok();
        assert!(options.lines().count() >= 3, "{options}");
        for line in options.lines() {
            for option in ["ro", "nosuid", "nodev"] {
                assert!(line.split(',').any(|word| word == option), "{option}: {line}");
            }
        }
    }
    assert_eq!(fs::read_to_string(folder.path().join("wheels/one"))?, "wheel one\n");
    assert_eq!(fs::read_dir(folder.path().join("wheels"))?.count(), 3 + usize::from(has_device));
    world.assert_clean();
    Ok(())
}

pub(crate) fn inputs_are_in_no_layer() -> Outcome {
    let world = World::new();
    let folder = prepare();
    for (number, base) in both_bases().iter().enumerate() {
        let key = LayerKey::new(format!("with-inputs-{number}")).expect("a key");
        let lock = world.engine.store().lock_layer(&key, Duration::ZERO)?;
        let running = start(&world, base, inputs_of(folder.path()));
        say_as_root(&running, "mkdir -p /opt/made && wc -l </run/inputs/wheels/one >/opt/made/lines").ok();
        let layer = running.publish(&lock, json!(null))?;
        assert!(world.engine.store().verify_layer(&layer)?.is_empty());
        let manifest = world.state.join("layer").join(key.as_str()).join("manifest");
        let manifest = fs::read_to_string(manifest)?;
        assert!(manifest.contains("opt/made/lines"), "{manifest}");
        assert!(!manifest.contains("inputs\"") && !manifest.contains("wheels"), "{manifest}");
        let mut plan = BoxPlan::run(new_id(), base.clone());
        plan.layers = vec![key];
        let next = world.start(&plan);
        assert_eq!(say(&next, "cat /opt/made/lines").ok().trim(), "1");
        assert!(say(&next, "ls /run/inputs").failed());
    }
    world.assert_clean();
    Ok(())
}

/// What is mounted in an input folder is there, and as closed as the folder.
pub(crate) fn inputs_with_mounts_below_are_closed_as_well() -> Outcome {
    super::child::in_own_mounts("input-mounts")
}

pub(crate) fn mounts_below_child() {
    let world = World::new();
    let folder = prepare();
    let below = folder.path().join("wheels/deep");
    super::child::mount_tmpfs(&below, "size=100k");
    fs::write(below.join("mounted"), "mounted\n").expect("a file");
    let inputs = vec![BuildInput::new("wheels", folder.path().join("wheels"))];
    let running = start(&world, &small_base(), inputs);
    assert_eq!(say_as_root(&running, "cat /run/inputs/wheels/deep/mounted").ok(), "mounted\n");
    assert!(say_as_root(&running, "echo x >/run/inputs/wheels/deep/mounted").failed());
    drop(running);
    let status = std::process::Command::new("umount").arg(&below).status().expect("umount");
    assert!(status.success());
}

pub(crate) fn impossible_inputs_are_refused_by_name() -> Outcome {
    let world = World::new();
    let folder = prepare();
    let good = folder.path().join("wheels");
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)?;
    let refused = |purpose_is_run: bool, inputs: Vec<BuildInput>, words: &[&str]| {
        let mut plan = match purpose_is_run {
            true => BoxPlan::run(new_id(), small_base()),
            false => BoxPlan::build(new_id(), small_base()),
        };
        plan.inputs = inputs;
        let error = world.engine.start(&plan).expect_err("an error");
        assert!(matches!(error, EngineError::BadInput { .. }), "{error}");
        let said = error.to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        world.assert_clean();
    };
    let one = |name: &str, path: &Path| vec![BuildInput::new(name, path)];
    refused(true, one("wheels", &good), &["run box"]);
    refused(false, one("wheels", &folder.path().join("none")), &["\"wheels\"", "/none", "No such file"]);
    refused(false, one("pipe", &pipe), &["neither a file nor a folder"]);
    refused(false, one("wheels", Path::new("here")), &["not absolute", "here"]);
    refused(false, one("all", Path::new("/")), &["state folder"]);
    refused(false, one("state", &world.state), &["state folder"]);
    for name in ["", ".", "..", ".hidden", "a/b", "a\0b", &"x".repeat(256)] {
        refused(false, one(name, &good), &["cannot be the name of a build input"]);
    }
    refused(false, [one("same", &good), one("same", &pipe)].concat(), &["two build inputs", "\"same\""]);
    let many = |number: usize| (0..number).map(|number| BuildInput::new(number.to_string(), &good)).collect();
    refused(false, many(33), &["too many", "32"]);
    for base in both_bases() {
        let running = start(&world, &base, many(32));
        assert_eq!(say_as_root(&running, "cat /run/inputs/31/one").ok(), "wheel one\n");
    }
    Ok(())
}
