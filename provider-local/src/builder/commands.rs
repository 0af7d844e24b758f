//! The commands of an Environment, run as the superuser of a build box.

use std::{collections::BTreeMap, sync::Arc};

use provider_core::{
    contract::SANDBOX_V1,
    environment::{BuildRequest, SecretMount},
    error::{Code, Error, Result},
    lifecycle::Progress,
    sandbox::Command,
};

use super::{
    log::{self, Log},
    process,
    steps::secrets,
};
use crate::{engine::RunningBox, errors::error};

/// Runs all commands, in order. Dropping the future kills the command under way.
///
/// # Errors
/// [`Code::BuildFailed`] with the number of the command that failed, its status and the end of its log.
pub(super) async fn run(running: RunningBox, request: &BuildRequest, progress: &Progress) -> Result<()> {
    let commands = &request.spec().spec.commands.post_install;
    let (env_vars, hidden) = (variables(request), log::hidden(request));
    for (index, line) in commands.iter().enumerate() {
        let which = format!("command {} of {}", index + 1, commands.len());
        progress.log(format!("{which}: {}", line.lines().next().unwrap_or_default()));
        let log = Log::new(progress, &hidden);
        let command = Command::shell(line).cwd(SANDBOX_V1.workdir);
        let status = process::run(&running, &command, &env_vars, &log).await.map_err(|source| {
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

/// The superuser's variables, those of the Environment, and the secrets that are given in this way.
fn variables(request: &BuildRequest) -> Arc<BTreeMap<String, String>> {
    let mut env_vars = SANDBOX_V1.base_env_vars();
    for (name, value) in [("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root")] {
        env_vars.insert(name.to_owned(), value.to_owned());
    }
    env_vars.extend(SANDBOX_V1.env_vars_of(&request.spec().spec.env, request.spec().names_language()));
    let secrets = secrets(request, SecretMount::Env);
    env_vars.extend(secrets.into_iter().map(|(name, value)| (name, value.expose().to_owned())));
    Arc::new(env_vars)
}
