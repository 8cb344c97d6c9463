use std::{borrow::Cow, fmt};

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{AUTHORIZATION, HOST},
    uri::{Authority, Scheme},
};
use llm_call::{Abilities, Dialect};
use percent_encoding::utf8_percent_encode;

use crate::{
    catalog::Model,
    rewrite::NOT_IN_SEGMENT,
    translate::{Manner, translates},
};

/// One provider: where it is, how it is paid, what it wants to hear.
///
/// # Example
///
/// ```
/// use llm_provider::Provider;
///
/// let openai = Provider::new("https://api.openai.com/v1")?.bearer("sk-…secret…")?;
/// let azure = Provider::new("https://my.openai.azure.com/openai/deployments/gpt-4.1-mini")?
///     .key_header("api-key", "…secret…")?
///     .query("api-version=2024-10-21")?;
/// assert!(!format!("{openai:?} {azure:?}").contains("secret"));
/// # Ok::<(), llm_provider::InvalidProvider>(())
/// ```
#[derive(Clone)]
pub struct Provider {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// Without a slash at its end.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) auth: Auth,
    pub(crate) headers: HeaderMap,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) decompressed_below: bool,
    pub(crate) drop_stops_bill: bool,
    also: Vec<Dialect>,
    max_tokens: u64,
    old_max_tokens: bool,
}

/// How requests are authorised.
#[derive(Clone)]
pub(crate) enum Auth {
    /// The caller's own headers go through.
    PassThrough,
    /// This header, instead of the caller's.
    Header(HeaderName, HeaderValue),
    /// None: the caller's are taken out.
    Nothing,
}

/// A provider that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidProvider {
    /// The base URL cannot be used; the text says why.
    Url(&'static str),
    /// A query that cannot stand in a URL.
    Query,
    /// No provider has this name; where there is no name, the request has no target and there is
    /// more than one provider.
    Unknown {
        /// The name that was asked for.
        name: Option<String>,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A key is empty, as an environment variable that is not set.
    EmptyKey,
    /// A header's name or value cannot stand in a request. The value is not repeated here, since it
    /// may be a secret.
    Header(String),
}

impl fmt::Display for InvalidProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidProvider::Url(reason) => write!(
                f,
                "invalid base URL: {reason}; write it as for the provider's SDK, e.g. \
                 https://api.openai.com/v1"
            ),
            InvalidProvider::Query => f.write_str(
                "invalid query: write it as it stands in a URL, e.g. api-version=2024-10-21",
            ),
            InvalidProvider::Unknown {
                name: Some(name),
                known,
            } => write!(
                f,
                "no provider is named {name:?}; add it with ProviderLayer::provider (known: {known:?})"
            ),
            InvalidProvider::Unknown { name: None, known } => write!(
                f,
                "the request has no target; put a FailoverLayer above, or name the provider with \
                 IdentifyLayer::provider (known: {known:?})"
            ),
            InvalidProvider::EmptyKey => {
                f.write_str("the key is empty; is its environment variable set?")
            }
            InvalidProvider::Header(name) => write!(
                f,
                "header {name:?} cannot be sent: its name or value has characters that HTTP forbids"
            ),
        }
    }
}

impl std::error::Error for InvalidProvider {}

/// What Anthropic is asked for where the caller sets no limit.
const DEFAULT_MAX_TOKENS: u64 = 4_096;

/// Stands for the model in the path of a base URL.
const MODEL: &str = "~model~";

/// Ends of paths that belong to the caller.
const ENDPOINTS: [&str; 5] = [
    "/chat/completions",
    "/responses",
    "/messages",
    "/embeddings",
    "/models",
];

impl Provider {
    /// A provider at a base URL, written as for its SDK: `https://api.openai.com/v1`,
    /// `https://api.anthropic.com`.
    ///
    /// A base URL with a path stands for the `/v1` (or `/v1beta`) of the caller's path:
    /// `/v1/chat/completions` goes to `<base>/chat/completions`. One without a path gets the caller's
    /// path whole. `{model}` in the path becomes the model of the target, as in Azure's
    /// `https://name.openai.azure.com/openai/deployments/{model}`.
    ///
    /// The caller's own authorisation goes through until a setter says otherwise.
    ///
    /// # Errors
    ///
    /// When the URL is no absolute `http` or `https` URL, or has a query or user information.
    pub fn new(base_url: &str) -> Result<Provider, InvalidProvider> {
        // Braces are no part of a URL.
        let uri: Uri = base_url
            .replace("{model}", MODEL)
            .parse()
            .map_err(|_| InvalidProvider::Url("it is no URL"))?;
        let parts = uri.into_parts();
        let scheme = parts
            .scheme
            .filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
            .ok_or(InvalidProvider::Url(
                "it does not begin with http:// or https://",
            ))?;
        let authority = parts
            .authority
            .ok_or(InvalidProvider::Url("it names no host"))?;
        if authority.as_str().contains(':') && authority.port_u16().is_none() {
            return Err(InvalidProvider::Url("its port is no port"));
        }
        if authority.as_str().contains('@') {
            return Err(InvalidProvider::Url(
                "it holds a user name; give keys with bearer or key_header",
            ));
        }
        let (path, query) = match &parts.path_and_query {
            Some(given) => (given.path().trim_end_matches('/'), given.query()),
            None => ("", None),
        };
        if ENDPOINTS.iter().any(|endpoint| path.ends_with(endpoint)) {
            return Err(InvalidProvider::Url(
                "it is an endpoint; leave out what the caller's path holds",
            ));
        }
        if query.is_some() || base_url.contains('#') {
            return Err(InvalidProvider::Url(
                "it has a query or fragment; give a query with Provider::query",
            ));
        }
        Ok(Provider {
            scheme,
            authority,
            path: path.to_owned(),
            query: None,
            auth: Auth::PassThrough,
            headers: HeaderMap::new(),
            dialect: None,
            decompressed_below: false,
            drop_stops_bill: false,
            also: Vec::new(),
            max_tokens: DEFAULT_MAX_TOKENS,
            old_max_tokens: false,
        })
    }

