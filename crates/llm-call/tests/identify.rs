//! The edge where requests come in.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail the test")]

mod scripted;

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use llm_call::{
    Answer, Attempt, BoxError, Call, CallSettings, Capability, Ending, Error, IdentifyLayer, Kind,
    PeekLayer, Refusal, Workload,
};
use scripted::{Break, Data, Hang, JSON, SSE, Script, Step, answer, answering, read, script};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimit, service_fn};

const CHAT: &str = "http://h/v1/chat/completions";
const STREAMING: &str = r#"{"model":"m","stream":true,"unknown":[1,{"x":null}]}"#;
const GOOD: &[Step] = &[
    Data("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"),
    Data("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"),
    Data("data: [DONE]\n\n"),
];
const TOKEN: Step = GOOD[0];

type BoxAnswer = std::pin::Pin<Box<dyn Answer<Data = Bytes, Error = BoxError>>>;

fn post<B>(body: B) -> Request<B> {
    Request::post(CHAT).body(body).unwrap()
}

fn with_call<B>(body: B) -> (Request<B>, Call) {
    let call = Call::open(CallSettings::new());
    let mut request = post(body);
    request.extensions_mut().insert(call.clone());
    (request, call)
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn the_request_goes_on_as_it_came() {
    let seen = Arc::new(Mutex::new(None));
    let client = {
        let seen = seen.clone();
        service_fn(move |request: Request<Full<Bytes>>| {
            let seen = seen.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                *seen.lock().unwrap() = Some((parts, body));
                Ok::<_, BoxError>(answer(200, SSE, GOOD))
            }
        })
    };
    let stack = IdentifyLayer::new()
        .settings(|parts| {
            CallSettings::new()
                .tenant(parts.headers["x-tenant"].to_str().unwrap())
                .workload(Workload::Background)
        })
        .layer(PeekLayer::new().layer(client));
    let request = Request::post(CHAT)
        .header("x-tenant", "acme")
        .header("x-own", "kept")
        .header("transfer-encoding", "chunked")
        .body(script(&[
            Data(r#"{"model":"m","str"#),
            Data(""),
            Data(r#"eam":true,"unknown":[1,{"x":null}]}"#),
        ]))
        .unwrap();
    stack.oneshot(request).await.unwrap();
    let (parts, body) = seen.lock().unwrap().take().unwrap();
    assert_eq!(body, STREAMING);
    assert_eq!(parts.headers["content-length"], STREAMING.len().to_string());
    assert_eq!(parts.headers["x-own"], "kept");
    assert!(!parts.headers.contains_key("transfer-encoding"));
    let attempt = parts.extensions.get::<Attempt>().unwrap();
    assert_eq!(attempt.n, 1);
    assert_eq!(attempt.target.as_ref().unwrap().as_str(), "h:m:streaming");
    let call = parts.extensions.get::<Call>().unwrap();
    assert_eq!(call.tenant(), Some("acme"));
    assert_eq!(call.workload(), Workload::Background);
    assert_eq!(call.facts().unwrap().streamed, Some(true));
    assert_eq!(
        call.facts().unwrap().input_tokens,
        STREAMING.len() as u64 / 4
    );
}

#[test]
fn a_stack_whose_settings_are_a_closure_can_be_printed() {
    let layer = IdentifyLayer::new()
        .provider("openai")
        .unwrap()
        .settings(|_| CallSettings::new());
    assert!(format!("{layer:?}").contains("openai"));
    let stack = format!("{:?}", layer.layer("the service below"));
    assert!(stack.contains("the service below") && stack.contains("openai"));
}

#[tokio::test]
async fn errors_of_any_type_come_up_from_below() {
    #[derive(Clone)]
    struct Own(bool);
    impl Service<Request<Full<Bytes>>> for Own {
        type Response = Response<BoxAnswer>;
        type Error = Error;
        type Future = std::future::Ready<Result<Response<BoxAnswer>, Error>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(if self.0 {
                Ok(())
            } else {
                Err(Error::new(Kind::Refused(Refusal::BulkheadFull)))
            })
        }
        fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
            std::future::ready(Err(Error::new(Kind::Empty)))
        }
    }
    for (ready, kind) in [
        (true, Kind::Empty),
        (false, Kind::Refused(Refusal::BulkheadFull)),
    ] {
        let (request, call) = with_call(script(&[Data("{}")]));
        let failed = IdentifyLayer::new().layer(Own(ready)).oneshot(request);
        let error: BoxError = failed.await.unwrap_err();
        assert_eq!(Kind::of(&*error), kind);
        assert_eq!(call.ledger().ended.unwrap().0.kind(), kind);
    }
}

#[tokio::test]
async fn a_request_without_a_body_gets_no_length() {
    let client = service_fn(async |request: Request<Full<Bytes>>| {
        assert!(!request.headers().contains_key("content-length"));
        Ok::<_, BoxError>(answer(200, JSON, &[Data("{\"data\":[]}")]))
    });
    let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(client));
    let request = Request::get("http://h/v1/models")
        .body(script(&[]))
        .unwrap();
    assert_eq!(read(stack.oneshot(request).await.unwrap()).await.0, 200);
}

