//! Commands in a sandbox.

use std::{
    ffi::OsStr,
    process::Command as Program,
    time::{Duration, Instant},
};

use provider_core::{
    error::Code,
    identity::User,
    sandbox::{Command, ExitStatus, Scope, Stdin},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::*;

/// A38: group before user, no further groups, HOME, working directory; and no way back.
pub(crate) fn identity_is_real() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        assert_eq!(
            say(sandbox, "id -u; id -g; id -ru; id -rg; echo $HOME $USER $LOGNAME; pwd").await,
            "1000\n100\n1000\n100\n/home/sandbox sandbox sandbox\n/home/sandbox/work\n"
        );
        let groups = say(sandbox, "id -G").await;
        let kept = world.driver.kept_groups().len();
        if is_root() {
            assert_eq!((groups.trim(), kept), ("100", 0));
        } else {
            let own = groups.split_whitespace().filter(|group| *group != "65534").collect::<Vec<_>>();
            assert_eq!(own, ["100"], "{groups}");
        }
        let status = say(sandbox, "grep -E '^(Uid|Gid|CapEff|CapPrm|NoNewPrivs)' /proc/self/status").await;
        let zero = "0000000000000000";
        assert!(status.contains("Uid:\t1000\t1000\t1000\t1000"), "{status}");
        assert!(status.contains("Gid:\t100\t100\t100\t100"), "{status}");
        assert!(status.contains(&format!("CapPrm:\t{zero}\nCapEff:\t{zero}\nNoNewPrivs:\t1")), "{status}");
        world.close(&session).await;
    });
    Ok(())
}

/// The first argument that makes this program the one with further groups.
pub(crate) const CHILD: &str = "the-one-with-groups";

/// Whether [`further_groups_are_dropped`] can be tried.
pub(crate) fn can_have_groups() -> bool {
    is_root() && with_groups("true".as_ref()).output().is_ok_and(|output| output.status.success())
}

fn with_groups(program: &OsStr) -> Program {
    let mut with = Program::new("setpriv");
    with.args(["--groups", "4,27,100"]).arg(program);
    with
}

/// A38: as root, groups of the caller are dropped.
pub(crate) fn further_groups_are_dropped() -> Outcome {
    let program = std::env::current_exe().expect("this program");
    let output = with_groups(program.as_os_str()).args([CHILD, ""]).output().expect("an output");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text, "100\n");
    Ok(())
}

/// Prints the groups of a command in a sandbox.
pub(crate) fn child() {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        print!("{}", say(&**sandbox, "id -G").await);
        world.close(&session).await;
    });
}

