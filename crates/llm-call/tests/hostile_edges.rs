//! The edges over callers and stacks that do what they should not, and one call among threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    future::{Future, pending, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::atomic::{AtomicU32, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use llm_call::{
    Attempt, BoxError, Call, CallSettings, Cause, Error, IdentifyLayer, Kind, PeekLayer, Phase,
    Refusal, RespondLayer, Target,
};
use serde_json::Value;
use support::{Do, JSON, SSE, Script, response};
use tower::{Layer, Service, ServiceExt, service_fn};

const CHAT: &str = "http://h/v1/chat/completions";
const HEL: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const FILTERED: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n";
const WHOLE: &str =
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";

fn post<B>(body: B) -> Request<B> {
    Request::post(CHAT).body(body).unwrap()
}

fn client(
    answer: impl Fn() -> Response<Script>,
) -> impl Service<
    Request<Full<Bytes>>,
    Response = Response<Script>,
    Error = BoxError,
    Future: Future<Output = Result<Response<Script>, BoxError>>,
> + Clone {
    let answer = std::sync::Arc::new(answer);
    service_fn(move |_: Request<Full<Bytes>>| ready(Ok(answer())))
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// What the caller reads of an error.
async fn said(error: impl Into<BoxError>) -> (HeaderMap, Value) {
    let error = std::cell::Cell::new(Some(error.into()));
    let stack = service_fn(|_: Request<()>| {
        ready(Err::<Response<llm_call::AnswerBody>, _>(
            error.take().unwrap(),
        ))
    });
    let layer = RespondLayer::new().details(true);
    let response = layer.layer(stack).oneshot(post(())).await;
    let (parts, body) = response.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.headers, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn an_error_s_text_stays_text() {
    for odd in [
        "a\r\nset-cookie: x=1\r\n\r\n<script>",
        "\0\u{1b}[31m\u{7f}\u{2028}",
        "\"}],\\\"x\":{",
        "ünï\u{1f600}\u{fffd}",
        &"long ".repeat(100_000),
    ] {
        let error = Error::new(Kind::ConnectionLost).with_source(odd.to_owned());
        let (headers, json) = said(error).await;
        for (name, value) in &headers {
            assert!(value.to_str().is_ok(), "{name}");
            assert_ne!(name, "set-cookie");
        }
        let message = json["error"]["message"].as_str().unwrap();
        assert!(message.len() < 1100, "{}", message.len());
        assert!(message.contains(&odd[..odd.len().min(5)]));
    }
}

#[tokio::test]
async fn no_key_reaches_the_caller() {
    let url = "https://u:SECRET@h/v1beta/models/m:generateContent?$fields=a,b&key=SECRET";
    let sources: [BoxError; 3] = [
        format!("error sending request for url ({url})").into(),
        std::io::Error::other(format!("{url}: refused")).into(),
        Error::new(Kind::Unknown)
            .with_source(format!("\"{url}\", {url}"))
            .into(),
    ];
    for source in sources {
        let error = Error::new(Kind::ConnectFailed).with_source(source);
        let (_, json) = said(error).await;
        let text = json.to_string();
        assert!(
            !text.contains("SECRET") && text.contains("/v1beta/models"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_refusal_that_breaks_off_is_not_made_whole() {
    let steps = [
        Do::Data(FILTERED),
        Do::Fail(std::io::ErrorKind::ConnectionReset),
    ];
    let client = client(move || response(200, SSE, Script::new(steps.clone())));
    let stack = RespondLayer::new().layer(PeekLayer::new().layer(client));
    let answer = stack.oneshot(post(Full::default())).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        FILTERED
    );
    assert!(!body.is_end_stream());
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.is_end_stream() && body.frame().await.is_none());
}

#[tokio::test]
async fn a_failure_without_words_is_given_some() {
    for (media, body) in [
        (SSE, "data: {\"error\":{}}\n\n"),
        (SSE, "event: error\n\n"),
        (SSE, "event: error\ndata: {}\n\n"),
        (SSE, "event: error\ndata: \n\n"),
        (JSON, "{\"error\":{}}"),
        (JSON, "{\"error\":\"\"}"),
        (JSON, "{\"error\":[]}"),
        (JSON, "[]"),
        (JSON, "null"),
        (JSON, "7"),
        (SSE, "error: \n\n"),
        (SSE, "{\"error\":null}\n\n"),
    ] {
        let client = client(move || response(200, media, Script::new([Do::Data(body)])));
        let stack = RespondLayer::new().layer(PeekLayer::new().layer(client));
        let answer = stack.oneshot(post(Full::default())).await.unwrap();
        let (status, media) = (answer.status(), answer.headers()["content-type"].clone());
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        if status != 200 {
            assert_eq!(media, JSON, "{body}");
            let json: Value = serde_json::from_slice(&text).unwrap();
            assert!(json["error"].is_object(), "{body}: {json}");
        } else {
            assert_eq!(text, body);
        }
    }
}

#[tokio::test]
async fn a_caller_that_leaves_ends_what_is_below() {
    for polls in 0..4 {
        let script = Script::new([
            Do::Data(HEL),
            Do::Data(HEL),
            Do::Data("data: half"),
            Do::Hang,
        ]);
        let live = script.live();
        let script = std::sync::Mutex::new(Some(script));
        let client = client(move || response(200, SSE, script.lock().unwrap().take().unwrap()));
        let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(client));
        let stack = RespondLayer::new().layer(stack);
        let call = Call::open(CallSettings::new());
        let mut request = post(Full::<Bytes>::default());
        request.extensions_mut().insert(call.clone());
        let mut body = stack.oneshot(request).await.unwrap().into_body();
        for _ in 0..polls {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut body).poll_frame(&mut context);
        }
        assert_eq!(live.load(Ordering::SeqCst), 1);
        drop(body);
        assert_eq!(live.load(Ordering::SeqCst), 0);
        let ended = call.ledger().ended.map(|(ending, _)| ending.kind());
        assert_eq!(ended, Some(Kind::Cancelled));
        assert_eq!(call.ledger().entries[0].kind, Some(Kind::Cancelled));
    }
}

/// JSON that parsers have died of.
fn adversarial() -> Vec<Vec<u8>> {
    let deep = |open: &str, close: &str, n: usize| (open.repeat(n) + &close.repeat(n)).into_bytes();
    vec![
        deep("[", "]", 10_000),
        deep("{\"a\":", "}", 10_000),
        deep("[", "", 1_000_000),
        deep("{\"messages\":[", "", 100_000),
        br#"{"model":"m","max_tokens":1e999}"#.to_vec(),
        format!("{{\"max_tokens\":{}}}", "9".repeat(100_000)).into_bytes(),
        br#"{"max_tokens":-1e308,"stream":"yes","model":7,"tools":0}"#.to_vec(),
        br#"{"model":"a","model":"b","stream":true,"stream":false}"#.to_vec(),
        b"{\"model\":\"\xff\xfe\"}".to_vec(),
        br#"{"model":"\ud800","stream":true}"#.to_vec(),
        br#"{"model":"\u0000\r\n"}"#.to_vec(),
        format!("{{\"model\":\"{}\"}}", "m".repeat(1 << 20)).into_bytes(),
        b"\0".to_vec(),
        b"\xEF\xBB\xBF{}".to_vec(),
        b"{}{}".to_vec(),
        b"\"\\".to_vec(),
    ]
}

#[tokio::test]
async fn no_json_is_too_odd() {
    for json in adversarial() {
        for frame in [json.len(), 1000.max(json.len() / 50)] {
            // As a request.
            let request = client(|| response(200, JSON, Script::new([Do::Data(WHOLE)])));
            let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(request));
            let answer = stack.oneshot(post(Full::<Bytes>::from(json.clone()))).await;
            assert_eq!(answer.unwrap().status(), 200);
            // As an answer, good and bad, and as an event.
            let event = [b"data: ", &json[..], b"\n\n"].concat();
            for (status, media, body) in
                [(200, JSON, &json), (400, JSON, &json), (200, SSE, &event)]
            {
                let frames = body.chunks(frame);
                let steps = frames.map(|frame| Do::Bytes(Bytes::copy_from_slice(frame)));
                let steps: Vec<_> = steps.collect();
                let client = client(move || response(status, media, Script::new(steps.clone())));
                let stack = RespondLayer::new().layer(PeekLayer::new().layer(client));
                let answer = stack.oneshot(post(Full::default())).await.unwrap();
                let _ = answer.into_body().collect().await;
            }
        }
    }
}

/// A body that says one thing of its size and does another.
struct Liar {
    says: SizeHint,
    frames: u32,
}

impl Body for Liar {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.frames == 0 {
            return Poll::Ready(None);
        }
        self.frames -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"12345678")))))
    }

    fn size_hint(&self) -> SizeHint {
        self.says
    }
}