    /// Sends `Authorization: Bearer <key>` instead of the caller's authorisation.
    ///
    /// # Errors
    ///
    /// When the key is empty or cannot stand in a header.
    pub fn bearer(self, key: &str) -> Result<Provider, InvalidProvider> {
        if key.is_empty() {
            return Err(InvalidProvider::EmptyKey);
        }
        self.key(AUTHORIZATION, &format!("Bearer {key}"))
    }

    /// Sends the key in a header of its own (`api-key`, `x-api-key`, `x-goog-api-key`) instead of
    /// the caller's authorisation.
    ///
    /// # Errors
    ///
    /// When the key is empty, or the name or the key cannot stand in a header.
    pub fn key_header(self, name: &str, key: &str) -> Result<Provider, InvalidProvider> {
        if key.is_empty() {
            return Err(InvalidProvider::EmptyKey);
        }
        let header = name
            .parse()
            .map_err(|_| InvalidProvider::Header(name.to_owned()))?;
        self.key(header, key)
    }

    /// Sends the key in the query (`key=…`) instead of the caller's authorisation.
    ///
    /// # Errors
    ///
    /// When the key is empty, or the name or the key cannot stand in a URL as it is.
    pub fn key_query(self, name: &str, key: &str) -> Result<Provider, InvalidProvider> {
        if key.is_empty() {
            return Err(InvalidProvider::EmptyKey);
        }
        if [name, key]
            .iter()
            .any(|text| text.contains(['&', '=', '?', '#']))
        {
            return Err(InvalidProvider::Query);
        }
        Ok(self.query(&format!("{name}={key}"))?.no_auth())
    }

    fn key(mut self, name: HeaderName, value: &str) -> Result<Provider, InvalidProvider> {
        let mut value =
            HeaderValue::from_str(value).map_err(|_| InvalidProvider::Header(name.to_string()))?;
        value.set_sensitive(true);
        self.auth = Auth::Header(name, value);
        Ok(self)
    }

    /// Takes the caller's authorisation out, in headers and query, and sends none: for local
    /// servers.
    #[must_use]
    pub fn no_auth(mut self) -> Provider {
        self.auth = Auth::Nothing;
        self
    }

    /// Adds a header to every request, in place of the caller's header of this name
    /// (`anthropic-version`, `OpenAI-Organization`).
    ///
    /// # Errors
    ///
    /// When the name or value cannot stand in a request, or the name is `host`, which follows from
    /// the URL.
    pub fn header(mut self, name: &str, value: &str) -> Result<Provider, InvalidProvider> {
        let invalid = || InvalidProvider::Header(name.to_owned());
        let header: HeaderName = name.parse().map_err(|_| invalid())?;
        if header == HOST {
            return Err(invalid());
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        // Nobody can tell which extra headers hold secrets, so none is shown.
        value.set_sensitive(true);
        self.headers.insert(header, value);
        Ok(self)
    }

    /// Adds a query to every URL, before the caller's own (`api-version=2024-10-21`). Where it
    /// holds the key, say [`no_auth`](Self::no_auth) too: that takes the caller's out.
    ///
    /// # Errors
    ///
    /// When it cannot stand in a URL.
    pub fn query(mut self, query: &str) -> Result<Provider, InvalidProvider> {
        if query.contains('#') || format!("/?{query}").parse::<Uri>().is_err() {
            return Err(InvalidProvider::Query);
        }
        self.query = Some(match self.query.take() {
            Some(before) => format!("{before}&{query}"),
            None => query.to_owned(),
        });
        Ok(self)
    }

    /// The dialect that this provider speaks. Chat completions and messages are translated into it,
    /// and its answers back; see the [crate docs](crate#translation). Default: whatever the caller
    /// speaks, and nothing is translated.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Provider {
        self.dialect = Some(dialect);
        self
    }

