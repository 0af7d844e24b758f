//! `core.kernel`: a code session runs `1+1`, keeps state across calls and tells an exception with its traceback.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Check, CheckContext, Verdict, ids, snippets::Snippet};
use crate::{
    code::{CodeOptions, CodeOutput, CodeSession},
    error::Result,
};

pub(super) struct Kernel;

/// The options of the checks' sessions.
pub(super) fn options(context: &CheckContext<'_>, id: &str) -> CodeOptions {
    CodeOptions {
        python: context.contract.python.to_owned(),
        label: Some(id.to_owned()),
        run_limit: Duration::from_secs(60),
        clock: Arc::clone(&context.clock),
        ..CodeOptions::default()
    }
}

/// What speaks against the answer to a piece of code that should end well with this value, and print nothing.
pub(super) fn differs(what: &str, output: &CodeOutput, value: Option<&str>) -> Option<String> {
    if let Some(error) = &output.error {
        return Some(format!("{what} ended with {error}"));
    }
    if !output.success() {
        return Some(format!("{what}: {}", output.end));
    }
    if output.value.as_deref() != value {
        let words = |value: Option<&str>| value.map_or("nothing".to_owned(), |value| format!("{value:?}"));
        let (found, value) = (words(output.value.as_deref()), words(value));
        return Some(format!("{what} gives {found}, not {value}"));
    }
    let is_silent = output.stdout.is_empty() && output.stderr.is_empty() && !output.truncated;
    (!is_silent).then(|| format!("{what} printed something"))
}

#[async_trait]
impl Check for Kernel {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let mut session = CodeSession::start(context.sandbox, options(context, ids::KERNEL)).await?;
        let mut mismatches = Vec::new();
        // Another number and another word each time, so that no answer can be known before.
        let number = fastrand::u64(1000..1 << 40);
        let word = format!("{:016x}", fastrand::u64(..));
        let tripled = (number * 3).to_string();
        let steps = [
            (Snippet::Sum, "`1+1`", Some("2")),
            (Snippet::Keep(number), "setting a variable", None),
            (Snippet::Recall, "using a variable of an earlier call", Some(tripled.as_str())),
        ];
        for (snippet, what, value) in &steps {
            mismatches.extend(differs(what, &session.run(&snippet.code()).await?, *value));
        }
        let output = session.run(&Snippet::Print(word.clone()).code()).await?;
        mismatches.extend(printed(&output, &word));
        let output = session.run(&Snippet::Raise(word.clone()).code()).await?;
        mismatches.extend(raised(&output, &word));
        let output = session.run(&Snippet::Recall.code()).await?;
        mismatches.extend(differs("using a variable after an exception", &output, Some(&tripled)));
        let notes = vec![format!("the session runs Python {}", session.python_version())];
        session.close().await?;
        Ok(Verdict::of(mismatches, "a code session keeps state and tells exceptions", notes))
    }
}

fn printed(output: &CodeOutput, word: &str) -> Option<String> {
    let is_right = output.success()
        && output.value.is_none()
        && !output.truncated
        && output.stdout == format!("out-{word}\n").as_bytes()
        && output.stderr == format!("err-{word}\n").as_bytes();
    (!is_right).then(|| "what code prints does not come back, each stream apart".to_owned())
}

fn raised(output: &CodeOutput, word: &str) -> Option<String> {
    let is_right = !output.success()
        && output.end == crate::code::CodeEnd::Finished
        && output.value.is_none()
        && output.error.as_ref().is_some_and(|error| {
            let trace = &error.traceback;
            error.name == "ValueError"
                && error.message == word
                && trace.starts_with("Traceback")
                && trace.contains(&format!("in {}", Snippet::RAISER))
                && trace.trim_end().ends_with(&format!("ValueError: {word}"))
        });
    (!is_right).then(|| "an exception does not come back with its message and traceback".to_owned())
}
