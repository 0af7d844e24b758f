//! Code sessions in real sandboxes (A66): what a user of a notebook expects, and what happens when code misbehaves.

use std::{sync::Arc, time::Duration};

use provider_core::{
    code::{CodeEnd, CodeOptions, CodeOutput, CodeSession},
    error::Code,
    sandbox::Sandbox,
};

use crate::common::{Outcome, World, assert_code, on_a_runtime, say};

/// Runs a body with a session in a sandbox of its own, and leaves nothing.
fn in_a_session<F>(body: impl FnOnce(CodeSession, Arc<dyn Sandbox>) -> F) -> Outcome
where
    F: Future<Output = ()>,
{
    on_a_runtime(async {
        let world = World::new();
        let (session, _artifact, sandbox) = world.sandbox().await;
        let mut options = CodeOptions::default();
        options.interrupt_grace = Duration::from_secs(2);
        let code = CodeSession::start(&sandbox, options).await.expect("a code session");
        body(code, Arc::clone(&sandbox)).await;
        drop(sandbox);
        world.close(&session).await;
    });
    Ok(())
}

async fn run(session: &mut CodeSession, code: &str) -> CodeOutput {
    session.run(code).await.expect("an answer")
}

pub(crate) fn a66_state_values_outputs_and_errors() -> Outcome {
    in_a_session(|mut code, _sandbox| async move {
        assert!(run(&mut code, "import os, sys\nx = 40").await.success());
        let output = run(&mut code, "print('out'); print('err', file=sys.stderr)\nx + 2").await;
        assert_eq!((output.value.as_deref(), output.stdout_text().as_str()), (Some("42"), "out\n"));
        assert_eq!(output.stderr_text(), "err\n");
        let child = run(&mut code, "os.system('echo from a child; echo and its errors >&2')").await;
        assert_eq!(
            (child.stdout_text().as_str(), child.stderr_text().as_str()),
            ("from a child\n", "and its errors\n")
        );
        let failed = run(&mut code, "def f():\n    raise ValueError('no')\nprint('before')\nf()").await;
        let error = failed.error.clone().expect("an exception");
        assert_eq!((error.name.as_str(), error.message.as_str()), ("ValueError", "no"));
        assert!(error.traceback.contains("in f") && failed.stdout_text() == "before\n", "{error:?}");
        let syntax = run(&mut code, "x = = 1").await.error.expect("an exception");
        assert_eq!(syntax.name, "SyntaxError");
        assert_eq!(run(&mut code, "x").await.value.as_deref(), Some("40"), "errors take no state away");
        let me = run(&mut code, "(os.getuid(), os.getgid(), os.getcwd())").await;
        assert_eq!(me.value.as_deref(), Some("(1000, 100, '/home/sandbox/work')"));
        code.close().await.expect("closed");
    })
}

pub(crate) fn a66_sessions_of_one_sandbox_are_apart() -> Outcome {
    in_a_session(|mut one, sandbox| async move {
        let mut two = CodeSession::start(&sandbox, CodeOptions::default()).await.expect("a second session");
        run(&mut one, "who = 'one'").await;
        let unknown = run(&mut two, "who").await.error.expect("an exception");
        assert_eq!(unknown.name, "NameError");
        // Both run at once.
        let (first, second) = tokio::join!(one.run("who"), two.run("1 + 1"));
        assert_eq!(first.expect("an answer").value.as_deref(), Some("'one'"));
        assert_eq!(second.expect("an answer").value.as_deref(), Some("2"));
    })
}

pub(crate) fn a66_code_that_does_not_end_is_stopped() -> Outcome {
    in_a_session(|mut code, _sandbox| async move {
        run(&mut code, "kept = 1").await;
        let limit = Duration::from_millis(300);
        let late =
            code.run_within("print('begun', flush=True)\nwhile True: pass", limit).await.expect("told");
        assert_eq!((late.end, late.stdout_text().as_str()), (CodeEnd::TimedOut, "begun\n"));
        assert_eq!(run(&mut code, "kept").await.value.as_deref(), Some("1"), "an interrupt keeps the state");
        let deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
        let killed = code.run_within(deaf, limit).await.expect("told");
        assert_eq!(killed.end, CodeEnd::Killed);
        assert_code(code.run("1").await, Code::WrongState);
        code.restart().await.expect("restarted");
        assert_eq!(run(&mut code, "'kept' in globals()").await.value.as_deref(), Some("False"));
    })
}

pub(crate) fn a66_an_interpreter_that_ends_is_told() -> Outcome {
    in_a_session(|mut code, sandbox| async move {
        let ended = code.run("print('last words', flush=True)\nimport os; os._exit(7)").await.expect("told");
        assert!(matches!(ended.end, CodeEnd::Died(_)), "{ended:?}");
        assert_eq!(ended.stdout_text(), "last words\n");
        code.restart().await.expect("restarted");
        run(&mut code, "import subprocess; p = subprocess.Popen(['sleep', '4711'])").await;
        assert_eq!(say(&*sandbox, "pgrep -c -f 'sleep 471[1]'").await.trim(), "1");
        code.restart().await.expect("restarted");
        assert_eq!(say(&*sandbox, "pgrep -c -f 'sleep 471[1]' || true").await.trim(), "0");
    })
}

/// A67: what is gone is told as gone, and never answers with what it was.
pub(crate) fn a67_a_lost_sandbox_is_told() -> Outcome {
    on_a_runtime(async {
        let world = World::new();
        let (session, artifact, sandbox) = world.sandbox().await;
        let kept: Arc<dyn Sandbox> = Arc::clone(&sandbox);
        let mut code = CodeSession::start(&kept, CodeOptions::default()).await.expect("a code session");
        code.run("x = 1").await.expect("an answer");
        sandbox.close().await.expect("it is deleted");
        let error = code.run("x").await.expect_err("the sandbox is gone");
        assert!(matches!(error.code(), Code::SandboxGone | Code::StreamCut), "{error}");
        assert!(code.restart().await.is_err(), "an interpreter started in a sandbox that is gone");
        let another = world.launch(&session, &artifact).await;
        let mut fresh = CodeSession::start(&another, CodeOptions::default()).await.expect("a code session");
        let unknown = fresh.run("x").await.expect("an answer").error.expect("an exception");
        assert_eq!(unknown.name, "NameError", "a replacement is empty");
        drop(another);
        world.close(&session).await;
    });
    Ok(())
}
