//! What happens to an LLM answer after its headers, and which layer notices.
//!
//! Each case plays it to a layer of theirs and to ours, and says what came of it. What ours does is
//! asserted.

use std::{fmt::Write, time::Duration};

use benches::{
    Form, PRIMARY, Req, SECOND, identify, request,
    theirs::{LIMIT, Shared, context, seatbelt_breaker, seatbelt_hedging, tower_retry},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{BulkheadLayer, Pool, Settings};
use llm_call::{BoxError, CallSettings, Kind, PeekLayer, Target};
use llm_hedge::{HedgeLayer, Hedges};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::TimeoutLayer;
use seatbelt::timeout::Timeout;
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimitLayer, timeout};
use tower_resilience_circuitbreaker::CircuitBreakerLayer;
use tower_resilience_timelimiter::TimeLimiterLayer;

use crate::provider::{Part, Provider};

/// A limit that does pass, and when the caller gives up.
const SHORT: Duration = Duration::from_millis(20);
const GIVEN_UP: Duration = Duration::from_millis(400);

/// What came of one case.
struct Case {
    happens: &'static str,
    counted: &'static str,
    theirs: Vec<(&'static str, String)>,
    ours: (&'static str, String),
}

pub(crate) async fn report() -> String {
    let cases = [
        cut_streams().await,
        error_event().await,
        silence().await,
        one_of_two_targets().await,
        open_bodies().await,
        late_first_token().await,
    ];
    let mut table = "| what happens | what is counted | theirs | ours |\n".to_owned();
    table += "| --- | --- | --- | --- |\n";
    for case in cases {
        let theirs: Vec<_> = case
            .theirs
            .iter()
            .map(|(who, what)| format!("{who}: {what}"))
            .collect();
        let (layer, ours) = &case.ours;
        writeln!(
            table,
            "| {} | {} | {} | {layer}: {ours} |",
            case.happens,
            case.counted,
            theirs.join("; "),
        )
        .unwrap();
    }
    table
}

/// A request for a stream, to a target.
fn ask(target: &str) -> Req {
    let target: Target = target.parse().unwrap();
    let mut request = request(Form::Streamed);
    identify(&mut request, Form::Streamed, &target, CallSettings::new());
    request
}

/// What the caller of one request got, and had to wait for.
async fn call<S, B>(service: &S, target: &str) -> String
where
    S: Service<Req, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let whole = async {
        let response = service.clone().oneshot(ask(target)).await;
        let body = response.map_err(Into::into)?.into_body();
        let text = body.collect().await.map_err(Into::into)?.to_bytes();
        Ok::<_, BoxError>(match () {
            () if memchr(&text, b"\"error\"") => "the error event",
            () if memchr(&text, b"[DONE]") => "the answer",
            () => "half an answer as if it were whole",
        })
    };
    match tokio::time::timeout(GIVEN_UP, whole).await {
        Ok(Ok(got)) => got.to_owned(),
        Ok(Err(error)) => match Kind::of(&*error) {
            Kind::Unknown => format!("an error, {error}"),
            kind => format!("an error, {kind}"),
        },
        Err(_) => "nothing until the caller gave up".to_owned(),
    }
}

fn memchr(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|part| part == what)
}

/// How many of so many calls reach the provider.
async fn reached<S, B>(service: S, provider: &Provider, calls: u32) -> String
where
    S: Service<Req, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    for _ in 0..calls {
        call(&service, PRIMARY).await;
    }
    provider.calls().to_string()
}

async fn cut_streams() -> Case {
    const CALLS: u32 = 500;
    let provider = || Provider::new(|_, _| Part::Cut);
    let below = provider();
    let layer = CircuitBreakerLayer::builder().build().unwrap();
    let resilience = reached(layer.layer(below.clone()), &below, CALLS).await;
    let below = provider();
    let seatbelt = reached(seatbelt_breaker().layer(below.clone()), &below, CALLS).await;
    let below = provider();
    let layer = (BreakerLayer::new(Breakers::new()), PeekLayer::new());
    let ours = reached(layer.layer(below.clone()), &below, CALLS).await;
    assert!(below.calls() < CALLS / 2, "our breaker let {ours} through");
    Case {
        happens: "a provider cuts 500 streams in a row after the first token",
        counted: "calls that reach it",
        theirs: vec![
            ("tower-resilience Breaker", resilience),
            ("seatbelt Breaker", seatbelt),
        ],
        ours: ("Breaker > Peek", ours),
    }
}

async fn error_event() -> Case {
    let provider = || {
        Provider::new(|call, _| match call {
            0 => Part::ErrorEvent,
            _ => Part::Good,
        })
    };
    let tower = call(&tower_retry().layer(provider()), PRIMARY).await;
    let layer = tower_resilience_retry::RetryLayer::<Req, Response<_>, BoxError>::builder();
    let resilience = call(&layer.build().layer(provider()), PRIMARY).await;
    let soon = Duration::from_millis(1);
    let retry = RetryLayer::new(RetryBudget::new()).backoff(soon, soon);
    let ours = call(&(retry, PeekLayer::new()).layer(provider()), PRIMARY).await;
    assert_eq!(ours, "the answer");
    Case {
        happens: "a 200 with an error event, and a good answer the next time",
        counted: "what the caller gets",
        theirs: vec![
            ("tower Retry", tower),
            ("tower-resilience Retry", resilience),
        ],
        ours: ("Retry > Peek", ours),
    }
}

