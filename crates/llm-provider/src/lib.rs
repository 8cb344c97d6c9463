//! A target becomes a URL, a key, a model name, and the dialect that it speaks.
//!
//! The layers above choose *who* is asked: they write a [`Target`](llm_call::Target) such as
//! `openai:gpt-4.1-mini` on the request. Something has to make a concrete HTTP call of it, also where
//! the target speaks another dialect than the caller. [`ProviderLayer`] does, so that one client and
//! one linear stack serve every provider.
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
//! - **Refused fields**: what the model of the target refuses ([`Model::refuses`]) is taken out.
//! - **Dialect**: named to the `PeekLayer` below where the path does not tell.
//!
//! Where the target speaks the caller's dialect nothing else changes, and the answer's bytes pass as
//! they are.
//!
//! # Translation
//!
//! A caller that speaks OpenAI's chat completions or Anthropic's messages is served by targets of
//! either, and of Gemini: say what a provider speaks with [`Provider::dialect`]. Request, answer,
//! stream, error and usage are translated, event by event as they come; tools, parallel calls and
//! their results, images, system prompts, schemas and reasoning included.
//!
//! | caller at | target speaks | |
//! | --- | --- | --- |
//! | `/v1/chat/completions` | `OpenAiChat`, `Anthropic`, `Gemini` | passed on, translated |
//! | `/v1/messages` | `Anthropic`, `OpenAiChat`, `Gemini` | passed on, translated |
//! | `/v1/responses`, `/v1/embeddings`, `/v1/moderations` | `OpenAiChat` | passed on |
//! | any | nothing said | passed on |
//! | any | another one | refused, so that the next target is asked |
//!
//! **What is lost.** Some of what one dialect says has no words in another. It is left out, and named
//! in the header `x-llm-lost` and in the [ledger](llm_call::Entry::lost), by the caller's own name
//! for it: `seed`, `logit_bias`, `image_url.detail`, `cache_control`, `messages.system` (an
//! instruction in the middle of a conversation, which the user says then), `messages.prefill`.
//! Reasoning that another issuer signed is never sent on. Where something must not be lost, name it in
//! [`CallSettings::require`](llm_call::CallSettings::require), and such targets are not asked. Several
//! choices (`n`), audio and the oldest form of tools are not translated at all.
//!
//! **What is never made up** is an end. A stream that breaks or fails at the target ends for the
//! caller as a failure in its own dialect: an error event and no end marker, which a
//! [`RespondLayer`](llm_call::RespondLayer) above writes where the target wrote none. What is no
//! event of the target's dialect ends the stream as [malformed](llm_call::Kind::Malformed).
//!
//! The answer names the model that answered. Its request id stands in the header that the caller's
//! client looks for (`x-request-id`, `request-id`).
//!
//! # Streaming
//!
//! One chunk of the target makes one of the caller's. Nothing is held but an unfinished event, and,
//! for callers of Anthropic's dialect, calls of tools that the target mixes, since there they stand
//! one after another: 8 MiB at most. An answer that is not streamed is translated once it is whole:
//! 64 MiB at most.
//!
//! # Clone and shared state
//!
//! Clones share the table of providers, which does not change.
//!
//! # Cancellation
//!
//! Dropping the response future drops the inner one; dropping the body drops that of the target.
//!
//! # Errors
//!
//! A target whose provider is not in the table is an [`Error`](llm_call::Error) of
//! [`Kind::NotFound`](llm_call::Kind::NotFound), so another target may still serve; one that cannot
//! be asked this is [`Refusal::Unable`](llm_call::Refusal::Unable), likewise. A request that cannot be
//! read is [`Kind::InvalidRequest`](llm_call::Kind::InvalidRequest) and names the field to the caller
//! (`messages[2].content: expected a string or a list`); a target of the caller's own dialect judges
//! it itself. What cannot be sent is refused when the [`Provider`] or [`Catalog`] is made:
//! [`InvalidProvider`], [`InvalidCatalog`]. Keys never show in `Debug`, errors or the ledger.

mod body;
mod catalog;
mod clock;
mod future;
mod layer;
mod provider;
mod rewrite;
mod service;
mod translate;

pub use body::ProvideBody;
pub use catalog::{Catalog, CatalogFile, InvalidCatalog, Model};
pub use future::ResponseFuture;
pub use layer::ProviderLayer;
pub use llm_call::{IdentifyLayer, PeekLayer};
pub use provider::{InvalidProvider, Provider};
pub use service::Provide;
