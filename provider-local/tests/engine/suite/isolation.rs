//! What a box can see and do.

use super::common::*;
use provider_local::engine::{Base, BoxPlan, Identity};
use provider_local::store::LayerKey;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) fn private_parts_are_hidden() -> Outcome {
    let world = World::new();
    let running = world.run(Base::Host);
    assert_eq!(
        say(&running, "ls -A /home /mnt /media /srv /boot /tmp /var/tmp /var/log")
            .ok()
            .matches("\n\n")
            .count(),
        7
    );
    assert_eq!(say(&running, "ls -A /run").ok(), "lock\n");
    for path in ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/root/.bashrc", "/var/run/docker.sock"] {
        assert!(say(&running, &format!("cat {path}")).failed(), "{path} is readable");
    }
    let state = world.state.display();
    assert!(say(&running, &format!("ls {state}/box")).failed());
    // No human being of this machine is known.
    let users = say(&running, "cut -d: -f3 /etc/passwd").ok();
    assert!(users.lines().all(|id| id.parse().is_ok_and(|id: u32| id < 1000 || id == 65534)), "{users}");
    // Folders that no standard knows are not there.
    let known = "bin boot dev etc gnu home lib lib32 lib64 libx32 media mnt nix opt proc root run sbin srv sys tmp usr var";
    for name in say(&running, "ls -A /").ok().lines() {
        assert!(known.split(' ').any(|known| known == name), "/{name} is visible");
    }
    Ok(())
}

pub(crate) fn a_build_sees_no_secrets_of_this_machine() -> Outcome {
    let world = World::new();
    let hidden = tempfile::tempdir_in("/var/tmp")?;
    let build = world.build(Base::Host);
    assert_eq!(say_as_root(&build, "ls -A /root /home /var/tmp /srv").ok().matches('\n').count(), 7);
    let shadow = say_as_root(&build, "cat /etc/shadow").ok();
    assert!(shadow.lines().all(|line| line.split(':').nth(1) == Some("*")), "a password is visible");
    assert!(say_as_root(&build, &format!("ls {}", hidden.path().display())).failed());
    if is_root() {
        // What other users cannot read is private to this machine, even for root of a build.
        for folder in ["/etc/ssl/private", "/var/lib/private", "/var/lib/polkit-1"] {
            if fs::read_dir(folder).is_ok() {
                assert_eq!(say_as_root(&build, &format!("ls -A {folder}")).ok(), "", "{folder}");
            }
        }
    }
    let more = World::with(|config| config.hidden = vec!["/usr/share".into(), "/etc/os-release".into()]);
    let build = more.build(Base::Host);
    assert_eq!(say_as_root(&build, "ls -A /usr/share; cat /etc/os-release").ok(), "");
    Ok(())
}

pub(crate) fn reserved_paths_cannot_be_changed() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let mut plan = BoxPlan::run(new_id(), base);
        plan.reserved = vec![PathBuf::from("/opt/provider"), PathBuf::from("/opt/deep/er/locked")];
        let running = world.start(&plan);
        for attempt in [
            "touch /opt/provider/x",
            "mkdir /opt/deep/er/locked/x",
            "rm -r /opt/provider",
            "mv /opt/provider /tmp",
            "mv /opt /opt2",
            "mv /opt/deep /opt/deep2",
            "mv /opt/deep/er /opt/deep/er2",
            "chmod 777 /opt/provider",
            "umount /opt/provider",
        ] {
            assert!(say(&running, attempt).failed(), "{attempt} worked");
        }
        say(&running, "ls /opt/provider /opt/deep/er/locked").ok();
    }
    Ok(())
}