async fn silence() -> Case {
    let provider = || Provider::new(|_, _| Part::Hang);
    let tower = call(
        &timeout::TimeoutLayer::new(SHORT).layer(provider()),
        PRIMARY,
    )
    .await;
    let layer = TimeLimiterLayer::builder()
        .timeout_duration(SHORT)
        .cancel_running_future(true)
        .build();
    let resilience = call(&layer.layer(provider()), PRIMARY).await;
    let layer = Timeout::layer("timeout", &context())
        .timeout(SHORT)
        .timeout_error(|_| BoxError::from("timed out"));
    let seatbelt = call(&layer.layer(provider()), PRIMARY).await;
    let limits = TimeoutLayer::new().first_token(SHORT);
    let ours = call(&(limits, PeekLayer::new()).layer(provider()), PRIMARY).await;
    assert_eq!(ours, "an error, timed_out_first_token");
    assert!(SHORT < GIVEN_UP && GIVEN_UP < LIMIT);
    Case {
        happens: "headers at once, then silence, under a limit of 20 ms",
        counted: "what the caller gets within 400 ms",
        theirs: vec![
            ("tower Timeout", tower),
            ("tower-resilience TimeLimiter", resilience),
            ("seatbelt Timeout", seatbelt),
        ],
        ours: ("Timeout > Peek", ours),
    }
}

async fn one_of_two_targets() -> Case {
    const CALLS: u32 = 200;
    let provider = || {
        Provider::new(|_, target| match target.starts_with("primary") {
            true => Part::Refuse,
            false => Part::Good,
        })
    };
    let service = CircuitBreakerLayer::builder()
        .build()
        .unwrap()
        .layer(provider());
    for _ in 0..CALLS {
        call(&service, PRIMARY).await;
    }
    let resilience = call(&service, SECOND).await;
    let layer = (BreakerLayer::new(Breakers::new()), PeekLayer::new());
    let service = layer.layer(provider());
    for _ in 0..CALLS {
        call(&service, PRIMARY).await;
    }
    let ours = call(&service, SECOND).await;
    assert_eq!(ours, "the answer");
    Case {
        happens: "one of two targets under one layer refuses 200 calls",
        counted: "what a call to the other one gets",
        theirs: vec![("tower-resilience Breaker", resilience)],
        ours: ("Breaker > Peek", ours),
    }
}

/// Calls 100 times and reads none of the answers to its end; how many are open at the same time.
async fn open<S, B>(service: S) -> String
where
    S: Service<Req, Response = Response<B>> + Clone,
{
    let mut open = Vec::new();
    for _ in 0..100 {
        // Without the budget of a tokio task, which would run out and look like a wait.
        let call = tokio::task::unconstrained(service.clone().oneshot(ask(PRIMARY)));
        if let Some(Ok(answer)) = call.now_or_never() {
            open.push(answer.into_body());
        }
    }
    open.len().to_string()
}

async fn open_bodies() -> Case {
    let provider = || Provider::new(|_, _| Part::Open);
    let tower = open(ConcurrencyLimitLayer::new(1).layer(provider())).await;
    let layer = tower_resilience_bulkhead::BulkheadLayer::builder().max_concurrent_calls(1);
    let resilience = open(layer.build().unwrap().layer(provider())).await;
    let bulkhead = Settings::new(Pool::new(1)).build().unwrap();
    let ours = open(BulkheadLayer::new(bulkhead).layer(provider())).await;
    assert_eq!(ours, "1");
    Case {
        happens: "100 calls under one permit, whose streams go on",
        counted: "streams that are open at the same time",
        theirs: vec![
            ("tower ConcurrencyLimit", tower),
            ("tower-resilience Bulkhead", resilience),
        ],
        ours: ("Bulkhead", ours),
    }
}

async fn late_first_token() -> Case {
    let provider = || {
        Provider::new(|call, _| match call {
            0 => Part::Hang,
            _ => Part::Good,
        })
    };
    let layer = tower_resilience_hedge::HedgeLayer::builder().delay(SHORT);
    let below = provider().map_err(Shared::from);
    let resilience = call(&layer.build().layer(below), PRIMARY).await;
    let seatbelt = call(
        &seatbelt_hedging().hedging_delay(SHORT).layer(provider()),
        PRIMARY,
    )
    .await;
    let soon = llm_hedge::Settings::new()
        .percent(100.0)
        .floor(SHORT)
        .first_delay(SHORT);
    let hedge = HedgeLayer::new(Hedges::with(soon.build().unwrap()));
    let ours = call(&(hedge, PeekLayer::new()).layer(provider()), PRIMARY).await;
    assert_eq!(ours, "the answer");
    Case {
        happens: "headers at once, then silence; a second request after 20 ms would be answered",
        counted: "what the caller gets within 400 ms",
        theirs: vec![
            ("tower-resilience Hedge", resilience),
            ("seatbelt Hedging", seatbelt),
        ],
        ours: ("Hedge > Peek", ours),
    }
}
