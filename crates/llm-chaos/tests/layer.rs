//! The fault layer on paused time.
#![cfg(all(feature = "layer", feature = "testing"))]
#![cfg_attr(
    all(feature = "layer", feature = "testing"),
    expect(
        clippy::unwrap_used,
        reason = "a helper of a test may do what a test may"
    )
)]

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use llm_chaos::testing::{BodyStep, Respond, Scripted, Strict, drop_fuzz, drop_fuzz_body, service};
use llm_chaos::{
    BoxError, Fault, FaultBody, FaultLayer, FaultService, Injection, Reply, Rule, testing,
};
use tokio::time::{Instant, timeout};
use tower::{Layer, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

type Faulty = FaultService<Strict<Scripted>>;
type Answer = Response<FaultBody<testing::ScriptedBody>>;

fn abc() -> Scripted {
    service([Respond::ok(["abc", "def", "ghi"])])
}

fn one(injection: Injection) -> Faulty {
    FaultLayer::new(0, [Rule::new(injection)]).layer(Strict::new(abc()))
}

async fn send(service: &Faulty, path: &str) -> Result<Answer, BoxError> {
    service
        .clone()
        .oneshot(Request::post(path).body(()).unwrap())
        .await
}

async fn call(service: &Faulty) -> Result<Answer, BoxError> {
    send(service, "/v1/chat/completions").await
}

/// The frames, and the kind of the error after them.
async fn frames(
    mut body: impl Body<Data = bytes::Bytes, Error = BoxError> + Unpin,
) -> (Vec<String>, Option<io::ErrorKind>) {
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                frames.push(String::from_utf8_lossy(frame.data_ref().unwrap()).into_owned());
            }
            Err(error) => {
                return (
                    frames,
                    Some(error.downcast_ref::<io::Error>().unwrap().kind()),
                );
            }
        }
    }
    (frames, None)
}

async fn faulty_frames(injection: Injection) -> (Vec<String>, Option<io::ErrorKind>) {
    frames(call(&one(injection)).await.unwrap().into_body()).await
}

