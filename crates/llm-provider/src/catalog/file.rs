//! A catalogue as it stands in a file.

use std::collections::BTreeMap;

use llm_call::{Abilities, Dialect, Prices};
use serde::Deserialize;

use super::{InvalidCatalog, Model};
use crate::{InvalidProvider, Provider};

/// A catalogue as it stands in a file, for [`Catalog::read`](super::Catalog::read). Fields that are
/// not known are refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogFile {
    /// By the names that targets use.
    #[serde(default)]
    pub(super) providers: BTreeMap<String, ProviderEntry>,
    /// By alias.
    #[serde(default)]
    pub(super) models: BTreeMap<String, ModelEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderEntry {
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
    pub(super) fn build(
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
pub(super) struct ModelEntry {
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
    pub(super) fn build(self) -> Model {
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