#[tokio::test]
async fn an_answer_says_who_served_it() {
    let stack = IdentifyLayer::new()
        .provider("openai")
        .unwrap()
        .layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
    let response = stack
        .oneshot(post(script(&[Data(STREAMING)])))
        .await
        .unwrap();
    assert_eq!(response.headers()["x-llm-provider"], "openai");
    assert_eq!(response.headers()["x-llm-model"], "m");
    assert_eq!(response.headers()["x-llm-attempts"], "1");

    // An error answer says it too.
    let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(answering(
        503,
        JSON,
        &[Data("{\"error\":{\"message\":\"x\"}}")],
    )));
    let response = stack.oneshot(post(script(&[Data("{")]))).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["x-llm-provider"], "h");
    assert!(!response.headers().contains_key("x-llm-model"));
}

#[tokio::test]
async fn an_answer_need_not_say_who_served_it() {
    let stack = IdentifyLayer::new()
        .stamp(false)
        // Kept when the settings are set after it.
        .settings(|_| CallSettings::new())
        .layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
    let response = stack
        .oneshot(post(script(&[Data(STREAMING)])))
        .await
        .unwrap();
    let mut names = response.headers().keys();
    assert!(!names.any(|name| name.as_str().starts_with("x-llm-")));
}

#[test]
fn a_provider_that_cannot_be_one_is_refused() {
    for name in ["", "a:b", "a\n"] {
        assert!(IdentifyLayer::new().provider(name).is_err(), "{name:?}");
    }
}

#[tokio::test]
async fn the_target_of_the_caller_is_kept_and_completed() {
    for (target, expected) in [
        (Some("a"), "a:m:streaming"),
        (Some("a:other"), "a:other:streaming"),
        (None, "h:m:streaming"),
    ] {
        let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
        let mut request = post(script(&[Data(STREAMING)]));
        request
            .extensions_mut()
            .insert(Attempt::new(1).with_target(target.map(|text| text.parse().unwrap())));
        let response = stack.oneshot(request).await.unwrap();
        let target = llm_call::Answer::state(response.body()).target();
        assert_eq!(target.unwrap().as_str(), expected);
    }
}

#[tokio::test]
async fn what_no_target_can_hold_falls_back() {
    // No host, and a model that no header can hold.
    let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
    let request = Request::post("/v1/chat/completions")
        .body(script(&[Data("{\"model\":\"a\\nb\",\"stream\":true}")]))
        .unwrap();
    let response = stack.oneshot(request).await.unwrap();
    let target = llm_call::Answer::state(response.body()).target().unwrap();
    assert_eq!(target.as_str(), "default:streaming");
    assert_eq!(target.capability(), Some(Capability::Streaming));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_anything_is_sent() {
    let layer = IdentifyLayer::new().max_body(10);
    let stack = layer.layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
    for (steps, ok) in [
        (&[Data("12345"), Data("67890")][..], true),
        (&[Data("12345"), Data("678901")], false),
        // It is not read to its end to find out.
        (&[Data("12345678901"), Hang], false),
    ] {
        let (request, call) = with_call(script(steps));
        let result = stack.clone().oneshot(request).await;
        match result {
            Ok(_) => assert!(ok, "{steps:?}"),
            Err(error) => {
                assert!(!ok, "{steps:?}");
                assert_eq!(Kind::of(&*error), Kind::RequestTooLarge);
                let source = std::error::Error::source(&*error).unwrap().to_string();
                assert!(source.contains("IdentifyLayer::max_body"), "{source}");
                assert_eq!(call.sent(), 0);
            }
        }
    }
    // A length that is known is enough.
    let error = stack
        .oneshot(post(Full::new(Bytes::from("12345678901"))))
        .await
        .unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::RequestTooLarge);
}

#[tokio::test]
async fn the_limit_of_another_layer_is_a_limit() {
    let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
    let request = post(Limited::new(script(&[Data("123456")]), 5));
    let error = stack.oneshot(request).await.unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::RequestTooLarge);
}

/// How the call ended, by its ledger.
fn ended(call: &Call) -> Option<Kind> {
    call.ledger().ended.map(|(ending, _)| ending.kind())
}

#[tokio::test]
async fn one_final_record_when_the_answer_ends() {
    for (status, media, steps, expected) in [
        (200, SSE, GOOD, Kind::Success),
        (200, SSE, &[TOKEN, Break][..], Kind::Interrupted),
        (200, SSE, &[TOKEN], Kind::Interrupted),
        (503, JSON, &[Data("{}")], Kind::Overloaded),
        (200, SSE, &[Break], Kind::Interrupted),
        (200, JSON, &[], Kind::Empty),
    ] {
        let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(service_fn(
            move |_: Request<Full<Bytes>>| async move {
                Ok::<_, BoxError>(answer(status, media, steps))
            },
        )));
        let (request, call) = with_call(script(&[Data(STREAMING)]));
        if let Ok(response) = stack.oneshot(request).await {
            let _ = read(response).await;
        }
        assert_eq!(ended(&call), Some(expected), "{status} {steps:?}");
        assert_eq!(call.ledger().entries.len(), 1);
    }
}

