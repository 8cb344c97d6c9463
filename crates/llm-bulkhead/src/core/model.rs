//! The core against a naive model: random arrivals, ends, cancellations, resizes and time.

use std::{collections::HashMap, task::Waker, time::Duration};

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::name::Names;

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        pool: usize,
        tenant: usize,
        cost: usize,
        deadline: Option<u64>,
    },
    Release(usize),
    Cancel(usize),
    Ask(usize),
    Hand(usize),
    Pass(u64),
    Resize(usize, usize),
    ResizeTotal(Option<usize>),
}

const POOLS: [&str; 3] = ["a", "b", "c"];

fn step() -> impl Strategy<Value = Step> {
    let index = 0..64usize;
    prop_oneof![
        6 => (0..3usize, 0..5usize, 1..4usize, prop::option::weighted(0.3, 0..5_000u64)).prop_map(
            |(pool, tenant, cost, deadline)| Step::Arrive { pool, tenant, cost, deadline }
        ),
        4 => index.clone().prop_map(Step::Release),
        1 => index.clone().prop_map(Step::Cancel),
        2 => index.clone().prop_map(Step::Ask),
        1 => index.prop_map(Step::Hand),
        2 => (0..3_000u64).prop_map(Step::Pass),
        1 => (0..3usize, 1..6usize).prop_map(|(pool, limit)| Step::Resize(pool, limit)),
        1 => prop::option::of(1..9usize).prop_map(Step::ResizeTotal),
    ]
}

/// What the model knows of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    pool: usize,
    tenant: usize,
    cost: usize,
    number: u64,
    expires: Instant,
}

struct World {
    core: Core,
    now: Instant,
    limits: [usize; 3],
    /// Whether a limit was exceeded after the step before.
    over: bool,
    /// Whether all costs are 1.
    unit: bool,
    queued: Vec<(usize, Seen)>,
    out: Vec<(usize, Seen)>,
    acquired: usize,
    released: usize,
    number: u64,
}

fn pool(limit: usize) -> Pool {
    Pool::new(limit)
        .queue(6)
        .tenant_limit(3)
        .abandon_after(Duration::from_secs(8))
}

impl World {
    fn new(total: Option<usize>) -> World {
        let mut settings = Settings::new(Pool::new(1));
        settings.total = total;
        for (i, name) in POOLS.into_iter().enumerate() {
            settings = settings.pool(name, pool(i + 2).weight(i as u32 + 1));
        }
        World {
            core: Core::new(settings),
            now: Instant::now(),
            limits: [2, 3, 4],
            over: false,
            unit: false,
            queued: Vec::new(),
            out: Vec::new(),
            acquired: 0,
            released: 0,
            number: 0,
        }
    }

    fn id(&mut self, pool: usize) -> usize {
        self.core.pool_of(&Names::of_text(POOLS[pool]))
    }

    fn used(&self, pool: usize) -> usize {
        let out = self.out.iter().filter(|(_, seen)| seen.pool == pool);
        out.map(|(_, seen)| seen.cost).sum()
    }

    /// Moves those that were answered, and checks that each tenant is served in its order.
    fn settle(&mut self) {
        let mut served: HashMap<(usize, usize), u64> = HashMap::new();
        let mut left = Vec::new();
        for (waiter, seen) in std::mem::take(&mut self.queued) {
            match self.core.waiters[waiter].granted() {
                Some(Some(slot)) => {
                    let key = (seen.pool, seen.tenant);
                    let last = served.insert(key, seen.number);
                    assert!(last.is_none_or(|last| last < seen.number), "K4: FIFO");
                    let earlier = left.iter().any(|(_, other): &(usize, Seen)| {
                        (other.pool, other.tenant) == key && other.number < seen.number
                    });
                    assert!(!earlier, "K4: {seen:?} overtook within its tenant");
                    assert!(seen.expires > self.now, "K7: an expired waiter was served");
                    self.acquired += 1;
                    self.out.push((slot, seen));
                    self.core.waiters.remove(waiter);
                }
                Some(None) => {
                    self.core.waiters.remove(waiter);
                }
                None => left.push((waiter, seen)),
            }
        }
        self.queued = left;
    }

    /// Forgets what was taken back from readers that had stopped.
    fn forget_revoked(&mut self, watches: &[(usize, Arc<Watch>)]) {
        for (slot, watch) in watches {
            if watch.is_revoked() {
                let i = self.out.iter().position(|(s, _)| s == slot).unwrap();
                self.out.remove(i);
                self.released += 1;
            }
        }
    }

