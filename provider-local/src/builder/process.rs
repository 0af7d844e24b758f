//! Commands in a build box, with their streams in a log.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use provider_core::{
    error::Result,
    lifecycle::{Clock, SystemClock, timeout},
    sandbox::{Command, ExitStatus},
};

use super::log::Log;
use crate::{
    engine::{Identity, RunningBox},
    sandbox::child,
};

/// How long after a command's end its streams are read, if a process that it left behind holds them open.
const DRAIN: Duration = Duration::from_millis(250);

/// Runs a command as the superuser of the box, to its end. Dropping the future kills it with all its descendants.
///
/// # Errors
/// [`Code::ExecFailed`](provider_core::error::Code) if it does not start, or the box has ended.
pub(super) async fn run(
    running: &RunningBox,
    command: &Command,
    env_vars: &Arc<BTreeMap<String, String>>,
    log: &Log<'_>,
) -> Result<ExitStatus> {
    let (child, leash) = child::start(running, command, env_vars, Identity::ROOT, false).await?;
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
