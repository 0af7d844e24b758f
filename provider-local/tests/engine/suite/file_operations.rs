//! Files in and out of a box.

use super::common::*;
use provider_local::engine::{EngineError, Identity};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

const WHO: Identity = Identity::SANDBOX;

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn write_flags() -> i32 {
    flags(OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
}

pub(crate) fn files_go_in_and_out() -> Outcome {
    let world = World::new();
    for base in both_bases() {
        let running = world.run(base);
        running.mkdir(Path::new("/tmp/d"), 0o751, WHO)?;
        let mut file = File::from(running.open(Path::new("/tmp/d/f"), write_flags(), 0o640, WHO)?);
        file.write_all(b"from outside")?;
        drop(file);
        let said =
            say(&running, "cat /tmp/d/f; stat -c ' %u:%g %a' /tmp/d/f; stat -c '%u:%g %a' /tmp/d").ok();
        assert_eq!(said, "from outside 1000:100 640\n1000:100 751\n");
        say(&running, "echo from inside >/tmp/d/g").ok();
        let file = running.open(Path::new("/tmp/d/g"), flags(OFlags::RDONLY), 0, WHO)?;
        assert_eq!(read_all(File::from(file)), "from inside\n");
        running.rename(Path::new("/tmp/d/g"), Path::new("/tmp/d/f"), WHO)?;
        running.unlink(Path::new("/tmp/d/f"), WHO)?;
        running.rmdir(Path::new("/tmp/d"), WHO)?;
        assert!(say(&running, "ls /tmp/d").failed());
        for error in [
            running.unlink(Path::new("/tmp/d/f"), WHO).expect_err("an error"),
            running.rmdir(Path::new("/tmp/d"), WHO).expect_err("an error"),
            running.open(Path::new("/tmp/d/f"), 0, 0, WHO).expect_err("an error"),
            running.rename(Path::new("/tmp/d"), Path::new("/tmp/e"), WHO).expect_err("an error"),
        ] {
            assert!(error.errno() == Some(2) && error.to_string().contains("/tmp/d"), "{error}");
        }
        for path in ["relative", "/nul\0nul", &format!("/{}", "x".repeat(5000))] {
            let error = running.open(Path::new(path), 0, 0, WHO).expect_err("an error");
            assert!(matches!(error, EngineError::BadInput { .. }), "{error}");
        }
    }
    Ok(())
}

pub(crate) fn links_do_not_lead_out() -> Outcome {
    let outside = tempfile::tempdir()?;
    let secret = outside.path().join("outside");
    fs::write(&secret, "outside")?;
    let world = World::new();
    let running = world.run(small_base());
    let script =
        format!("ln -s {0} /tmp/a; ln -s ../../../../../..{0} /tmp/b; ln -s / /tmp/r", secret.display());
    say(&running, &script).ok();
    let through_root = format!("/tmp/r/../../..{}", secret.display());
    for path in ["/tmp/a", "/tmp/b", through_root.as_str()] {
        let error = running.open(Path::new(path), flags(OFlags::RDONLY), 0, WHO).expect_err("an error");
        assert_eq!(error.errno(), Some(2), "{path}: {error}");
    }
    // A write through a link lands inside the box.
    say(&running, &format!("mkdir -p {}", outside.path().display())).ok();
    let mut file = File::from(running.open(Path::new("/tmp/a"), write_flags(), 0o600, WHO)?);
    file.write_all(b"inside")?;
    assert_eq!(fs::read_to_string(&secret)?, "outside");
    assert_eq!(say(&running, "cat /tmp/a").ok(), "inside");
    Ok(())
}

pub(crate) fn permissions_hold() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    say(&running, "echo x >/tmp/closed; chmod 0 /tmp/closed").ok();
    let error = running.open(Path::new("/tmp/closed"), flags(OFlags::RDONLY), 0, WHO).expect_err("an error");
    assert_eq!(error.errno(), Some(13), "{error}");
    let error =
        running.open(Path::new("/proc/sys/kernel/hostname"), write_flags(), 0, WHO).expect_err("an error");
    assert!(matches!(error.errno(), Some(13 | 30)), "{error}");
    if !world.engine.isolation().user_namespace {
        let error = running.open(Path::new("/etc/new"), write_flags(), 0o600, WHO).expect_err("an error");
        assert_eq!(error.errno(), Some(13), "{error}");
        let stranger = Identity { uid: 4321, gid: 4321 };
        say(&running, "echo x >/tmp/private; chmod 600 /tmp/private").ok();
        assert!(running.open(Path::new("/tmp/private"), 0, 0, stranger).is_err());
    }
    Ok(())
}

pub(crate) fn a_named_pipe_does_not_block() -> Outcome {
    let world = World::new();
    let build = world.build(small_base());
    say_as_root(&build, "mknod /tmp/pipe p").ok();
    build.open(Path::new("/tmp/pipe"), flags(OFlags::RDONLY), 0, Identity::ROOT)?;
    // Without a reader a writer would wait for ever. The child that opened the other end may still be about
    // to end.
    let path = Path::new("/tmp/pipe");
    let write = || build.open(path, flags(OFlags::WRONLY), 0, Identity::ROOT);
    wait_until("there is no reader", || write().is_err());
    assert_eq!(write().expect_err("an error").errno(), Some(6));
    Ok(())
}
