use std::{fmt, sync::Arc, time::Duration};

use crate::{Bulkhead, core::Core};

/// The pool of calls that go by no other name.
pub(crate) const DEFAULT: &str = "default";

/// How many calls one pool takes, and who waits for it.
///
/// Checked by [`Settings::build`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub(crate) limit: usize,
    pub(crate) queue: usize,
    pub(crate) wait: Duration,
    pub(crate) tenant_limit: Option<usize>,
    pub(crate) weight: u32,
    pub(crate) abandon_after: Duration,
}

impl Pool {
    /// A pool of at most `limit` calls under way, with the defaults below.
    pub fn new(limit: usize) -> Pool {
        Pool {
            limit,
            queue: limit,
            wait: Duration::from_secs(2),
            tenant_limit: None,
            weight: 1,
            abandon_after: Duration::from_secs(120),
        }
    }

    /// The most calls that wait. Beyond it the newest call of whoever has the most waiting is
    /// refused. Default: as many as may be under way.
    #[must_use]
    pub fn queue(mut self, calls: usize) -> Pool {
        self.queue = calls;
        self
    }

    /// The longest a call waits, and never beyond its deadline: work that may wait longer needs a
    /// stack with a longer one, since a deadline layer only shortens what a call brings along. Zero
    /// refuses at once. Default: 2 s.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Pool {
        self.wait = time;
        self
    }

    /// The most calls of one tenant under way in this pool. More of them wait, up to
    /// [`wait`](Pool::wait), and do not stand in the way of other tenants. Calls without a tenant are
    /// not limited by it, and nobody is by one above the pool's limit. Default: no limit.
    #[must_use]
    pub fn tenant_limit(mut self, calls: usize) -> Pool {
        self.tenant_limit = Some(calls);
        self
    }

    /// The share of this pool while several compete for [`Settings::total_limit`]: a pool of weight 3
    /// gets three calls for each one of a pool of weight 1. Default: 1.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Pool {
        self.weight = weight;
        self
    }

    /// How long a reader may leave an answer unread before its permit goes to somebody else. It is
    /// counted from when somebody first finds no room in this pool, or under the limit over all,
    /// and looked at eight times in that span; a provider that is silent is never taken for a
    /// reader that has stopped. `Duration::MAX` is never. Default: 120 s.
    #[must_use]
    pub fn abandon_after(mut self, time: Duration) -> Pool {
        self.abandon_after = time;
        self
    }

    fn check(&self, name: &str) -> Result<(), InvalidSettings> {
        let zero = |setting| {
            let pool = name.into();
            Err(InvalidSettings::Zero { pool, setting })
        };
        match self {
            Pool { limit: 0, .. } => zero("limit"),
            Pool {
                tenant_limit: Some(0),
                ..
            } => zero("tenant_limit"),
            Pool { weight: 0, .. } => zero("weight"),
            pool if pool.abandon_after.is_zero() => zero("abandon_after"),
            _ => Ok(()),
        }
    }
}

/// Which pools there are. Built into a [`Bulkhead`].
///
/// # Example
///
/// ```
/// use llm_bulkhead::{Pool, Settings};
///
/// let bulkhead = Settings::new(Pool::new(20))
///     .pool("interactive", Pool::new(100).weight(4))
///     .pool("interactive/free", Pool::new(20).tenant_limit(2))
///     .pool("background", Pool::new(10).queue(200))
///     .total_limit(120)
///     .build()?;
/// # Ok::<(), llm_bulkhead::InvalidSettings>(())
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) unlisted: Pool,
    pub(crate) each: bool,
    pub(crate) pools: Vec<(Arc<str>, Pool)>,
    pub(crate) total: Option<usize>,
}

impl Settings {
    /// Calls of no listed pool share this one, which is called `default`.
    pub fn new(unlisted: Pool) -> Settings {
        Settings {
            unlisted,
            each: false,
            pools: Vec::new(),
            total: None,
        }
    }

    /// Calls of no listed pool get one like this for each name that they go by. It is made when it
    /// is first used. There are at most 10,000 pools: for more, those without a call are forgotten,
    /// and where each has one, the call shares the pool `default` with calls that go by no name.
    pub fn each(unlisted: Pool) -> Settings {
        Settings {
            each: true,
            ..Settings::new(unlisted)
        }
    }

    /// Lists a pool. See the [crate docs](crate#which-pool) for its name.
    #[must_use]
    pub fn pool(mut self, name: impl Into<Arc<str>>, pool: Pool) -> Settings {
        self.pools.push((name.into(), pool));
        self
    }

    /// The most calls under way over all pools. Pools that compete for it are served by their
    /// weights. Default: no limit.
    #[must_use]
    pub fn total_limit(mut self, calls: usize) -> Settings {
        self.total = Some(calls);
        self
    }

    /// The pools, empty.
    ///
    /// # Errors
    ///
    /// When a pool could never take a call, or two have one name.
    pub fn build(self) -> Result<Bulkhead, InvalidSettings> {
        self.unlisted.check(DEFAULT)?;
        if self.total == Some(0) {
            return Err(InvalidSettings::ZeroTotal);
        }
        for (i, (name, pool)) in self.pools.iter().enumerate() {
            pool.check(name)?;
            if name.split(['/', ':']).any(str::is_empty) {
                return Err(InvalidSettings::EmptyName(name.clone()));
            }
            let is_unlisted = !self.each && **name == *DEFAULT;
            if is_unlisted || self.pools.iter().take(i).any(|(other, _)| other == name) {
                return Err(InvalidSettings::Twice(name.clone()));
            }
        }
        Ok(Bulkhead::over(Core::new(self)))
    }
}

/// Settings with which some calls would never go through, or not as meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSettings {
    /// A number that must not be zero.
    Zero {
        /// The name of the pool.
        pool: Arc<str>,
        /// Which setting.
        setting: &'static str,
    },
    /// No calls at all over all pools.
    ZeroTotal,
    /// Two pools of one name.
    Twice(Arc<str>),
    /// A name that no call goes by, since it is empty or a part of it is.
    EmptyName(Arc<str>),
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidSettings::Zero { pool, setting } => write!(
                f,
                "{setting} of the pool {pool} is zero; set it to a positive value, or leave it out \
                 for its default"
            ),
            InvalidSettings::ZeroTotal => f.write_str(
                "the limit over all pools is 0; set it to a positive number, or leave it out for \
                 no limit",
            ),
            InvalidSettings::EmptyName(name) => write!(
                f,
                "the pool name {name:?} has an empty part, and no call goes by it; write \
                 workload, workload/class, or provider:model"
            ),
            InvalidSettings::Twice(name) => write!(
                f,
                "the pool {name} is listed twice; remove one of the two, or name it differently"
            ),
        }
    }
}

impl std::error::Error for InvalidSettings {}