#[tokio::test(start_paused = true)]
async fn answers_are_in_the_words_of_the_api_of_the_path() {
    let service = one(Injection::Answer(Fault::RateLimit));
    for (path, kind) in [
        ("/v1/chat/completions", "requests"),
        ("/v1/messages", "rate_limit_error"),
    ] {
        let response = send(&service, path).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["retry-after"]),
            (StatusCode::TOO_MANY_REQUESTS, &1.into())
        );
        let body = response.into_body();
        assert!(!body.is_end_stream() && body.size_hint().exact().is_some());
        let body: serde_json::Value =
            serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(body["error"]["type"], kind);
    }
    let own = Reply::bad_request(llm_chaos::Api::Chat, "no");
    let response = call(&one(Injection::Reply(Arc::new(own)))).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn calls_can_be_late_hang_or_be_reset() {
    let start = Instant::now();
    call(&one(Injection::Latency(10 * SECOND))).await.unwrap();
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert!(
        timeout(100 * SECOND, call(&one(Injection::Hang)))
            .await
            .is_err()
    );
    let error = call(&one(Injection::Reset)).await.unwrap_err();
    assert_eq!(
        error.downcast_ref::<io::Error>().unwrap().kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_are_cut_or_end_after_frames_or_bytes() {
    let reset = Some(io::ErrorKind::ConnectionReset);
    let strings = |frames: &[&str]| {
        frames
            .iter()
            .map(|&frame| frame.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        faulty_frames(Injection::CutAfterFrames(2)).await,
        (strings(&["abc", "def"]), reset)
    );
    assert_eq!(
        faulty_frames(Injection::CutAfterFrames(0)).await,
        (strings(&[]), reset)
    );
    assert_eq!(
        faulty_frames(Injection::CutAfterFrames(3)).await,
        (strings(&["abc", "def", "ghi"]), reset)
    );
    assert_eq!(
        faulty_frames(Injection::CutAfterBytes(5)).await,
        (strings(&["abc", "de"]), reset)
    );
    assert_eq!(
        faulty_frames(Injection::EndAfterFrames(1)).await,
        (strings(&["abc"]), None)
    );
    assert_eq!(
        faulty_frames(Injection::EndAfterBytes(4)).await,
        (strings(&["abc", "d"]), None)
    );
}

/// A caller that trusts the end of the inner body would never see the cut.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_to_be_cut_does_not_say_that_it_has_ended() {
    let mut body = call(&one(Injection::CutAfterFrames(3)))
        .await
        .unwrap()
        .into_body();
    for _ in 0..3 {
        assert_eq!(body.size_hint().exact(), None);
        body.frame().await.unwrap().unwrap();
        assert!(!body.is_end_stream());
    }
    body.frame().await.unwrap().unwrap_err();
    assert!(body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn bodies_stall_garble_split_and_drip() {
    let start = Instant::now();
    let whole = ["abc", "def", "ghi"].map(str::to_owned).to_vec();
    let (got, error) = faulty_frames(Injection::Stall {
        after_frames: 1,
        pause: 30 * SECOND,
    })
    .await;
    assert_eq!((got, error, start.elapsed()), (whole, None, 30 * SECOND));

    let (got, _) = faulty_frames(Injection::GarbleAfterFrames(2)).await;
    assert_eq!(got[..2], ["abc", "def"]);
    assert!(got[2].contains('\u{fffd}'), "{got:?}");

    let two = NonZeroUsize::new(2).unwrap();
    assert_eq!(
        faulty_frames(Injection::Split(two)).await.0,
        ["ab", "c", "de", "f", "gh", "i"]
    );

    let start = Instant::now();
    assert_eq!(
        faulty_frames(Injection::Drip {
            bytes: two,
            gap: SECOND
        })
        .await
        .0
        .len(),
        6
    );
    assert_eq!(
        start.elapsed(),
        6 * SECOND,
        "one gap a frame, and the last before the end"
    );
}

#[tokio::test(start_paused = true)]
async fn rules_choose_by_count_time_and_request() {
    let faults = FaultLayer::new(
        0,
        [
            Rule::new(Injection::Reset).when(|parts| parts.uri.path() == "/v1/messages"),
            Rule::new(Injection::Answer(Fault::Error503)).times(2),
            Rule::new(Injection::Answer(Fault::Error500))
                .from(60 * SECOND)
                .until(61 * SECOND),
        ],
    );
    let counts = faults.counts();
    let service = faults.layer(Strict::new(abc()));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(call(&service).await.unwrap().status().as_u16());
    }
    assert!(send(&service, "/v1/messages").await.is_err());
    tokio::time::advance(60 * SECOND).await;
    statuses.push(call(&service).await.unwrap().status().as_u16());
    tokio::time::advance(SECOND).await;
    statuses.push(call(&service).await.unwrap().status().as_u16());
    assert_eq!(statuses, [503, 503, 200, 500, 200]);
    assert_eq!(
        (counts.calls(), counts.faults(), counts.by_rule()),
        (6, 4, vec![1, 2, 1])
    );
}

#[tokio::test(start_paused = true)]
async fn a_rule_can_leave_the_first_calls_alone() {
    let layer = FaultLayer::new(0, [Rule::new(Injection::Reset).skip(2).times(1)]);
    let (counts, service) = (layer.counts(), layer.layer(Strict::new(abc())));
    let mut failed = Vec::new();
    for _ in 0..4 {
        failed.push(call(&service).await.is_err());
    }
    assert_eq!(failed, [false, false, true, false]);
    assert_eq!((counts.calls(), counts.by_rule()), (4, vec![1]));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_decides_the_same_and_another_does_not() {
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let layer = FaultLayer::new(seed, [Rule::new(Injection::Reset).rate(0.3)]);
        let service = layer.layer(Strict::new(abc()));
        let mut run = Vec::new();
        for _ in 0..200 {
            run.push(call(&service).await.is_err());
        }
        let faults = run.iter().filter(|reset| **reset).count();
        assert!((40..80).contains(&faults), "{faults} of 200");
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(start_paused = true)]
async fn without_a_fault_the_body_passes_as_it_is() {
    let service = FaultLayer::new(0, []).layer(Strict::new(service([
        Respond::ok(["a"]),
        Respond::ok([BodyStep::data("a"), BodyStep::Error("inner")]),
    ])));
    let mut body = call(&service).await.unwrap().into_body();
    assert!(!body.is_end_stream());
    body.frame().await.unwrap().unwrap();
    assert!(
        body.is_end_stream(),
        "the end of the inner body shows without another poll"
    );
    let error = call(&service)
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "inner");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_dropped_at_any_poll() {
    let inner = service([Respond::ok([
        BodyStep::data("a"),
        BodyStep::wait(SECOND),
        BodyStep::data("b"),
    ])
    .after(SECOND)]);
    let gauges = inner.gauges();
    for injection in [
        Injection::Latency(SECOND),
        Injection::Stall {
            after_frames: 1,
            pause: SECOND,
        },
        Injection::CutAfterFrames(1),
        Injection::Hang,
    ] {
        let service = FaultLayer::new(0, [Rule::new(injection)]).layer(Strict::new(inner.clone()));
        let hangs = |k| assert_eq!(gauges.live(), 0, "after {k} polls");
        drop_fuzz(|| call(&service), hangs).await;
    }
    let layer = FaultLayer::new(
        0,
        [Rule::new(Injection::Stall {
            after_frames: 1,
            pause: SECOND,
        })],
    );
    let service = layer.layer(Strict::new(inner.clone()));
    let body = || async { call(&service).await.unwrap().into_body() };
    drop_fuzz_body(body, |k| assert_eq!(gauges.live(), 0, "after {k} polls")).await;
}

#[test]
#[should_panic(expected = "the fault `cut` is no whole answer")]
fn an_answer_must_be_a_whole_answer() {
    let _rule = Rule::new(Injection::Answer(Fault::Cut));
}

/// Clients such as reqwest want bodies that can be shared between threads.
#[test]
fn the_body_and_the_future_are_send_and_the_body_is_sync() {
    fn both<T: Send + Sync>() {}
    fn send<T: Send>() {}
    both::<FaultBody<http_body_util::Full<bytes::Bytes>>>();
    send::<llm_chaos::FaultFuture<Strict<Scripted>, ()>>();
}
