use std::{collections::HashMap, fmt, sync::Arc};

use tower_layer::Layer;

use crate::{Provide, Provider};

/// Turns a target into a concrete call: URL, key, model name, headers. See the
/// [crate docs](crate) for an example.
#[derive(Clone, Default)]
pub struct ProviderLayer {
    providers: Arc<HashMap<String, Provider>>,
}

impl ProviderLayer {
    /// Knows no provider yet.
    pub fn new() -> ProviderLayer {
        ProviderLayer::default()
    }

    /// Adds a provider under the name that targets use; the last one of a name counts.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, provider: Provider) -> Self {
        Arc::make_mut(&mut self.providers).insert(name.into(), provider);
        self
    }
}

impl<S> Layer<S> for ProviderLayer {
    type Service = Provide<S>;

    fn layer(&self, inner: S) -> Provide<S> {
        Provide::new(inner, self.providers.clone())
    }
}

impl fmt::Debug for ProviderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLayer")
            .field("providers", &self.providers)
            .finish()
    }
}
