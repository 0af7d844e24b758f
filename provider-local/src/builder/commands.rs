//! The commands of an Environment, run as the superuser of a build box.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use provider_core::{
    contract::SANDBOX_V1,
    environment::{BuildRequest, SecretMount},
    error::{Code, Error, Result},
    lifecycle::{Clock, Progress, SystemClock, timeout},
    sandbox::{Command, ExitStatus},
};

use super::{log::Log, steps::secrets};
use crate::{
    engine::{Identity, RunningBox},
    errors::error,
    sandbox::child,
};

/// How long after a command's end its streams are read, if a process that it left behind holds them open.
const DRAIN: Duration = Duration::from_millis(250);

/// Runs all commands, in order. Dropping the future kills the command under way.
///
/// # Errors
/// [`Code::BuildFailed`] with the number of the command that failed, its status and the end of its log.
pub(super) async fn run(running: RunningBox, request: &BuildRequest, progress: &Progress) -> Result<()> {
    let commands = &request.spec().spec.commands.post_install;
    let env_vars = variables(request);
    for (index, line) in commands.iter().enumerate() {
        let which = format!("command {} of {}", index + 1, commands.len());
        progress.log(format!("{which}: {}", line.lines().next().unwrap_or_default()));
        let log = Log::new(progress, request.secrets());
        let status = run_one(&running, line, &env_vars, &log).await.map_err(|source| {
            let words = format!("{which} could not be run: {}", source.message());
            failed(index, &words, &log).with_source(source)
        })?;
        if !status.success() {
            let last = log.tail().pop().map(|line| format!(": {line}")).unwrap_or_default();
            return Err(failed(index, &format!("{which} ended with {status}{last}"), &log));
        }
    }
    Ok(())
}

fn failed(index: usize, words: &str, log: &Log<'_>) -> Error {
    let failed = error(Code::BuildFailed, words)
        .with_context("command", format!("spec.commands.postInstall[{index}]"));
    match log.tail() {
        tail if tail.is_empty() => failed,
        tail => failed.with_context("end of its log", tail.join("\n    ")),
    }
}

async fn run_one(
    running: &RunningBox,
    line: &str,
    env_vars: &Arc<BTreeMap<String, String>>,
    log: &Log<'_>,
) -> Result<ExitStatus> {
    let command = Command::shell(line).cwd(SANDBOX_V1.workdir);
    let (child, leash) = child::start(running, &command, env_vars, Identity::ROOT, false).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut streams = Box::pin(async { tokio::join!(log.read(child.stdout), log.read(child.stderr)) });
    let mut have_ended = false;
    let status = tokio::select! {
        biased;
        _ = &mut streams => {
            have_ended = true;
            child.control.wait().await?
        }
        status = child.control.wait() => status?,
    };
    if !have_ended {
        let _ = timeout(&clock, DRAIN, &mut streams).await;
    }
    // What it left behind goes away with the build box.
    leash.let_go();
    Ok(status)
}

/// The superuser's variables, those of the Environment, and the secrets that are given in this way.
fn variables(request: &BuildRequest) -> Arc<BTreeMap<String, String>> {
    let mut env_vars = SANDBOX_V1.base_env_vars();
    for (name, value) in [("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root")] {
        env_vars.insert(name.to_owned(), value.to_owned());
    }
    env_vars.extend(request.spec().spec.env.clone());
    let secrets = secrets(request, SecretMount::Env);
    env_vars.extend(secrets.into_iter().map(|(name, value)| (name, value.expose().to_owned())));
    Arc::new(env_vars)
}
