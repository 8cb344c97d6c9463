//! Bulkheads for LLM calls: bounded pools and fair queues by workload, tenant and target.
//!
//! A call to a model takes seconds, a stream minutes. When a provider slows down, calls pile up: batch
//! work takes the connections that people wait for, one tenant takes those of all others, and one slow
//! target takes those of the healthy ones. [`BulkheadLayer`] gives each of them a pool of its own with
//! a bounded number of calls under way, a short queue in which tenants are served in turn, and a
//! refusal that says when to come back.
//!
//! # Example
//!
//! Alone, over any HTTP client that is a tower service:
//!
//! ```
//! use llm_bulkhead::{BulkheadLayer, Full, Pool, Settings};
//! use llm_call::{Kind, Refusal, find_cause};
//! use tower::{Service, ServiceBuilder, ServiceExt};
//! # type Body = http_body_util::Full<bytes::Bytes>;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), llm_call::BoxError> {
//! # let client = tower::service_fn(async |_: http::Request<Body>| {
//! #     Ok::<_, std::io::Error>(http::Response::new(Body::from("{}")))
//! # });
//!
//! let bulkhead = Settings::new(Pool::new(1).queue(0)).build()?;
//! let mut service = ServiceBuilder::new()
//!     .layer(BulkheadLayer::new(bulkhead.clone()))
//!     .service(client);
//!
//! let request = || http::Request::post("https://h/v1/chat/completions").body(Body::default());
//! let answer = service.ready().await?.call(request()?).await?; // its body is not read yet
//! let error = service.ready().await?.call(request()?).await.unwrap_err();
//! assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::BulkheadFull));
//! assert_eq!(
//!     find_cause::<Full>(&*error).map(ToString::to_string).as_deref(),
//!     Some("the pool default is full, 1 of 1 under way and 0 waiting")
//! );
//! drop(answer);
//! assert_eq!(bulkhead.snapshot().in_flight, 0);
//! # Ok(()) }
//! ```
//!
//! In a stack it stands twice: above what sends again, by workload and tenant, and below it, by
//! target, so that a refused call goes to the next target:
//!
//! ```text
//! IdentifyLayer > DeadlineLayer > BulkheadLayer (work) > FailoverLayer > RetryLayer > BreakerLayer
//!     > BulkheadLayer (target) > TimeoutLayer > PeekLayer > client
//! ```
//!
//! ```
//! use std::time::Duration;
//! use llm_bulkhead::{BulkheadLayer, Pool, Settings};
//!
//! let work = Settings::new(Pool::new(20))
//!     .pool("interactive", Pool::new(100).weight(4))
//!     .pool("interactive/free", Pool::new(20).tenant_limit(2))
//!     .pool("background", Pool::new(10).queue(200).wait(Duration::from_secs(10)))
//!     .total_limit(120)
//!     .build()?;
//! // There are other targets, so nobody waits for one.
//! let targets = Settings::each(Pool::new(50).wait(Duration::ZERO)).build()?;
//!
//! let above = BulkheadLayer::new(work);
//! let below = BulkheadLayer::new(targets).by_target();
//! # Ok::<(), llm_bulkhead::InvalidSettings>(())
//! ```
//!
//! A call says whose it is by its [`Call`](llm_call::Call); `IdentifyLayer` makes that of a header, and
//! without one there is no tenant and no workload. In a server, with a `PeekLayer` directly above the
//! client, which `IdentifyLayer` and `RespondLayer` need and this layer does not:
//!
//! ```
//! use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool, Settings};
//! use llm_call::{CallSettings, IdentifyLayer, PeekLayer, RespondLayer, Workload};
//! use tower::ServiceBuilder;
//!
//! # fn main() -> Result<(), llm_bulkhead::InvalidSettings> {
//! let bulkhead = Settings::new(Pool::new(100).tenant_limit(20))
//!     .pool("background", Pool::new(10).queue(200))
//!     .build()?; // keep a clone for resize() and snapshot()
//! let identify = IdentifyLayer::new().settings(|request| {
//!     let header = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
//!     let settings = CallSettings::new().tenant(header("x-tenant").unwrap_or("nobody"));
//!     match header("x-batch") {
//!         Some(_) => settings.workload(Workload::Background),
//!         None => settings,
//!     }
//! });
//! # let client = tower::service_fn(async |_: http::Request<http_body_util::Full<bytes::Bytes>>| {
//! #     Ok::<_, std::io::Error>(http::Response::new(http_body_util::Full::<bytes::Bytes>::from("{}")))
//! # });
//! let service = ServiceBuilder::new()
//!     .layer(RespondLayer::new()) // a full pool is a 503, a tenant at its limit a 429
//!     .layer(identify)
//!     .layer(BulkheadLayer::new(bulkhead.clone()))
//!     .layer(PeekLayer::new())
//!     .service(client);
//! # fn service_of<B, S: tower::Service<http::Request<http_body_util::Full<B>>>>(_: &S) {}
//! # service_of::<bytes::Bytes, _>(&service);
//! # Ok(()) }
//! ```
//!
//! A permit of the upper one is held by the call, however many copies of it a hedge or a failover sends
//! below. Give each layer a handle of its own: with one for both, calls wait below for permits that they
//! hold above.
//!
//! # Which pool
//!
//! By default that of the call's workload (`interactive`, `background`, `internal`) and the class of
//! its tenant: of `interactive/free`, `interactive` and `free` the first that is listed. With
//! [`by_target`](BulkheadLayer::by_target) that of the target: of `openai:gpt:streaming`,
//! `openai:gpt` and `openai` the first that is listed. With [`pool`](BulkheadLayer::pool) the one that
//! is named. Where none is listed it is the pool `default` ([`Settings::new`]), or one of its own
//! ([`Settings::each`]) for `interactive/free`, for `openai:gpt`, or of the given name. A request
//! without a [`Call`](llm_call::Call), or by target without a target, is in `default` and has no
//! tenant.
//!
//! # Who is served
//!
//! Calls of one tenant in their order; tenants that wait in one pool in turn, each the same amount
//! (deficit round robin), however many calls each has and however often new ones come. A tenant at
//! its own limit waits without standing in anybody's way. Pools that compete for
//! [`Settings::total_limit`] get it by their weights (stride scheduling). Nobody waits while there is room
//! for whoever is next; a call that costs more than others is waited for, so that small ones do not
//! overtake it for ever.
//!
//! When the queue is full, the newest call of the tenant with the longest part of it makes place for
//! one of a tenant that has fewer; else the one that comes is refused. A call waits at most
//! [`Pool::wait`], and never beyond its deadline.
//!
//! # Streaming
//!
//! A call holds its permit until its body has ended, failed or was dropped ([`BulkheadBody`]), or as
//! [`Until`] says. A reader that has an answer and stops asking for more would hold its permit for
//! ever: where others wait, it loses that after 120 s ([`Pool::abandon_after`]), and finds the error
//! [`TimedOut(Reader)`](llm_call::Phase::Reader) when it comes back. Its connection is its own until
//! it drops the body: so long, one more is open than the limit says. A provider that is silent is not
//! the reader's fault; time limits are for that. A reader that stops in the middle of such a wait looks
//! like one that waits, and keeps its permit until it drops the body.
//!
//! # Clone and shared state
//!
//! [`Bulkhead`] is a handle on pools that clones, services and layers share. It sits behind one mutex
//! that is held for a few instructions, never across a poll or a wake-up; longer, in proportion to the
//! permits that are out, for a snapshot and at most every eighth of [`Pool::abandon_after`] where there
//! is no room. The inner service is cloned for each call, so a clone of the client must be cheap.
//!
//! # Cancellation
//!
//! A call that is dropped leaves the queue or gives its permit back in that moment. A permit that was
//! given to a call that is dropped before it looked goes to the next one.
//!
//! # Errors
//!
//! A refused call never reaches the inner service. It fails with an [`Error`](llm_call::Error) of the
//! kind [`BulkheadFull`](llm_call::Refusal::BulkheadFull) (over HTTP a 503), or
//! [`TenantFull`](llm_call::Refusal::TenantFull) where its tenant is at its limit (a 429), that says
//! when to come back and has [`Full`] as its source. Where its deadline has ended the wait it is
//! [`TimedOut(Deadline)`](llm_call::Phase::Deadline), with the same source: there is no time left to go
//! elsewhere. All other errors are those of the inner service.
//!
//! # Panics
//!
//! A panic of the inner service or body gives the permit back and goes on. A call that has to wait
//! panics outside of a tokio runtime with a timer.

mod body;
mod bulkhead;
mod core;
mod error;
mod future;
mod layer;
mod name;
mod permit;
mod service;
mod settings;
mod snapshot;
mod sync;
mod watch;

pub use body::BulkheadBody;
pub use bulkhead::Bulkhead;
pub use error::{Full, ResizeError};
pub use future::ResponseFuture;
pub use layer::{BulkheadLayer, Until};
pub use service::BulkheadService;
pub use settings::{InvalidSettings, Pool, Settings};
pub use snapshot::{PoolSnapshot, Snapshot, TenantSnapshot};
