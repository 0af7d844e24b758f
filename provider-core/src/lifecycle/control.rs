//! The control runtime: one thread of the process on which everything is created and deleted.
//!
//! It starts on first use and lives as long as the process, so that neither a dropped future nor the end of the
//! caller's runtime interrupts a request or loses its answer.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Mutex, OnceLock, PoisonError},
};

use futures_util::FutureExt as _;
use tokio::{runtime::Handle, task::JoinHandle};
use tracing::{Instrument as _, instrument::WithSubscriber as _};

use crate::error::{Code, Effect, Error, Result};

/// The name of the thread.
pub(crate) const THREAD: &str = "provider-control";

static CONTROL: OnceLock<Handle> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// The control runtime, started if need be.
///
/// # Errors
/// [`Code::MachineUnsuitable`] if the operating system gives no thread or no event queue.
pub(crate) fn handle() -> Result<Handle> {
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = CONTROL.get() {
        return Ok(handle.clone());
    }
    let cannot =
        |source| Error::new(Code::MachineUnsuitable, "the control thread cannot start").with_source(source);
    let (tell, told) = std::sync::mpsc::channel();
    // The runtime is made where it lives, since one that is dropped within another panics.
    std::thread::Builder::new()
        .name(THREAD.into())
        .spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all();
            #[cfg(any(test, feature = "memory"))]
            builder.on_thread_park(idle::run_hooks);
            let runtime = builder.build();
            let _ = tell.send(runtime.as_ref().map(|runtime| runtime.handle().clone()).map_err(clone_of));
            if let Ok(runtime) = runtime {
                runtime.block_on(std::future::pending::<()>());
            }
        })
        .map_err(cannot)?;
    let handle = told.recv().map_err(std::io::Error::other).and_then(|handle| handle).map_err(cannot)?;
    Ok(CONTROL.get_or_init(|| handle).clone())
}

fn clone_of(error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), error.to_string())
}

/// Runs `task` on the control runtime, with the caller's span and subscriber. Dropping the handle changes nothing.
pub(crate) fn spawn<F>(control: &Handle, task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    control.spawn(task.in_current_span().with_current_subscriber())
}

/// Runs a driver's verb so that a panic in it is an error with an unknown effect.
pub(crate) async fn catch_panic<T>(what: &'static str, verb: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(verb).catch_unwind().await.unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        Err(Error::new(Code::Internal, format!("the driver panicked: {words}"))
            .with_operation(what)
            .with_effect(Effect::Unknown))
    })
}

/// Hooks that run when the control thread has nothing to do, for clocks that tests advance.
#[cfg(any(test, feature = "memory"))]
pub(crate) mod idle {
    use std::sync::{Arc, Mutex, PoisonError, Weak};

    pub(crate) trait Hook: Send + Sync {
        fn on_idle(&self);
    }

    static HOOKS: Mutex<Vec<Weak<dyn Hook>>> = Mutex::new(Vec::new());

    pub(crate) fn add_hook(hook: Weak<dyn Hook>) {
        HOOKS.lock().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    pub(super) fn run_hooks() {
        let hooks: Vec<Arc<dyn Hook>> = {
            let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
            hooks.retain(|hook| hook.strong_count() > 0);
            hooks.iter().filter_map(Weak::upgrade).collect()
        };
        for hook in hooks {
            hook.on_idle();
        }
    }

    /// Runs something on the control thread, after what it was asked to do before, and then its hooks.
    pub(crate) fn run(body: impl FnOnce() + Send + 'static) {
        if let Ok(control) = super::handle() {
            control.spawn(async { body() });
        }
    }
}
