use std::sync::Arc;

/// What is under way and what waits, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The limit over all pools, if there is one.
    pub limit: Option<usize>,
    /// Calls under way over all pools, by their cost.
    pub in_flight: usize,
    /// The pools: those that are listed, and those that were made since.
    pub pools: Vec<PoolSnapshot>,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// How many calls it takes.
    pub limit: usize,
    /// Calls under way, by their cost. More than the limit only after that was lowered.
    pub in_flight: usize,
    /// Calls that wait.
    pub queued: usize,
    /// Calls that were refused since the pool was made.
    pub rejected: u64,
    /// Permits that were taken back from readers that had stopped, since the pool was made.
    pub abandoned: u64,
    /// Its tenants that have something under way or waiting.
    pub tenants: Vec<TenantSnapshot>,
}

/// One tenant in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantSnapshot {
    /// Its name; `None` for all calls without a tenant.
    pub name: Option<Arc<str>>,
    /// How many calls it may have under way, where that is limited.
    pub limit: Option<usize>,
    /// Calls under way, by their cost.
    pub in_flight: usize,
    /// Calls that wait.
    pub queued: usize,
    /// Calls that were refused since the tenant last had nothing under way or waiting.
    pub rejected: u64,
}

impl Snapshot {
    /// The pool of a name.
    pub fn pool(&self, name: &str) -> Option<&PoolSnapshot> {
        self.pools.iter().find(|pool| *pool.name == *name)
    }
}
