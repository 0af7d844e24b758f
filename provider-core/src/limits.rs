//! Limits per provider account, shared by all sessions of the process.
//!
//! Creates and deletes wait in lanes of their own, so that a delete never waits behind a create. An answer that
//! asks for fewer requests halves the create lane, and successes widen it again, one by one.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    capability::Capabilities,
    lifecycle::{Clock, Timestamp},
    names::ProviderId,
};

/// No answer makes us wait longer than this before the next try.
pub const LONGEST_WAIT: Duration = Duration::from_secs(120);

type Key = (ProviderId, String, String);

static ACCOUNTS: LazyLock<Mutex<HashMap<Key, Weak<AccountLimits>>>> = LazyLock::new(Mutex::default);

/// The limits of one account in this process.
#[derive(Debug)]
pub struct AccountLimits {
    creates: Lane,
    deletes: Lane,
    not_before: Mutex<Option<Timestamp>>,
}

impl AccountLimits {
    /// The limits of this account, the same for every caller in the process.
    pub fn of(
        provider: &ProviderId,
        account: &str,
        endpoint: &str,
        capabilities: &Capabilities,
    ) -> Arc<Self> {
        let mut accounts = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.retain(|_, limits| limits.strong_count() > 0);
        let key = (provider.clone(), account.to_owned(), endpoint.to_owned());
        if let Some(limits) = accounts.get(&key).and_then(Weak::upgrade) {
            return limits;
        }
        let limits = Arc::new(Self {
            creates: Lane::new(capabilities.creates_at_once),
            deletes: Lane::new(capabilities.deletes_at_once),
            not_before: Mutex::new(None),
        });
        accounts.insert(key, Arc::downgrade(&limits));
        limits
    }

    /// Waits for a place among the creates. Cancel safe.
    pub async fn create_place(&self, clock: &Arc<dyn Clock>) -> Place<'_> {
        let place = self.creates.place().await;
        loop {
            let wait = {
                let not_before = *self.not_before.lock().unwrap_or_else(PoisonError::into_inner);
                not_before.map(|moment| moment.since(clock.now())).unwrap_or_default()
            };
            if wait.is_zero() {
                return place;
            }
            clock.sleep(wait).await;
        }
    }

    /// Waits for a place among the deletes. Cancel safe.
    pub async fn delete_place(&self) -> Place<'_> {
        self.deletes.place().await
    }

    /// Whether a create would have to wait now.
    pub fn creates_are_full(&self) -> bool {
        self.creates.semaphore.available_permits() == 0
    }

    /// The provider asked for fewer requests, and perhaps for a wait.
    pub fn asked_to_slow_down(&self, now: Timestamp, wait: Option<Duration>) {
        self.creates.halve();
        if let Some(wait) = wait {
            let until = now.after(wait.min(LONGEST_WAIT));
            let mut not_before = self.not_before.lock().unwrap_or_else(PoisonError::into_inner);
            *not_before = Some(not_before.map_or(until, |other| other.max(until)));
        }
    }

    /// A create succeeded.
    pub fn create_succeeded(&self) {
        self.creates.widen();
    }
}

#[derive(Debug)]
struct Lane {
    semaphore: Arc<Semaphore>,
    width: Mutex<Width>,
}

#[derive(Debug)]
struct Width {
    full: usize,
    now: usize,
    /// Permits that are in use and are to be taken away when they come back.
    owed: usize,
}

impl Lane {
    fn new(width: u32) -> Self {
        let full = width.max(1) as usize;
        Self {
            semaphore: Arc::new(Semaphore::new(full)),
            width: Mutex::new(Width { full, now: full, owed: 0 }),
        }
    }

    async fn place(&self) -> Place<'_> {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok();
        Place { lane: self, permit }
    }

    fn halve(&self) {
        let mut width = self.width.lock().unwrap_or_else(PoisonError::into_inner);
        let fewer = width.now - (width.now / 2).max(1);
        width.now -= fewer;
        let taken = self.semaphore.forget_permits(fewer);
        width.owed += fewer - taken;
    }

    fn widen(&self) {
        let mut width = self.width.lock().unwrap_or_else(PoisonError::into_inner);
        if width.now < width.full {
            width.now += 1;
            match width.owed {
                0 => self.semaphore.add_permits(1),
                _ => width.owed -= 1,
            }
        }
    }
}

/// A place in a lane, given back when dropped.
#[derive(Debug)]
pub struct Place<'a> {
    lane: &'a Lane,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut width = self.lane.width.lock().unwrap_or_else(PoisonError::into_inner);
        if width.owed > 0
            && let Some(permit) = self.permit.take()
        {
            width.owed -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lane_shrinks_under_load_and_widens_again() {
        let lane = Lane::new(4);
        let places = [lane.place().await, lane.place().await, lane.place().await];
        lane.halve();
        assert_eq!(lane.semaphore.available_permits(), 0);
        drop(places);
        assert_eq!(lane.semaphore.available_permits(), 2);
        for _ in 0..10 {
            lane.halve();
        }
        assert_eq!(lane.semaphore.available_permits(), 1, "a lane never closes");
        for _ in 0..10 {
            lane.widen();
        }
        assert_eq!(lane.semaphore.available_permits(), 4, "a lane never exceeds its full width");
    }
}
