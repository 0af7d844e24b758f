//! Killing this process at a step of the lifecycle, for tests of what is left then.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use provider_core::lifecycle::{Gate, Point};

/// Kills the process at the n-th step that it passes.
#[derive(Debug)]
pub struct KillAt {
    nth: usize,
    passed: AtomicUsize,
}

impl KillAt {
    /// At the n-th step, counted from 1.
    pub fn new(nth: usize) -> Self {
        Self { nth, passed: AtomicUsize::new(0) }
    }
}

impl Gate for KillAt {
    fn pass(&self, point: Point) -> BoxFuture<'static, ()> {
        if self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.nth {
            eprintln!("killed at step {}: {point}", self.nth);
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal may take a moment, in which nothing more must happen.
            loop {
                std::thread::park();
            }
        }
        Box::pin(async {})
    }
}
