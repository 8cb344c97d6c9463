//! The shared vocabulary of the `llm-*` resilience layers.
//!
//! An LLM answer is a stream whose headers say nothing: a 200 can stall, carry an error event, or
//! die half-way; a 429 can be a spent quota that no waiting brings back. A layer that looks at
//! statuses guards the wrong thing. This crate holds what the layers of the family agree on:
//!
//! | | |
//! | --- | --- |
//! | [`PeekLayer`] | holds an answer back until its first token, classifies it, and makes an [`Answer`] of its body |
//! | [`Kind`], [`Verdict`], [`Matrix`] | what happened, what follows, and the table between the two |
//! | [`Answer`], [`State`], [`Guarded`] | a body that knows how it stands, and guests that learn how it ended |
//! | [`Call`], [`Attempt`], [`Target`] | one logical request, one copy of it, and whom it goes to |
//! | [`Ledger`] | what happened to one call |
//! | [`IdentifyLayer`], [`RespondLayer`] | the two edges of a stack: request bodies in, errors out |
//! | [`client`] | a stack in a nameable type |
//!
//! # Example
//!
//! Know what an answer is worth, over any HTTP client:
//!
//! ```
//! use llm_call::{Kind, PeekLayer, ResponseExt};
//! use tower::{ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//! # use http_body_util::Full;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), llm_call::BoxError> {
//! # let client = tower::service_fn(|_: http::Request<Full<Bytes>>| async {
//! #     let body = "data: {\"error\":{\"type\":\"server_error\",\"message\":\"\"}}\n\n";
//! #     let response = http::Response::builder().header("content-type", "text/event-stream");
//! #     Ok::<_, std::io::Error>(response.body(Full::<Bytes>::from(body)).unwrap())
//! # });
//! let service = ServiceBuilder::new().layer(PeekLayer::new()).service(client);
//!
//! let request = http::Request::post("/v1/chat/completions").body(Full::<Bytes>::default())?;
//! match service.oneshot(request).await {
//!     Ok(answer) if answer.outcome().is_success() => println!("the first token is here"),
//!     Ok(answer) => println!("{}: {}", answer.status(), answer.outcome().kind),
//!     Err(error) => println!("no answer: {}", Kind::of(&*error)),
//! }
//! # Ok(()) }
//! ```
//!
//! # The matrix
//!
//! What follows from each kind by default. Rows are changed with [`Matrix::set`]; a single case can
//! differ from its kind's row (a wait of hours is never retried, `x-should-retry` is heard).
//!
#![doc = include_str!("../MATRIX.md")]
//!
//! # Features
//!
//! - `reqwest`: an adapter that makes a reqwest client a tower service of http types, and a stack
//!   one of reqwest's.

mod abilities;
mod answer;
mod call;
mod classify;
mod client;
mod clock;
mod dialect;
mod error;
mod hint;
mod hop;
mod identify;
mod json;
mod kind;
mod ledger;
mod matrix;
mod media;
mod peek;
mod plan;
mod ready;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod respond;
mod sse;
mod target;
mod transport;

pub use abilities::{Abilities, Lack, Prices};
pub use answer::{Answer, Ending, Guard, Guarded, ResponseExt, State, detach};
pub use call::{Attempt, Call, CallSettings, Cause, Facts, Lease, MAX_ATTEMPTS, Workload};
pub use classify::{Classify, Seen, Standard};
pub use client::{AnswerBody, Client, ClientFuture, client};
pub use dialect::{Dialect, Finish, Malformed, Sight, Usage, Watch};
pub use error::{BoxError, Error, find_cause};
pub use hint::{Dimension, RateLimit, RateLimits, retry_after};
pub use hop::remove_hop_by_hop;
pub use identify::{CallGuard, Identify, IdentifyFuture, IdentifyLayer};
pub use kind::{Kind, Phase, Refusal};
pub use ledger::{Billed, Certainty, Entry, Ledger};
pub use matrix::{Health, Matrix, Outcome, Retry, Verdict};
pub use peek::{Commit, Peek, PeekFuture, PeekLayer, Peeked};
pub use respond::{Respond, RespondBody, RespondFuture, RespondLayer, error_message};
pub use sse::{Event, EventTooLarge, Framing, Scanner};
pub use target::{Capability, InvalidTarget, Target};
