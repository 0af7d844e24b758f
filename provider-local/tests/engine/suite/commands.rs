//! Commands: how they start, what they read and write, how they end.

use super::common::*;
use provider_local::engine::{EngineError, ExecSpec, Exit, Identity, Step};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

pub(crate) fn exit_codes_and_signals() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    for code in [0, 1, 3, 126, 127, 255] {
        assert_eq!(say(&running, &format!("exit {code}")).exit, Exit::Code(code));
    }
    for signal in [1, 9, 11, 15] {
        assert_eq!(say(&running, &format!("kill -{signal} $$")).exit, Exit::Signal(signal));
    }
    assert_eq!(say(&running, "no-such-program").exit, Exit::Code(127));
    Ok(())
}

pub(crate) fn streams_are_apart() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let said = say(&running, "echo out; echo err >&2; echo dev-out >/dev/stdout; echo dev-err >/dev/stderr");
    assert_eq!((said.out.as_str(), said.err.as_str()), ("out\ndev-out\n", "err\ndev-err\n"));
    Ok(())
}

pub(crate) fn a_missing_program_is_no_exit_code() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    for program in ["/no/such/program", "no-such-program", "", "/etc", "/etc/passwd"] {
        let error = running.spawn(&ExecSpec::new(Identity::SANDBOX, [program])).expect_err("an error");
        assert!(error.is_missing_program(), "{program:?}: {error}");
        assert!(error.to_string().contains(&format!("{program:?}")), "{error}");
    }
    let errno =
        |program: &str| running.spawn(&ExecSpec::new(Identity::SANDBOX, [program])).expect_err("x").errno();
    assert_eq!((errno("/no/such"), errno("/etc/passwd")), (Some(2), Some(13)));
    Ok(())
}

pub(crate) fn a_missing_folder_is_named() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let mut spec = shell("pwd", Identity::SANDBOX);
    spec.cwd = "/no/such/folder".into();
    let error = running.spawn(&spec).expect_err("an error");
    assert!(error.is_missing_directory() && !error.is_missing_program(), "{error}");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    spec.cwd = "/etc".into();
    assert_eq!(finish(spawn(&running, &spec)).ok(), "/etc\n");
    Ok(())
}

pub(crate) fn impossible_commands_are_refused() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let who = Identity::SANDBOX;
    let nothing: [&str; 0] = [];
    let mut with_variable = shell("true", who);
    with_variable.env.push(("A=B".into(), "x".into()));
    let mut with_nul = shell("true", who);
    with_nul.env.push(("TOKEN".into(), "sec\0ret".into()));
    let mut with_groups = shell("true", who);
    with_groups.groups = vec![1; 100];
    let bad =
        [ExecSpec::new(who, nothing), ExecSpec::new(who, ["a\0b"]), with_variable, with_nul, with_groups];
    for spec in bad {
        let error = running.spawn(&spec).expect_err("an error");
        assert!(matches!(error, EngineError::BadInput { .. }), "{error}");
        assert!(!error.to_string().contains("ret"), "a value is shown: {error}");
    }
    let long = "x".repeat(200_000);
    let error = running.spawn(&ExecSpec::new(who, ["true", long.as_str()])).expect_err("an error");
    assert!(
        matches!(error, EngineError::Exec { step: Step::Exec, .. }) && error.errno() == Some(7),
        "{error}"
    );
    // Many arguments that fit are no problem for the packet.
    let mut many = shell("echo $#", who);
    many.argv.extend(std::iter::repeat_n("0123456789".into(), 20_000));
    assert_eq!(finish(spawn(&running, &many)).ok(), "19999\n");
    Ok(())
}

pub(crate) fn programs_are_searched_in_the_path() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let script = "mkdir /tmp/a /tmp/b; for d in a b; do echo \"#!/bin/sh\necho $d\" >/tmp/$d/tool; done; chmod +x /tmp/b/tool";
    say(&running, script).ok();
    let mut spec = ExecSpec::new(Identity::SANDBOX, ["tool"]);
    spec.env.push(("PATH".into(), format!("/none::/tmp/a:/tmp/b:{PATH}").into()));
    // The first one may not be executed, so the search goes on.
    assert_eq!(finish(spawn(&running, &spec)).ok(), "b\n");
    let unset = ExecSpec::new(Identity::SANDBOX, ["true"]);
    assert_eq!(finish(spawn(&running, &unset)).exit, Exit::Code(0));
    Ok(())
}

