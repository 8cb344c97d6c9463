//! The tenants of the pools, and their round.

use std::{hash::BuildHasher, sync::Arc};

use super::{
    Core,
    list::{Linked, Links, List},
};

#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) pool: usize,
    /// `None` for all calls without a tenant: they are not limited, and never forgotten.
    pub(super) name: Option<Arc<str>>,
    hash: u64,
    pub(super) in_flight: usize,
    pub(super) waiting: List,
    pub(super) rejected: u64,
    /// The neighbours in the ring.
    ring: Links,
    in_ring: bool,
    /// It stands at the head of the ring and has got its quantum for this turn.
    pub(super) in_turn: bool,
    pub(super) deficit: usize,
}

impl Linked for Tenant {
    fn links(&mut self) -> &mut Links {
        &mut self.ring
    }
}

impl Tenant {
    fn new(pool: usize, name: Option<Arc<str>>, hash: u64) -> Tenant {
        Tenant {
            pool,
            name,
            hash,
            in_flight: 0,
            waiting: List::default(),
            rejected: 0,
            ring: Links::default(),
            in_ring: false,
            in_turn: false,
            deficit: 0,
        }
    }
}

impl Core {
    pub(super) fn add_nobody(&mut self, pool: usize) -> usize {
        self.tenants.insert(Tenant::new(pool, None, 0))
    }

    /// The entry of a tenant in a pool.
    pub(super) fn tenant(&mut self, pool: usize, name: Option<&Arc<str>>) -> usize {
        let Some(name) = name else {
            return self.pools[pool].nobody;
        };
        let Core {
            tenants,
            by_tenant,
            random,
            ..
        } = self;
        let hash = random.hash_one((pool, name));
        let same = |&other: &usize| {
            let other = &tenants[other];
            other.pool == pool && other.name.as_deref() == Some(&**name)
        };
        if let Some(&found) = by_tenant.find(hash, same) {
            return found;
        }
        let tenant = tenants.insert(Tenant::new(pool, Some(name.clone()), hash));
        by_tenant.insert_unique(hash, tenant, |&tenant| tenants[tenant].hash);
        tenant
    }

    pub(super) fn forget_tenant(&mut self, tenant: usize) {
        // It may have been forgotten already, when its last waiter was refused.
        let Some(Tenant {
            name: Some(_),
            hash,
            in_flight: 0,
            waiting,
            ..
        }) = self.tenants.get(tenant)
        else {
            return;
        };
        if !waiting.is_empty() {
            return;
        }
        if let Ok(found) = self.by_tenant.find_entry(*hash, |&other| other == tenant) {
            found.remove();
        }
        self.tenants.remove(tenant);
    }

    /// Whether the limit of the tenant allows one more of `cost`.
    pub(super) fn tenant_fits(&self, tenant: usize, cost: usize) -> bool {
        let tenant = &self.tenants[tenant];
        let limit = self.pools[tenant.pool].settings.tenant_limit;
        tenant.name.is_none()
            || limit.is_none_or(|limit| super::fits(tenant.in_flight, cost, limit))
    }

    /// Lets a tenant into the ring or out of it. Who joins does so at the tail and with nothing.
    pub(super) fn refresh(&mut self, tenant: usize) {
        let first = self.tenants[tenant].waiting.first();
        let belongs =
            first.is_some_and(|waiter| self.tenant_fits(tenant, self.waiters[waiter].cost));
        let state = &mut self.tenants[tenant];
        if belongs == state.in_ring {
            return;
        }
        let pool = state.pool;
        state.in_ring = belongs;
        state.in_turn = false;
        state.deficit = 0;
        let ring = &mut self.pools[pool].ring;
        if belongs {
            ring.push_back(&mut self.tenants, tenant);
        } else {
            ring.remove(&mut self.tenants, tenant);
        }
    }

    /// The turn of the tenant at the head is over.
    pub(super) fn rotate(&mut self, pool: usize, tenant: usize) {
        self.tenants[tenant].in_turn = false;
        let ring = &mut self.pools[pool].ring;
        ring.remove(&mut self.tenants, tenant);
        ring.push_back(&mut self.tenants, tenant);
    }
}
