//! Whose the environment is.

use std::sync::Arc;

use provider_core::{
    contract::SANDBOX_V1,
    error::{Code, Result},
    lifecycle::Progress,
    sandbox::Command,
    secret::SecretSet,
};

use super::failure;
use crate::{
    builder::{log::Log, process},
    engine::RunningBox,
    errors::error,
};

const OWN: &str = include_str!("own.py");

/// Gives the environment to the contract's user, so that a sandbox can change it. Without real ids it is theirs.
///
/// # Errors
/// [`Code::BuildFailed`] with the reason.
pub(super) async fn own(
    running: &RunningBox,
    real_ids: bool,
    python: &str,
    progress: &Progress,
) -> Result<()> {
    if !real_ids {
        return Ok(());
    }
    let (uid, gid) = (SANDBOX_V1.user.uid.to_string(), SANDBOX_V1.user.gid.to_string());
    let command = Command::argv([python, "-I", "-B", "-c", OWN, SANDBOX_V1.venv, &uid, &gid]).cwd("/");
    let none = SecretSet::new();
    let log = Log::new(progress, &none);
    let status = process::run(running, &command, &Arc::new(SANDBOX_V1.base_env_vars()), &log).await?;
    if status.success() {
        return Ok(());
    }
    let words = format!("the environment could not be given to its user: {status}");
    Err(failure::with_log(error(Code::BuildFailed, words), &log.tail()))
}
