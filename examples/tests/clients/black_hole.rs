//! A connection that dies without a word, below a breaker: which settings of the client let the
//! circuit close again when the path has healed, and what happens without them.
//!
//! All callers share one HTTP/2 connection. When its path swallows packets, nothing on it ever
//! fails by itself: calls time out, the circuit opens, and each trial goes to the dead connection
//! again. Pings make the client throw it away. `docs/clients.md` gives the settings; their times
//! are divided by about 20 here.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use llm_breaker::{BreakerLayer, Breakers, CircuitState, Settings};
use llm_call::{
    BoxError, Client, IdentifyLayer, Kind, PeekLayer, Refusal, ResponseExt, client,
    reqwest::Reqwest,
};
use llm_chaos::{ChaosProvider, Fault, Phase, Script};
use llm_provider::{Provider, ProviderLayer};
use llm_timeout::TimeoutLayer;
use tower::{Service, ServiceBuilder, ServiceExt};

const CONNECT: Duration = Duration::from_millis(500);
const FIRST_TOKEN: Duration = Duration::from_millis(500);
const OPEN_FOR: Duration = Duration::from_millis(1200);
/// Between the last frame that came and a ping.
const PING_AFTER: Duration = Duration::from_millis(300);
/// Between a ping and its answer.
const PONG_WITHIN: Duration = Duration::from_millis(300);

/// What TCP may wait for an acknowledgement. It gets every one, since the hole lies behind the socket.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_millis(750);

/// How a client looks for dead connections.
#[derive(Clone, Copy, Debug)]
struct Pings {
    after: Duration,
    while_idle: bool,
}

const PINGS: Option<Pings> = Some(Pings {
    after: PING_AFTER,
    while_idle: true,
});

fn hyper(http2: bool, pings: Option<Pings>) -> legacy::Client<HttpConnector, Full<Bytes>> {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(USER_TIMEOUT));
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .retry_canceled_requests(false)
        .http2_only(http2);
    if let Some(pings) = pings {
        builder
            .http2_keep_alive_interval(pings.after)
            .http2_keep_alive_timeout(PONG_WITHIN)
            .http2_keep_alive_while_idle(pings.while_idle);
    }
    builder.build(tcp)
}

fn reqwest(pings: Option<Pings>) -> Reqwest {
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT)
        .http2_prior_knowledge();
    #[cfg(target_os = "linux")]
    {
        builder = builder.tcp_user_timeout(USER_TIMEOUT);
    }
    if let Some(pings) = pings {
        builder = builder
            .http2_keep_alive_interval(pings.after)
            .http2_keep_alive_timeout(PONG_WITHIN)
            .http2_keep_alive_while_idle(pings.while_idle);
    }
    Reqwest::new(builder.build().unwrap())
}

fn stack<S, B>(provider: &ChaosProvider, breakers: &Breakers, http: S) -> Client
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S: Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let url = provider.base_url();
    client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new().provider("p").unwrap())
            .layer(BreakerLayer::new(breakers.clone()))
            .layer(TimeoutLayer::new().first_token(FIRST_TOKEN))
            .layer(ProviderLayer::new().provider("p", Provider::new(&url).unwrap()))
            .layer(PeekLayer::new())
            .service(http),
    )
}

/// One streamed call, read to its end.
async fn call(llm: Client) -> Result<(), Kind> {
    let request = Request::post("/v1/chat/completions")
        .header("content-type", "application/json")
        .body(Full::from(
            r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi."}]}"#,
        ))
        .unwrap();
    let answer = llm.oneshot(request).await;
    let answer = answer.map_err(|error| Kind::of(&*error))?;
    let kind = answer.outcome().kind;
    let whole = answer.into_body().collect().await;
    whole.map_err(|error| Kind::of(&*error))?;
    if kind == Kind::Success {
        Ok(())
    } else {
        Err(kind)
    }
}

/// A provider, the circuit before it, and a caller.
struct Outage {
    provider: ChaosProvider,
    breakers: Breakers,
    llm: Client,
}

