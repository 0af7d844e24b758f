//! Interrupting code from another task.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// Interrupts the code that a session runs, from wherever it is held. Clones are the same handle, and it outlives
/// restarts.
#[derive(Clone, Debug, Default)]
pub struct Interrupter(Arc<Wanted>);

/// Runs have numbers from 1.
#[derive(Debug, Default)]
struct Wanted {
    running: AtomicU64,
    interrupted: AtomicU64,
    told: Notify,
}

impl Interrupter {
    /// Asks for SIGINT to be sent to the code that runs now, and to those of its children that are in its process
    /// group, as a terminal does. Python turns it into `KeyboardInterrupt`; the call of
    /// [`run`](super::CodeSession::run) then ends with that error, and the state is kept. Code that catches the
    /// exception goes on.
    ///
    /// It says whether code was running. If none was, nothing happens, also not to the code that is run next.
    pub fn interrupt(&self) -> bool {
        let running = self.0.running.load(Ordering::SeqCst);
        if running == 0 {
            return false;
        }
        self.0.interrupted.store(running, Ordering::SeqCst);
        self.0.told.notify_one();
        true
    }

    /// From now until the answer is dropped, this run can be interrupted.
    pub(super) fn begin(&self, run: u64) -> Running {
        self.0.running.store(run, Ordering::SeqCst);
        Running(Arc::clone(&self.0), run)
    }
}

/// The run that is under way.
pub(super) struct Running(Arc<Wanted>, u64);

impl Running {
    /// Waits until somebody interrupts this run. Cancel safe.
    pub(super) async fn interrupted(&self) {
        let Running(wanted, run) = self;
        while wanted.interrupted.compare_exchange(*run, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            wanted.told.notified().await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(0, Ordering::SeqCst);
    }
}
