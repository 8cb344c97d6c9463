//! The layer, its service and its counts.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::rule::{Injection, Rule};
use super::{FaultBody, FaultFuture};
use crate::window::{pick, rng_of};
use crate::{Api, BoxError, Reply};

/// Puts faults on the calls of an HTTP service.
///
/// ```
/// use std::time::Duration;
/// use llm_chaos::{Fault, FaultLayer, Injection, Rule};
/// # use llm_chaos::BoxError;
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // One call in five gets a 503; a minute from now every stream is cut after 3 frames.
/// let faults = FaultLayer::new(42, [
///     Rule::new(Injection::Answer(Fault::Error503)).rate(0.2),
///     Rule::new(Injection::CutAfterFrames(3)).from(Duration::from_secs(60)),
/// ]);
/// let counts = faults.counts();
/// let provider = service_fn(async |_: http::Request<()>| {
///     Ok::<_, BoxError>(http::Response::new(Full::new("hello".into())))
/// });
/// let service = faults.layer(provider);
/// service.oneshot(http::Request::new(())).await.unwrap();
/// assert_eq!(counts.calls(), 1);
/// # }
/// ```
///
/// # Streaming
///
/// Body faults work on frames as they pass; nothing is held back but what a split or a drip cuts
/// off a frame. Trailers pass, unless the body was cut or ended before.
///
/// # Clone and shared state
///
/// All services of one layer, and all clones of both, share one count of calls, one clock and one
/// seed. Call `n` gets the `n`-th draw of the seed, so that the same seed and the same order of
/// calls give the same faults. The clock starts when the layer is made.
///
/// # Cancellation
///
/// Dropping the future or the body drops what is inside it. A dropped call has been counted.
///
/// # Errors
///
/// Those of the inner service, boxed, and [`std::io::Error`] of kind
/// [`ConnectionReset`](std::io::ErrorKind::ConnectionReset) for a reset or a cut.
#[derive(Clone, Debug)]
pub struct FaultLayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rules: Vec<Rule>,
    seed: u64,
    epoch: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    calls: u64,
    /// Calls that each rule took, those it left alone included.
    hits: Vec<u64>,
    faults: Vec<u64>,
}

impl Shared {
    /// A panic in a caller's predicate must not break the counts.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, parts: &http::request::Parts) -> Option<Injection> {
        let wanted: Vec<_> = (self.rules.iter().enumerate())
            .filter(|(_, rule)| rule.wants(parts))
            .map(|(index, rule)| (index, &rule.window))
            .collect();
        let elapsed = self.epoch.elapsed();
        let mut state = self.state();
        state.calls += 1;
        let draw = rng_of(self.seed, state.calls).f64();
        let index = pick(wanted, &state.hits, elapsed, draw)?;
        let rule = &self.rules[index];
        if !rule.window.take(&mut state.hits[index]) {
            return None;
        }
        state.faults[index] += 1;
        Some(rule.injection.clone())
    }
}

impl FaultLayer {
    /// A layer with its rules, of which the first that takes a call decides.
    #[must_use]
    pub fn new(seed: u64, rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules: Vec<_> = rules.into_iter().collect();
        let state = Mutex::new(State {
            calls: 0,
            hits: vec![0; rules.len()],
            faults: vec![0; rules.len()],
        });
        Self {
            shared: Arc::new(Shared {
                rules,
                seed,
                epoch: Instant::now(),
                state,
            }),
        }
    }

    /// A handle that counts.
    #[must_use]
    pub fn counts(&self) -> FaultCounts {
        FaultCounts {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FaultService {
            inner,
            shared: Arc::clone(&self.shared),
        }
    }
}

/// How many calls and faults a [`FaultLayer`] made; cheap to clone.
#[derive(Clone, Debug)]
pub struct FaultCounts {
    shared: Arc<Shared>,
}

impl FaultCounts {
    /// All calls, with and without a fault.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.state().calls
    }

    /// Calls that got a fault.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.shared.state().faults.iter().sum()
    }

    /// Faults that each rule made, in the order of the rules.
    #[must_use]
    pub fn by_rule(&self) -> Vec<u64> {
        self.shared.state().faults.clone()
    }
}

/// The service of a [`FaultLayer`].
#[derive(Clone, Debug)]
pub struct FaultService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S, ReqB, B> Service<Request<ReqB>> for FaultService<S>
where
    S: Service<Request<ReqB>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
{
    type Response = Response<FaultBody<B>>;
    type Error = BoxError;
    type Future = FaultFuture<S, ReqB>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<ReqB>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let injection = self.shared.decide(&parts);
        let api = Api::of_path(parts.uri.path()).unwrap_or(Api::Chat);
        let request = Request::from_parts(parts, body);
        match injection {
            Some(Injection::Answer(fault)) => {
                match Reply::of_fault(fault, api, "", Duration::from_secs(1)) {
                    Some(reply) => FaultFuture::answered(&reply),
                    // `Rule::new` lets no such fault in.
                    None => FaultFuture::calling(self.inner.call(request), None),
                }
            }
            Some(Injection::Reply(reply)) => FaultFuture::answered(&reply),
            Some(Injection::Hang) => FaultFuture::hanging(),
            Some(Injection::Reset) => FaultFuture::reset(),
            Some(Injection::Latency(time)) => {
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                FaultFuture::delayed(time, ready, request)
            }
            injection => FaultFuture::calling(self.inner.call(request), injection),
        }
    }
}
