use std::fmt;

use llm_call::Target;
use tower_layer::Layer;

use crate::{Catalog, InvalidProvider, Provide, Provider};

/// Turns a target into a concrete call: URL, key, model name, headers. See the
/// [crate docs](crate) for an example.
#[derive(Clone, Default)]
pub struct ProviderLayer {
    catalog: Catalog,
}

impl ProviderLayer {
    /// Knows no provider yet.
    pub fn new() -> ProviderLayer {
        ProviderLayer::default()
    }

    /// Adds a provider under the name that targets use; the last one of a name counts.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, provider: Provider) -> Self {
        self.catalog = self.catalog.provider(name, provider);
        self
    }

    pub(crate) fn of(catalog: Catalog) -> ProviderLayer {
        ProviderLayer { catalog }
    }
}

impl ProviderLayer {
    /// Whether every target has its provider here. To be asked when a stack is built: a fallback
    /// with a misspelt provider is not noticed otherwise until it is needed.
    ///
    /// # Errors
    ///
    /// Names the first target that has none.
    ///
    /// # Example
    ///
    /// ```
    /// use llm_call::Target;
    /// use llm_provider::{Provider, ProviderLayer};
    ///
    /// let providers = ProviderLayer::new().provider("local", Provider::new("http://127.0.0.1:11434/v1")?);
    /// let targets: [Target; 2] = ["local:llama3.1".parse()?, "locl:llama3.1".parse()?];
    /// let error = providers.check(&targets).unwrap_err();
    /// assert!(error.to_string().contains("\"locl\""));
    /// # Ok::<(), llm_call::BoxError>(())
    /// ```
    pub fn check<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a Target>,
    ) -> Result<(), InvalidProvider> {
        for target in targets {
            if !self.catalog.providers().contains_key(target.provider()) {
                return Err(unknown(Some(target), &self.catalog));
            }
        }
        Ok(())
    }
}

/// Nobody serves this target.
pub(crate) fn unknown(target: Option<&Target>, catalog: &Catalog) -> InvalidProvider {
    let mut known: Vec<_> = catalog.providers().keys().cloned().collect();
    known.sort_unstable();
    InvalidProvider::Unknown {
        name: target.map(|target| target.provider().to_owned()),
        known,
    }
}

impl<S> Layer<S> for ProviderLayer {
    type Service = Provide<S>;

    fn layer(&self, inner: S) -> Provide<S> {
        Provide::new(inner, self.catalog.clone())
    }
}

impl fmt::Debug for ProviderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLayer")
            .field("providers", self.catalog.providers())
            .finish()
    }
}
