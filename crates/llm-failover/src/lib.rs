//! Failover for LLM calls: the same request, the next target, decided at the first token.
//!
//! A provider that is down answers 503, or an error inside a 200, or nothing at all. A client that
//! only knows that provider fails with it. [`FailoverLayer`] sends the same request to the next
//! target as long as the caller has seen nothing of the first answer: on a failure that another
//! target may not have (the [`Matrix`](llm_call::Matrix) says which), and when an attempt has used
//! up its share of the call's deadline.
//!
//! # Example
//!
//! One linear stack: failover calls the same inner service again, with another target written on
//! the copy of the request; a provider layer below makes a URL, a key and a model name of it.
//!
//! ```
//! use llm_call::PeekLayer;
//! use llm_failover::{FailoverLayer, Targets};
//! use tower::ServiceBuilder;
//!
//! # fn demo<C, P: tower_layer::Layer<llm_call::Peek<C>>>(client: C, provider: P) -> Result<impl Sized, llm_failover::InvalidTargets> {
//! let targets = Targets::ordered(["openai:gpt-4.1-mini", "azure:gpt-4.1-mini"])?;
//! let service = ServiceBuilder::new()
//!     .layer(FailoverLayer::new(targets.clone()))
//!     .layer(provider) // llm-provider, or your own
//!     .layer(PeekLayer::new())
//!     .service(client);
//! # Ok(service) }
//! ```
//!
//! # Which target, when
//!
//! - [`Targets::ordered`] begins each call at the first target, [`Targets::weighted`] at one drawn
//!   by weight. A target is tried once a call; the [`Call`](llm_call::Call) keeps that over all
//!   layers, and caps the attempts (6 by default).
//! - A target that [cannot](Targets::abilities) do what the request asks for (tools, JSON, images,
//!   streaming) is passed over. One whose context window looks too small is asked last.
//! - A target whose answer held the server's word on when to come back rests until then and is
//!   skipped. A rate-limited target without such a hint rests 10 s, doubling to 60 s; one whose
//!   quota is spent, 10 min. A rest that is a guess of ours is broken when no other target is left;
//!   a server's word never is.
//! - A [hedge](llm_call::Attempt::hedge) goes to no target that rests, and counts the first copy's
//!   target as another place to go: a circuit that lets traffic grow after an outage may refuse it.
//! - A provider that could not be reached or said nothing is left at once for a target of another
//!   one; its other targets are asked last.
//! - Rests are shared by all callers, as a provider's key is. Where callers bring keys of their own,
//!   keep them apart: [`Targets::rests_per_tenant`].
//! - With `n` targets left and a deadline on the call, an attempt gets `1 / n` of the time that is
//!   left, so that a hang leaves time for the next. The last target gets all of it, and so does one
//!   whose share is up when nobody is left to take over: another copy of the call has the others, or
//!   its attempts are spent.
//! - A kind that the matrix does not send elsewhere (an invalid request, filtered content) is
//!   returned at once.
//!
//! # When no target answers
//!
//! The last real answer of a provider is passed on as it came, if there was one. Otherwise the
//! error has the outcome of the last attempt, the earliest time to come back, and
//! [`AllFailed`], which lists every attempt, as its source. When every target rests, nothing is
//! sent and the error is [`Refusal::NoTarget`](llm_call::Refusal::NoTarget).
//!
//! # Streaming
//!
//! The decision falls when the inner response future resolves: with a
//! [`PeekLayer`] below, at the first token. After that the answer is never
//! replaced; a stream that is cut later ends in an error.
//!
//! # Clone and shared state
//!
//! [`Targets`] is a handle; services of one layer and clones of the handle share who rests. The
//! inner service is cloned where more than one attempt may follow, so a clone of the client must be
//! cheap. The request is cloned for each attempt that another may follow; bodies must be `Clone`
//! ([`IdentifyLayer`] makes them so).
//!
//! # Cancellation
//!
//! Dropping the response future drops the attempt under way; no other is sent. A failed attempt is
//! dropped before the next one is sent. An error answer that is kept, to be passed on if nobody
//! does better, has ended: it holds no permit. So one permit is enough for a whole call.
//!
//! # Errors
//!
//! [`BoxError`](llm_call::BoxError), with an [`Error`](llm_call::Error) inside. With one target the
//! inner error is returned as it is.
//!
//! # Panics
//!
//! A call with a deadline waits on tokio's timer and panics outside of a tokio runtime with time.

mod by_target;
mod error;
mod future;
mod layer;
mod plan;
mod rest;
mod service;
mod targets;

pub use by_target::{ByTarget, ByTargetFuture};
pub use error::{AllFailed, FailedAttempt};
pub use future::ResponseFuture;
pub use layer::FailoverLayer;
pub use llm_call::{IdentifyLayer, PeekLayer};
pub use service::Failover;
pub use targets::{InvalidTargets, TargetState, Targets};
