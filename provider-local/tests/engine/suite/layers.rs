//! Builds, layers, and boxes that stand on them.

use super::common::*;
use provider_local::engine::{Base, BoxPlan, EngineError, RunningBox, SecretBytes};
use provider_local::store::LayerKey;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn key(name: &str) -> LayerKey {
    LayerKey::new(name).expect("a key")
}

/// Runs a script as root of a build box on these layers, and publishes what it changed.
fn build(world: &World, base: &Base, below: &[LayerKey], name: &str, script: &str) -> LayerKey {
    let key = key(name);
    let lock = world.engine.store().lock_layer(&key, Duration::from_secs(10)).expect("a lock");
    let mut plan = BoxPlan::build(new_id(), base.clone());
    plan.layers = below.to_vec();
    let running = world.start(&plan);
    say_as_root(&running, script).ok();
    let layer = running.publish(&lock, json!({"script": script})).expect("a layer");
    assert!(layer.size() > 0 && layer.meta()["script"] == script);
    key
}

fn run_on(world: &World, base: &Base, layers: &[LayerKey]) -> RunningBox {
    let mut plan = BoxPlan::run(new_id(), base.clone());
    plan.layers = layers.to_vec();
    plan.reserved = vec![PathBuf::from("/opt/provider")];
    world.start(&plan)
}

pub(crate) fn layers_stack_on_both_bases() -> Outcome {
    let world = World::new();
    for (number, base) in both_bases().iter().enumerate() {
        let first = build(
            &world,
            base,
            &[],
            &format!("first-{number}"),
            "mkdir -p /home/sandbox /opt/provider /new-top; echo one >/opt/provider/one; echo same >/opt/provider/same; \
             echo 1 >/etc/first; echo 1 >/new-top/file",
        );
        let second = build(
            &world,
            base,
            std::slice::from_ref(&first),
            &format!("second-{number}"),
            "cat /opt/provider/one /new-top/file; echo two >/opt/provider/two; echo changed >/opt/provider/same; \
             echo hello >/home/sandbox/hello",
        );
        let layers = [first, second];
        let running = run_on(&world, base, &layers);
        let said = say(
            &running,
            "cat /opt/provider/one /opt/provider/two /opt/provider/same /home/sandbox/hello /etc/first /new-top/file",
        );
        assert_eq!(said.ok(), "one\ntwo\nchanged\nhello\n1\n1\n");
        assert!(say(&running, "echo x >/opt/provider/one").failed());
        // Two boxes on the same layers, at the same time.
        let twin = run_on(&world, base, &layers);
        assert_eq!(say(&twin, "cat /opt/provider/two").ok(), "two\n");
        let stored = world.engine.boxes()?;
        assert!(stored.iter().all(|entry| entry.layers == layers));
        assert!(world.engine.store().collect(&[])?.layers.is_empty(), "layers in use were collected");
        drop((running, twin));
        assert_eq!(world.engine.store().collect(&[])?.layers.len(), 2);
    }
    world.assert_clean();
    Ok(())
}

pub(crate) fn deleted_files_stay_deleted() -> Outcome {
    let world = World::new();
    for (number, base) in both_bases().iter().enumerate() {
        let name = |part: &str| format!("{part}-{number}");
        let victim = match base {
            Base::Host => "/etc/ld.so.cache",
            Base::Dir(_) => "/etc/base-file",
        };
        let script = format!("rm {victim}; mkdir -p /etc/folder; echo 1 >/etc/folder/file");
        let first = build(&world, base, &[], &name("first"), &script);
        let below = std::slice::from_ref(&first);
        let replace = "rm -r /etc/folder; mkdir /etc/folder; echo 2 >/etc/folder/other";
        let second = build(&world, base, below, &name("second"), replace);
        let running = run_on(&world, base, &[first, second]);
        assert!(say(&running, &format!("cat {victim}")).failed(), "{victim} came back");
        assert_eq!(say(&running, "ls /etc/folder").ok(), "other\n");
        assert_eq!(say(&world.run(base.clone()), &format!("ls {victim}")).ok(), format!("{victim}\n"));
    }
    Ok(())
}

pub(crate) fn a_user_made_by_a_build_exists() -> Outcome {
    let world = World::new();
    let script = "grep -q :100: /etc/group || echo users:x:100: >>/etc/group; \
                  echo sandbox:x:1000:100::/home/sandbox:/bin/sh >>/etc/passwd; mkdir -p /home/sandbox; \
                  chown 1000:100 /home/sandbox || test $(grep -c . /proc/self/uid_map) = 1";
    let layer = build(&world, &Base::Host, &[], "user", script);
    let running = run_on(&world, &Base::Host, &[layer]);
    let said = say(&running, "id -un; cd /home/sandbox && echo x >mine && stat -c '%U:%G' mine").ok();
    assert_eq!(said, "sandbox\nsandbox:users\n");
    assert!(say(&running, "cat /etc/shadow").failed());
    Ok(())
}