impl Outage {
    /// Warms a connection up, lets the path go dark until the circuit has opened, and heals it.
    async fn play<S, B>(http: S) -> Outage
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + Sync + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let provider = ChaosProvider::start().await.unwrap();
        let settings = Settings::new()
            .open_for(OPEN_FOR)
            .open_max(OPEN_FOR)
            .open_jitter_percent(0)
            .trial_successes(1);
        let breakers = Breakers::with(settings.build().unwrap());
        let llm = stack(&provider, &breakers, http);
        assert_eq!(call(llm.clone()).await, Ok(()));

        // The open connection dies, and so does every new one.
        provider.black_hole();
        provider.script(&Script::default().with(Phase::new(Fault::BlackHole)));
        let calls: Vec<_> = (0..5).map(|_| call(llm.clone())).collect();
        for kind in futures_util::future::join_all(calls).await {
            assert!(
                matches!(kind, Err(Kind::TimedOut(_) | Kind::ConnectionLost)),
                "{kind:?}"
            );
        }
        let refused = Err(Kind::Refused(Refusal::CircuitOpen));
        assert_eq!(call(llm.clone()).await, refused);

        // New connections work from now on. The dead one stays dead.
        provider.script(&Script::default());
        Outage {
            provider,
            breakers,
            llm,
        }
    }

    /// Calls on and on, until `enough`.
    async fn until(&self, enough: impl Fn(&[CircuitState]) -> bool) -> Vec<CircuitState> {
        let since = tokio::time::Instant::now();
        loop {
            let states = self.states();
            if enough(&states) {
                return states;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "{states:?}");
            let _refused_or_lost = call(self.llm.clone()).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The states that the circuit came to, in order.
    fn states(&self) -> Vec<CircuitState> {
        let history = self.breakers.history();
        history.iter().map(|transition| transition.to).collect()
    }

    async fn until_closed(&self) -> Vec<CircuitState> {
        self.until(|states| states.last() == Some(&CircuitState::Closed))
            .await
    }
}

use CircuitState::{Closed, HalfOpen, Open};

/// The first trial finds a new connection: the circuit is closed as soon as it may be.
async fn closes_at_the_first_trial<S, B>(http: S)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S: Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let outage = Outage::play(http).await;
    assert_eq!(outage.until_closed().await, [Open, HalfOpen, Closed]);
    let log = outage.provider.log();
    let connections: Vec<_> = log.iter().map(|seen| seen.connection).collect();
    assert_ne!(
        connections.first(),
        connections.last(),
        "the same connection"
    );
    assert_eq!(call(outage.llm).await, Ok(()));
}

/// The trials go to the dead connection, although the provider has been well all the while.
async fn never_closes<S, B>(http: S, new: S)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S: Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let outage = Outage::play(http).await;
    let states = outage.until(|states| states.len() == 5).await;
    assert_eq!(states, [Open, HalfOpen, Open, HalfOpen, Open]);
    let well = stack(&outage.provider, &Breakers::new(), new);
    assert_eq!(call(well).await, Ok(()));
    assert_eq!(outage.states(), [Open, HalfOpen, Open, HalfOpen, Open]);
}

#[tokio::test]
async fn with_pings_hyper_over_http_2_comes_back_at_the_first_trial() {
    closes_at_the_first_trial(hyper(true, PINGS)).await;
}

#[tokio::test]
async fn with_pings_reqwest_over_http_2_comes_back_at_the_first_trial() {
    closes_at_the_first_trial(reqwest(PINGS)).await;
}

#[tokio::test]
async fn without_pings_hyper_over_http_2_never_comes_back() {
    never_closes(hyper(true, None), hyper(true, None)).await;
}

#[tokio::test]
async fn without_pings_reqwest_over_http_2_never_comes_back() {
    never_closes(reqwest(None), reqwest(None)).await;
}

/// An attempt that times out closes its connection there, so that no other call can meet it.
#[tokio::test]
async fn http_1_needs_no_pings() {
    closes_at_the_first_trial(hyper(false, None)).await;
}

/// Pings that are only sent while a stream is open, at intervals longer than a stream lives before
/// it times out, are sent by the first trial alone: it is lost, and with it one more open time.
#[tokio::test]
async fn pings_that_stop_while_idle_cost_a_trial() {
    let pings = Pings {
        after: FIRST_TOKEN + PING_AFTER,
        while_idle: false,
    };
    let outage = Outage::play(hyper(true, Some(pings))).await;
    assert_eq!(
        outage.until_closed().await,
        [Open, HalfOpen, Open, HalfOpen, Closed]
    );
}
