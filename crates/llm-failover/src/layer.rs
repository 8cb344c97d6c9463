use tower_layer::Layer;

use crate::{Failover, Targets};

/// Sends the same request to the next target when one cannot answer. See the [crate docs](crate)
/// for an example.
#[derive(Clone, Debug)]
pub struct FailoverLayer {
    targets: Targets,
}

impl FailoverLayer {
    /// Fails over among these targets.
    pub fn new(targets: Targets) -> FailoverLayer {
        FailoverLayer { targets }
    }

    /// This layer over a [`PeekLayer`](llm_call::PeekLayer), for a stack that has nothing else.
    pub fn alone(self) -> (FailoverLayer, llm_call::PeekLayer) {
        (self, llm_call::PeekLayer::new())
    }
}

impl<S> Layer<S> for FailoverLayer {
    type Service = Failover<S>;

    fn layer(&self, inner: S) -> Failover<S> {
        Failover::new(inner, self.targets.clone())
    }
}
