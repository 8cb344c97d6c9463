//! Who waits, how a call arrives, and how it leaves the queue.

use std::{collections::btree_map::Entry, sync::Arc, task::Waker, time::Duration};

use tokio::time::Instant;

use super::{
    Core, Wakes,
    list::{Linked, Links},
};
use crate::Full;

#[derive(Debug)]
pub(super) struct Waiter {
    pool: usize,
    tenant: usize,
    pub(super) cost: usize,
    pub(super) expires: Instant,
    state: Waits,
    waker: Option<Waker>,
    /// The neighbours in the queue of the tenant.
    queue: Links,
}

#[derive(Debug)]
enum Waits {
    Queued,
    Granted(usize),
    Refused(Full),
}

impl Linked for Waiter {
    fn links(&mut self) -> &mut Links {
        &mut self.queue
    }
}

/// How a call that arrives is received.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// With a permit.
    Admitted(usize),
    /// It waits.
    Parked(usize),
    Refused(Full),
}

/// What a waiter that asks finds. With the latter two it is no longer known.
#[derive(Debug)]
pub(crate) enum Answered {
    NotYet,
    Granted(usize),
    Refused(Full),
}

impl Core {
    /// A call arrives. The clock gives the time and the deadline of the call; it is read where
    /// there is no room.
    pub(crate) fn arrive(
        &mut self,
        pool: usize,
        name: Option<&Arc<str>>,
        cost: usize,
        clock: impl FnOnce() -> (Instant, Option<Instant>),
        wakes: &mut Wakes,
    ) -> Arrival {
        let tenant = self.tenant(pool, name);
        if self.may_enter(pool, tenant, cost) {
            return Arrival::Admitted(self.grant(pool, tenant, cost));
        }
        let (now, deadline) = clock();
        self.pools[pool].pace.found_full();
        self.sweep(now, wakes);
        // Again: that can have ended the last call of the tenant.
        let tenant = self.tenant(pool, name);
        if self.may_enter(pool, tenant, cost) {
            return Arrival::Admitted(self.grant(pool, tenant, cost));
        }
        let latest = now.checked_add(self.pools[pool].settings.wait);
        let expires = match (latest, deadline) {
            (Some(latest), Some(deadline)) => latest.min(deadline),
            (Some(at), None) | (None, Some(at)) => at,
            // A century is for ever.
            (None, None) => now + Duration::from_secs(100 * 365 * 24 * 60 * 60),
        };
        if expires <= now || !self.make_place(pool, tenant, now, wakes) {
            let full = self.full(pool, tenant, cost);
            self.tidy(pool, tenant);
            return Arrival::Refused(full);
        }
        let waiter = self.waiters.insert(Waiter {
            pool,
            tenant,
            cost,
            expires,
            state: Waits::Queued,
            waker: None,
            queue: Links::default(),
        });
        self.lengthen(waiter);
        // It competes from now on, and whoever was before it may have waited too long.
        self.dispatch(pool, now, wakes);
        Arrival::Parked(waiter)
    }

    /// Makes a place in the queue, if need be at the cost of whoever has the most waiting. He still
    /// has as many as the one who comes, so that nobody loses his only place to a newcomer.
    fn make_place(&mut self, pool: usize, tenant: usize, now: Instant, wakes: &mut Wakes) -> bool {
        let state = &self.pools[pool];
        if state.queued < state.settings.queue {
            return true;
        }
        let Some(&(most, longest)) = state.lengths.last() else {
            return false;
        };
        if let Some(oldest) = self.tenants[longest].waiting.first()
            && self.waiters[oldest].expires <= now
        {
            // Nobody polls it, or its timer is late.
            self.turn_away(oldest, wakes);
            if longest != tenant {
                self.tidy(pool, longest);
            }
            return true;
        }
        if self.tenants[tenant].waiting.len() + 1 >= most {
            return false;
        }
        let Some(newest) = self.tenants[longest].waiting.last() else {
            return false;
        };
        self.turn_away(newest, wakes);
        true
    }

    /// Puts a waiter at the end of its tenant's queue.
    fn lengthen(&mut self, waiter: usize) {
        let &Waiter {
            pool, tenant, cost, ..
        } = &self.waiters[waiter];
        let state = &mut self.pools[pool];
        state.queued += 1;
        *state.costs.entry(cost).or_default() += 1;
        let waiting = &mut self.tenants[tenant].waiting;
        state.lengths.remove(&(waiting.len(), tenant));
        waiting.push_back(&mut self.waiters, waiter);
        state.lengths.insert((waiting.len(), tenant));
        self.refresh(tenant);
    }

    /// Takes a waiter out of its tenant's queue.
    fn shorten(&mut self, waiter: usize) {
        let &Waiter {
            pool, tenant, cost, ..
        } = &self.waiters[waiter];
        let state = &mut self.pools[pool];
        state.queued -= 1;
        if let Entry::Occupied(mut same) = state.costs.entry(cost) {
            *same.get_mut() -= 1;
            if *same.get() == 0 {
                same.remove();
            }
        }
        let waiting = &mut self.tenants[tenant].waiting;
        state.lengths.remove(&(waiting.len(), tenant));
        waiting.remove(&mut self.waiters, waiter);
        if !waiting.is_empty() {
            state.lengths.insert((waiting.len(), tenant));
        }
    }

