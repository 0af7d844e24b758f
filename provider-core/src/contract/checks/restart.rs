//! `core.restart`: a code session restarts: its tree is killed, its state is gone, the sandbox is the same.

use async_trait::async_trait;

use super::{
    Check, CheckContext, Verdict, ids,
    kernel::{differs, options},
    snippets::Snippet,
};
use crate::{code::CodeSession, error::Result};

pub(super) struct Restart;

#[async_trait]
impl Check for Restart {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let reference = context.sandbox.reference().clone();
        let mut session = CodeSession::start(context.sandbox, options(context, ids::RESTART)).await?;
        let word = format!("{:016x}", fastrand::u64(..));
        let file = format!("left-by-a-check-{word}");
        let mut before = Vec::new();
        for (snippet, what, value) in [
            (Snippet::Keep(fastrand::u64(..1 << 40)), "setting a variable", None),
            (Snippet::HasKept, "looking for the variable before the restart", Some("True")),
            (Snippet::WriteFile(file.clone(), word.clone()), "writing a file", None),
        ] {
            before.extend(differs(what, &session.run(&snippet.code()).await?, value));
        }
        let child = session.run(&Snippet::StartChild.code()).await?;
        let Some((pid, started)) = child.value.as_deref().filter(|_| child.success()).and_then(pair) else {
            return Ok(Verdict::failed("the code could not start a child".into()));
        };
        let state = |seconds| Snippet::ChildState { pid, started, seconds };
        let running = session.run(&state(0).code()).await?;
        before.extend(differs("looking for the child before the restart", &running, Some("'running'")));
        if !before.is_empty() {
            return Ok(Verdict::of(before, "", Vec::new()));
        }

        session.restart().await?;
        let mut mismatches = Vec::new();
        let content = format!("'{word}'");
        let seconds = context.contract.reap_within.as_secs();
        for (snippet, what, value) in [
            (Snippet::HasKept, "looking for the variable after the restart", "False"),
            (state(seconds), "looking for the child after the restart", "'gone'"),
            (Snippet::ReadFile(file.clone()), "reading the file after the restart", content.as_str()),
        ] {
            mismatches.extend(differs(what, &session.run(&snippet.code()).await?, Some(value)));
        }
        let removed = session.run(&Snippet::RemoveFile(file).code()).await?;
        let notes =
            if removed.success() { Vec::new() } else { vec!["the check's file was not removed".into()] };
        if *context.sandbox.reference() != reference {
            mismatches.push("the sandbox is another than before the restart".into());
        }
        session.close().await?;
        Ok(Verdict::of(
            mismatches,
            "state and child are gone, the file is there, the sandbox is the same",
            notes,
        ))
    }
}

/// The two numbers of a list, as Python prints it.
fn pair(value: &str) -> Option<(u64, u64)> {
    let (pid, started) = value.strip_prefix('[')?.strip_suffix(']')?.split_once(", ")?;
    Some((pid.parse().ok()?, started.parse().ok()?))
}
