//! Ctrl-C and SIGTERM.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use provider_core::lifecycle::{Clock, SystemClock, timeout};

use crate::{exit::Exit, show};

/// Signals within this time belong to one request.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Ctrl-C and SIGTERM: the first ends the work and lets it clean up, the second ends the process at once.
pub(crate) struct Signals {
    first: Arc<tokio::sync::Notify>,
    terminated: Arc<AtomicBool>,
}

impl Signals {
    /// From this call on, a signal no longer ends the process by itself.
    pub(crate) fn listen() -> Self {
        let signals = Self { first: Arc::default(), terminated: Arc::default() };
        let (first, terminated) = (Arc::clone(&signals.first), Arc::clone(&signals.terminated));
        // Here and not in the task, which begins later.
        let mut source = Source::open();
        let listening = async move {
            let exit = source.next().await;
            terminated.store(exit == Exit::Terminated, Ordering::SeqCst);
            show::note(
                "interrupted: cleaning up; once more ends at once and leaves the rest to `matrix sweep --delete`",
            );
            first.notify_one();
            // What asks once may send the same signal to the process and to its group.
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            while timeout(&clock, SAME_REQUEST, source.next()).await.is_ok() {}
            let exit = source.next().await;
            show::note("ended at once; `matrix sweep --delete` deletes what is left");
            std::process::exit(i32::from(exit.code()));
        };
        #[expect(clippy::disallowed_methods, reason = "it creates nothing at any provider")]
        tokio::spawn(listening);
        signals
    }

    /// The first signal.
    pub(crate) async fn first(&self) {
        self.first.notified().await;
    }

    /// Work before anything was created: it is simply given up. `None` if a signal came.
    pub(crate) async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.first() => None,
            done = work => Some(done),
        }
    }

    /// The exit code of interrupted work.
    pub(crate) fn exit(&self) -> Exit {
        if self.terminated.load(Ordering::SeqCst) { Exit::Terminated } else { Exit::Interrupted }
    }
}

/// Where signals come from.
#[cfg(unix)]
struct Source(Option<[tokio::signal::unix::Signal; 2]>);

#[cfg(unix)]
impl Source {
    fn open() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt()).ok();
        Self(interrupt.zip(signal(SignalKind::terminate()).ok()).map(<[_; 2]>::from))
    }

    /// Cancel safe.
    async fn next(&mut self) -> Exit {
        let Some([interrupt, terminate]) = &mut self.0 else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
        }
    }
}

/// Where signals come from.
#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    fn open() -> Self {
        Self
    }

    async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
