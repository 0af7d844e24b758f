//! A clock that stands still until nothing else can happen, and then moves to the next sleeper.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use async_trait::async_trait;

use crate::lifecycle::{
    Busy, Clock, Timestamp,
    control::{self, idle},
};

/// A clock for tests. Clones show the same time.
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    now: Timestamp,
    sleepers: BTreeSet<(Timestamp, u64)>,
    /// Also of sleepers that are not among the others yet.
    wakers: HashMap<u64, Waker>,
    next_sleeper: u64,
    busy: usize,
    by_itself: bool,
}

impl ManualClock {
    /// A clock that starts at the beginning of 2026 and moves by itself whenever the control runtime is idle and
    /// nobody is [busy](Clock::busy).
    pub fn new() -> Self {
        Self::with(true)
    }

    /// A clock that moves only by [`ManualClock::advance`].
    pub fn stopped() -> Self {
        Self::with(false)
    }

    fn with(by_itself: bool) -> Self {
        let state = State {
            now: Timestamp::from_millis(1_767_225_600_000),
            sleepers: BTreeSet::new(),
            wakers: HashMap::new(),
            next_sleeper: 0,
            busy: 0,
            by_itself,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let hook: Arc<dyn idle::Hook> = Arc::clone(&shared) as _;
        idle::add_hook(Arc::downgrade(&hook));
        Self { shared }
    }

    /// Moves the clock by `by`, waking those whose wait is over.
    pub fn advance(&self, by: Duration) {
        self.catch_up(self.now().after(by));
    }

    /// Moves the clock to `moment`, unless it is there already, waking those whose wait is over.
    pub fn catch_up(&self, moment: Timestamp) {
        let woken = {
            let mut state = self.shared.state();
            state.now = state.now.max(moment);
            let first_asleep = (state.now.after(Duration::from_millis(1)), 0);
            let still_asleep = state.sleepers.split_off(&first_asleep);
            let woken = std::mem::replace(&mut state.sleepers, still_asleep);
            woken.iter().filter_map(|(_, number)| state.wakers.remove(number)).collect::<Vec<_>>()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        write!(f, "ManualClock({}, {} asleep)", state.now, state.sleepers.len())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl idle::Hook for Shared {
    fn on_idle(&self) {
        let woken = {
            let mut state = self.state();
            if !state.by_itself || state.busy > 0 {
                return;
            }
            let Some((moment, number)) = state.sleepers.pop_first() else {
                return;
            };
            state.now = state.now.max(moment);
            state.wakers.remove(&number)
        };
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.shared.state().now
    }

    async fn sleep(&self, duration: Duration) {
        // Waits are whole milliseconds, rounded up.
        let until = self.now().after(duration.saturating_add(Duration::from_nanos(999_999)));
        Sleep { shared: Arc::clone(&self.shared), until, registered: None }.await;
    }

    fn busy(&self) -> Busy {
        self.shared.state().busy += 1;
        let shared = Arc::clone(&self.shared);
        Busy(Some(Box::new(move || {
            shared.state().busy -= 1;
            idle::run(|| ());
        })))
    }
}

struct Sleep {
    shared: Arc<Shared>,
    until: Timestamp,
    registered: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let is_new = self.registered.is_none();
        let number = *self.registered.get_or_insert_with(|| {
            state.next_sleeper += 1;
            state.next_sleeper
        });
        state.wakers.insert(number, context.waker().clone());
        if is_new {
            let until = self.until;
            if std::thread::current().name() == Some(control::THREAD) {
                state.sleepers.insert((until, number));
            } else {
                // What this thread has just asked the control thread to do comes first, and may take less time.
                let shared = Arc::clone(&shared);
                drop(state);
                idle::run(move || {
                    let mut state = shared.state();
                    if state.wakers.contains_key(&number) {
                        state.sleepers.insert((until, number));
                    }
                });
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.registered {
            let mut state = self.shared.state();
            state.wakers.remove(&number);
            state.sleepers.remove(&(self.until, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::control;

    #[test]
    fn an_hour_passes_when_nothing_else_can_happen() {
        let clock = ManualClock::new();
        let began = clock.now();
        let sleeper = clock.clone();
        let (done, wait) = std::sync::mpsc::channel();
        control::spawn(&control::handle().unwrap(), async move {
            sleeper.sleep(Duration::from_secs(3600)).await;
            let _ = done.send(());
        });
        wait.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(clock.now().since(began), Duration::from_secs(3600));
    }

    #[test]
    fn time_stands_still_while_somebody_is_busy() {
        let clock = ManualClock::new();
        let busy = clock.busy();
        let (done, wait) = std::sync::mpsc::channel();
        let sleeper = clock.clone();
        control::spawn(&control::handle().unwrap(), async move {
            sleeper.sleep(Duration::from_secs(1)).await;
            let _ = done.send(());
        });
        assert!(wait.recv_timeout(Duration::from_millis(50)).is_err());
        drop(busy);
        wait.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}
