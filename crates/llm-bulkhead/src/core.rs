//! Who gets a permit. Pure: the time is an argument, or a clock that is read only where there is no
//! room; no lock and no wait.
//!
//! Tenants of a pool are served by deficit round robin (Shreedhar and Varghese, 1995), pools that
//! compete for the limit over all of them by stride scheduling (Waldspurger and Weihl, 1995), and
//! a full queue drops from its longest part (Suter et al., 1998). After each operation there is no
//! room that somebody who waits could use.

mod list;
mod pace;
mod pools;
mod queue;
mod shares;
mod sweep;
mod tenants;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, hash::RandomState, task::Waker, time::Duration};

use hashbrown::HashTable;
use slab::Slab;
use tokio::time::Instant;

use crate::{Full, Pool, Settings, sync::Arc, watch::Watch};

use self::{pools::PoolState, queue::Waiter, shares::Shares, tenants::Tenant};

pub(crate) use self::queue::{Answered, Arrival};

/// Whom to wake once the lock is released.
pub(crate) type Wakes = Vec<Waker>;

#[derive(Debug)]
pub(crate) struct Core {
    pools: Slab<PoolState>,
    by_name: HashTable<usize>,
    /// Whether any pool is listed.
    lists: bool,
    /// What a pool for a name that is not listed is like; `None` where all of them share one.
    each: Option<Pool>,
    default: usize,
    /// Pools that can be forgotten, some of which are in use again.
    idle: VecDeque<usize>,

    tenants: Slab<Tenant>,
    by_tenant: HashTable<usize>,

    waiters: Slab<Waiter>,
    slots: Slab<Slot>,
    /// One for each slot, free ones included, so that a call makes none.
    watches: Vec<Arc<Watch>>,

    total: Option<usize>,
    in_flight: usize,
    shares: Shares,

    sweep_every: Duration,
    next_sweep: Option<Instant>,
    random: RandomState,
}

/// A permit that is out.
#[derive(Debug)]
struct Slot {
    pool: usize,
    tenant: usize,
    cost: usize,
    /// When its reader was first seen to have it.
    stopped: Option<Instant>,
}

impl Core {
    pub(crate) fn new(settings: Settings) -> Core {
        let abandon = settings.pools.iter().map(|(_, pool)| pool.abandon_after);
        let least = abandon.fold(settings.unlisted.abandon_after, Duration::min);
        let mut core = Core {
            pools: Slab::new(),
            by_name: HashTable::new(),
            lists: !settings.pools.is_empty(),
            each: settings.each.then(|| settings.unlisted.clone()),
            default: 0,
            idle: VecDeque::new(),
            tenants: Slab::new(),
            by_tenant: HashTable::new(),
            waiters: Slab::new(),
            slots: Slab::new(),
            watches: Vec::new(),
            total: settings.total,
            in_flight: 0,
            shares: Shares::default(),
            sweep_every: (least / 8).max(Duration::from_millis(1)),
            next_sweep: None,
            random: RandomState::new(),
        };
        for (name, pool) in settings.pools {
            core.add_pool(name, pool, true);
        }
        let default = core.find_pool(crate::name::Name::of(crate::settings::DEFAULT));
        core.default = default.unwrap_or_else(|| {
            let name = crate::settings::DEFAULT.into();
            core.add_pool(name, settings.unlisted, false)
        });
        core.pools[core.default].kept = true;
        core
    }

    /// Whether one more of `cost` fits into the pool.
    fn has_room(&self, pool: usize, cost: usize) -> bool {
        let pool = &self.pools[pool];
        fits(pool.in_flight, cost, pool.settings.limit)
    }

    /// Whether one more of `cost` fits into what all pools share.
    fn has_total_room(&self, cost: usize) -> bool {
        self.total
            .is_none_or(|total| fits(self.in_flight, cost, total))
    }

    /// Whether a call can go through without overtaking anybody.
    fn may_enter(&self, pool: usize, tenant: usize, cost: usize) -> bool {
        self.has_room(pool, cost)
            && self.has_total_room(cost)
            && self.pools[pool].ring.is_empty()
            && self.shares.is_empty()
            && self.tenants[tenant].waiting.is_empty()
            && self.tenant_fits(tenant, cost)
    }

