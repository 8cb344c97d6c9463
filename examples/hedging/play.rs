//! Plays calls through the layers on simulated time.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use llm_call::{Attempt, BoxError, IdentifyLayer, PeekLayer, Target};
use llm_hedge::{HedgeLayer, Hedges};
use tokio::time::{Instant, sleep};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn, util::Either};

use crate::latency::Model;

const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const ASK: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Is it?"}]}"#;
const SERVERS: usize = 100;

/// What was waited for, in simulated ms, and how many requests that took.
#[derive(Debug, PartialEq)]
pub(crate) struct Times {
    sorted: Vec<f64>,
    calls: usize,
    hedges: u64,
}

impl Times {
    fn new(mut ms: Vec<f64>, calls: usize, hedges: Option<Hedges>) -> Times {
        ms.sort_by(f64::total_cmp);
        Times {
            sorted: ms,
            calls,
            hedges: hedges.map_or(0, |hedges| hedges.snapshot().hedges),
        }
    }

    /// So much of them is at most this.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let rank = (self.sorted.len() as f64 * q).ceil() as usize;
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }

    /// Extra requests, in percent.
    pub(crate) fn extra(&self) -> f64 {
        self.hedges as f64 / self.calls as f64 * 100.0
    }
}

/// How long each of the two copies of one call takes, if they are sent.
#[derive(Clone, Copy)]
struct Takes([Duration; 2]);

/// Whom all calls go to.
#[expect(clippy::expect_used, reason = "a valid target")]
pub(crate) fn target() -> Target {
    "model:m:streaming".parse().expect("a valid target")
}

/// One call after the other. With the probability `shared`, a hedge takes as long as its call.
pub(crate) async fn calls(
    count: usize,
    model: &Model,
    shared: f64,
    hedges: Option<Hedges>,
) -> Times {
    let mut stack = stack(hedges.clone());
    let mut dice = fastrand::Rng::with_seed(7);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let (first, other, same) = (dice.f64(), dice.f64(), dice.f64() < shared);
        let second = if same { first } else { other };
        let takes = [first, second].map(|u| model.first_token(u));
        times.push(ask(&mut stack, takes).await);
    }
    Times::new(times, count, hedges)
}

/// Calls to all servers at once; the time is that of the last to answer.
pub(crate) async fn fan_out(
    trials: usize,
    server: fn(f64) -> Duration,
    hedges: Option<Hedges>,
) -> Times {
    let stack = stack(hedges.clone());
    let mut dice = fastrand::Rng::with_seed(7);
    let mut times = Vec::with_capacity(trials);
    for _ in 0..trials {
        let asked = (0..SERVERS).map(|_| {
            let takes = [dice.f64(), dice.f64()].map(server);
            let mut stack = stack.clone();
            async move { ask(&mut stack, takes).await }
        });
        let all = join_all(asked.collect::<Vec<_>>()).await;
        times.push(all.into_iter().fold(0.0, f64::max));
    }
    Times::new(times, trials * SERVERS, hedges)
}

type Asked = Request<Full<Bytes>>;

/// The layers above a provider that answers as late as the request says.
fn stack(
    hedges: Option<Hedges>,
) -> impl Service<Asked, Response = Response<impl Sized>, Error = BoxError> + Clone {
    let provider = service_fn(|request: Asked| async move {
        let Takes(takes) = request
            .extensions()
            .get()
            .copied()
            .unwrap_or(Takes([Duration::ZERO; 2]));
        let hedge = request
            .extensions()
            .get::<Attempt>()
            .is_some_and(|copy| copy.hedge > 0);
        sleep(takes[usize::from(hedge)]).await;
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(Full::from(STREAM))
            .map_err(BoxError::from)
    });
    let below = ServiceBuilder::new()
        .layer(PeekLayer::new())
        .service(provider);
    let below = match hedges {
        Some(hedges) => Either::Left(HedgeLayer::new(hedges).layer(below)),
        None => Either::Right(below),
    };
    ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .service(below)
}

/// Asks; after how many ms the first token was there.
#[expect(
    clippy::expect_used,
    reason = "nothing fails here but by a mistake of ours"
)]
async fn ask<S>(stack: &mut S, takes: [Duration; 2]) -> f64
where
    S: Service<Asked, Error = BoxError>,
{
    let request = Request::post("http://model/v1/chat/completions")
        .header("content-type", "application/json")
        .extension(Takes(takes))
        .body(Full::from(ASK))
        .expect("a valid request");
    let start = Instant::now();
    let ready = stack.ready().await.expect("it is always ready");
    ready.call(request).await.expect("all are answered");
    start.elapsed().as_secs_f64() * 1000.0
}