pub(crate) fn status_and_streams_are_told_apart() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        let output = exec(sandbox, Command::shell("echo out; echo err >&2; exit 7")).await;
        assert_eq!(output.status, ExitStatus::Code(7));
        assert_eq!((output.stdout_text(), output.stderr_text()), ("out\n".into(), "err\n".into()));
        assert_eq!(exec(sandbox, Command::shell("kill -9 $$")).await.status, ExitStatus::Signal(9));
        assert_eq!(exec(sandbox, Command::shell("kill -TERM $$")).await.status, ExitStatus::Signal(15));
        assert_eq!(exec(sandbox, Command::shell("exit 127")).await.status, ExitStatus::Code(127));

        let words = ["a b", "", "'", "\"", "\n", "$HOME", "\u{e9}\u{1f600}", "*", "-n"];
        let argv = ["printf", "<%s>"].into_iter().chain(words);
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(exec(sandbox, Command::argv(argv)).await.stdout_text(), expected);

        let command = Command::argv(["sh", "-c", "echo $LANG $X; pwd"])
            .env_var("X", "1")
            .env_var("LANG", "C")
            .cwd("/opt");
        assert_eq!(exec(sandbox, command).await.stdout_text(), "C 1\n/opt\n");
        say(sandbox, "mkdir sub").await;
        assert_eq!(
            exec(sandbox, Command::argv(["pwd"]).cwd("sub")).await.stdout_text(),
            "/home/sandbox/work/sub\n"
        );

        let output = exec(sandbox, Command::shell("yes | head -c 8000000").output_cap(1000)).await;
        assert_eq!((output.stdout.len(), output.truncated, output.status), (1000, true, ExitStatus::Code(0)));
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn what_cannot_start_is_named() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        say(sandbox, "echo no program >plain").await;
        for (command, word) in [
            (Command::argv(["no-such-program"]), "no-such-program"),
            (Command::argv(["/no/such/program"]), "/no/such/program"),
            (Command::argv(["./plain"]), "./plain"),
            (Command::argv(["true"]).cwd("/no/such/folder"), "/no/such/folder"),
        ] {
            let error = assert_code(sandbox.exec(command.clone()).await, Code::ExecFailed);
            assert!(error.message().contains(word), "{error}");
            assert_code(sandbox.spawn(command).await, Code::ExecFailed);
        }
        for command in [
            Command::argv([""]),
            Command::argv(["a\0b"]),
            Command::argv(["true"]).env_var("A=B", ""),
            Command::argv(["cat"]).stdin(Stdin::Piped),
        ] {
            assert_code(sandbox.exec(command).await, Code::SpecInvalid);
        }
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn another_user_is_real_or_refused() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let id = |uid, gid| Command::shell("id -u; id -g; id -G").user(User { uid, gid });
        assert_eq!(exec(&**sandbox, id(1000, 100)).await.stdout_text().lines().next(), Some("1000"));
        for (uid, gid) in [(0, 0), (2000, 3000)] {
            if is_root() {
                let expected = format!("{uid}\n{gid}\n{gid}\n");
                assert_eq!(exec(&**sandbox, id(uid, gid)).await.stdout_text(), expected);
            } else {
                assert_code(sandbox.exec(id(uid, gid)).await, Code::CapabilityUnsupported);
            }
        }
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn input_is_read_to_its_end() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let sandbox = &**sandbox;
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let output = exec(sandbox, Command::argv(["cat"]).stdin(Stdin::Bytes(bytes.clone()))).await;
        assert!(output.stdout == bytes, "the content is another");
        let output = exec(sandbox, Command::argv(["true"]).stdin(Stdin::Bytes(bytes.clone()))).await;
        assert_eq!(output.status, ExitStatus::Code(0), "input that nobody reads is no error");
        assert_eq!(exec(sandbox, Command::argv(["cat"])).await.stdout, b"");

        let mut child =
            sandbox.spawn(Command::argv(["wc", "-c"]).stdin(Stdin::Bytes(bytes))).await.expect("a child");
        let mut text = String::new();
        child.stdout.read_to_string(&mut text).await.expect("text");
        assert_eq!(text, "3000000\n");
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_child_has_live_streams() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let mut child = sandbox.spawn(Command::argv(["cat"]).stdin(Stdin::Piped)).await.expect("a child");
        let mut stdin = child.stdin.take().expect("an input");
        for word in ["one\n", "two\n"] {
            stdin.write_all(word.as_bytes()).await.expect("written");
            let mut echo = [0; 4];
            child.stdout.read_exact(&mut echo).await.expect("an echo");
            assert_eq!(echo, word.as_bytes());
        }
        drop(stdin);
        let (first, second) = tokio::join!(child.control.wait(), child.control.wait());
        assert_eq!(
            (first.expect("a status"), second.expect("a status")),
            (ExitStatus::Code(0), ExitStatus::Code(0))
        );
        child.control.signal(15, Scope::Tree).await.expect("an ended command is no error");

        let child = sandbox.spawn(Command::argv(["sleep", &*marked("471301")])).await.expect("a child");
        child.control.signal(15, Scope::Process).await.expect("a signal");
        assert_eq!(child.control.wait().await.expect("a status"), ExitStatus::Signal(15));

        let control =
            sandbox.spawn(Command::argv(["sleep", &*marked("471302")])).await.expect("a child").control;
        assert_eq!(processes_with("471302").len(), 1, "dropping the child does not end the command");
        control.signal(9, Scope::Tree).await.expect("a signal");
        assert_eq!(control.wait().await.expect("a status"), ExitStatus::Signal(9));
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_time_limit_ends_the_whole_tree() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let line =
            "trap '' TERM; echo early; (sleep 471303 & sleep 471303) & setsid sleep 471303 & sleep 471303";
        let start = Instant::now();
        let output = exec(&**sandbox, Command::shell(marked(line)).timeout(Duration::from_millis(300))).await;
        assert_eq!((output.status, output.stdout_text()), (ExitStatus::TimedOut, "early\n".into()));
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(processes_with("471303"), [0; 0]);
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_dropped_exec_ends_its_command() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        {
            let run = sandbox.exec(Command::shell(marked("sleep 471304 & sleep 471304")));
            let seen = wait_until("it runs", || processes_with("471304").len() == 2);
            tokio::select! { _ = run => panic!("it ended"), () = seen => {} }
        }
        wait_until("it is killed", || processes_with("471304").is_empty()).await;
        // At moments before, while and after the command starts.
        for step in 0..20 {
            let run = sandbox.exec(Command::argv(["sleep", &*marked("471305")]));
            tokio::select! { biased; () = pause(Duration::from_micros(step * 100)) => {}, _ = run => panic!("it ended") }
        }
        wait_until("all are killed", || processes_with("471305").is_empty()).await;
        say(&**sandbox, "true").await;
        world.close(&session).await;
    });
    Ok(())
}

pub(crate) fn a_process_left_behind_does_not_hold_the_answer() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let start = Instant::now();
        let output = exec(&**sandbox, Command::shell(marked("echo done; sleep 471306 &"))).await;
        assert_eq!((output.stdout_text(), output.status), ("done\n".into(), ExitStatus::Code(0)));
        assert!(output.held_open && start.elapsed() < Duration::from_secs(2), "{output:?}");
        assert_eq!(processes_with("471306").len(), 1, "it goes on");
        world.close(&session).await;
        assert_eq!(processes_with("471306"), [0; 0]);
    });
    Ok(())
}
