//! [`Catalog`]: all providers and models in one place.

mod file;

pub use file::CatalogFile;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use llm_call::{Abilities, Target};

use crate::{Provider, ProviderLayer};

/// Providers, their models, and what each model can do: what targets are made of.
///
/// # Example
///
/// From a file; any format that serde reads will do:
///
/// ```
/// use llm_provider::{Catalog, CatalogFile};
///
/// let file: CatalogFile = toml::from_str(
///     r#"
///     [providers.openai]
///     dialect = "openai_chat"
///     base_url = "https://api.openai.com/v1"
///     bearer = "OPENAI_API_KEY"        # the name of the secret, never the secret itself
///
///     [providers.anthropic]
///     dialect = "anthropic"
///     base_url = "https://api.anthropic.com"
///     key_header = { name = "x-api-key", key = "ANTHROPIC_API_KEY" }
///     api_version = "2023-06-01"
///
///     [models.small]
///     provider = "openai"
///     name = "gpt-4.1-mini"
///     context_window = 1_000_000
///     output_limit = 32_768
///     prices = { input = 0.4, cached_input = 0.1, output = 1.6 }
///
///     [models.spare]
///     provider = "anthropic"
///     name = "claude-haiku-4-5"
///     output_limit = 64_000
///     refuses = ["top_k"]
///     "#,
/// )?;
/// # let secrets = |_: &str| Some("key".to_owned());
/// # let _ = r#"
/// let secrets = |name: &str| std::env::var(name).ok();
/// # "#;
/// let catalog = Catalog::read(file, secrets)?;
/// let target = catalog.target("spare").ok_or("no such model")?;
/// assert_eq!(target.to_string(), "anthropic:claude-haiku-4-5");
/// let providers = catalog.layer();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Clone and shared state
///
/// Clones share what does not change.
///
/// # Errors
///
/// [`InvalidCatalog`] names the field, as in `models.small.provider`. Secrets are asked for by name
/// when the catalogue is read, and show in no error and no `Debug`.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    shared: Arc<Shared>,
}

#[derive(Clone, Debug, Default)]
struct Shared {
    providers: HashMap<String, Provider>,
    models: BTreeMap<String, Model>,
    /// The aliases of models, by provider and then by upstream name.
    named: HashMap<String, HashMap<String, String>>,
}

/// One model: where it is, and what it can do.
///
/// # Example
///
/// ```
/// use llm_call::Abilities;
/// use llm_provider::{Catalog, Model, Provider};
///
/// let small = Model::new("openai", "gpt-4.1-mini")
///     .abilities(Abilities::new().context_window(1_000_000).output_limit(32_768));
/// let catalog = Catalog::new()
///     .provider("openai", Provider::new("https://api.openai.com/v1")?.bearer("…")?)
///     .model("small", small)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    provider: String,
    name: String,
    pub(crate) abilities: Abilities,
    pub(crate) refuses: Vec<String>,
}

impl Model {
    /// A model of a provider, by the name that the provider knows it by.
    pub fn new(provider: impl Into<String>, name: impl Into<String>) -> Model {
        Model {
            provider: provider.into(),
            name: name.into(),
            abilities: Abilities::new(),
            refuses: Vec::new(),
        }
    }

    /// What it can do and what it costs. Default: everything, and nothing is known.
    #[must_use]
    pub fn abilities(mut self, abilities: Abilities) -> Model {
        self.abilities = abilities;
        self
    }

    /// Fields of the request that it refuses, by their names in its own dialect: reasoning models
    /// take no `temperature`. They are taken out at the top level of every request, and are said to
    /// be lost. Default: none.
    #[must_use]
    pub fn refuses<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Model {
        self.refuses.extend(fields.into_iter().map(Into::into));
        self
    }
}

impl Catalog {
    /// Nothing yet.
    pub fn new() -> Catalog {
        Catalog::default()
    }

    /// Adds a provider under the name that targets use; the last one of a name counts.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, provider: Provider) -> Catalog {
        let shared = Arc::make_mut(&mut self.shared);
        shared.providers.insert(name.into(), provider);
        self
    }

    /// Adds a model under an alias.
    ///
    /// # Errors
    ///
    /// When its provider is not here yet, it is here under another alias, or the alias is taken.
    pub fn model(
        mut self,
        alias: impl Into<String>,
        model: Model,
    ) -> Result<Catalog, InvalidCatalog> {
        let alias = alias.into();
        let invalid = |field: &str, reason: String| InvalidCatalog {
            path: format!("models.{alias}{field}"),
            reason,
        };
        if !self.shared.providers.contains_key(&model.provider) {
            let mut known: Vec<_> = self.shared.providers.keys().cloned().collect();
            known.sort_unstable();
            let reason = format!(
                "no provider is named {:?} (known: {known:?})",
                model.provider
            );
            return Err(invalid(".provider", reason));
        }
        Target::new(&model.provider, Some(&model.name), None)
            .map_err(|error| invalid(".name", error.to_string()))?;
        if let Some(other) = self.shared.alias(&model.provider, &model.name) {
            let reason = format!("it is the model {other:?} already");
            return Err(invalid(".name", reason));
        }
        if self.shared.models.contains_key(&alias) {
            return Err(invalid("", "there are two models of this alias".to_owned()));
        }
        let shared = Arc::make_mut(&mut self.shared);
        let named = shared.named.entry(model.provider.clone()).or_default();
        named.insert(model.name.clone(), alias.clone());
        shared.models.insert(alias, model);
        Ok(self)
    }

    /// Builds what was read from a file. `secrets` gives each secret by its name, most often from the
    /// environment.
    ///
    /// # Errors
    ///
    /// When something cannot be used; the error names the field.
    pub fn read(
        file: CatalogFile,
        secrets: impl Fn(&str) -> Option<String>,
    ) -> Result<Catalog, InvalidCatalog> {
        let mut catalog = Catalog::new();
        for (name, entry) in file.providers {
            let provider = entry.build(&format!("providers.{name}"), &secrets)?;
            catalog = catalog.provider(name, provider);
        }
        for (alias, entry) in file.models {
            catalog = catalog.model(alias, entry.build())?;
        }
        Ok(catalog)
    }

    /// The target of a model, by its alias.
    pub fn target(&self, alias: &str) -> Option<Target> {
        let model = self.shared.models.get(alias)?;
        Target::new(&model.provider, Some(&model.name), None).ok()
    }

    /// What the model of a target can do; `None` where it is not listed.
    pub fn abilities(&self, target: &Target) -> Option<&Abilities> {
        self.listed(target).map(|model| &model.abilities)
    }

    /// The layer that turns these targets into concrete calls.
    pub fn layer(&self) -> ProviderLayer {
        ProviderLayer::of(self.clone())
    }
}

impl Shared {
    fn alias(&self, provider: &str, name: &str) -> Option<&String> {
        self.named.get(provider)?.get(name)
    }
}

impl Catalog {
    pub(crate) fn providers(&self) -> &HashMap<String, Provider> {
        &self.shared.providers
    }

    /// What is known of the model of a target.
    pub(crate) fn listed(&self, target: &Target) -> Option<&Model> {
        let alias = self.shared.alias(target.provider(), target.model()?)?;
        self.shared.models.get(alias)
    }
}

/// A catalogue that cannot be used: which field, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCatalog {
    path: String,
    reason: String,
}

impl InvalidCatalog {
    /// The field: `providers.openai.base_url`.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for InvalidCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl std::error::Error for InvalidCatalog {}
