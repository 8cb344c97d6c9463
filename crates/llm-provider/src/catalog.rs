//! [`Catalog`]: all providers and models in one place, built in code or read from a file.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use llm_call::{Abilities, Dialect, Prices, Target};
use serde::Deserialize;

use crate::{InvalidProvider, Provider, ProviderLayer};

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
    /// The aliases of models, by provider and upstream name.
    named: HashMap<Target, String>,
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
        let target = Target::new(&model.provider, Some(&model.name), None)
            .map_err(|error| invalid(".name", error.to_string()))?;
        if let Some(other) = self.shared.named.get(&target) {
            let reason = format!("it is the model {other:?} already");
            return Err(invalid(".name", reason));
        }
        if self.shared.models.contains_key(&alias) {
            return Err(invalid("", "there are two models of this alias".to_owned()));
        }
        let shared = Arc::make_mut(&mut self.shared);
        shared.named.insert(target, alias.clone());
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
        self.shared.of(target).map(|model| &model.abilities)
    }

    /// The layer that turns these targets into concrete calls.
    pub fn layer(&self) -> ProviderLayer {
        ProviderLayer::of(self.clone())
    }
}

impl Shared {
    fn of(&self, target: &Target) -> Option<&Model> {
        let bare = Target::new(target.provider(), target.model(), None).ok()?;
        self.models.get(self.named.get(&bare)?)
    }
}

impl Catalog {
    pub(crate) fn providers(&self) -> &HashMap<String, Provider> {
        &self.shared.providers
    }