/// A build can leave links where the engine mounts and makes folders. They are followed inside the box alone.
pub(crate) fn hostile_links_in_a_layer_stay_inside() -> Outcome {
    let world = World::new();
    let outside = tempfile::tempdir()?;
    let victim = outside.path().join("victim");
    fs::create_dir(&victim)?;
    for (number, base) in both_bases().iter().enumerate() {
        let key = LayerKey::new(format!("links-{number}"))?;
        let lock = world.engine.store().lock_layer(&key, Duration::ZERO)?;
        let build = world.build(base.clone());
        let up = "../".repeat(12);
        let script = format!(
            "mkdir -p /opt; ln -s {up}{0} /opt/relative; ln -s {0} /opt/absolute; rm -f /etc/shadow; \
             ln -s {up}etc/passwd /etc/shadow",
            victim.display()
        );
        say_as_root(&build, &script).ok();
        build.publish(&lock, serde_json::Value::Null)?;
        for reserved in ["/opt/relative/made", "/opt/absolute/made"] {
            let mut plan = BoxPlan::run(new_id(), base.clone());
            plan.layers = vec![key.clone()];
            plan.reserved = vec![PathBuf::from(reserved)];
            // Inside, the link leads nowhere, so the reserved folder cannot be made; outside, nothing may
            // happen.
            drop(world.engine.start(&plan));
            assert_eq!(fs::read_dir(&victim)?.count(), 0, "{reserved} reached out of the box");
        }
    }
    world.assert_clean();
    Ok(())
}

pub(crate) fn run_boxes_have_no_privileges() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let running = world.run(base);
        let said = say(&running, "grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\\t '").ok();
        let zero = "0000000000000000";
        let sets: String =
            ["Inh", "Prm", "Eff", "Bnd", "Amb"].iter().map(|set| format!("Cap{set}:{zero}\n")).collect();
        assert_eq!(said, format!("{sets}NoNewPrivs:1\n"));
        assert!(say(&running, "hostname other").failed());
        assert!(say(&running, "echo 1 >/proc/sys/kernel/sysrq").failed());
        assert!(say(&running, "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/unified/x").failed());
    }
    let build = world.build(small_base());
    let said = say_as_root(&build, "id -u; id -g; grep ^CapEff /proc/self/status | tr -d '\\t'").ok();
    assert_eq!(said, "0\n0\nCapEff:00000000a80425fb\n");
    assert!(say_as_root(&build, "echo 1 >/proc/sys/kernel/sysrq").failed());
    Ok(())
}

pub(crate) fn devices_work_and_cannot_be_made() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    assert_eq!(
        say(&running, "head -c 5 /dev/zero | wc -c; head -c 5 /dev/urandom | wc -c; echo x >/dev/null")
            .ok()
            .replace(' ', ""),
        "5\n5\n"
    );
    assert!(say(&running, "echo x >/dev/full").failed());
    say(&running, "echo x >/dev/shm/x; echo x >/tmp/x; test -c /dev/ptmx").ok();
    assert!(say(&running, "test -e /dev/sda -o -e /dev/vda -o -e /dev/kvm -o -e /dev/mem").failed());
    // Where a device file can be made at all, it cannot be opened.
    let build = world.build(small_base());
    assert!(say_as_root(&build, "mknod /opt-dev c 1 3 && cat /opt-dev").failed());
    assert!(say_as_root(&build, "mknod /tmp/dev c 1 3 && cat /tmp/dev").failed());
    Ok(())
}

pub(crate) fn the_network_files_are_there() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let mut plan = BoxPlan::run(new_id(), base);
        plan.hostname = "my-box".to_owned();
        let running = world.start(&plan);
        let said = say(&running, "cat /etc/resolv.conf").ok();
        assert_eq!(said, fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
        assert_eq!(say(&running, "hostname; cat /etc/hostname").ok(), "my-box\nmy-box\n");
        assert!(say(&running, "cat /etc/hosts").ok().contains("my-box"));
        if let Ok(bundle) = fs::read("/etc/ssl/certs/ca-certificates.crt") {
            let said = say(&running, "wc -c </etc/ssl/certs/ca-certificates.crt").ok();
            assert_eq!(said.trim(), bundle.len().to_string());
        }
    }
    Ok(())
}

pub(crate) fn a_box_does_not_see_processes_outside() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let other = world.run(small_base());
    let _sleeper = spawn(&other, &shell("sleep 7100", Identity::SANDBOX));
    // The first process and the shell.
    assert_eq!(say(&running, "set -- /proc/[0-9]*; echo $#").ok().trim(), "2");
    assert!(say(&running, &format!("kill -9 {}", std::process::id())).failed());
    Ok(())
}
