//! Ends sandboxes whose life is over.

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use provider_core::error::{Code, Result};

use crate::{
    boxes::{Boxes, Standing},
    errors::error,
};

/// How long the processes of a sandbox may take to end, before they are killed.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// One thread that waits for the next end of a life. It starts on first use and goes with the driver.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    boxes: Boxes,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ends: BTreeSet<(Instant, String)>,
    runs: bool,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    pub(crate) fn new(boxes: Boxes) -> Self {
        Self { shared: Arc::default(), boxes }
    }

    /// Has a box ended after `life`, if it is still there then. A life that no clock can count has no end.
    ///
    /// # Errors
    /// [`Code::MachineUnsuitable`] if the thread cannot be started.
    pub(crate) fn end_after(&self, id: &str, life: Duration) -> Result<()> {
        let Some(end) = Instant::now().checked_add(life) else {
            return Ok(());
        };
        let mut state = self.shared.state();
        if !state.runs {
            let (shared, boxes) = (Arc::clone(&self.shared), self.boxes.clone());
            std::thread::Builder::new()
                .name("provider-local-keeper".into())
                .spawn(move || keep(&shared, &boxes))
                .map_err(|source| {
                    error(Code::MachineUnsuitable, "the thread that ends sandboxes cannot start")
                        .with_source(source)
                })?;
            state.runs = true;
        }
        state.ends.insert((end, id.to_owned()));
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
    }
}

fn keep(shared: &Shared, boxes: &Boxes) {
    let mut state = shared.state();
    while !state.over {
        let now = Instant::now();
        state = match state.ends.first() {
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some((end, _)) if *end > now => {
                let wait = *end - now;
                let waited = shared.changed.wait_timeout(state, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            Some(_) => {
                let due = state.ends.pop_first();
                drop(state);
                if let Some((_, id)) = due {
                    end(boxes, &id);
                }
                shared.state()
            }
        };
    }
}

fn end(boxes: &Boxes, id: &str) {
    let Standing::Held(held) = boxes.standing(id) else {
        return;
    };
    tracing::info!(provider = "local", id, "the life of a sandbox is over");
    if let Err(error) = held.running.stop(GRACE) {
        tracing::warn!(provider = "local", id, %error, "a sandbox whose life is over did not end");
    }
}
