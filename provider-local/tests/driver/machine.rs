//! What this machine lacks is named, and what it has is not given away.

use std::{path::Path, process::Command as Program};

use provider_core::{
    environment::EnvironmentSpec,
    error::Code,
    identity::User,
    lifecycle::{Session, SessionConfig},
    provider::{Plan, Provider as _},
    sandbox::Command,
};
use provider_local::{CacheLimits, LocalConfig, LocalProvider};

use crate::common::*;

/// The first argument that makes this program the one that may make no namespaces.
pub(crate) const CHILD: &str = "the-one-without-namespaces";

pub(crate) fn nothing_is_missing_here() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let findings = world.provider.preflight(&Plan::default()).await.expect("an answer");
        assert!(findings.is_empty(), "{findings:?}");
        world.assert_clean();
        let error = assert_code(
            LocalProvider::open(LocalConfig::new("/proc/no/such/folder")),
            Code::MachineUnsuitable,
        );
        assert!(error.message().contains("/proc/no/such/folder"), "{error}");
        assert_code(LocalProvider::open(LocalConfig::new("relative")), Code::SpecInvalid);
    });
    Ok(())
}

/// Whether [`forbidden_namespaces_are_named`] can be tried: it forbids them to a process in a namespace of its own.
pub(crate) fn can_forbid_namespaces() -> bool {
    without_namespaces("true").output().is_ok_and(|output| output.status.success())
}

fn without_namespaces(line: &str) -> Program {
    let mut program = Program::new("unshare");
    let forbid = "echo 0 >/proc/sys/user/max_user_namespaces && echo 0 >/proc/sys/user/max_mnt_namespaces";
    program.args(["--user", "--map-root-user", "sh", "-c", &format!("{forbid} && {line}")]);
    program
}

pub(crate) fn forbidden_namespaces_are_named() -> Outcome {
    let world = World::new();
    let program = std::env::current_exe().expect("this program");
    let line = format!("exec '{}' {CHILD} '{}'", program.display(), world.folder.path().display());
    let output = without_namespaces(&line).output().expect("an output");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines {
        assert!(line.contains("sysctl -w user.max_user_namespaces"), "{line}");
    }
    assert!(lines.len() >= 2, "{text}");
    assert!(lines[0].starts_with("machine.namespaces: "), "{text}");
    assert!(text.contains("MACHINE_UNSUITABLE"), "{text}");
    world.assert_clean();
    Ok(())
}

/// Prints what the preflight finds, and the error of a build.
pub(crate) fn child(folder: &Path) {
    on_a_runtime(async {
        let driver = LocalProvider::open(LocalConfig::new(folder.join("local"))).expect("a driver");
        for finding in driver.preflight(&Plan::default()).await.expect("an answer") {
            assert_eq!(finding.code, Code::MachineUnsuitable);
            println!("{finding}");
        }
        let world = World::at(folder, driver);
        let config = SessionConfig::new("forbidden").state_folder(folder.join("ledgers"));
        let session = Session::open(config).expect("a session");
        let built = world.build(&session, EnvironmentSpec::named("a")).await;
        println!("{}", built.expect_err("an error"));
        assert!(session.close(LIMIT).await.is_clean());
    });
}

/// As root, a command of a sandbox may be root too; it has no power over this machine for all that.
pub(crate) fn root_of_a_sandbox_has_no_power() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        for line in [
            "cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern",
            "cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness",
            "echo >/proc/sysrq-trigger",
            "cat /sys/kernel/mm/ksm/run >/sys/kernel/mm/ksm/run",
            "mount -t tmpfs none /mnt",
            "mknod /tmp/disk b 8 0 && cat /tmp/disk",
            "cat /etc/shadow | grep -v ':[*!]:'",
            "chown 1000 /opt/provider",
        ] {
            let output = exec(&**sandbox, Command::shell(line).user(User::ROOT)).await;
            assert!(!output.status.success(), "{line}: {output:?}");
        }
        world.close(&session).await;
    });
    Ok(())
}

/// The first argument that makes this program the one whose disk is full.
pub(crate) const FULL_CHILD: &str = "the-one-with-a-full-disk";

/// Whether [`a_full_disk_is_named`] can be tried: it needs a small file system of its own.
pub(crate) fn can_mount() -> bool {
    let mut program = Program::new("unshare");
    program.args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
    program.output().is_ok_and(|output| output.status.success())
}

pub(crate) fn a_full_disk_is_named() -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().display();
    let program = std::env::current_exe().expect("this program");
    let mount = format!("mkdir '{path}/local' && mount -t tmpfs -o size=512k none '{path}/local'");
    let line = format!("{mount} && exec '{}' {FULL_CHILD} '{path}'", program.display());
    let output = Program::new("unshare").args(["--mount", "sh", "-c", &line]).output().expect("an output");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    print!("{text}");
    Ok(())
}

/// Builds with less and less room. Whatever fails names the disk, and leaves nothing.
pub(crate) fn full_child(folder: &Path) {
    on_a_runtime(async {
        let driver = LocalProvider::open(LocalConfig::new(folder.join("local"))).expect("a driver");
        let world = World::at(folder, driver);
        let filler = world.store().join("filler");
        let (mut good, mut errors) = (0, std::collections::BTreeSet::new());
        for kib in (368..=512).step_by(12) {
            world.driver.collect_cache(&CacheLimits::default()).expect("collected");
            let session = world.session();
            // As much of it as there is room for.
            let _ = std::fs::write(&filler, vec![b'x'; kib << 10]);
            let built = match world.build(&session, crate::leg::full_spec()).await {
                Ok(artifact) => session
                    .launch(&world.provider, &artifact, provider_core::provider::LaunchOptions::default())
                    .await
                    .map(drop),
                Err(error) => Err(error),
            };
            match built {
                Ok(()) => good += 1,
                Err(error) => {
                    assert!(format!("{error:?}").contains("o space left"), "{error:?}");
                    errors.insert(format!("{} {}", error.code(), error.operation()));
                }
            }
            std::fs::remove_file(&filler).expect("removed");
            world.close(&session).await;
        }
        println!("{good} builds had room; the others: {errors:?}");
        assert!(good >= 3 && !errors.is_empty());
    });
}
