use std::{fmt, sync::PoisonError};

use tokio::time::Instant;

use crate::{
    Full, ResizeError, Snapshot,
    core::{Arrival, Core, Wakes},
    name::Names,
    permit::{Permit, Place},
    sync::{Arc, Mutex, MutexGuard},
};

/// The pools: a handle that layers and clones share. Built by [`Settings`](crate::Settings).
///
/// # Example
///
/// ```
/// use llm_bulkhead::{Pool, Settings};
///
/// let bulkhead = Settings::new(Pool::new(20)).pool("background", Pool::new(5)).build()?;
/// // In the middle of an outage: nobody waits for this work.
/// bulkhead.resize("background", 1)?;
/// for pool in bulkhead.snapshot().pools {
///     println!("{}: {} of {}, {} waiting", pool.name, pool.in_flight, pool.limit, pool.queued);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Bulkhead(Arc<Shared>);

pub(crate) struct Shared(Mutex<Core>);

/// What a call finds at once.
pub(crate) enum Entry {
    Admitted(Permit),
    Parked(Place),
    Refused(Full),
}

impl Bulkhead {
    pub(crate) fn over(core: Core) -> Bulkhead {
        Bulkhead(Arc::new(Shared(Mutex::new(core))))
    }

    /// What is under way and what waits, over all pools and in each.
    pub fn snapshot(&self) -> Snapshot {
        self.0.core().snapshot()
    }

    /// Sets how many calls a pool takes. Calls under way go on, also where they are now too many;
    /// new room is used at once.
    ///
    /// # Errors
    ///
    /// When there is no pool of that name, or the limit is zero.
    pub fn resize(&self, pool: &str, limit: usize) -> Result<(), ResizeError> {
        if limit == 0 {
            return Err(ResizeError::Zero);
        }
        let now = Instant::now();
        let found = self
            .0
            .with(|core, wakes| core.resize(pool, limit, now, wakes));
        if !found {
            return Err(ResizeError::NoSuchPool(pool.into()));
        }
        Ok(())
    }

    /// Sets how many calls all pools take together; `None` is no limit.
    ///
    /// # Errors
    ///
    /// When the limit is zero.
    pub fn resize_total(&self, limit: Option<usize>) -> Result<(), ResizeError> {
        if limit == Some(0) {
            return Err(ResizeError::Zero);
        }
        let now = Instant::now();
        self.0
            .with(|core, wakes| core.resize_total(limit, now, wakes));
        Ok(())
    }

    /// A call arrives.
    pub(crate) fn enter(
        &self,
        names: &Names<'_>,
        tenant: Option<&std::sync::Arc<str>>,
        cost: usize,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Entry {
        self.0.with(|core, wakes| {
            let pool = core.pool_of(names);
            let clock = || (Instant::now(), deadline());
            match core.arrive(pool, tenant, cost, clock, wakes) {
                Arrival::Admitted(slot) => {
                    Entry::Admitted(Permit::new(self.0.clone(), slot, core.watch(slot)))
                }
                Arrival::Parked(waiter) => {
                    Entry::Parked(Place::new(self.0.clone(), waiter, core.looks_at(waiter)))
                }
                Arrival::Refused(full) => Entry::Refused(full),
            }
        })
    }
}

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing under the lock can panic half-way, so a poisoned state is a whole one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes whom that concerns when the lock is free again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Core, &mut Wakes) -> T) -> T {
        let mut wakes = Wakes::new();
        let done = change(&mut self.core(), &mut wakes);
        for waker in wakes {
            waker.wake();
        }
        done
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Snapshot {
            limit,
            in_flight,
            pools,
        } = self.snapshot();
        f.debug_struct("Bulkhead")
            .field("limit", &limit)
            .field("in_flight", &in_flight)
            .field("pools", &pools)
            .finish()
    }
}