#[tokio::test]
async fn one_final_record_when_there_is_no_answer() {
    // The upload breaks off.
    let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(answering(200, SSE, GOOD)));
    let (request, call) = with_call(script(&[Data("{"), Break]));
    let error = stack.oneshot(request).await.unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::Cancelled);
    assert_eq!(ended(&call), Some(Kind::Cancelled));

    // The service below never becomes ready.
    #[derive(Clone)]
    struct Unready;
    impl Service<Request<Full<Bytes>>> for Unready {
        type Response = Response<Script>;
        type Error = BoxError;
        type Future = std::future::Ready<Result<Response<Script>, BoxError>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Err(Error::new(Kind::Refused(Refusal::BulkheadFull)).into()))
        }
        fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
            unreachable!("it is not ready")
        }
    }
    let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(Unready));
    let (request, call) = with_call(script(&[]));
    stack.oneshot(request).await.unwrap_err();
    assert_eq!(ended(&call), Some(Kind::Refused(Refusal::BulkheadFull)));
}

#[tokio::test]
async fn c3_one_final_record_wherever_the_call_is_dropped() {
    let hanging = || {
        IdentifyLayer::new().layer(
            PeekLayer::new().layer(service_fn(|_: Request<Full<Bytes>>| {
                std::future::pending::<Result<Response<Script>, BoxError>>()
            })),
        )
    };
    // Before the first poll.
    let (request, call) = with_call(script(&[]));
    drop(hanging().call(request));
    assert_eq!(ended(&call), Some(Kind::Cancelled));

    // While the request is read.
    let (request, call) = with_call(script(&[Data("{"), Hang]));
    {
        let mut future = pin!(hanging().call(request));
        assert!(poll_once(future.as_mut()).is_pending());
        assert_eq!(ended(&call), None);
    }
    assert_eq!(ended(&call), Some(Kind::Cancelled));
    assert_eq!(call.sent(), 0);

    // While the answer is waited for.
    let (request, call) = with_call(script(&[Data("{}")]));
    {
        let mut future = pin!(hanging().call(request));
        assert!(poll_once(future.as_mut()).is_pending());
        assert_eq!((ended(&call), call.sent()), (None, 1));
    }
    assert_eq!(ended(&call), Some(Kind::Cancelled));

    // Within the answer: never polled, and after a frame.
    for frames in [0, 1] {
        let stack = IdentifyLayer::new().layer(PeekLayer::new().layer(answering(
            200,
            SSE,
            &[TOKEN, TOKEN, Hang],
        )));
        let (request, call) = with_call(script(&[Data(STREAMING)]));
        let mut body = stack.oneshot(request).await.unwrap().into_body();
        for _ in 0..frames {
            body.frame().await.unwrap().unwrap();
        }
        assert_eq!(ended(&call), None);
        drop(body);
        assert!(matches!(call.ledger().ended, Some((Ending::Dropped, _))));
    }
}

#[tokio::test]
async fn r18_a_slow_upload_holds_no_permit() {
    let limited = ConcurrencyLimit::new(PeekLayer::new().layer(answering(200, SSE, GOOD)), 1);
    let stack = IdentifyLayer::new().layer(limited);
    let mut slow = pin!(stack.clone().oneshot(post(script(&[Data("{"), Hang]))));
    assert!(poll_once(slow.as_mut()).is_pending());
    // A ready clone that is not called holds none either.
    let mut idle = stack.clone();
    ServiceExt::<Request<Script>>::ready(&mut idle)
        .await
        .unwrap();
    let response = tokio::time::timeout(
        Duration::from_secs(5),
        stack.clone().oneshot(post(script(&[Data("{}")]))),
    )
    .await
    .expect("the permit is free")
    .unwrap();
    assert_eq!(response.status(), 200);
    drop(idle);
}

#[tokio::test]
async fn r18_a_call_waits_for_its_own_permit() {
    let (send, receive) = tokio::sync::watch::channel(false);
    let client = service_fn(move |_: Request<Full<Bytes>>| {
        let mut receive = receive.clone();
        async move {
            receive.wait_for(|go| *go).await.unwrap();
            Ok::<_, BoxError>(answer(200, SSE, GOOD))
        }
    });
    let stack = ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .concurrency_limit(1)
        .layer(PeekLayer::new())
        .service(client);
    let (first, first_call) = with_call(script(&[Data("{}")]));
    let (second, second_call) = with_call(script(&[Data("{}")]));
    let mut first = pin!(stack.clone().oneshot(first));
    let mut second = pin!(stack.oneshot(second));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert_eq!((first_call.sent(), second_call.sent()), (1, 0));
    send.send(true).unwrap();
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap().status(), 200);
    assert_eq!(second.unwrap().status(), 200);
}
