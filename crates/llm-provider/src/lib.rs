//! A target becomes a URL, a key and a model name.
//!
//! The layers above choose *who* is asked: they write a [`Target`](llm_call::Target) such as
//! `openai:gpt-4.1-mini` on the request. Something has to make a concrete HTTP call of it.
//! [`ProviderLayer`] does, so that one client and one linear stack serve every provider.
//!
//! # Example
//!
//! ```
//! use llm_call::PeekLayer;
//! use llm_provider::{Provider, ProviderLayer};
//! use tower::ServiceBuilder;
//!
//! # fn demo<C>(client: C, key: &str) -> Result<impl Sized, llm_provider::InvalidProvider> {
//! let providers = ProviderLayer::new()
//!     .provider("openai", Provider::new("https://api.openai.com/v1")?.bearer(key)?)
//!     .provider("local", Provider::new("http://127.0.0.1:11434/v1")?.no_auth());
//! let service = ServiceBuilder::new()
//!     .layer(providers)
//!     .layer(PeekLayer::new())
//!     .service(client);
//! # Ok(service) }
//! ```
//!
//! # What it changes
//!
//! - **URL**: the provider's base URL and the caller's path; see [`Provider::new`].
//! - **Authorisation**: by default the caller's own goes through. With a key of its own, or
//!   [`no_auth`](Provider::no_auth), *all* that may carry a caller's key is taken out: the headers
//!   `authorization`, `x-api-key`, `api-key`, `x-goog-api-key` and `cookie`, and in the query `key`,
//!   `api_key`, `api-key` and `access_token`. So no provider sees another one's key. With
//!   pass-through and several providers, each gets the caller's key: give each its own unless they
//!   accept the same.
//! - **Model**: a target's model replaces the caller's in the JSON body (or in a Gemini path); every
//!   other byte stays as it was. A target without a model leaves the caller's. A body that is no
//!   JSON object (a multipart form, an empty body) is left alone, and so is JSON that cannot be
//!   read: the provider gets it as it is and says what is wrong with it. With a Gemini path, models
//!   that the body names (`countTokens`, `batchEmbedContents`) stay.
//! - **Headers**: the provider's extra headers replace the caller's; `host` and what belongs to one
//!   connection (RFC 9110, section 7.6.1) is taken out.
//! - **Encoding**: `accept-encoding: identity` is asked for, since a compressed answer cannot be
//!   watched for its first token. With tower-http's decompression between `PeekLayer` and the
//!   client, say so: [`Provider::decompressed_below`].
//! - **Dialect**: named to the `PeekLayer` below where the path does not tell.
//!
//! Request and answer stay in the caller's dialect: targets must speak it. Answers pass as bytes.
//!
//! # Clone and shared state
//!
//! Clones share the table of providers, which does not change.
//!
//! # Cancellation
//!
//! Dropping the response future drops the inner one.
//!
//! # Errors
//!
//! A target whose provider is not in the table is an [`Error`](llm_call::Error) of
//! [`Kind::NotFound`](llm_call::Kind::NotFound), so another target may still serve. What cannot be
//! sent is refused when the [`Provider`] is made: [`InvalidProvider`]. Keys never show in `Debug`,
//! errors or the ledger.

mod future;
mod layer;
mod provider;
mod rewrite;
mod service;

pub use future::ResponseFuture;
pub use layer::ProviderLayer;
pub use llm_call::{IdentifyLayer, PeekLayer};
pub use provider::{InvalidProvider, Provider};
pub use service::Provide;
