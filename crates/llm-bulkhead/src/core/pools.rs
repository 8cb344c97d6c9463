//! The pools by their names, and which of them are forgotten.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Core, list::List, pace::Pace};
use crate::{
    Pool, PoolSnapshot, Snapshot, TenantSnapshot,
    name::{Name, Names},
};

/// The most pools there are.
const MOST: usize = 10_000;

#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) name: Arc<str>,
    pub(super) settings: Pool,
    /// One of the settings, and so for all calls that go by its name among others.
    listed: bool,
    /// Not forgotten: it was listed, or its limit was set by hand.
    pub(super) kept: bool,
    /// In the list of pools that can perhaps be forgotten.
    listed_idle: bool,
    pub(super) in_flight: usize,
    pub(super) queued: usize,
    pub(super) rejected: u64,
    pub(super) abandoned: u64,
    /// Tenants with somebody waiting who is not held back by the limit of the tenant.
    pub(super) ring: List,
    /// How many calls of each cost wait: a turn adds the largest.
    pub(super) costs: BTreeMap<usize, usize>,
    /// The tenants that wait, by how many calls.
    pub(super) lengths: BTreeSet<(usize, usize)>,
    pub(super) pace: Pace,
    pub(super) pass: u128,
    pub(super) contends: bool,
    /// The tenant of calls that have none.
    pub(super) nobody: usize,
}

impl Core {
    pub(super) fn add_pool(&mut self, name: Arc<str>, settings: Pool, listed: bool) -> usize {
        let hash = Name::of(&name).hash(&self.random);
        let entry = self.pools.vacant_entry();
        let pool = entry.key();
        entry.insert(PoolState {
            name,
            settings,
            listed,
            kept: listed,
            listed_idle: false,
            in_flight: 0,
            queued: 0,
            rejected: 0,
            abandoned: 0,
            ring: List::default(),
            costs: BTreeMap::new(),
            lengths: BTreeSet::new(),
            pace: Pace::default(),
            pass: 0,
            contends: false,
            nobody: 0,
        });
        self.pools[pool].nobody = self.add_nobody(pool);
        let Core {
            by_name,
            pools,
            random,
            ..
        } = self;
        by_name.insert_unique(hash, pool, |&pool| Name::of(&pools[pool].name).hash(random));
        pool
    }

    pub(super) fn find_pool(&self, name: Name<'_>) -> Option<usize> {
        let same = |&pool: &usize| name.is(&self.pools[pool].name);
        self.by_name.find(name.hash(&self.random), same).copied()
    }

    /// The pool of a call: the first of its names that is listed, else one of its own or the
    /// default.
    pub(crate) fn pool_of(&mut self, names: &Names<'_>) -> usize {
        let listed = names.listed.iter().flatten().filter(|_| self.lists);
        for name in listed {
            if let Some(pool) = self.find_pool(*name)
                && self.pools[pool].listed
            {
                return pool;
            }
        }
        match (&self.each, names.own) {
            (Some(settings), Some(own)) => {
                if let Some(pool) = self.find_pool(own) {
                    return pool;
                }
                let settings = settings.clone();
                if self.pools.len() >= MOST && !self.forget_one() {
                    return self.default;
                }
                self.add_pool(own.text().into(), settings, false)
            }
            _ => self.default,
        }
    }

    /// Forgets a pool without a call.
    fn forget_one(&mut self) -> bool {
        while let Some(pool) = self.idle.pop_front() {
            let state = &mut self.pools[pool];
            state.listed_idle = false;
            if state.is_idle() && !state.kept {
                let (hash, nobody) = (Name::of(&state.name).hash(&self.random), state.nobody);
                if let Ok(found) = self.by_name.find_entry(hash, |&other| other == pool) {
                    found.remove();
                }
                self.tenants.remove(nobody);
                self.pools.remove(pool);
                return true;
            }
        }
        false
    }

    /// Forgets a tenant that has nothing left, and makes a pool that has nothing left known as such.
    pub(super) fn tidy(&mut self, pool: usize, tenant: usize) {
        self.forget_tenant(tenant);
        let state = &mut self.pools[pool];
        if !state.kept && !state.listed_idle && state.is_idle() {
            state.listed_idle = true;
            self.idle.push_back(pool);
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut tenants: Vec<Vec<TenantSnapshot>> = Vec::new();
        tenants.resize_with(self.pools.capacity(), Vec::new);
        for (_, tenant) in &self.tenants {
            if tenant.in_flight > 0 || !tenant.waiting.is_empty() {
                let limit = self.pools[tenant.pool].settings.tenant_limit;
                tenants[tenant.pool].push(TenantSnapshot {
                    name: tenant.name.clone(),
                    limit: limit.filter(|_| tenant.name.is_some()),
                    in_flight: tenant.in_flight,
                    queued: tenant.waiting.len(),
                    rejected: tenant.rejected,
                });
            }
        }
        let pools = self.pools.iter().map(|(pool, state)| PoolSnapshot {
            name: state.name.clone(),
            limit: state.settings.limit,
            in_flight: state.in_flight,
            queued: state.queued,
            rejected: state.rejected,
            abandoned: state.abandoned,
            tenants: std::mem::take(&mut tenants[pool]),
        });
        let pools = pools.collect();
        Snapshot {
            limit: self.total,
            in_flight: self.in_flight,
            pools,
        }
    }
}

impl PoolState {
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.queued == 0
    }
}