    fn run(&mut self, step: &Step) {
        let mut wakes = Wakes::new();
        let watches: Vec<_> = self
            .out
            .iter()
            .map(|(slot, _)| (*slot, self.core.watch(*slot)))
            .collect();
        let now = self.now;
        let mut freed = None;
        let mut admitted = None;
        match *step {
            Step::Arrive {
                pool,
                tenant,
                cost,
                deadline,
            } => {
                let id = self.id(pool);
                let name: Option<std::sync::Arc<str>> =
                    (tenant > 0).then(|| tenant.to_string().into());
                let deadline = deadline.map(|ms| now + Duration::from_millis(ms));
                self.number += 1;
                let clock = || (now, deadline);
                let arrival = self.core.arrive(id, name.as_ref(), cost, clock, &mut wakes);
                let mut seen = Seen {
                    pool,
                    tenant,
                    cost,
                    number: self.number,
                    expires: now,
                };
                match arrival {
                    Arrival::Admitted(slot) => admitted = Some((slot, seen)),
                    Arrival::Parked(waiter) => {
                        let until = self.core.waiters[waiter].expires;
                        assert!(until > now, "K3");
                        assert!(until <= now + Duration::from_secs(2), "K3");
                        assert!(deadline.is_none_or(|deadline| until <= deadline), "K3");
                        seen.expires = until;
                        self.queued.push((waiter, seen));
                        // It is served at once where those before it waited too long.
                        if self.core.waiters[waiter].granted().is_none() {
                            let mut waker = Some(Waker::noop().clone());
                            let asked = self.core.ask(waiter, &mut waker);
                            assert!(matches!(asked, Answered::NotYet), "{asked:?}");
                        }
                    }
                    Arrival::Refused(_) => {}
                }
            }
            Step::Release(i) if !self.out.is_empty() => {
                let i = i % self.out.len();
                let (slot, seen) = self.out.remove(i);
                self.core.release(slot, || now, &mut wakes);
                self.released += 1;
                freed = Some((seen.cost, self.unit));
            }
            Step::Cancel(i) if !self.queued.is_empty() => {
                let i = i % self.queued.len();
                let (waiter, _) = self.queued.remove(i);
                let waker = self.core.cancel(waiter, || now, &mut wakes);
                assert!(waker.is_some());
            }
            Step::Ask(i) if !self.queued.is_empty() => {
                let i = i % self.queued.len();
                let (waiter, seen) = self.queued[i];
                match self.core.look(waiter, &mut None, now, &mut wakes) {
                    Answered::NotYet => {
                        assert!(seen.expires > now, "K3: {seen:?} waits on");
                        assert!(self.core.looks_at(waiter) > now, "it does not spin");
                    }
                    // A reader that had stopped was found in this moment.
                    Answered::Granted(slot) => {
                        self.queued.remove(i);
                        admitted = Some((slot, seen));
                    }
                    Answered::Refused(_) => {
                        assert!(seen.expires <= now, "K3: {seen:?} had time");
                        self.queued.remove(i);
                    }
                }
            }
            Step::Hand(i) if !self.out.is_empty() => {
                let (slot, _) = self.out[i % self.out.len()];
                self.core.watch(slot).handed();
            }
            Step::Pass(ms) => self.now += Duration::from_millis(ms),
            Step::Resize(pool, limit) => {
                self.limits[pool] = limit;
                assert!(self.core.resize(POOLS[pool], limit, now, &mut wakes));
            }
            Step::ResizeTotal(total) => self.core.resize_total(total, now, &mut wakes),
            _ => {}
        }
        self.forget_revoked(&watches);
        if let Some((slot, seen)) = admitted {
            self.acquired += 1;
            self.out.push((slot, seen));
        }
        let queued_before_settle = self.queued.clone();
        self.settle();
        let granted = queued_before_settle
            .iter()
            .filter(|(_, seen)| self.out.iter().any(|(_, out)| out == seen))
            .count();
        // Those who were answered, and nobody else.
        let answered = queued_before_settle.len() - self.queued.len();
        assert!(
            wakes.len() <= answered,
            "K7: {} woken for {answered}",
            wakes.len()
        );
        if let Some((freed, unit)) = freed
            && unit
        {
            assert!(granted <= freed, "K7: {granted} served for {freed} freed");
        }
    }