#[tokio::test]
async fn the_length_of_a_request_is_what_came() {
    for (says, frames, sent) in [
        (SizeHint::default(), 3, Some(24)),
        (SizeHint::with_exact(1), 3, Some(24)),
        (SizeHint::with_exact(60), 3, Some(24)),
        (SizeHint::with_exact(0), 8, Some(64)),
        (SizeHint::with_exact(0), 9, None),
        (SizeHint::with_exact(u64::MAX), 1, None),
        (SizeHint::default(), u32::MAX, None),
    ] {
        let seen = std::sync::Mutex::new(None);
        let client = service_fn(|request: Request<Full<Bytes>>| {
            let length = request.headers()["content-length"]
                .to_str()
                .unwrap()
                .parse::<u64>();
            assert_eq!(request.body().size_hint().exact(), length.clone().ok());
            *seen.lock().unwrap() = length.ok();
            ready(Ok::<_, BoxError>(response(
                200,
                JSON,
                Script::new([Do::Data(WHOLE)]),
            )))
        });
        let stack = IdentifyLayer::new()
            .max_body(64)
            .layer(PeekLayer::new().layer(client));
        let mut request = post(Liar { says, frames });
        // Request smuggling: two lengths, and a coding.
        let headers = request.headers_mut();
        headers.append("content-length", 5.into());
        headers.append("content-length", 500.into());
        headers.append("transfer-encoding", "chunked".parse().unwrap());
        let result = stack.oneshot(request).await.map(drop);
        assert_eq!(*seen.lock().unwrap(), sent);
        if sent.is_none() {
            assert_eq!(Kind::of(&*result.unwrap_err()), Kind::RequestTooLarge);
        }
    }
}