pub(crate) fn a_slow_reader_gets_everything() -> Outcome {
    const SIZE: usize = 64 << 20;
    let world = World::new();
    let running = world.run(small_base());
    let process =
        spawn(&running, &shell(&format!("head -c {SIZE} /dev/zero; echo done >&2"), Identity::SANDBOX));
    let mut stdout = File::from(process.stdout);
    let mut buffer = vec![1; 1 << 16];
    let mut total = 0;
    loop {
        // Gives way on every read, so that the pipe is full for most of the time.
        std::thread::yield_now();
        let count = stdout.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        assert!(buffer[..count].iter().all(|byte| *byte == 0));
        total += count;
    }
    assert_eq!(total, SIZE);
    assert_eq!(read_all(File::from(process.stderr)), "done\n");
    assert_eq!(process.exit.wait()?, Exit::Code(0));
    Ok(())
}

pub(crate) fn stdin_arrives_and_ends() -> Outcome {
    const SIZE: usize = 3 << 20;
    let world = World::new();
    let running = world.run(small_base());
    let mut process = spawn(&running, &with_stdin(shell("wc -c", Identity::SANDBOX)));
    let stdin = process.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || File::from(stdin).write_all(&vec![7; SIZE]));
    assert_eq!(finish(process).ok().trim(), SIZE.to_string());
    writer.join().expect("a writer")?;
    // Without a pipe the end comes at once.
    assert_eq!(say(&running, "wc -c").ok().trim(), "0");
    Ok(())
}

pub(crate) fn the_exit_does_not_wait_for_the_pipes() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let start = Instant::now();
    let process = spawn(&running, &shell("sleep 1000 & exit 3", Identity::SANDBOX));
    assert_eq!(process.exit.wait()?, Exit::Code(3));
    assert!(start.elapsed() < Duration::from_secs(60));
    running.stop(Duration::ZERO)?;
    assert_eq!(read_all(File::from(process.stdout)), "");
    Ok(())
}

pub(crate) fn nothing_is_inherited() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let said = say(&running, "env | cut -d= -f1 | grep -v -x -e PWD -e SHLVL -e _ -e OLDPWD").ok();
    assert_eq!(said, "PATH\nLC_ALL\n");
    // 0 to 2, and the one that lists the folder.
    assert_eq!(say(&running, "ls /proc/self/fd").ok(), "0\n1\n2\n3\n");
    assert_eq!(
        say(&running, "grep -e SigBlk -e SigIgn /proc/self/status | tr -d '0 \\t\\n'").ok(),
        "SigBlk:SigIgn:"
    );
    Ok(())
}

/// Answers and exits come from a thread of the box's own.
pub(crate) fn a_dead_runtime_does_not_matter() -> Outcome {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    let running = world.run(small_base());
    let inside = running.clone();
    let task =
        runtime.spawn_blocking(move || spawn(&inside, &shell("read x && exit 6; exit 5", Identity::SANDBOX)));
    let first = runtime.block_on(task)?;
    assert_eq!(runtime.block_on(first.exit)?, Exit::Code(5));
    let inside = running.clone();
    let task = runtime.spawn_blocking(move || {
        spawn(&inside, &with_stdin(shell("read x && exit 6; exit 5", Identity::SANDBOX)))
    });
    let second = runtime.block_on(task)?;
    runtime.shutdown_background();
    drop(second.stdin);
    assert_eq!(second.exit.wait()?, Exit::Code(5));
    Ok(())
}

pub(crate) fn groups_are_set_where_they_can_be() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let mut spec = shell("id -G", Identity::SANDBOX);
    spec.groups = vec![27, 44];
    let said = finish(spawn(&running, &spec)).ok();
    if world.engine.isolation().user_namespace {
        assert!(said.starts_with("100"), "{said}");
        let other = Identity { uid: 1001, gid: 100 };
        let error = running.spawn(&shell("true", other)).expect_err("an error");
        assert!(matches!(error, EngineError::Exec { step: Step::User, .. }), "{error}");
    } else {
        assert_eq!(said, "100 27 44\n");
        let other = Identity { uid: 1234, gid: 4321 };
        assert_eq!(finish(spawn(&running, &shell("id -u; id -g", other))).ok(), "1234\n4321\n");
    }
    Ok(())
}

pub(crate) fn many_commands_leave_no_descriptor() -> Outcome {
    let world = World::new();
    let running = world.run(small_base());
    let first = processes_with(running.id());
    for _ in 0..4 {
        let batch: Vec<_> =
            (0..100).map(|_| spawn(&running, &ExecSpec::new(Identity::SANDBOX, ["true"]))).collect();
        for process in batch {
            assert_eq!(process.exit.wait()?, Exit::Code(0));
        }
    }
    assert_eq!(processes_with(running.id()), first);
    for line in &first {
        let pid = line.split(':').next().unwrap_or_default();
        // The first process of a box cannot be looked into by an ordinary user.
        if let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) {
            assert!(descriptors.count() < 12, "descriptors have piled up in {line}");
        }
    }
    Ok(())
}
