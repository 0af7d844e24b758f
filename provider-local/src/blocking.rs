//! Calls that block, away from the threads that run tasks.

use provider_core::error::{Code, Effect, Result};
use tokio::runtime::Handle;

use crate::errors::error;

/// Runs `work` on a thread that may block.
///
/// When the future is dropped, `work` goes on to its end and its answer is dropped on that thread; so an answer that
/// stands for something must undo it in its own `Drop`.
///
/// # Errors
/// Those of `work`; [`Code::MachineUnsuitable`] outside of a tokio runtime; [`Code::Internal`] if it panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::try_current().map_err(|source| {
        error(Code::MachineUnsuitable, "this call needs a tokio runtime")
            .with_advice("call it from a task of a tokio runtime with its drivers enabled")
            .with_source(source)
    })?;
    match runtime.spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(source) => Err(error(Code::Internal, "a call of the engine did not come to its end")
            .with_effect(Effect::Unknown)
            .with_source(source)),
    }
}