#[tokio::test]
async fn a_stack_that_is_never_ready_is_left_when_the_caller_leaves() {
    #[derive(Clone)]
    struct Never;
    impl Service<Request<Full<Bytes>>> for Never {
        type Response = Response<llm_call::AnswerBody>;
        type Error = BoxError;
        type Future = std::future::Pending<Result<Self::Response, BoxError>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Pending
        }
        fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
            pending()
        }
    }
    for polls in 0..3 {
        let call = Call::open(CallSettings::new());
        let mut request = post(Full::<Bytes>::default());
        request.extensions_mut().insert(call.clone());
        let mut future = Box::pin(IdentifyLayer::new().layer(Never).call(request));
        for _ in 0..polls {
            let mut context = Context::from_waker(Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        assert!(call.ledger().ended.is_none());
        drop(future);
        assert!(call.ledger().ended.is_some());
    }
}

#[test]
fn c04_the_cap_holds_among_threads() {
    for cap in [1, 6, 100] {
        let call = Call::open(CallSettings::new().max_attempts(cap));
        let (sent, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        let client = service_fn(|_: Request<()>| {
                            sent.fetch_add(1, Ordering::SeqCst);
                            let body = Script::new([Do::Data(HEL), Do::Data(STOP)]);
                            ready(Ok::<_, BoxError>(response(200, SSE, body)))
                        });
                        let mut request = post(());
                        request.extensions_mut().insert(call.clone());
                        request.extensions_mut().insert(Attempt::new(call.number()));
                        match now(PeekLayer::new().layer(client).call(request)) {
                            Ok(answer) => drop(now(answer.into_body().collect())),
                            Err(error) => {
                                let spent = Kind::Refused(Refusal::AttemptsSpent);
                                assert_eq!(Kind::of(&*error), spent);
                                refused.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                        assert!(call.sent() <= cap);
                    }
                });
            }
        });
        assert_eq!(sent.load(Ordering::SeqCst), cap);
        assert_eq!(refused.load(Ordering::SeqCst), 240 - cap);
        assert_eq!((call.sent(), call.attempts_left()), (cap, 0));
        let ledger = call.ledger();
        let mut numbers: Vec<_> = ledger.entries.iter().map(|entry| entry.n).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=240).collect::<Vec<_>>());
        assert!(ledger.entries.iter().all(|entry| entry.kind.is_some()));
        let good = ledger
            .sent()
            .filter(|entry| entry.kind == Some(Kind::Success));
        assert_eq!(good.count(), cap as usize);
    }
}

