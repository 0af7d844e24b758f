//! Sessions with this machine's interpreter.

use std::time::{Duration, Instant};

use super::super::*;
use crate::{
    contract::host::{HostSandbox, has_python},
    error::Code,
    sandbox::{Command, ExitStatus, Sandbox},
};
use std::sync::Arc;

/// Runs a test with a session, if this machine has an interpreter.
fn with_session<F: Future<Output = ()>>(
    options: CodeOptions,
    test: impl FnOnce(Arc<dyn Sandbox>, CodeSession) -> F,
) {
    block_on(async {
        let host = Arc::new(HostSandbox::new());
        if has_python() {
            let sandbox: Arc<dyn Sandbox> = host;
            let session = CodeSession::start(&sandbox, options).await.unwrap();
            test(sandbox, session).await;
        }
    });
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Limits that a slow machine keeps where they should be kept, and short ones where they are to be reached.
fn quick() -> CodeOptions {
    CodeOptions { interrupt_grace: Duration::from_secs(2), ..CodeOptions::default() }
}

const SHORT: Duration = Duration::from_secs(1);

/// The value of code that must end well.
async fn value(session: &mut CodeSession, code: &str) -> Option<String> {
    let output = session.run(code).await.unwrap();
    assert!(output.success(), "{code}: {output:?}");
    output.value
}

async fn error(session: &mut CodeSession, code: &str) -> CodeError {
    session.run(code).await.unwrap().error.unwrap()
}

#[test]
fn a66_state_and_values_are_kept_across_calls() {
    with_session(CodeOptions::default(), |_, mut session| async move {
        assert!(session.python_version().starts_with("3."));
        assert_eq!(value(&mut session, "1+1").await.as_deref(), Some("2"));
        for (code, expected) in [
            ("x = 6", None),
            ("def f(y):\n    return x * y", None),
            ("f(7)", Some("42")),
            ("x += 1; f(1)", Some("7")),
            ("import math\nmath.floor(2.5)", Some("2")),
            ("None", None),
            ("", None),
            ("# nothing", None),
            ("'a\\n\u{1F600}'", Some("'a\\n\u{1F600}'")),
            ("'\\ud800'", Some("'\\ud800'")),
            ("__name__", Some("'__main__'")),
            ("import sys; sys.argv", Some("['']")),
            ("from __future__ import annotations", None),
            ("def g(a: unknown): pass", None),
            ("import __main__; __main__.x", Some("7")),
        ] {
            assert_eq!(value(&mut session, code).await.as_deref(), expected, "{code}");
        }
        session.close().await.unwrap();
    });
}

#[test]
fn a66_sessions_see_nothing_of_each_other_but_files() {
    with_session(CodeOptions::default(), |sandbox, mut one| async move {
        let mut other = CodeSession::start(&sandbox, CodeOptions::default()).await.unwrap();
        value(&mut one, "x = 1; open('shared', 'w').write('hi')").await;
        assert_eq!(error(&mut other, "x").await.name, "NameError");
        assert_eq!(value(&mut other, "open('shared').read()").await.as_deref(), Some("'hi'"));
        assert_eq!(value(&mut one, "x").await.as_deref(), Some("1"));
        one.close().await.unwrap();
        assert_eq!(value(&mut other, "2").await.as_deref(), Some("2"));
    });
}

#[test]
fn a66_outputs_come_apart_and_whole_also_from_children() {
    let script = "import os, subprocess, sys\n\
                  print('a'); print('b', file=sys.stderr); os.system('echo c; echo d >&2')\n\
                  os.write(1, b'\\xff\\n'); subprocess.run(['echo', 'e'])\n\
                  print('no end', end='')";
    with_session(CodeOptions::default(), |_, mut session| async move {
        let output = session.run(script).await.unwrap();
        assert_eq!(output.stdout, b"a\nc\n\xff\ne\nno end", "{output:?}");
        assert_eq!((output.stderr_text().as_str(), output.truncated), ("b\nd\n", false));
        let output = session.run("3").await.unwrap();
        assert_eq!((output.stdout_text(), output.stderr_text()), (String::new(), String::new()));
        // What looks like a frame is output.
        let forged = "print('0' * 32 + ' 1 3 D 1 30')";
        assert!(session.run(forged).await.unwrap().stdout_text().ends_with(" 1 3 D 1 30\n"));
        assert_eq!(error(&mut session, "input()").await.name, "EOFError");
    });
}

#[test]
fn a66_output_beyond_the_cap_is_dropped_and_said_to_be() {
    let options = CodeOptions { output_cap: 1000, ..CodeOptions::default() };
    with_session(options, |_, mut session| async move {
        let output =
            session.run("import sys\nfor _ in range(300): print('x' * 100_000)\n'y' * 5000").await.unwrap();
        assert!(output.truncated && output.success(), "{:?}", output.end);
        assert_eq!((output.stdout.len(), output.value.unwrap().len()), (1000, 1000));
        let output = session.run("print('x' * 999)\n'y' * 998").await.unwrap();
        assert_eq!((output.truncated, output.stdout.len(), output.value.unwrap().len()), (false, 1000, 1000));
        let output = session.run("raise ValueError('z' * 3000)").await.unwrap();
        assert!(output.truncated && output.error.unwrap().message.len() == 1000);
        let code = format!("len('{}')", "c".repeat(3_000_000));
        assert_eq!(value(&mut session, &code).await.as_deref(), Some("3000000"));
    });
}

#[test]
fn a66_an_exception_is_told_with_its_traceback_and_the_state_is_kept() {
    with_session(CodeOptions::default(), |_, mut session| async move {
        value(&mut session, "x = 1").await;
        let found = error(&mut session, "def fail(n):\n    return n / 0\n\nfail(x)").await;
        assert_eq!((found.name.as_str(), found.message.as_str()), ("ZeroDivisionError", "division by zero"));
        for line in ["<code 2>\", line 4, in <module>", "<code 2>\", line 2, in fail", "return n / 0"] {
            assert!(found.traceback.contains(line), "{found:?}");
        }
        assert_eq!(found.traceback.matches("File").count(), 2, "the driver is in it: {found:?}");
        // Nothing of code with an error of syntax runs.
        let found = error(&mut session, "x = 2\ndef").await;
        assert_eq!(found.name, "SyntaxError");
        assert_eq!(error(&mut session, "x = 3\nreturn 4").await.name, "SyntaxError");
        let hostile = "class E(Exception):\n    def __str__(self): raise ValueError\nraise E()";
        assert_eq!(error(&mut session, hostile).await.name, "E");
        let hostile = "class R:\n    def __repr__(self): return 1 / 0\nR()";
        assert_eq!(error(&mut session, hostile).await.name, "ZeroDivisionError");
        let found = error(&mut session, "import sys; sys.exit(3)").await;
        assert_eq!((found.name.as_str(), found.message.as_str()), ("SystemExit", "3"));
        assert_eq!(error(&mut session, "raise KeyboardInterrupt").await.name, "KeyboardInterrupt");
        assert_eq!(value(&mut session, "x").await.as_deref(), Some("1"));
    });
}

#[test]
fn a66_code_at_its_limit_is_interrupted_and_the_state_is_kept() {
    with_session(CodeOptions::default(), |_, mut session| async move {
        value(&mut session, "x = 5").await;
        for hang in [
            "while True: pass",
            "import time; print('early'); time.sleep(600)",
            "import subprocess; subprocess.run(['sleep', '600'])",
        ] {
            let output = session.run_within(hang, SHORT).await.unwrap();
            assert_eq!(output.end, CodeEnd::TimedOut, "{hang}: {output:?}");
            assert_eq!(output.error.as_ref().unwrap().name, "KeyboardInterrupt", "{hang}: {output:?}");
            assert_eq!(output.stdout_text(), if hang.contains("early") { "early\n" } else { "" });
        }
        assert_eq!(value(&mut session, "x").await.as_deref(), Some("5"));
    });
}

#[test]
fn a66_code_that_does_not_answer_the_interrupt_is_killed_and_the_session_says_so() {
    let hang =
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('early')\ntime.sleep(600)";
    with_session(quick(), |sandbox, mut session| async move {
        value(&mut session, "x = 5").await;
        let begin = Instant::now();
        let output = session.run_within(hang, SHORT).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert_eq!((output.end, output.stdout_text().as_str()), (CodeEnd::Killed, "early\n"));
        let refused = session.run("x").await.unwrap_err();
        assert_eq!(refused.code(), Code::WrongState);
        assert!(refused.advice().contains("restart") && session.lost().is_some(), "{refused}");
        session.restart().await.unwrap();
        assert_eq!(session.lost(), None);
        assert_eq!(error(&mut session, "x").await.name, "NameError");
        drop(sandbox);
    });
}

#[test]
fn a66_another_task_can_interrupt() {
    with_session(CodeOptions::default(), |_, mut session| async move {
        let interrupter = session.interrupter();
        assert!(!interrupter.interrupt(), "nothing runs");
        // At once, and so before the code has begun; and once the code runs.
        for wait_for_output in [false, true] {
            let marker = format!("begun-{wait_for_output}");
            let code = format!("import time\nopen('{marker}', 'w').close()\ntime.sleep(600)");
            let other = interrupter.clone();
            let (output, told) = tokio::join!(session.run(&code), async move {
                if wait_for_output {
                    // The code has surely begun once the loop below has let much other work be done.
                    for _ in 0..2000 {
                        tokio::task::yield_now().await;
                    }
                }
                other.interrupt()
            });
            let output = output.unwrap();
            assert!(told && output.end == CodeEnd::Finished, "{output:?}");
            assert_eq!(output.error.unwrap().name, "KeyboardInterrupt");
        }
        assert!(!interrupter.interrupt());
        assert_eq!(value(&mut session, "2").await.as_deref(), Some("2"), "a late interrupt does no harm");
    });
}

#[test]
fn a66_the_end_of_the_interpreter_is_told_with_the_output_until_then() {
    with_session(CodeOptions::default(), |_, mut session| async move {
        for (code, status) in [
            ("print('bye'); import os; os._exit(7)", ExitStatus::Code(7)),
            ("print('bye', flush=True); import os; os.kill(os.getpid(), 9)", ExitStatus::Signal(9)),
            ("print('bye', flush=True); import os; os.abort()", ExitStatus::Signal(6)),
            // It closes what leads to the supervisor.
            ("print('bye'); import os, time; os.closerange(3, 1000); time.sleep(600)", ExitStatus::Signal(9)),
            (
                "print('bye', flush=True); import os; os.execvp('sleep', ['sleep', '600'])",
                ExitStatus::Signal(9),
            ),
        ] {
            let begin = Instant::now();
            let output = session.run_within(code, Duration::from_secs(30)).await.unwrap();
            assert!(matches!(output.end, CodeEnd::Died(found) if found == status), "{code}: {output:?}");
            assert!(begin.elapsed() < Duration::from_secs(20), "{code}");
            assert_eq!(output.stdout_text(), "bye\n", "{code}");
            assert_eq!(session.run("1").await.unwrap_err().code(), Code::WrongState, "{code}");
            session.restart().await.unwrap();
        }
        // The command itself is killed, which is no fault of the code that anybody could know.
        let killed =
            session.run("import os, time; os.kill(os.getppid(), 9); time.sleep(2)").await.unwrap_err();
        assert_eq!(killed.code(), Code::StreamCut);
        assert!(killed.message().contains("signal 9"), "{killed}");
        session.restart().await.unwrap();
        assert_eq!(value(&mut session, "1").await.as_deref(), Some("1"));
    });
}

#[test]
fn a66_code_that_harms_its_own_streams_is_answered() {
    with_session(quick(), |_, mut session| async move {
        for harm in [
            "import os, sys; os.close(1); os.close(2); os.close(0)",
            "sys.stdout.close(); sys.stderr.close()",
            "del sys.stdout",
            "sys.stdout = None",
        ] {
            value(&mut session, harm).await;
            let output = session.run("print('here'); os.system('echo too')").await.unwrap();
            assert_eq!(output.stdout_text(), "here\ntoo\n", "{harm}: {output:?}");
        }
        let forks = "import time\nif os.fork() == 0: print('child')\nelse: os.wait(); print('parent')";
        assert_eq!(session.run(forks).await.unwrap().stdout_text(), "child\nparent\n");
        value(&mut session, "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)").await;
        let output = session.run_within("while True: pass", SHORT).await.unwrap();
        assert_eq!(output.end, CodeEnd::TimedOut, "a handler of earlier code does not count");
    });
}

#[test]
fn a66_a_thread_that_goes_on_printing_keeps_nobody_waiting() {
    let thread = "import threading, time, sys\n\
                  def chatter():\n    while True: print('x' * 1000)\n\
                  threading.Thread(target=chatter, daemon=True).start()";
    let options = CodeOptions { output_cap: 100_000, ..CodeOptions::default() };
    with_session(options, |_, mut session| async move {
        assert!(session.run(thread).await.unwrap().success());
        for _ in 0..5 {
            let output = session.run("1 + 1").await.unwrap();
            assert_eq!(output.value.as_deref(), Some("2"));
            assert!(output.stdout.len() <= 100_000);
        }
        let output = session.run("time.sleep(0.2)").await.unwrap();
        assert!(output.truncated && output.stdout.len() == 100_000, "what comes between runs is told");
        session.close().await.unwrap();
    });
}

#[test]
fn a66_a_restart_kills_the_whole_tree_and_keeps_the_files() {
    let start = "import subprocess\n\
                 kept = 1\n\
                 open('kept', 'w').write('file')\n\
                 [subprocess.Popen(['sleep', '600'], start_new_session=new).pid for new in (False, True)]";
    with_session(CodeOptions::default(), |_, mut session| async move {
        let pids = value(&mut session, start).await.unwrap();
        session.restart().await.unwrap();
        assert_eq!(error(&mut session, "kept").await.name, "NameError");
        assert_eq!(value(&mut session, "open('kept').read()").await.as_deref(), Some("'file'"));
        assert_gone(&mut session, &pids).await;
    });
}

/// Within a few seconds none of these processes runs.
async fn assert_gone(session: &mut CodeSession, pids: &str) {
    let code = format!(
        "import os, time\n\
         def runs(pid):\n\
         \x20   try: return open(f'/proc/{{pid}}/stat').read().rsplit(') ')[-1][0] != 'Z'\n\
         \x20   except OSError: return False\n\
         for _ in range(200):\n\
         \x20   left = [pid for pid in {pids} if runs(pid)]\n\
         \x20   if not left: break\n\
         \x20   time.sleep(0.05)\n\
         left"
    );
    assert_eq!(value(session, &code).await.as_deref(), Some("[]"));
}

#[test]
fn a66_the_end_of_input_ends_what_a_dropped_session_ran() {
    with_session(CodeOptions::default(), |sandbox, mut session| async move {
        let idle = value(
            &mut session,
            "import os, subprocess\n[os.getpid(), os.getppid(), subprocess.Popen(['sleep', '600']).pid]",
        )
        .await
        .unwrap();
        drop(session);
        let mut busy = CodeSession::start(&sandbox, CodeOptions::default()).await.unwrap();
        let pids = value(&mut busy, "import os\n[os.getpid(), os.getppid()]").await.unwrap();
        // A call that is dropped while its code runs.
        tokio::select! {
            biased;
            _ = busy.run("import time\ntime.sleep(600)") => unreachable!("the code sleeps"),
            () = async { for _ in 0..50 { tokio::task::yield_now().await; } } => {}
        }
        assert_eq!(busy.run("1").await.unwrap_err().code(), Code::WrongState);
        let mut witness = CodeSession::start(&sandbox, CodeOptions::default()).await.unwrap();
        assert_gone(&mut witness, &idle).await;
        assert_gone(&mut witness, &pids).await;
        busy.restart().await.unwrap();
        assert_eq!(value(&mut busy, "1").await.as_deref(), Some("1"));
    });
}

#[test]
fn a66_a_session_that_closes_runs_what_is_due_at_its_end() {
    with_session(CodeOptions::default(), |sandbox, mut session| async move {
        value(&mut session, "import atexit; atexit.register(lambda: open('farewell', 'w').close())").await;
        session.close().await.unwrap();
        let left = sandbox.exec(Command::argv(["ls"])).await.unwrap();
        assert!(left.stdout_text().contains("farewell"), "{left:?}");
        let mut stuck = CodeSession::start(&sandbox, CodeOptions::default()).await.unwrap();
        value(&mut stuck, "import atexit, time; atexit.register(time.sleep, 600)").await;
        let begin = Instant::now();
        stuck.close().await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn a66_modules_of_the_working_directory_can_be_imported_and_do_no_harm() {
    block_on(async {
        let host = HostSandbox::new();
        if !has_python() {
            return;
        }
        for name in ["select", "ast", "traceback", "os", "mine"] {
            host.folder.add(&format!("{name}.py"), "HERE = 1\n", 0o644);
        }
        let sandbox: Arc<dyn Sandbox> = Arc::new(host);
        let mut options = CodeOptions::default();
        options.env_vars.insert("GREETING".into(), "hello".into());
        assert!(!format!("{options:?}").contains("hello"));
        let mut session = CodeSession::start(&sandbox, options).await.unwrap();
        assert_eq!(value(&mut session, "import mine; mine.HERE").await.as_deref(), Some("1"));
        assert_eq!(
            value(&mut session, "import os; os.environ['GREETING']").await.as_deref(),
            Some("'hello'")
        );
        assert_eq!(error(&mut session, "1/0").await.name, "ZeroDivisionError");
    });
}

#[test]
fn a66_an_interpreter_that_cannot_start_is_an_error_that_says_why() {
    block_on(async {
        let host = HostSandbox::new();
        host.folder.add("not-python", "#!/bin/sh\necho no such version >&2\nexit 3\n", 0o755);
        host.folder.add("chatty", "#!/bin/sh\necho welcome\nexec sleep 600\n", 0o755);
        let at = |name: &str| format!("{}/{name}", host.folder.path());
        let (silent, chatty) = (at("not-python"), at("chatty"));
        let sandbox: Arc<dyn Sandbox> = Arc::new(host);
        for (python, word) in [
            ("no-such-python", "cannot be started"),
            (&silent, "exit code 3"),
            (&chatty, "other than the frame"),
        ] {
            let options = CodeOptions { python: python.into(), ..CodeOptions::default() };
            let refused = CodeSession::start(&sandbox, options).await.unwrap_err();
            assert_eq!(refused.code(), Code::ExecFailed, "{refused:?}");
            assert!(refused.message().contains(word), "{refused:?}");
            assert_eq!(format!("{refused:?}").contains("no such version"), python == silent);
        }
    });
}
