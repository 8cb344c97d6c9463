use std::{fmt, sync::Arc};

use llm_call::{Call, PeekLayer};
use tower_layer::Layer;

use crate::{Breaker, Breakers};

/// Tells calls of one target apart.
pub(crate) type Class = Arc<dyn for<'a> Fn(&'a Call) -> Option<&'a str> + Send + Sync>;

/// Refuses calls to a target that does not work. See the [crate docs](crate) for an example.
///
/// Stands above the `PeekLayer`, whose stamps it reads, and below whatever sends again: one copy of
/// a request is one call.
#[derive(Clone)]
pub struct BreakerLayer {
    breakers: Breakers,
    class: Option<Class>,
}

impl BreakerLayer {
    /// Calls share these circuits.
    pub fn new(breakers: Breakers) -> BreakerLayer {
        BreakerLayer {
            breakers,
            class: None,
        }
    }

    /// Keeps calls of different classes apart, each with circuits of its own: workloads, or classes
    /// of tenants. `None` is a class too. Default: all calls share. Without a
    /// [`Call`] in the request there is no class.
    ///
    /// # Example
    ///
    /// ```
    /// use llm_breaker::{BreakerLayer, Breakers};
    /// use llm_call::Workload;
    ///
    /// let layer = BreakerLayer::new(Breakers::new()).class(|call| match call.workload() {
    ///     Workload::Interactive => None,
    ///     _ => Some("background"),
    /// });
    /// ```
    #[must_use]
    pub fn class(
        mut self,
        class: impl for<'a> Fn(&'a Call) -> Option<&'a str> + Send + Sync + 'static,
    ) -> BreakerLayer {
        self.class = Some(Arc::new(class));
        self
    }

    /// This layer above a `PeekLayer` with default settings: for use without the rest of the family.
    pub fn alone(self) -> (BreakerLayer, PeekLayer) {
        (self, PeekLayer::new())
    }
}

impl<S> Layer<S> for BreakerLayer {
    type Service = Breaker<S>;

    fn layer(&self, inner: S) -> Breaker<S> {
        Breaker::new(inner, self.breakers.clone(), self.class.clone())
    }
}

impl fmt::Debug for BreakerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer")
            .field("breakers", &self.breakers)
            .field("class", &self.class.is_some())
            .finish()
    }
}
