use std::{borrow::Cow, fmt, sync::Arc};

use http::request::Parts;
use llm_call::Call;
use tower_layer::Layer;

use crate::{Bulkhead, BulkheadService};

/// Names the pool of a request.
pub(crate) type NameOf = Arc<dyn for<'a> Fn(&'a Parts) -> Option<Cow<'a, str>> + Send + Sync>;
type CostOf = Arc<dyn Fn(&Call) -> u32 + Send + Sync>;

/// How long a call holds its permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Until its response is there: what comes after is not the concern of this bulkhead.
    Response,
    /// Until the body of its response has ended or was dropped.
    #[default]
    BodyEnd,
}

/// How a request finds its pool.
#[derive(Clone)]
pub(crate) enum Scope {
    /// By its workload and the class of its tenant.
    Work,
    /// By its target.
    Target,
    /// By the name that it is given.
    Name(NameOf),
}

/// What a layer was told.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) scope: Scope,
    pub(crate) cost: Option<CostOf>,
    pub(crate) until: Until,
}

/// Bounds the calls under way, and lets some wait their turn. See the [crate docs](crate) for an
/// example.
#[derive(Clone)]
pub struct BulkheadLayer {
    bulkhead: Bulkhead,
    rules: Rules,
}

impl BulkheadLayer {
    /// Calls go to these pools, by their workload and the class of their tenant.
    pub fn new(bulkhead: Bulkhead) -> BulkheadLayer {
        BulkheadLayer {
            bulkhead,
            rules: Rules {
                scope: Scope::Work,
                cost: None,
                until: Until::BodyEnd,
            },
        }
    }

    /// Calls go to the pool of their target ([`Attempt`](llm_call::Attempt)).
    #[must_use]
    pub fn by_target(mut self) -> BulkheadLayer {
        self.rules.scope = Scope::Target;
        self
    }

    /// Names the pool of each request; `None` is the pool `default`.
    ///
    /// # Example
    ///
    /// ```
    /// use llm_bulkhead::{BulkheadLayer, Pool, Settings};
    ///
    /// let bulkhead = Settings::new(Pool::new(50)).pool("embeddings", Pool::new(10)).build()?;
    /// let layer = BulkheadLayer::new(bulkhead)
    ///     .pool(|request| request.uri.path().ends_with("/embeddings").then(|| "embeddings".into()));
    /// # Ok::<(), llm_bulkhead::InvalidSettings>(())
    /// ```
    #[must_use]
    pub fn pool(
        mut self,
        name: impl for<'a> Fn(&'a Parts) -> Option<Cow<'a, str>> + Send + Sync + 'static,
    ) -> BulkheadLayer {
        self.rules.scope = Scope::Name(Arc::new(name));
        self
    }

    /// How many ordinary calls a call counts as. What costs more than a limit allows takes all of
    /// it: it goes through when nothing else does. A cost of 0 counts as 1, and so does a request
    /// without a [`Call`]. Default: 1.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Call) -> u32 + Send + Sync + 'static) -> BulkheadLayer {
        self.rules.cost = Some(Arc::new(cost));
        self
    }

    /// How long a call holds its permit. Default: until the body of its response has ended.
    #[must_use]
    pub fn until(mut self, until: Until) -> BulkheadLayer {
        self.rules.until = until;
        self
    }
}

impl<S> Layer<S> for BulkheadLayer {
    type Service = BulkheadService<S>;

    fn layer(&self, inner: S) -> BulkheadService<S> {
        BulkheadService::new(inner, self.bulkhead.clone(), self.rules.clone())
    }
}

impl fmt::Debug for BulkheadLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadLayer")
            .field("bulkhead", &self.bulkhead)
            .field("rules", &self.rules)
            .finish()
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            Scope::Work => "Work",
            Scope::Target => "Target",
            Scope::Name(_) => "Name",
        };
        f.debug_struct("Rules")
            .field("scope", &format_args!("{scope}"))
            .field("has_cost", &self.cost.is_some())
            .field("until", &self.until)
            .finish()
    }
}