    /// Takes a permit.
    fn grant(&mut self, pool: usize, tenant: usize, cost: usize) -> usize {
        self.in_flight += cost;
        self.pools[pool].in_flight += cost;
        self.tenants[tenant].in_flight += cost;
        let slot = self.slots.insert(Slot {
            pool,
            tenant,
            cost,
            stopped: None,
        });
        match self.watches.get(slot) {
            Some(watch) => watch.reset(),
            None => self.watches.push(Arc::new(Watch::new())),
        }
        slot
    }

    /// The mark of a permit.
    pub(crate) fn watch(&self, slot: usize) -> Arc<Watch> {
        self.watches[slot].clone()
    }

    /// A permit comes back.
    pub(crate) fn release(
        &mut self,
        slot: usize,
        clock: impl FnOnce() -> Instant,
        wakes: &mut Wakes,
    ) {
        let Slot {
            pool, tenant, cost, ..
        } = self.slots.remove(slot);
        self.in_flight -= cost;
        self.pools[pool].in_flight -= cost;
        self.tenants[tenant].in_flight -= cost;
        let waits = !self.waiters.is_empty();
        if waits || self.pools[pool].pace.is_busy() {
            let now = clock();
            let state = &mut self.pools[pool];
            if state.pace.is_busy() {
                let half_empty = state.queued == 0 && state.in_flight <= state.settings.limit / 2;
                state.pace.released(now, half_empty);
            }
            if waits {
                self.refresh(tenant);
                self.dispatch(pool, now, wakes);
            }
        }
        self.tidy(pool, tenant);
    }

    /// Serves who waits for a pool, as far as there is room.
    fn dispatch(&mut self, pool: usize, now: Instant, wakes: &mut Wakes) {
        if self.total.is_some() {
            return self.share_out(pool, now, wakes);
        }
        while let Some(waiter) = self.ready(pool, now, wakes) {
            self.serve(waiter, wakes);
        }
    }

    /// The next waiter of a pool that has room for it.
    fn ready(&mut self, pool: usize, now: Instant, wakes: &mut Wakes) -> Option<usize> {
        let waiter = self.next_in_turn(pool, now, wakes)?;
        self.has_room(pool, self.waiters[waiter].cost)
            .then_some(waiter)
    }

    /// Sets the limit of a pool; `false` where there is none of the name.
    pub(crate) fn resize(
        &mut self,
        name: &str,
        limit: usize,
        now: Instant,
        wakes: &mut Wakes,
    ) -> bool {
        let Some(pool) = self.find_pool(crate::name::Name::of(name)) else {
            return false;
        };
        let state = &mut self.pools[pool];
        state.settings.limit = limit;
        // Who sets it by hand does not expect it to be forgotten.
        state.kept = true;
        self.dispatch(pool, now, wakes);
        true
    }

    /// Sets the limit over all pools.
    pub(crate) fn resize_total(&mut self, total: Option<usize>, now: Instant, wakes: &mut Wakes) {
        self.total = total;
        self.shares.clear();
        let pools: Vec<usize> = self.pools.iter().map(|(pool, _)| pool).collect();
        for &pool in &pools {
            self.pools[pool].contends = false;
            if total.is_some() {
                // All of them before the first is served.
                self.contend(pool, now, wakes);
            }
        }
        for pool in pools {
            self.dispatch(pool, now, wakes);
        }
    }

    fn full(&mut self, pool: usize, tenant: usize, cost: usize) -> Full {
        let tenant_full = !self.tenant_fits(tenant, cost);
        let total_full = self.has_room(pool, cost) && !self.has_total_room(cost);
        self.tenants[tenant].rejected += 1;
        let state = &mut self.pools[pool];
        state.rejected += 1;
        Full {
            pool: state.name.clone(),
            limit: state.settings.limit,
            in_flight: state.in_flight,
            queued: state.queued,
            tenant_limit: state.settings.tenant_limit.filter(|_| tenant_full),
            total_limit: self.total.filter(|_| total_full && !tenant_full),
            retry_after: state.pace.estimate(state.queued),
        }
    }
}

/// Whether one more of `cost` fits. What is larger than the limit fits alone.
fn fits(in_flight: usize, cost: usize, limit: usize) -> bool {
    in_flight == 0 || in_flight.saturating_add(cost) <= limit
}