fn contains(path: &Path, needle: &[u8]) -> bool {
    if path.is_dir() && !path.is_symlink() {
        // The overlay's own work folder is closed even to its owner, and empty.
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.into_iter().any(|entry| contains(&entry.path(), needle));
    }
    fs::read(path).is_ok_and(|contents| contents.windows(needle.len()).any(|window| window == needle))
}

pub(crate) fn secrets_are_in_no_layer() -> Outcome {
    let world = World::new();
    let canary = "canary-5d41402abc";
    let key = key("with-secret");
    let lock = world.engine.store().lock_layer(&key, Duration::ZERO)?;
    let mut plan = BoxPlan::build(new_id(), small_base());
    plan.secrets = vec![("token".to_owned(), SecretBytes::new(canary.into()))];
    assert!(!format!("{plan:?}").contains(canary));
    let running = world.start(&plan);
    let said = say_as_root(&running, "cat /run/secrets/token; stat -c ' %a %u' /run/secrets/token").ok();
    assert_eq!(said, format!("{canary} 400 0\n"));
    assert!(say_as_root(&running, "echo x >/run/secrets/other").failed());
    if is_root() {
        assert!(say(&running, "cat /run/secrets/token").failed());
    }
    assert!(!contains(&world.state, canary.as_bytes()), "the secret is on disk while the box runs");
    running.publish(&lock, json!(null))?;
    assert!(!contains(&world.state, canary.as_bytes()), "the secret is in the layer");
    let next = run_on(&world, &small_base(), &[key]);
    assert!(say(&next, "ls /run/secrets").failed());
    Ok(())
}

pub(crate) fn the_base_is_never_changed() -> Outcome {
    let world = World::new();
    let base = small_base();
    let before = world.engine.fingerprint(&base)?;
    build(&world, &base, &[], "changes", "echo x >/etc/base-file; rm /usr/bin/yes; chmod 700 /etc");
    say(&world.run(base.clone()), "echo x >/etc/base-file; echo y >/etc/new");
    assert_eq!(world.engine.fingerprint(&base)?, before);
    Ok(())
}

pub(crate) fn two_builders_build_once() -> Outcome {
    let world = World::new();
    let key = key("shared");
    let builds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = world.engine.store();
                let lock = store.lock_layer(&key, Duration::from_secs(30)).expect("a lock");
                if store.layer(&key).expect("a look").is_none() {
                    builds.fetch_add(1, Ordering::SeqCst);
                    let running = world.build(small_base());
                    say_as_root(&running, "echo built >/etc/built").ok();
                    running.publish(&lock, json!(null)).expect("a layer");
                }
            });
        }
    });
    assert_eq!(builds.load(Ordering::SeqCst), 1);
    assert_eq!(say(&run_on(&world, &small_base(), &[key]), "cat /etc/built").ok(), "built\n");
    world.assert_clean();
    Ok(())
}

pub(crate) fn a_layer_of_another_kind_is_refused() -> Outcome {
    let world = World::new();
    if !world.engine.isolation().user_namespace {
        return skip("as root all bases use one kind of layer");
    }
    let layer = build(&world, &small_base(), &[], "small", "echo x >/etc/x");
    let mut plan = BoxPlan::run(new_id(), Base::Host);
    plan.layers = vec![layer];
    let error = world.engine.start(&plan).expect_err("an error");
    assert!(matches!(error, EngineError::ForeignLayer { .. }), "{error}");
    world.assert_clean();
    Ok(())
}

pub(crate) fn what_a_run_box_writes_goes_away() -> Outcome {
    let world = World::new();
    let layer = build(&world, &small_base(), &[], "home", "mkdir -p /home/sandbox; chmod 777 /home/sandbox");
    let running = run_on(&world, &small_base(), std::slice::from_ref(&layer));
    say(&running, "echo x >/home/sandbox/x").ok();
    let error = {
        let lock = world.engine.store().lock_layer(&key("of-run"), Duration::ZERO)?;
        running.publish(&lock, json!(null)).expect_err("an error")
    };
    assert!(matches!(error, EngineError::BadInput { .. }), "{error}");
    drop(running);
    assert_eq!(say(&run_on(&world, &small_base(), &[layer]), "ls /home/sandbox").ok(), "");
    Ok(())
}

pub(crate) fn a_failed_build_publishes_nothing() -> Outcome {
    let world = World::new();
    let key = key("failed");
    let lock = world.engine.store().lock_layer(&key, Duration::ZERO)?;
    let running = world.build(small_base());
    assert!(say_as_root(&running, "echo x >/etc/x; false").failed());
    drop(running);
    assert!(world.engine.store().layer(&key)?.is_none());
    let running = world.build(small_base());
    running.publish(&lock, json!(null))?;
    let again = running.publish(&lock, json!(null)).expect_err("an error");
    assert!(matches!(again, EngineError::BadInput { .. }), "{again}");
    world.assert_clean();
    Ok(())
}