    fn check(&mut self, shrunk: bool) {
        let total: usize = self.out.iter().map(|(_, seen)| seen.cost).sum();
        assert_eq!(self.core.in_flight, total, "K1");
        assert_eq!(self.acquired - self.released, self.out.len(), "K1");
        assert_eq!(self.core.slots.len(), self.out.len(), "K1");
        assert_eq!(self.core.waiters.len(), self.queued.len(), "K2");
        if !shrunk {
            for pool in 0..3 {
                let alone = self.out.iter().filter(|(_, s)| s.pool == pool).count() == 1;
                assert!(self.used(pool) <= self.limits[pool] || alone, "K1");
            }
            if let Some(limit) = self.core.total {
                assert!(total <= limit || self.out.len() == 1, "K1");
            }
        }
        for pool in 0..3 {
            let id = self.id(pool);
            let waiting = self.queued.iter().filter(|(_, s)| s.pool == pool).count();
            let state = &self.core.pools[id];
            assert_eq!(state.queued, waiting, "K3");
            assert!(waiting <= 6, "K3");
            assert_eq!(state.in_flight, self.used(pool), "K1");
            let lengths: usize = state.lengths.iter().map(|(len, _)| len).sum();
            assert_eq!(lengths, waiting);
        }
        self.check_work_conserving();
        self.check_memory();
    }

    /// K5: nobody who waits could use the room there is, but for those behind a larger one.
    fn check_work_conserving(&mut self) {
        let total: usize = self.out.iter().map(|(_, seen)| seen.cost).sum();
        let heads: Vec<Seen> = {
            let mut heads: HashMap<(usize, usize), Seen> = HashMap::new();
            for (_, seen) in &self.queued {
                heads.entry((seen.pool, seen.tenant)).or_insert(*seen);
            }
            heads.into_values().collect()
        };
        let (mut any, mut blocked) = (false, false);
        for pool in 0..3 {
            // Those whose tenant has room. Where each of them fits, one should have been served,
            // unless one that fits its pool does not fit the whole and is waited for.
            let eligible: Vec<_> = heads
                .iter()
                .filter(|h| h.pool == pool)
                .filter(|h| {
                    let tenant = (h.pool, h.tenant);
                    let out = self
                        .out
                        .iter()
                        .filter(|(_, o)| (o.pool, o.tenant) == tenant);
                    h.tenant == 0 || fits(out.map(|(_, o)| o.cost).sum(), h.cost, 3)
                })
                .collect();
            let used = self.used(pool);
            let fit = eligible
                .iter()
                .filter(|h| fits(used, h.cost, self.limits[pool]));
            any |= !eligible.is_empty() && fit.clone().count() == eligible.len();
            blocked |= fit.clone().any(|h| {
                self.core
                    .total
                    .is_some_and(|limit| !fits(total, h.cost, limit))
            });
        }
        assert!(
            !any || blocked,
            "K5: room and a waiter: {heads:?} {:?}",
            self.limits
        );
    }

    /// K11: nobody is remembered without a reason.
    fn check_memory(&self) {
        let mut known: Vec<(usize, usize)> = self
            .out
            .iter()
            .chain(&self.queued)
            .map(|(_, seen)| (seen.pool, seen.tenant))
            .filter(|(_, tenant)| *tenant > 0)
            .collect();
        known.sort_unstable();
        known.dedup();
        let nobodies = self.core.pools.len();
        assert_eq!(self.core.tenants.len(), known.len() + nobodies, "K11");
        assert_eq!(self.core.by_tenant.len(), known.len(), "K11");
    }

    fn drain(&mut self) {
        while !self.out.is_empty() || !self.queued.is_empty() {
            let had = (self.out.len(), self.queued.len());
            if self.out.is_empty() {
                panic!("K5: {had:?} wait and nothing is under way");
            }
            self.run(&Step::Release(0));
        }
        assert_eq!(self.core.in_flight, 0);
        assert!(self.core.shares.is_empty());
        let snapshot = self.core.snapshot();
        assert!(snapshot.pools.iter().all(|p| p.tenants.is_empty()));
    }
}

proptest! {
    #[test]
    fn k01_k02_k03_k05_k07_k08_k11_it_keeps_its_promises_whatever_happens(
        total in prop::option::of(2..8usize),
        unit in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new(total);
        world.unit = unit;
        for mut step in steps {
            if let (Step::Arrive { cost, .. }, true) = (&mut step, unit) {
                *cost = 1;
            }
            let resized = matches!(step, Step::Resize(..) | Step::ResizeTotal(_));
            world.run(&step);
            // What was lowered below what is under way is checked again once it is not.
            let over = (0..3).any(|p| world.used(p) > world.limits[p])
                || world.core.total.is_some_and(|t| world.core.in_flight > t);
            let was = std::mem::replace(&mut world.over, over);
            world.check(resized || (over && was));
        }
        world.drain();
    }
}
