//! Hedged LLM calls: when the first token is late, a second request is sent, and the first good
//! answer wins.
//!
//! Half of the answers of a hosted model begin within a second, and one in a hundred takes four (GPT-4o
//! over a day, by modelstats.ai: 0.6 s and 4.5 s): a queue, a cold replica, a lost packet. Waiting is the wrong answer to that, since most of what is late
//! would be on time elsewhere; so is a time limit, which throws away what was waited for.
//! [`HedgeLayer`] keeps waiting, and asks somebody else as well. It does so for few calls, only
//! where that adds no load to a provider in trouble, and pays for it out of a budget.
//!
//! # Example
//!
//! ```
//! use llm_call::IdentifyLayer;
//! use llm_hedge::{HedgeLayer, Hedges, Settings};
//! use tower::{ServiceBuilder, ServiceExt};
//! # use std::time::Duration;
//! # use bytes::Bytes;
//! # use http_body_util::Full;
//! # use llm_chaos::testing::{Respond, service};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
//! # let end = "data: [DONE]\n\n";
//! # let answer = Respond::ok([token, end]).header("content-type", "text/event-stream");
//! # let client = service([Respond::hang(), answer]);
//!
//! // Here each call pays for a hedge of its own; by default ten calls pay for one.
//! let hedges = Hedges::with(Settings::new().percent(100.0).build()?); // keep a clone
//! let service = ServiceBuilder::new()
//!     .layer(IdentifyLayer::new()) // reads whether a stream is asked for
//!     .layer(HedgeLayer::new(hedges.clone()).alone())
//!     .service(client);
//!
//! # type Body = Full<Bytes>;
//! // The first request hangs. After 3 s a second one is sent, which is answered.
//! let request = http::Request::post("/v1/chat/completions");
//! let request = request.body(Body::from("{\"stream\":true,\"messages\":[]}"))?;
//! assert_eq!(service.oneshot(request).await?.status(), 200);
//! assert_eq!(hedges.snapshot().won, 1);
//! # Ok(()) }
//! ```
//!
//! In a stack it stands above failover, which sends the second request to a target that the first
//! one has not taken, that does not rest, and whose circuit is closed. Alone, it asks the same
//! provider twice, which helps against a slow replica and not against a slow provider.
//!
//! ```text
//! IdentifyLayer > DeadlineLayer > HedgeLayer > FailoverLayer > RetryLayer > BreakerLayer
//!     > TimeoutLayer > PeekLayer > client
//! ```
//!
//! # When a call is hedged
//!
//! Only a call that may be sent twice: a stream is asked for (or [`HedgeLayer::whole_answers`] is
//! on), answering it has no [side effects](llm_call::CallSettings::side_effects), it has at most
//! 16,000 input tokens ([`HedgeLayer::max_input_tokens`]) and two attempts left. An
//! [`IdentifyLayer`] above reads that from the request; without one nothing is hedged. Such a call
//! pays a tenth of a token into the share of its tenant ([`Settings::percent`]). Its hedge is sent
//!
//! - when the first token has not come by the p95 of the target ([`Settings::quantile`]), counted
//!   from when the request was sent there, so that no queue of ours looks like a slow target. Until
//!   20 answers of the target are known that is 3 s; a call that thinks, or wants a whole answer, is
//!   not hedged until then. When failover moves the first copy on, the clock starts again;
//! - at once, when the first copy fails before that and another target may not. Alone, with one target,
//!   that is a second try without a pause, within the budget of hedges.
//!
//! It is not sent, and nothing else changes for the call, when it has met a rate limit or an
//! overload on its way (the [`Matrix`](llm_call::Matrix) says which failures forbid it), when it
//! would not be due before the deadline, when a layer below holds the first token already, when no
//! attempt is left, while the hedges are [paused](Hedges::pause), or when the tenant has no token.
//! There is at most one hedge a call.
//!
//! The clock needs to be polled when the first copy is sent, as it is by all layers of this family. Below a
//! layer that sends on a task of its own, such as `tower::buffer`, that may not happen, and then no hedge is
//! sent: put a buffer above this layer.
//!
//! # Which copy decides
//!
//! The first *success*. A failure waits for the other copy, unless the request itself is wrong, so
//! that every copy would fail: then the call ends at once. When both fail, the caller gets an answer
//! of a provider rather than an error, an error of a target rather than a refusal of ours, and the
//! later of two alike.
//!
//! # What it costs
//!
//! At most one more copy for ten calls of a tenant that could be hedged, and a burst of ten, in any span
//! of time; as the first one, a copy may fail over and be retried below, within the attempts of the call.
//! That costs the prompts of the losers, and what they had written by the time they were
//! dropped. The [`Ledger`](llm_call::Ledger) has both as [`billed`](llm_call::Entry::billed). A
//! hedge that was never sent, since no other target was free, gives its token back. New tenants
//! begin with nothing.
//!
//! # What is learned
//!
//! A loser is dropped before its first token, so its time is not known; left out, it would make its
//! target look fast. It counts as *at least* as long as it was waited for, after Kaplan and Meier,
//! and so does a copy that a time limit or the caller ended. Hedges themselves teach nothing: they are
//! sent when something was slow, and would make their target look as slow as that. So what is known of
//! a target does not depend on how often it is hedged. The last one to two thousand calls count, and
//! older ones less by the hour.
//!
//! # Streaming
//!
//! The race is over when the response future of the winner resolves: with a [`PeekLayer`] below, at
//! the first token. Headers and keep-alives decide nothing. The loser, with all that came of its
//! answer, is dropped before the winner is returned. After that nothing is sent.
//!
//! # Clone and shared state
//!
//! [`Hedges`] is a handle; services of one layer and clones of the handle share it. The request and
//! the inner service are cloned once for a call whose tenant can pay for a hedge, so bodies must be
//! `Clone` ([`IdentifyLayer`] makes them so) and a clone of the client cheap. Both copies send the
//! same bytes and headers, an idempotency key included: a provider that honours one may answer the second
//! copy with a conflict, so mark such calls as having
//! [side effects](llm_call::CallSettings::side_effects) where both copies go to one provider. A hedge is made ready by itself, and never
//! holds up the first copy while it waits for that.
//!
//! # Cancellation
//!
//! Dropping the response future drops both copies. A copy that loses is dropped with the cause
//! [`HedgeLost`](llm_call::Cause::HedgeLost), so that a breaker below tells it from a caller who
//! left. A failed copy is dropped before the other goes on, with its connection and its permits; of
//! an answer that was still coming (an error page beyond 64 KiB) an [`Error`](llm_call::Error) of
//! the same outcome is kept. Nothing is spawned.
//!
//! # Errors
//!
//! [`BoxError`](llm_call::BoxError), and no error of its own.
//!
//! # Panics
//!
//! A call that can be hedged waits on tokio's timer and panics outside of a tokio runtime with time.
//!
//! # Sources
//!
//! - Dean and Barroso, *The Tail at Scale*, Communications of the ACM 56(2), 2013: hedge after the
//!   95th percentile, and the load stays within a few percent.
//! - Kaplan and Meier, *Nonparametric Estimation from Incomplete Observations*, Journal of the
//!   American Statistical Association 53, 1958.

mod budget;
mod future;
mod hedges;
mod latency;
mod layer;
mod lesson;
mod race;
mod recent;
mod service;
mod settings;
mod snapshot;

pub use future::ResponseFuture;
pub use hedges::Hedges;
pub use layer::HedgeLayer;
pub use service::Hedge;
pub use settings::{InvalidSettings, Policy, Settings};
pub use snapshot::{Measure, Skipped, Snapshot, TargetTimes};

pub use llm_call::{IdentifyLayer, PeekLayer};