    /// The waiter whose turn it is. Those whose time is over are refused on the way.
    pub(super) fn next_in_turn(
        &mut self,
        pool: usize,
        now: Instant,
        wakes: &mut Wakes,
    ) -> Option<usize> {
        loop {
            let tenant = self.pools[pool].ring.first()?;
            let waiter = self.tenants[tenant].waiting.first()?;
            if self.waiters[waiter].expires <= now {
                self.turn_away(waiter, wakes);
                self.tidy(pool, tenant);
                continue;
            }
            let largest = self.pools[pool].costs.keys().next_back();
            let quantum = self.charge(pool, largest.copied().unwrap_or_default());
            let cost = self.charge(pool, self.waiters[waiter].cost);
            let state = &mut self.tenants[tenant];
            if !state.in_turn {
                state.in_turn = true;
                state.deficit += quantum;
            }
            // More than a turn and what a call left of the one before is from a larger call that is
            // gone, or from a higher limit.
            state.deficit = state.deficit.min(quantum.saturating_add(quantum - 1));
            if cost <= state.deficit {
                return Some(waiter);
            }
            self.rotate(pool, tenant);
        }
    }

    /// What a call takes of its tenant's turn: no more than there can be room for.
    fn charge(&self, pool: usize, cost: usize) -> usize {
        let limit = self.pools[pool].settings.limit;
        cost.min(limit).min(self.total.unwrap_or(usize::MAX))
    }

    /// Gives a permit to the waiter whose turn it is.
    pub(super) fn serve(&mut self, waiter: usize, wakes: &mut Wakes) {
        let &Waiter {
            pool, tenant, cost, ..
        } = &self.waiters[waiter];
        self.shorten(waiter);
        let slot = self.grant(pool, tenant, cost);
        self.tenants[tenant].deficit -= self.charge(pool, cost);
        self.refresh(tenant);
        let waiter = &mut self.waiters[waiter];
        waiter.state = Waits::Granted(slot);
        wakes.extend(waiter.waker.take());
    }

    /// Refuses a waiter, who is woken. Its tenant is left for the caller to tidy.
    fn turn_away(&mut self, waiter: usize, wakes: &mut Wakes) {
        let &Waiter {
            pool, tenant, cost, ..
        } = &self.waiters[waiter];
        self.shorten(waiter);
        let full = self.full(pool, tenant, cost);
        self.refresh(tenant);
        let waiter = &mut self.waiters[waiter];
        waiter.state = Waits::Refused(full);
        wakes.extend(waiter.waker.take());
    }

    /// A waiter asks, and leaves word whom to wake. It gets back the waker that it left before:
    /// wakers run code of others when they are cloned or dropped, which is not for here.
    pub(crate) fn ask(&mut self, waiter: usize, waker: &mut Option<Waker>) -> Answered {
        let state = &mut self.waiters[waiter];
        if matches!(state.state, Waits::Queued) {
            std::mem::swap(&mut state.waker, waker);
            return Answered::NotYet;
        }
        match self.waiters.remove(waiter).state {
            Waits::Queued => Answered::NotYet,
            Waits::Granted(slot) => Answered::Granted(slot),
            Waits::Refused(full) => Answered::Refused(full),
        }
    }

    /// When a waiter has to look: at the end of its time, or at readers that may have stopped.
    pub(crate) fn looks_at(&self, waiter: usize) -> Instant {
        let expires = self.waiters[waiter].expires;
        self.next_sweep.map_or(expires, |next| next.min(expires))
    }

    /// A waiter looks. Its waker is left in `waker` once nobody has to wake it.
    pub(crate) fn look(
        &mut self,
        waiter: usize,
        waker: &mut Option<Waker>,
        now: Instant,
        wakes: &mut Wakes,
    ) -> Answered {
        let state = &mut self.waiters[waiter];
        // It asks by itself, and what the sweep finds in this moment is still for it.
        std::mem::swap(&mut state.waker, waker);
        let over = state.expires <= now;
        if over {
            state.expires = now + Duration::from_nanos(1);
        }
        self.sweep(now, wakes);
        let &Waiter { pool, tenant, .. } = &self.waiters[waiter];
        if over && matches!(self.waiters[waiter].state, Waits::Queued) {
            self.turn_away(waiter, wakes);
            self.dispatch(pool, now, wakes);
            self.tidy(pool, tenant);
        }
        self.ask(waiter, waker)
    }

    /// A waiter leaves, and takes its waker along.
    #[must_use = "a waker is dropped where it can run code of others"]
    pub(crate) fn cancel(
        &mut self,
        waiter: usize,
        clock: impl FnOnce() -> Instant,
        wakes: &mut Wakes,
    ) -> Option<Waker> {
        match self.waiters[waiter].state {
            Waits::Queued => {
                self.shorten(waiter);
                let Waiter {
                    pool,
                    tenant,
                    waker,
                    ..
                } = self.waiters.remove(waiter);
                self.refresh(tenant);
                // Behind one that needs much room there may be one that needs little.
                self.dispatch(pool, clock(), wakes);
                self.tidy(pool, tenant);
                waker
            }
            Waits::Granted(slot) => {
                self.waiters.remove(waiter);
                self.release(slot, clock, wakes);
                None
            }
            Waits::Refused(_) => {
                self.waiters.remove(waiter);
                None
            }
        }
    }
}

#[cfg(test)]
impl Waiter {
    /// The permit of one that was served; `Some(None)` of one that was refused.
    pub(super) fn granted(&self) -> Option<Option<usize>> {
        match self.state {
            Waits::Queued => None,
            Waits::Granted(slot) => Some(Some(slot)),
            Waits::Refused(_) => Some(None),
        }
    }
}
