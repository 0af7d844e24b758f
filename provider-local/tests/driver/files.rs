//! Files in a sandbox.

use provider_core::{
    error::Code,
    identity::User,
    sandbox::{FileKind, Sandbox, read_all, reader_of},
};

use crate::common::*;

async fn content(sandbox: &dyn Sandbox, path: &str) -> Vec<u8> {
    let stream = sandbox.read(path).await.expect("a file");
    read_all(stream, 64 << 20).await.expect("its content")
}

async fn write(sandbox: &dyn Sandbox, path: &str, bytes: impl Into<Vec<u8>>, mode: u32) {
    sandbox.write(path, reader_of(bytes), mode).await.expect("written");
}

pub(crate) fn files_come_back_as_they_went() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 253) as u8).collect();
        for name in ["plain", "/home/sandbox/work/h\u{e9}ll\u{f6} \u{4e16}\u{754c} '\"\n", "empty"] {
            let bytes = if name == "empty" { Vec::new() } else { bytes.clone() };
            write(sandbox, name, bytes.clone(), 0o640).await;
            assert!(content(sandbox, name).await == bytes, "{name:?} came back changed");
            let stat = sandbox.stat(name).await.expect("an answer").expect("a file");
            assert_eq!((stat.kind, stat.size, stat.mode), (FileKind::File, bytes.len() as u64, 0o640));
            assert_eq!(stat.user, User { uid: 1000, gid: 100 });
        }
        assert_eq!(say(sandbox, "stat -c '%a %u:%g %s' plain").await, "640 1000:100 5000000\n");
        write(sandbox, "plain", "short", 0o777).await;
        assert_eq!(content(sandbox, "plain").await, b"short");
        assert_eq!(say(sandbox, "stat -c %a plain").await, "640\n", "an old file keeps its mode");
        write(sandbox, "tool", "#!/bin/sh\necho runs\n", 0o755).await;
        assert_eq!(say(sandbox, "./tool").await, "runs\n");
        let names = sandbox.list(".").await.expect("names");
        assert_eq!(names, ["empty", "h\u{e9}ll\u{f6} \u{4e16}\u{754c} '\"\n", "plain", "tool"]);
        sandbox.remove("plain").await.expect("removed");
        assert_eq!(sandbox.stat("plain").await.expect("an answer"), None);
        say(sandbox, "mkdir empty-folder; ln -s nowhere link").await;
        sandbox.remove("empty-folder").await.expect("removed");
        sandbox.remove("link").await.expect("removed");
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn what_is_no_file_is_refused_by_name() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        say(
            sandbox,
            "mkdir -p folder/full; mkfifo pipe; touch closed folder/a; chmod 0 closed; ln -s closed link",
        )
        .await;
        for path in ["missing", "folder", "pipe", "closed", "/dev/zero", "a/b", "closed/x", "", "a\0b"] {
            let error = assert_code(sandbox.read(path).await, Code::FileError);
            assert!(path.contains('\0') || error.message().contains(path), "{error}");
        }
        for path in [
            "folder",
            "pipe",
            "no/such/folder/x",
            "/usr/share/new",
            "/opt/provider/doctor",
            "/dev/null",
            "/proc/version",
        ] {
            let error = assert_code(sandbox.write(path, reader_of("x"), 0o644).await, Code::FileError);
            assert!(error.message().contains(path), "{error}");
        }
        assert_code(sandbox.write("x", reader_of("x"), 0o200_000).await, Code::SpecInvalid);
        for path in ["missing", "folder", "/opt/provider/doctor", "/usr/bin/env"] {
            assert_code(sandbox.remove(path).await, Code::FileError);
        }
        for path in ["missing", "closed"] {
            assert_code(sandbox.list(path).await, Code::FileError);
        }
        for (path, kind) in
            [("folder", FileKind::Directory), ("pipe", FileKind::Other), ("link", FileKind::Link)]
        {
            assert_eq!(sandbox.stat(path).await.expect("an answer").expect("something").kind, kind);
        }
        assert_eq!(sandbox.stat("closed/x").await.expect("an answer"), None);
        say(sandbox, "mkdir bytes && touch bytes/$(printf 'a\\377')").await;
        assert_code(sandbox.list("bytes").await, Code::FileError);
        world.close(&session).await;
    });
    Ok(())
}

/// Links are followed inside the sandbox's own root, as its user.
pub(crate) fn links_do_not_lead_out() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let outside = world.folder.path().join("outside");
        std::fs::write(&outside, "of this machine").expect("a file");
        let outside = outside.to_string_lossy().into_owned();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        let up = "../".repeat(40);
        say(sandbox, &format!("ln -s {outside} a; ln -s {up}{outside} b; ln -s / c; ln -s /etc/passwd d"))
            .await;
        for path in ["a", "b", &format!("c{outside}"), &format!("{up}{outside}"), &outside] {
            assert_code(sandbox.read(path).await, Code::FileError);
            assert_code(sandbox.write(path, reader_of("x"), 0o644).await, Code::FileError);
        }
        // With one user alone, the account file is that user's as well.
        if is_root() {
            assert_code(sandbox.write("d", reader_of("x"), 0o644).await, Code::FileError);
        }
        assert_eq!(std::fs::read_to_string(&outside).expect("a file"), "of this machine");
        let inside = content(sandbox, "d").await;
        assert_eq!(inside, content(sandbox, "/etc/passwd").await);
        assert_ne!(inside, std::fs::read("/etc/passwd").expect("a file"), "it is the sandbox's own");
        world.close(&session).await;
    });
    Ok(())
}
