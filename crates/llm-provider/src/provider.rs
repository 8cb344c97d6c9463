use std::fmt;

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{AUTHORIZATION, HOST},
    uri::{Authority, Scheme},
};
use llm_call::Dialect;

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
    /// A base URL with a path stands for the `/v1` of the caller's path: `/v1/chat/completions`
    /// goes to `<base>/chat/completions`. One without a path gets the caller's path whole.
    ///
    /// The caller's own authorisation goes through until a setter says otherwise.
    ///
    /// # Errors
    ///
    /// When the URL is no absolute `http` or `https` URL, or has a query or user information.
    pub fn new(base_url: &str) -> Result<Provider, InvalidProvider> {
        let uri: Uri = base_url
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
        self.query = Some(query.to_owned());
        Ok(self)
    }

    /// The dialect of this provider's answers, where the path does not tell.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Provider {
        self.dialect = Some(dialect);
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
