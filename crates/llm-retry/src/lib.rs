//! Retries for LLM calls: the same target again, when that is worth it.
//!
//! A provider that is overloaded for a second answers the second try. One that is down for hours
//! does not, and a client that retries anyway doubles the load on whatever is left of it, and its
//! own waiting. [`RetryLayer`] sends the same request to the same target again on a failure that
//! may pass (the [`Matrix`](llm_call::Matrix) says which), as long as the caller has seen nothing
//! of an answer, the deadline has room for it, and answered calls have paid for it.
//!
//! # Example
//!
//! ```
//! use llm_retry::{RetryBudget, RetryLayer};
//! use tower::{ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//! # use http_body_util::Full;
//! # use llm_chaos::testing::{BodyStep, Respond, service};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), llm_call::BoxError> {
//! # let busy = Respond::status(http::StatusCode::SERVICE_UNAVAILABLE, [BodyStep::data("{}")]);
//! # let whole = "{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
//! # let whole = Respond::ok([BodyStep::data(whole)]).header("content-type", "application/json");
//! # let client = service([busy, whole]);
//!
//! let budget = RetryBudget::new(); // keep a clone, to see what is left of it
//! let service = ServiceBuilder::new()
//!     .layer(RetryLayer::new(budget.clone()).alone())
//!     .service(client);
//!
//! # type Body = Full<Bytes>;
//! // The client answers 503 at first. The retry costs a token, the answer brings a tenth of one.
//! let request = http::Request::post("/v1/chat/completions").body(Body::from("{}"))?;
//! assert_eq!(service.oneshot(request).await?.status(), 200);
//! assert_eq!(budget.balance(None), 2.1);
//! # Ok(()) }
//! ```
//!
//! **The client's own retries must be off**: under three attempts of ours and three of an SDK a
//! provider in trouble gets nine calls. With reqwest, `ClientBuilder::retry(reqwest::retry::never())`.
//! What a caller's SDK retries above the stack is seen in its request and does not pay for retries
//! of ours.
//!
//! In a stack it stands below failover, which chooses the target, and above what guards or limits
//! one attempt:
//!
//! ```text
//! IdentifyLayer > DeadlineLayer > FailoverLayer > RetryLayer > BreakerLayer > TimeoutLayer > PeekLayer > client
//! ```
//!
//! # When a failure is retried
//!
//! All of these must hold, else the failure is returned at once, as it is:
//!
//! - Its verdict says so. After one that says [`Once`](llm_call::Retry::Once) (a 500, a model's
//!   fault) there is one retry, after others at most two ([`RetryLayer::retries`]).
//! - The [`Call`](llm_call::Call) has an attempt left, beside one for each other target that is
//!   left. It counts over all layers, so layers that send again do not multiply.
//! - While other targets are left: the target said something at all, and did not ask to be left
//!   alone for more than 2 s ([`RetryLayer::hint_limit`]). Otherwise the next target is the better
//!   one.
//! - The wait and 500 ms for the attempt ([`RetryLayer::least_attempt`]) fit into what is left of
//!   the deadline; while other targets are left, of this one's share of it. So a caller gets the
//!   failure now rather than a timeout later.
//! - The target has a token in the [`RetryBudget`].
//!
//! Other targets count for a failure that they may not have. A conflict (409), which goes nowhere
//! else, is retried as if there were none.
//!
//! The layer stands below failover, which tries each target once a call: above it, a retry finds
//! none left and has waited for nothing.
//!
//! The wait is drawn evenly between nothing and 250 ms, which doubles with each retry up to 5 s
//! ([`RetryLayer::backoff`]): the "full jitter" of AWS's *Exponential Backoff And Jitter*. A server's
//! hint comes first and is waited for in full, or not at all.
//!
//! # Streaming
//!
//! The decision falls when the inner response future resolves: with a [`PeekLayer`] below, at the
//! first token. After that nothing is retried; a stream that is cut later ends in an error. The
//! budget is paid when an answer has ended well.
//!
//! # Clone and shared state
//!
//! [`RetryBudget`] is a handle; services of one layer and clones of the handle share it. The
//! request and the inner service are cloned once for a call that may be retried, so bodies must be
//! `Clone` ([`IdentifyLayer`] makes them so) and a clone of the client cheap. Each attempt sends
//! the same bytes and headers, an idempotency key included.
//!
//! # Cancellation
//!
//! Dropping the response future drops the attempt under way, or the timer of the wait. The token of
//! a retry that has not been sent goes back. A failed attempt is dropped before the wait, with its
//! connection and its permits, so one permit is enough for a whole call.
//!
//! # Errors
//!
//! [`BoxError`](llm_call::BoxError), and no error of its own: the last answer or error of the inner
//! service, as it came. Where a layer of ours did not let a retry through or end (an open circuit, a
//! full bulkhead, no attempt left, the deadline, the target's share of it), that is the answer or
//! error before it; of an answer that was still coming (an error page beyond 64 KiB), an
//! [`Error`](llm_call::Error) of the same outcome. Where the budget was spent, the call's [`Ledger`](llm_call::Ledger) says so.
//!
//! # Panics
//!
//! A retry waits on tokio's timer and panics outside of a tokio runtime with time.

mod budget;
mod future;
mod layer;
mod rules;
mod service;
mod share;
mod shares;

pub use budget::{Deposit, RetryBody, RetryBudget};
pub use future::ResponseFuture;
pub use layer::RetryLayer;
pub use service::Retry;

pub use llm_call::{IdentifyLayer, PeekLayer};
