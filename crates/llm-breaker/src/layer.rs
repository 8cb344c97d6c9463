use std::{fmt, sync::Arc};

use http::request::Parts;
use llm_call::{Call, PeekLayer};
use tower_layer::Layer;

use crate::{Breaker, Breakers, Key};

/// Tells calls of one target apart.
pub(crate) type Class = Arc<dyn for<'a> Fn(&'a Call) -> Option<&'a str> + Send + Sync>;

/// Names the circuit of a request.
pub(crate) type KeyOf = Arc<dyn Fn(&Parts) -> Key + Send + Sync>;

/// Which circuit a request belongs to.
#[derive(Clone)]
pub(crate) enum Scope {
    /// That of its target, or of its authority and path.
    Place,
    /// The same, and of its class.
    Class(Class),
    /// Whichever is named.
    Key(KeyOf),
}

/// Refuses calls to a target that does not work. See the [crate docs](crate) for an example.
///
/// Stands above the `PeekLayer`, whose stamps it reads, and below whatever sends again: one copy of
/// a request is one call.
#[derive(Clone)]
pub struct BreakerLayer {
    breakers: Breakers,
    scope: Scope,
}

impl BreakerLayer {
    /// Calls share these circuits.
    pub fn new(breakers: Breakers) -> BreakerLayer {
        BreakerLayer {
            breakers,
            scope: Scope::Place,
        }
    }

    /// Keeps calls of different classes apart, each with circuits of its own: workloads, or classes
    /// of tenants. `None` is a class too. Default: all calls share. Without a
    /// [`Call`] in the request there is no class.
    ///
    /// # Example
    ///
    /// ```
    /// use llm_breaker::{BreakerLayer, Breakers, Settings};
    /// use llm_call::Workload;
    ///
    /// // Background work waits longer for a first token before that counts as slow.
    /// let patient = Settings::new().slow_first_token(std::time::Duration::from_secs(20)).build()?;
    /// let breakers = Breakers::by(move |key| match key.class() {
    ///     Some("background") => patient.clone(),
    ///     _ => Default::default(),
    /// });
    /// let layer = BreakerLayer::new(breakers).class(|call| match call.workload() {
    ///     Workload::Interactive => None,
    ///     _ => Some("background"),
    /// });
    /// # Ok::<(), llm_breaker::InvalidSettings>(())
    /// ```
    #[must_use]
    pub fn class(
        mut self,
        class: impl for<'a> Fn(&'a Call) -> Option<&'a str> + Send + Sync + 'static,
    ) -> BreakerLayer {
        self.scope = Scope::Class(Arc::new(class));
        self
    }

    /// Names the circuit of each request. Takes the place of the target, and of
    /// [`class`](BreakerLayer::class). Default: the request's target and where it has none its
    /// authority and path, which a server should not use where its callers write them. It is asked
    /// for each call; a key of a URL allocates then, which looking up the default does not.
    ///
    /// # Example
    ///
    /// One circuit for each route of a server, whatever stands in its parameters:
    ///
    /// ```
    /// use llm_breaker::{BreakerLayer, Breakers, Key};
    ///
    /// # #[derive(Clone)] struct MatchedPath(&'static str);
    /// # impl MatchedPath { fn as_str(&self) -> &str { self.0 } }
    /// // `MatchedPath` is axum's.
    /// let layer = BreakerLayer::new(Breakers::new()).key(|request| {
    ///     let route = request.extensions.get::<MatchedPath>();
    ///     Key::url("", route.map_or("", MatchedPath::as_str))
    /// });
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl Fn(&Parts) -> Key + Send + Sync + 'static) -> BreakerLayer {
        self.scope = Scope::Key(Arc::new(key));
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
        Breaker::new(inner, self.breakers.clone(), self.scope.clone())
    }
}

impl fmt::Debug for BreakerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerLayer")
            .field("breakers", &self.breakers)
            .field("scope", &self.scope)
            .finish()
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Place => "Place",
            Scope::Class(_) => "Class",
            Scope::Key(_) => "Key",
        })
    }
}