    /// One more dialect that this provider speaks, in which requests go through as they are:
    /// OpenRouter and Ollama take messages as well as chat completions.
    #[must_use]
    pub fn also_speaks(mut self, dialect: Dialect) -> Provider {
        self.also.push(dialect);
        self
    }

    /// The most output tokens to ask for where the caller sets no limit and the provider's dialect
    /// needs one, as Anthropic's does. Default: 4,096.
    #[must_use]
    pub fn default_max_tokens(mut self, tokens: u64) -> Provider {
        self.max_tokens = tokens.max(1);
        self
    }

    /// Whether translated chat completions limit the answer by `max_tokens`, as servers do that copy
    /// OpenAI's older API (Mistral, vLLM, llama.cpp, Ollama), rather than by
    /// `max_completion_tokens`. Default: `false`.
    #[must_use]
    pub fn old_max_tokens(mut self, old: bool) -> Provider {
        self.old_max_tokens = old;
        self
    }

    /// A decompression layer stands between this layer's `PeekLayer` and the client, so answers
    /// may be compressed: the caller's `accept-encoding` is taken out and that layer writes its
    /// own. Default: `accept-encoding: identity`, since a compressed body cannot be watched.
    #[must_use]
    pub fn decompressed_below(mut self) -> Provider {
        self.decompressed_below = true;
        self
    }

    /// Whether this provider stops generating, and billing, when a connection is dropped. The
    /// [ledger](llm_call::Entry::billed) says accordingly how well it knows what an abandoned
    /// attempt costs. Default: `false`, since most go on, or do not say.
    #[must_use]
    pub fn drop_stops_bill(mut self, stops: bool) -> Provider {
        self.drop_stops_bill = stops;
        self
    }
}

impl Provider {
    /// The path of the base URL for a model.
    pub(crate) fn base_path(&self, model: Option<&str>) -> Cow<'_, str> {
        match model {
            Some(model) if self.path.contains(MODEL) => {
                let model = utf8_percent_encode(model, NOT_IN_SEGMENT).to_string();
                Cow::Owned(self.path.replace(MODEL, &model))
            }
            _ => Cow::Borrowed(&self.path),
        }
    }

    /// From which dialect into which a request at this path is to be translated; `None` where it
    /// goes through as it is. Fails with the reason where this provider cannot be asked.
    pub(crate) fn translation(
        &self,
        path: &str,
    ) -> Result<Option<(Dialect, Dialect)>, &'static str> {
        let Some(own) = self.dialect else {
            return Ok(None);
        };
        match Dialect::of_path(path) {
            Some(asked) if asked == own || self.also.contains(&asked) => Ok(None),
            Some(asked) if translates(asked, own) => Ok(Some((asked, own))),
            Some(Dialect::OpenAiResponses) if own == Dialect::OpenAiChat => Ok(None),
            Some(Dialect::OpenAiChat) if own == Dialect::OpenAiResponses => Ok(None),
            Some(_) => Err("it speaks another dialect, into which this is not translated"),
            None if is_of_openai(path) && !self.is_of_openai() => {
                Err("it has no such endpoint, which is one of OpenAI's")
            }
            None => Ok(None),
        }
    }

    fn is_of_openai(&self) -> bool {
        let speaks =
            |dialect: &Dialect| matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses);
        self.dialect.iter().chain(&self.also).any(speaks)
    }

    /// The dialect of the answers to requests at this path, which is the provider's own.
    pub(crate) fn speaks(&self, path: &str) -> Option<Dialect> {
        match Dialect::of_path(path) {
            Some(asked) if self.dialect.is_none() || self.also.contains(&asked) => Some(asked),
            // Two dialects at two paths of one provider.
            Some(Dialect::OpenAiResponses) if self.is_of_openai() => Some(Dialect::OpenAiResponses),
            asked => self.dialect.or(asked),
        }
    }

    /// How requests to one of its models are written.
    pub(crate) fn manner<'a>(&self, name: &'a str, listed: Option<&Model>) -> Manner<'a> {
        let abilities = listed.map(|model| &model.abilities);
        Manner {
            model: name,
            default_max_tokens: self.max_tokens,
            output_limit: abilities.and_then(Abilities::most_output),
            old_max_tokens: self.old_max_tokens,
            json_schema: abilities.is_none_or(Abilities::takes_schema),
        }
    }
}

/// Whether a path is an endpoint that only providers of OpenAI's kind have.
fn is_of_openai(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    ["/embeddings", "/moderations"]
        .iter()
        .any(|end| path.ends_with(end))
        || path.contains("/images/")
        || path.contains("/audio/")
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auth = match &self.auth {
            Auth::PassThrough => "pass through",
            Auth::Header(name, _) => name.as_str(),
            Auth::Nothing => "none",
        };
        f.debug_struct("Provider")
            .field(
                "base_url",
                &format_args!("{}://{}{}", self.scheme, self.authority, self.path),
            )
            .field("auth", &auth)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