    /// What is known of the model of a target.
    pub(crate) fn listed(&self, target: &Target) -> Option<&Model> {
        // Most layers list no models: nothing is looked up for them.
        if self.shared.named.is_empty() {
            return None;
        }
        self.shared.of(target)
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

/// A catalogue as it stands in a file, for [`Catalog::read`]. Fields that are not known are refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogFile {
    /// By the names that targets use.
    #[serde(default)]
    providers: BTreeMap<String, ProviderEntry>,
    /// By alias.
    #[serde(default)]
    models: BTreeMap<String, ModelEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    base_url: String,
    dialect: Option<DialectName>,
    #[serde(default)]
    also_speaks: Vec<DialectName>,
    region: Option<String>,
    api_version: Option<String>,
    bearer: Option<String>,
    key_header: Option<KeyHeader>,
    key_query: Option<KeyQuery>,
    #[serde(default)]
    no_auth: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    query: Option<String>,
    default_max_tokens: Option<u64>,
    #[serde(default)]
    old_max_tokens: bool,
    #[serde(default)]
    drop_stops_bill: bool,
    #[serde(default)]
    decompressed_below: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyHeader {
    name: String,
    key: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyQuery {
    name: String,
    key: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DialectName {
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    Anthropic,
    Gemini,
    Ollama,
    Cohere,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Dialect {
        match name {
            DialectName::OpenAiChat => Dialect::OpenAiChat,
            DialectName::OpenAiResponses => Dialect::OpenAiResponses,
            DialectName::Anthropic => Dialect::Anthropic,
            DialectName::Gemini => Dialect::Gemini,
            DialectName::Ollama => Dialect::Ollama,
            DialectName::Cohere => Dialect::Cohere,
        }
    }
}

impl ProviderEntry {
    fn build(
        self,
        path: &str,
        secrets: &impl Fn(&str) -> Option<String>,
    ) -> Result<Provider, InvalidCatalog> {
        let invalid = |field: &str, reason: String| InvalidCatalog {
            path: format!("{path}.{field}"),
            reason,
        };
        let at =
            |field: &'static str| move |error: InvalidProvider| invalid(field, error.to_string());
        let secret = |field: &str, name: &str| {
            secrets(name)
                .filter(|secret| !secret.is_empty())
                .ok_or_else(|| invalid(field, format!("the secret {name} is not set")))
        };
        let base_url = match (&self.region, self.base_url.contains("{region}")) {
            (Some(region), true) => self.base_url.replace("{region}", region),
            (None, true) => {
                return Err(invalid(
                    "region",
                    "it is missing, and base_url needs it".to_owned(),
                ));
            }
            (Some(_), false) => {
                let reason = "base_url has no {region} where it could stand".to_owned();
                return Err(invalid("region", reason));
            }
            (None, false) => self.base_url,
        };
        let mut provider = Provider::new(&base_url).map_err(at("base_url"))?;
        let ways = [
            ("bearer", self.bearer.is_some()),
            ("key_header", self.key_header.is_some()),
            ("key_query", self.key_query.is_some()),
            ("no_auth", self.no_auth),
        ];
        let given: Vec<&str> = ways.iter().filter(|way| way.1).map(|way| way.0).collect();
        if let [_, second, ..] = given[..] {
            let reason = format!(
                "one way to authorise is enough; there are {}",
                given.join(" and ")
            );
            return Err(invalid(second, reason));
        }
        if let Some(name) = &self.bearer {
            provider = provider
                .bearer(&secret("bearer", name)?)
                .map_err(at("bearer"))?;
        }
        if let Some(KeyHeader { name, key }) = &self.key_header {
            let key = secret("key_header.key", key)?;
            provider = provider
                .key_header(name, &key)
                .map_err(at("key_header.name"))?;
        }
        if let Some(KeyQuery { name, key }) = &self.key_query {
            let key = secret("key_query.key", key)?;
            provider = provider
                .key_query(name, &key)
                .map_err(at("key_query.name"))?;
        }
        if self.no_auth {
            provider = provider.no_auth();
        }
        if let Some(dialect) = self.dialect {
            provider = provider.dialect(dialect.into());
        }
        for dialect in self.also_speaks {
            provider = provider.also_speaks(dialect.into());
        }
        if let Some(version) = &self.api_version {
            provider = match self.dialect {
                Some(DialectName::Anthropic) => provider.header("anthropic-version", version),
                _ => provider.query(&format!("api-version={version}")),
            }
            .map_err(at("api_version"))?;
        }
        for (name, value) in &self.headers {
            provider = provider
                .header(name, value)
                .map_err(|error| invalid(&format!("headers.{name}"), error.to_string()))?;
        }
        if let Some(query) = &self.query {
            provider = provider.query(query).map_err(at("query"))?;
        }
        if let Some(tokens) = self.default_max_tokens {
            if tokens == 0 {
                return Err(invalid(
                    "default_max_tokens",
                    "it must be at least 1".to_owned(),
                ));
            }
            provider = provider.default_max_tokens(tokens);
        }
        if self.decompressed_below {
            provider = provider.decompressed_below();
        }
        Ok(provider
            .old_max_tokens(self.old_max_tokens)
            .drop_stops_bill(self.drop_stops_bill))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    provider: String,
    name: String,
    context_window: Option<u64>,
    output_limit: Option<u64>,
    streaming: Option<bool>,
    tools: Option<bool>,
    parallel_tools: Option<bool>,
    json: Option<bool>,
    json_schema: Option<bool>,
    images: Option<bool>,
    system: Option<bool>,
    prices: Option<PricesEntry>,
    #[serde(default)]
    refuses: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PricesEntry {
    input: f64,
    /// As much as fresh ones, where nothing else is said.
    cached_input: Option<f64>,
    output: f64,
}

impl ModelEntry {
    fn build(self) -> Model {
        let mut abilities = Abilities::new();
        if let Some(tokens) = self.context_window {
            abilities = abilities.context_window(tokens);
        }
        if let Some(tokens) = self.output_limit {
            abilities = abilities.output_limit(tokens);
        }
        let switches: [(Option<bool>, fn(Abilities, bool) -> Abilities); 7] = [
            (self.streaming, Abilities::streaming),
            (self.tools, Abilities::tools),
            (self.parallel_tools, Abilities::parallel_tools),
            (self.json, Abilities::json),
            (self.json_schema, Abilities::json_schema),
            (self.images, Abilities::images),
            (self.system, Abilities::system),
        ];
        for (value, set) in switches {
            if let Some(value) = value {
                abilities = set(abilities, value);
            }
        }
        if let Some(prices) = self.prices {
            abilities = abilities.prices(Prices {
                input: prices.input,
                cached_input: prices.cached_input.unwrap_or(prices.input),
                output: prices.output,
            });
        }
        Model::new(self.provider, self.name)
            .abilities(abilities)
            .refuses(self.refuses)
    }
}
