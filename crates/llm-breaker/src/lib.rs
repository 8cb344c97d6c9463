//! Circuit breakers for LLM calls: one for each target, judged at the first token and at the end.
//!
//! A provider that is down still takes connections. Each call waits for its time limit before it
//! fails or goes elsewhere, and the waiting calls fill whatever they share. [`BreakerLayer`] notices
//! that a target fails, or is slow, and refuses calls to it for a while, so that they go elsewhere at
//! once and the target can recover. Then a few trial calls show whether it has.
//!
//! Headers say little about an LLM answer, so they do not count: a call is slow or not at its first
//! token, and failed or not at the end of its stream.
//!
//! # Example
//!
//! Alone, over any HTTP client that is a tower service:
//!
//! ```
//! use llm_breaker::{BreakerLayer, Breakers};
//! use llm_call::{Kind, Refusal};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//! # use http_body_util::Full;
//! # type Body = Full<Bytes>;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), llm_call::BoxError> {
//! # let client = tower::service_fn(async |_: http::Request<Body>| {
//! #     Ok::<_, std::io::Error>(http::Response::builder().status(503).body(Body::default()).unwrap())
//! # });
//!
//! let breakers = Breakers::new();
//! let mut service = ServiceBuilder::new()
//!     .layer(BreakerLayer::new(breakers.clone()).alone())
//!     .service(client);
//!
//! for _ in 0..5 {
//!     let request = http::Request::post("https://h/v1/chat/completions").body(Body::default())?;
//!     service.ready().await?.call(request).await?; // each one a 503
//! }
//! let request = http::Request::post("https://h/v1/chat/completions").body(Body::default())?;
//! let error = service.ready().await?.call(request).await.unwrap_err();
//! assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::CircuitOpen));
//! assert_eq!(
//!     breakers.history()[0].to_string(),
//!     "#1 h/v1/chat/completions: closed -> open, 5 calls failed in a row"
//! );
//! # Ok(()) }
//! ```
//!
//! In a stack it stands below what sends again (failover, retry), so that a refused call goes to
//! the next target, and above what limits one attempt:
//!
//! ```text
//! IdentifyLayer > DeadlineLayer > FailoverLayer > RetryLayer > BreakerLayer > TimeoutLayer > PeekLayer > client
//! ```
//!
//! **Over HTTP/2 the client must send pings**, also while idle (with reqwest
//! `http2_keep_alive_interval`, `http2_keep_alive_timeout` and `http2_keep_alive_while_idle(true)`).
//! Otherwise a connection that has died without a word stays in its pool, every trial goes to it, and
//! the circuit never closes although the provider is well.
//!
//! # Which circuit
//!
//! That of the request's target ([`Attempt`](llm_call::Attempt)); without one, that of its authority
//! and path; of each class apart, where [`BreakerLayer::class`] tells calls apart; or the one that
//! [`BreakerLayer::key`] names. See [`Key`]. `FailoverLayer` completes targets with the model and the
//! capability of the request, so streamed calls have a circuit of their own:
//! `openai:gpt-4.1-mini:streaming`.
//!
//! # When it opens and closes
//!
//! With the default [`Settings`], over the last 50 calls and at most 30 s:
//!
//! - It opens when at least 10 calls are known and 25 % of them failed or 40 % were slow (a first
//!   token after 4 s; an answer that is not streamed after 8 s), or after 5 failures in a row.
//! - It stays open for 30 s, less up to a fifth at random; a server's hint on when to come back is
//!   never undercut, unless its failure was over before. From the third failed half-open in a row on
//!   the time doubles, to 120 s.
//! - The next call is a trial, and up to 5 are under way at once. 3 successes close it; one failure
//!   opens it again, and so do slow trials, as soon as they are 40 % of the five. After 60 s a stream
//!   that is past its first token counts as a success.
//! - For 10 s after closing, calls that have another target left go through in a share that grows
//!   from a tenth to all of them.
//!
//! Windows and trials are much like those of resilience4j's circuit breaker, with the window bounded
//! in calls and in time; the growing share is the slow start of Envoy's load balancers.
//!
//! # With one target alone
//!
//! A breaker fails fast, which serves callers who have somewhere else to go. One who has not gets less
//! from a target that fails a third of the time than without a breaker: it opens at 25 % of 10 calls,
//! and one failed trial opens it again. There, let it open for a dead target only:
//! `Settings::new().failure_percent(80).min_calls(20).failures_in_a_row(20)`, and leave the rest to
//! retries.
//!
//! # In tests
//!
//! All time is tokio's, so that it can be paused. For exact times:
//! `Settings::new().open_for(s).open_jitter_percent(0).trial_successes(1).ramp(Duration::ZERO)`.
//!
//! # What counts
//!
//! The [`Matrix`](llm_call::Matrix) says which kinds are failures of the target and which say nothing
//! about it: rate limits, wrong requests, wrong keys and refusals of our own do not. What is neutral
//! gives the slot of a trial back. A call counts for the state that it was admitted in: what was
//! sent before an outage and ends in the middle of it does not decide a trial.
//!
//! A call that its caller drops is neutral, unless it was already slow: then it failed. One that
//! still waited below, in a queue, is neutral in any case. A copy that lost to one sent later was
//! slow; how much is not known, so it counts as that alone.
//!
//! # Streaming
//!
//! The slowness of a stream counts at its first token and its failure at its end, each once. An
//! error event or a cut in the middle is a failure although the status was 200. Of a stream that is
//! committed before its first token, the time that its reader did not ask is left out. The ticket lies in
//! the body ([`BreakerBody`]); it settles at the end marker, or when the body is dropped.
//!
//! # Clone and shared state
//!
//! [`Breakers`] is a handle on circuits that clones, services and layers share. The inner service is
//! cloned for each call, so a clone of the client must be cheap.
//!
//! # Cancellation
//!
//! A call that is dropped settles in that moment, wherever it is: its slot is free again. One that
//! is dropped before its first poll is neutral.
//!
//! # Errors
//!
//! A refused call never reaches the inner service. It fails with an
//! [`Error`](llm_call::Error) of the kind [`CircuitOpen`](llm_call::Refusal::CircuitOpen) that says
//! when to come back (at once, where the call would go through without another target) and has
//! [`CircuitOpen`] as its source. All other errors are those of the inner
//! service.
//!
//! # Panics
//!
//! A panic of the inner service counts as a failure and goes on. One in the middle of a body cannot
//! be told from a panic of its reader, and is neutral.

mod breakers;
mod circuit;
mod copy;
mod core;
mod error;
mod future;
mod history;
mod key;
mod layer;
mod ramp;
mod service;
mod settings;
mod state;
mod table;
mod ticket;
mod window;

pub use breakers::Breakers;
pub use circuit::Circuit;
pub use error::CircuitOpen;
pub use future::ResponseFuture;
pub use key::Key;
pub use layer::BreakerLayer;
pub use service::Breaker;
pub use settings::{InvalidSettings, Policy, Settings};
pub use state::{CircuitState, Forced, Reason, Snapshot, Totals, Transition};
pub use ticket::Ticket;

pub use llm_call::{IdentifyLayer, PeekLayer};

/// The body of [`Breaker`]: the answer, with the [`Ticket`] of its call.
pub type BreakerBody<B> = llm_call::Guarded<B, Ticket>;
