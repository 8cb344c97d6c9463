//! Time limits for LLM calls: by phase for each attempt, and one deadline for the call.
//!
//! A provider that is down rarely says so. It accepts the connection and says nothing; or it sends
//! headers, and then keep-alives for ever; or it stops half-way through an answer. One timeout does
//! not help: long enough for a good answer, it is too long for a bad one. [`TimeoutLayer`] limits
//! each phase of an attempt by itself, with the first *token* as the turning point, and
//! [`DeadlineLayer`] limits what the caller waits for, over all attempts.
//!
//! # Example
//!
//! Alone, over any HTTP client that is a tower service:
//!
//! ```
//! use llm_timeout::TimeoutLayer;
//! use tower::{ServiceBuilder, ServiceExt};
//! # use bytes::Bytes;
//! # use http_body_util::Full;
//! # type Body = Full<Bytes>;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let client = tower::service_fn(|_: http::Request<Body>| std::future::pending::<
//! #     Result<http::Response<Body>, std::io::Error>,
//! # >());
//! # tokio::time::pause();
//! use llm_call::{Kind, Phase};
//!
//! let service = ServiceBuilder::new()
//!     .layer(TimeoutLayer::new().alone())
//!     .service(client);
//!
//! let request = http::Request::post("/v1/chat/completions").body(Body::default());
//! let error = service.oneshot(request.unwrap()).await.unwrap_err();
//! assert_eq!(Kind::of(&*error), Kind::TimedOut(Phase::Answer));
//! # }
//! ```
//!
//! Whether an answer is to be streamed, or needs time to think, stands in the request's body; put
//! [`IdentifyLayer`] above to have it read, or a [`Call`](llm_call::Call) with its
//! [`Facts`](llm_call::Facts) into the request. Where both layers are used, the deadline stands
//! above whatever sends again, and the phases below it:
//!
//! ```text
//! IdentifyLayer > DeadlineLayer > (failover, retry, ...) > TimeoutLayer > PeekLayer > client
//! ```

mod body;
mod clock;
mod copies;
mod deadline;
mod future;
mod limits;
mod timeout;

pub use body::TimeoutBody;
pub use deadline::{Deadline, DeadlineLayer};
pub use future::ResponseFuture;
pub use limits::Limits;
pub use timeout::{Timeout, TimeoutLayer};

pub use llm_call::{IdentifyLayer, PeekLayer};