#[test]
fn f02_leases_among_threads_are_exclusive_and_come_back() {
    let call = Call::open(CallSettings::new());
    let targets: Vec<Target> = ["a", "b", "c"].map(|text| text.parse().unwrap()).into();
    let holders = [const { AtomicU32::new(0) }; 3];
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (call, targets, holders) = (&call, &targets, &holders);
            scope.spawn(move || {
                for round in 0..500 {
                    let i = (thread + round) % 3;
                    if let Some(lease) = call.lease(&targets[i]) {
                        assert_eq!(holders[i].fetch_add(1, Ordering::SeqCst), 0);
                        holders[i].fetch_sub(1, Ordering::SeqCst);
                        lease.give_back();
                    }
                    call.tighten(tokio::time::Instant::now() + Duration::from_secs(60));
                }
            });
        }
    });
    assert!(targets.iter().all(|target| call.is_free(target)));
}

#[tokio::test]
async fn a_record_is_closed_on_every_path_and_keeps_its_own_cause() {
    let call = Call::open(CallSettings::new().max_attempts(100));
    let send = |answer: fn() -> Response<Script>| {
        let mut request = post(Full::default());
        request.extensions_mut().insert(call.clone());
        // A foreign retry clones the copy with its number.
        request.extensions_mut().insert(Attempt::new(7));
        PeekLayer::new().layer(client(answer)).oneshot(request)
    };
    let hang = || response(200, SSE, Script::new([Do::Hang]));
    let mut first = Box::pin(send(hang));
    let mut second = Box::pin(send(hang));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    // The later one of two with one number is meant; then the one that is left.
    call.set_cause(7, Cause::HedgeLost);
    drop(second);
    call.set_cause(7, Cause::TimedOut(Phase::Idle));
    call.set_cause(7, Cause::HedgeLost);
    call.set_cause(8, Cause::HedgeLost);
    drop(first);
    // A client that panics, when it is called and when it is read.
    let mut panics = PeekLayer::new().layer(service_fn(|_: Request<()>| {
        if true {
            panic!("when it is called");
        }
        ready(Ok::<_, BoxError>(response(200, SSE, Script::new([]))))
    }));
    let mut request = post(());
    request.extensions_mut().insert(call.clone());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(panics.call(request)))).is_err());
    let mut read = Box::pin(send(|| response(200, SSE, Script::new([Do::Panic]))));
    let polled = catch_unwind(AssertUnwindSafe(|| {
        read.as_mut().poll(&mut context).is_ready()
    }));
    assert!(polled.is_err());
    drop(read);
    // One that is not polled is not sent, or is closed.
    drop(send(hang));
    let kinds: Vec<_> = call
        .ledger()
        .entries
        .iter()
        .map(|entry| entry.kind)
        .collect();
    let timed_out = Kind::TimedOut(Phase::Idle);
    assert_eq!(
        kinds,
        [timed_out, Kind::Cancelled, Kind::Cancelled, Kind::Cancelled].map(Some)
    );
}
