//! When a failure is sent again, on paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod common;

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use common::*;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use llm_call::{
    Answer, Attempt, BoxError, Call, CallSettings, Ending, Error, Kind, PeekLayer, Phase, Refusal,
    ResponseExt, find_cause,
};
use llm_chaos::testing::{BodyStep, Respond, service};
use llm_retry::{RetryBudget, RetryLayer};
use tokio::time::{Instant, advance};
use tokio::{join, pin};
use tower::{
    ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer, service_fn,
};

#[tokio::test(start_paused = true)]
async fn r01_a_target_gets_at_most_three_attempts() {
    let client = service([status(503)]);
    let gauges = client.gauges();
    let call = open();
    let answer = default_stack(&RetryBudget::new(), client)
        .oneshot(request_of(&call))
        .await
        .unwrap();
    assert_eq!(answer.outcome().kind, Kind::Overloaded);
    assert_eq!((gauges.calls(), call.sent()), (3, 3));
    // 250 ms and 500 ms at the most, and what is waited is what is noted.
    let (waited, took) = (call.ledger().waited, call.opened().elapsed());
    assert!(waited < millis(750));
    assert!(took >= waited && took < waited + millis(5));
}

#[tokio::test(start_paused = true)]
async fn r01_a_call_may_allow_fewer_retries_and_not_more() {
    for (allowed, sent) in [(0, 1), (1, 2), (9, 3)] {
        let client = service([status(503)]);
        let gauges = client.gauges();
        let call = Call::open(CallSettings::new().retries(allowed));
        let stack = default_stack(&RetryBudget::new(), client);
        stack.oneshot(request_of(&call)).await.unwrap();
        assert_eq!(gauges.calls(), sent, "{allowed} allowed");
    }
}

#[tokio::test(start_paused = true)]
async fn r01_the_attempts_of_the_call_are_the_limit() {
    for (attempts, sent) in [(1, 1), (2, 2), (6, 3)] {
        let client = service([status(503)]);
        let gauges = client.gauges();
        let call = Call::open(CallSettings::new().max_attempts(attempts));
        let budget = RetryBudget::new();
        let stack = default_stack(&budget, client);
        let answer = stack.oneshot(request_of(&call)).await.unwrap();
        // The provider's answer, and not a refusal of ours.
        assert_eq!((answer.status().as_u16(), gauges.calls()), (503, sent));
        assert_eq!(budget.balance(None), 4.0 - sent as f64);
        assert_eq!(call.ledger().entries.len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn r15_each_status_is_retried_as_often_as_its_kind_allows() {
    for (code, calls) in [
        (429, 3),
        (502, 3),
        (503, 3),
        (504, 3),
        (529, 3),
        (408, 3),
        (500, 2),
        (400, 1),
        (401, 1),
        (402, 1),
        (403, 1),
        (404, 1),
        (413, 1),
        (422, 1),
    ] {
        let client = service([status(code)]);
        let gauges = client.gauges();
        let stack = default_stack(&RetryBudget::new(), client);
        let answer = stack.oneshot(request()).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), gauges.calls()),
            (code, calls),
            "{code}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn r15_what_the_body_says_counts_more_than_the_status() {
    for (code, body, calls) in [
        (
            429,
            r#"{"error":{"code":"insufficient_quota","message":"x"}}"#,
            1,
        ),
        (
            400,
            r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
            1,
        ),
        (
            400,
            r#"{"error":{"code":"content_filter","message":"x"}}"#,
            1,
        ),
        (200, "<html>", 2),
    ] {
        let code = http::StatusCode::from_u16(code).unwrap();
        let media = if body.starts_with('<') {
            "text/html"
        } else {
            "application/json"
        };
        let client =
            service([Respond::status(code, [BodyStep::data(body)]).header("content-type", media)]);
        let gauges = client.gauges();
        let _ = default_stack(&RetryBudget::new(), client)
            .oneshot(request())
            .await;
        assert_eq!(gauges.calls(), calls, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_before_its_first_token_is_retried() {
    let event = "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}\n\n";
    for first in [
        stream([BodyStep::data(event)]),
        stream([BodyStep::data(": ping\n\n"), BodyStep::Error("reset")]),
        stream([BodyStep::data("data: [DONE]\n\n")]),
    ] {
        let client = service([first, stream([BodyStep::data(TOKEN), BodyStep::data(END)])]);
        let gauges = client.gauges();
        let stack = default_stack(&RetryBudget::new(), client);
        let answer = stack.oneshot(request()).await.unwrap();
        assert!(answer.outcome().is_success());
        assert_eq!(gauges.calls(), 2);
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes, format!("{TOKEN}{END}"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_transport_says_is_retried() {
    for io in [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
    ] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let client = service_fn(move |_: Request<String>| {
            let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first {
                    return Err(BoxError::from(io::Error::from(io)));
                }
                let answer = Response::builder().header("content-type", "application/json");
                Ok(answer.body(Full::<Bytes>::from(WHOLE)).unwrap())
            }
        });
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryBudget::new()).alone())
            .service(client);
        let answer = stack.oneshot(request()).await.unwrap();
        assert!(answer.outcome().is_success());
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_500_after_a_503_is_retried_once_and_a_500_after_that_is_not() {
    let client = service([status(500), status(503), status(500), status(200)]);
    let gauges = client.gauges();
    let layer = RetryLayer::new(RetryBudget::new()).retries(5);
    let answer = stack(layer, client).oneshot(request()).await.unwrap();
    assert_eq!((answer.status().as_u16(), gauges.calls()), (500, 3));
}

#[tokio::test(start_paused = true)]
async fn r09_nothing_is_retried_after_the_first_token() {
    let client = service([
        stream([BodyStep::data(TOKEN), BodyStep::Error("reset")]),
        whole(),
    ]);
    let gauges = client.gauges();
    let budget = RetryBudget::new();
    let answer = default_stack(&budget, client)
        .oneshot(request())
        .await
        .unwrap();
    let error = answer.into_body().collect().await.unwrap_err();
    assert_eq!(kind(&error), Kind::Interrupted);
    assert_eq!((gauges.calls(), budget.balance(None)), (1, 3.0));
}

#[tokio::test(start_paused = true)]
async fn r09_a_failed_answer_is_gone_before_the_wait() {
    let large = || [BodyStep::data("x".repeat(70_000)), BodyStep::Hang];
    let stall = [BodyStep::data("{"), BodyStep::Hang];
    let event = "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}\n\n";
    let gateway = http::StatusCode::BAD_GATEWAY;
    for first in [
        status(503),
        Respond::status(gateway, large()),
        Respond::status(gateway, large()).header("content-length", "90000"),
        Respond::status(gateway, stall.clone()),
        Respond::status(gateway, stall).header("content-encoding", "br"),
        stream([BodyStep::data(event), BodyStep::Hang]),
        Respond::error("broken"),
    ] {
        let client = service([first.after(millis(5)), whole()]);
        let gauges = client.gauges();
        let budget = RetryBudget::new();
        let layer = RetryLayer::new(budget.clone()).backoff(seconds(1000), seconds(1000));
        let future = stack(layer, client).oneshot(request());
        pin!(future);
        let mut polls = 0;
        while budget.balance(None) == 3.0 {
            assert!(futures_poll(future.as_mut()).await);
            advance(millis(5)).await;
            polls += 1;
            assert!(polls < 1000);
        }
        assert_eq!(
            (gauges.calls(), gauges.live_futures(), gauges.live_bodies()),
            (1, 0, 0),
            "{future:?}"
        );
        assert!(future.await.unwrap().outcome().is_success());
        assert_eq!(gauges.calls(), 2);
    }
}

/// One poll; whether it is pending.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test(start_paused = true)]
async fn r09_one_permit_is_enough_for_a_whole_call() {
    let client = service([status(503), Respond::error("broken"), whole()]);
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryBudget::new()))
        .layer(PeekLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(client);
    let answer = tokio::time::timeout(seconds(60), stack.oneshot(request()));
    assert!(answer.await.unwrap().unwrap().outcome().is_success());
}

#[tokio::test(start_paused = true)]
async fn cb08_what_a_load_shedder_stops_is_a_refusal_and_is_not_retried() {
    let budget = RetryBudget::new();
    let client = service([whole().after(seconds(1))]);
    let gauges = client.gauges();
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(budget.clone()).alone())
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(client);
    let (first, second) = join!(
        stack.clone().oneshot(request()),
        stack.clone().oneshot(request())
    );
    let full = Kind::Refused(Refusal::BulkheadFull);
    assert_eq!(kind(&second.unwrap_err()), full);
    drop(first.unwrap());
    assert_eq!((gauges.calls(), budget.balance(None)), (1, 3.1));
}

#[tokio::test(start_paused = true)]
async fn r10_every_attempt_is_the_same_to_the_byte() {
    type Copy = (String, Vec<(String, Vec<u8>)>, Bytes, Option<Attempt>);
    let seen: Arc<Mutex<Vec<Copy>>> = Arc::default();
    let log = seen.clone();
    let client = service_fn(move |request: Request<Full<Bytes>>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            let headers = parts.headers.iter();
            let headers = headers.map(|(k, v)| (k.to_string(), v.as_bytes().to_vec()));
            let line = format!("{} {} {:?}", parts.method, parts.uri, parts.version);
            let attempt = parts.extensions.get::<Attempt>().cloned();
            let body = body.collect().await.unwrap().to_bytes();
            log.lock()
                .unwrap()
                .push((line, headers.collect(), body, attempt));
            let answer = Response::builder().status(503);
            Ok::<_, BoxError>(answer.body(Full::<Bytes>::from("{}")).unwrap())
        }
    });
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryBudget::new()).alone())
        .service(client);
    let mut request = Request::post("https://api/v1/chat/completions?x=%20")
        .header("idempotency-key", "7f9c")
        .header("x-twice", "a")
        .header("x-twice", &b"\xff"[..])
        .header("authorization", "Bearer k")
        .body(Full::<Bytes>::from("{ \"a\" :1}\n"))
        .unwrap();
    let attempt = Attempt::new(7).with_target(Some("a:m".parse().unwrap()));
    request.extensions_mut().insert(attempt);
    stack.oneshot(request).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|copy| *copy == seen[0]));
    assert_eq!(seen[0].2, "{ \"a\" :1}\n");
    assert!(
        seen[0]
            .1
            .contains(&("idempotency-key".into(), b"7f9c".to_vec()))
    );
    assert_eq!(seen[0].3.as_ref().unwrap().n, 7);
}

/// A body that counts its clones.
#[derive(Default)]
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        Counted(self.0.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_cloned_only_where_another_attempt_can_follow() {
    // Two retries: the last one takes the last copy.
    for (retries, attempts, calls, clones) in [
        (0, 6, 1, 0),
        (2, 1, 1, 0),
        (2, 2, 2, 1),
        (1, 6, 2, 1),
        (2, 6, 3, 2),
    ] {
        let client = service([status(503)]);
        let gauges = client.gauges();
        let layer = RetryLayer::new(RetryBudget::new()).retries(retries);
        let body = Counted::default();
        let clone_count = body.0.clone();
        let mut request = Request::post("/v1/chat/completions").body(body).unwrap();
        let call = Call::open(CallSettings::new().max_attempts(attempts));
        request.extensions_mut().insert(call);
        stack(layer, client).oneshot(request).await.unwrap();
        assert_eq!(gauges.calls(), calls);
        assert_eq!(clone_count.load(Ordering::SeqCst), clones);
    }
}

#[tokio::test(start_paused = true)]
async fn r11_without_time_for_an_attempt_the_failure_itself_comes_at_once() {
    for (timeout, calls) in [(499, 1), (500, 2)] {
        let client = service([status(503)]);
        let gauges = client.gauges();
        let call = within(timeout);
        let budget = RetryBudget::new();
        let layer = RetryLayer::new(budget.clone())
            .backoff(Duration::ZERO, seconds(5))
            .retries(1);
        let answer = stack(layer, client)
            .oneshot(request_of(&call))
            .await
            .unwrap();
        assert_eq!((answer.status().as_u16(), gauges.calls()), (503, calls));
        assert!(call.opened().elapsed() < millis(5));
        assert_eq!(budget.balance(None), 4.0 - calls as f64);
    }
}

/// The same request, of which a layer above ends this copy so much later.
fn with_share(ms: u64, mut request: Request<String>) -> Request<String> {
    let attempt = request.extensions_mut().get_mut::<Attempt>().unwrap();
    attempt.share_ends = Some(Instant::now() + millis(ms));
    request
}

#[tokio::test(start_paused = true)]
async fn r11_a_target_keeps_to_its_share_while_others_are_left() {
    for (share, calls) in [(2000, 1), (3000, 2)] {
        let client = service([status(503).after(millis(1600)), whole()]);
        let gauges = client.gauges();
        let request = with_share(share, to("a:m", 1, request_of(&within(9000))));
        let stack = default_stack(&RetryBudget::new(), client);
        stack.oneshot(request).await.unwrap();
        assert_eq!(gauges.calls(), calls, "a share of {share} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn r17_a_retry_that_uses_up_the_share_does_not_hide_the_answer_before() {
    let client = service([later("100"), Respond::hang()]);
    let gauges = client.gauges();
    let (budget, call) = (RetryBudget::new(), within(9000));
    let request = with_share(3000, to("a:m", 1, request_of(&call)));
    let answer = default_stack(&budget, client).oneshot(request);
    let answer = tokio::time::timeout(seconds(9), answer).await;
    let answer = answer.unwrap().unwrap();
    assert_eq!((answer.status().as_u16(), gauges.live_futures()), (429, 0));
    assert!((millis(2999)..=millis(3001)).contains(&call.opened().elapsed()));
    let ledger = call.ledger();
    let last = ledger.entries.last().unwrap();
    assert_eq!(last.kind, Some(Kind::TimedOut(Phase::Share)));
    // It was sent, so it is paid for.
    assert_eq!(budget.balance(Some(&"a:m".parse().unwrap())), 2.0);
}

#[tokio::test(start_paused = true)]
async fn r12_a_hint_is_waited_for_in_full() {
    for (hint, least) in [
        (later("1500"), 1500),
        (status(429).header("retry-after", "3"), 3000),
        (status(503).header("retry-after", "1.5"), 1500),
        (status(429).header("retry-after", "-1"), 0),
        (status(429).header("retry-after", "soon"), 0),
        (
            status(429).header("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"),
            0,
        ),
    ] {
        let client = service([hint, whole()]);
        let gauges = client.gauges();
        let call = open();
        let stack = default_stack(&RetryBudget::new(), client);
        let answer = stack.oneshot(request_of(&call)).await.unwrap();
        assert!(answer.outcome().is_success());
        let waited = call.opened().elapsed();
        assert!(
            waited >= millis(least) && waited < millis(least + 252),
            "{waited:?}"
        );
        assert_eq!(gauges.calls(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn r12_a_hint_that_is_too_long_is_not_waited_for_at_all() {
    for (hint, timeout, alternatives, calls) in [
        ("2000", 25_000, 1, 2),
        ("2001", 25_000, 1, 1),
        ("2001", 25_000, 0, 2),
        ("24000", 25_000, 0, 2),
        ("24501", 25_000, 0, 1),
        ("61000", 0, 0, 1),
        ("99999999999999999999", 0, 0, 1),
    ] {
        let client = service([later(hint), whole()]);
        let gauges = client.gauges();
        let call = if timeout == 0 {
            open()
        } else {
            within(timeout)
        };
        let request = to("a:m", alternatives, request_of(&call));
        let answer = default_stack(&RetryBudget::new(), client)
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(gauges.calls(), calls, "{hint}, {alternatives} others");
        if calls == 1 {
            assert_eq!(answer.status(), 429);
            assert_eq!(answer.headers()["retry-after-ms"], hint);
            assert!(call.opened().elapsed() < millis(5));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r12_each_wait_follows_the_hint_of_the_last_failure() {
    let client = service([later("1000"), later("4000"), whole()]);
    let call = open();
    let stack = default_stack(&RetryBudget::new(), client);
    stack.oneshot(request_of(&call)).await.unwrap();
    let waited = call.ledger().waited;
    assert!(
        waited >= millis(5000) && waited < millis(5750),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn r13_no_two_requests_draw_the_same_waits() {
    let budget = RetryBudget::new().floor(100);
    let service = default_stack(&budget, service([status(503)]));
    let (a, b) = (open(), open());
    let (first, second) = join!(
        service.clone().oneshot(request_of(&a)),
        service.clone().oneshot(request_of(&b)),
    );
    first.unwrap();
    second.unwrap();
    let mut waits = HashSet::from([a.ledger().waited, b.ledger().waited]);
    for _ in 0..20 {
        let call = open();
        service.clone().oneshot(request_of(&call)).await.unwrap();
        waits.insert(call.ledger().waited);
    }
    assert_eq!(waits.len(), 22);
}

#[tokio::test(start_paused = true)]
async fn a_silent_target_is_left_to_failover_while_others_are_left() {
    for phase in [Phase::Connect, Phase::FirstToken, Phase::Answer] {
        for (alternatives, fails) in [(0, false), (1, true)] {
            let client = service([whole()]);
            let stack = gated(&RetryBudget::new(), [Some(Kind::TimedOut(phase))], client);
            let answer = stack.oneshot(to("a:m", alternatives, request())).await;
            assert_eq!(answer.is_err(), fails, "{phase:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r14_cancelled_during_the_wait_nothing_follows() {
    let client = service([status(503), whole()]);
    let gauges = client.gauges();
    let budget = RetryBudget::new();
    let layer = RetryLayer::new(budget.clone()).backoff(seconds(100), seconds(100));
    let mut future = Box::pin(stack(layer, client).oneshot(request()));
    while budget.balance(None) == 3.0 {
        assert!(futures_poll(future.as_mut()).await);
    }
    // The planned retry has paid already.
    assert_eq!(budget.balance(None), 2.0);
    drop(future);
    assert_eq!(budget.balance(None), 3.0);
    advance(seconds(1000)).await;
    assert_eq!(
        (gauges.calls(), gauges.live(), budget.balance(None)),
        (1, 0, 3.0)
    );
}

#[tokio::test(start_paused = true)]
async fn r17_the_last_answer_is_passed_on_as_it_came() {
    let last = status(503).header("x-request-id", "3");
    let client = service([status(500), Respond::error("broken"), last]);
    let layer = RetryLayer::new(RetryBudget::new());
    let mut matrix = llm_call::Matrix::default();
    let unknown = matrix[Kind::Unknown];
    matrix = matrix.set(Kind::Unknown, unknown.retry(llm_call::Retry::Yes));
    let classify = llm_call::Standard::with_matrix(matrix);
    let stack = ServiceBuilder::new()
        .layer(layer)
        .layer(PeekLayer::new().classify(classify))
        .service(client);
    let answer = stack.oneshot(request()).await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["x-request-id"], "3");
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(bytes, r#"{"error":{"message":"503"}}"#);
}

#[tokio::test(start_paused = true)]
async fn r17_what_our_own_layers_refuse_does_not_hide_the_answer_before() {
    for refusal in [
        Kind::Refused(Refusal::CircuitOpen),
        Kind::Refused(Refusal::BulkheadFull),
        Kind::Refused(Refusal::AttemptsSpent),
        Kind::Refused(Refusal::NoTarget),
        Kind::TimedOut(Phase::Deadline),
    ] {
        let budget = RetryBudget::new();
        let client = service([status(503), whole()]);
        let gauges = client.gauges();
        let stack = gated(&budget, [None, Some(refusal)], client);
        let answer = stack.oneshot(request()).await.unwrap();
        assert_eq!(answer.status(), 503, "{refusal}");
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes, r#"{"error":{"message":"503"}}"#);
        // It was never sent, so it has cost nothing.
        assert_eq!(
            (gauges.calls(), budget.balance(None)),
            (1, 3.0),
            "{refusal}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn r17_nor_the_error_before() {
    let open = Kind::Refused(Refusal::CircuitOpen);
    let budget = RetryBudget::new();
    let stack = gated(
        &budget,
        [Some(Kind::ConnectionLost), Some(open)],
        service([whole()]),
    );
    let error = stack.oneshot(request()).await.unwrap_err();
    let error = find_cause::<Error>(&*error).unwrap();
    assert_eq!(error.kind(), Kind::ConnectionLost);
    assert_eq!(error.target().unwrap().as_str(), "gate:m");
    // An answer whose rest would have held its connection is an error of the same outcome.
    let large = [BodyStep::data("x".repeat(70_000)), BodyStep::Hang];
    let large = Respond::status(http::StatusCode::BAD_GATEWAY, large).header("retry-after", "1");
    let stack = gated(&budget, [None, Some(open)], service([large]));
    let error = stack.oneshot(to("a:m", 0, request())).await.unwrap_err();
    let error = find_cause::<Error>(&*error).unwrap();
    assert_eq!(error.target().unwrap().as_str(), "a:m");
    assert_eq!(error.outcome().retry_after, Some(seconds(1)));
    assert_ne!(error.kind(), open);
}

#[tokio::test(start_paused = true)]
async fn r17_a_refusal_of_the_first_attempt_is_returned_and_not_retried() {
    let open = Kind::Refused(Refusal::CircuitOpen);
    let budget = RetryBudget::new();
    let client = service([whole()]);
    let gauges = client.gauges();
    let error = gated(&budget, [Some(open)], client)
        .oneshot(request())
        .await
        .unwrap_err();
    assert_eq!(kind(&error), open);
    assert_eq!((gauges.calls(), budget.balance(None)), (0, 3.0));
}

#[tokio::test(start_paused = true)]
async fn r17_a_deadline_that_moved_nearer_during_the_wait_does_not_hide_the_answer() {
    let client = service([later("5000"), whole()]);
    let gauges = client.gauges();
    let budget = RetryBudget::new();
    let call = within(25_000);
    let future = default_stack(&budget, client).oneshot(request_of(&call));
    let tighten = async {
        tokio::time::sleep(seconds(1)).await;
        call.tighten(Instant::now() + seconds(1));
    };
    let (answer, ()) = join!(future, tighten);
    assert_eq!(answer.unwrap().status(), 429);
    assert_eq!((gauges.calls(), budget.balance(None)), (1, 3.0));
}

#[tokio::test(start_paused = true)]
async fn r16_nested_layers_share_the_attempts_of_the_call_and_pay_in_once() {
    for (answers, calls) in [(vec![status(503)], 6), (vec![whole()], 1)] {
        let budget = RetryBudget::new().floor(50);
        let client = service(answers);
        let gauges = client.gauges();
        let call = open();
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(budget.clone()))
            .layer(RetryLayer::new(budget.clone()))
            .layer(RetryLayer::new(budget.clone()))
            .layer(PeekLayer::new())
            .service(client);
        let answer = stack.oneshot(request_of(&call)).await.unwrap();
        assert_eq!((gauges.calls(), call.sent()), (calls, calls as u32));
        // The last answer of the provider, not a refusal of a layer.
        assert_eq!(answer.status(), if calls == 1 { 200 } else { 503 });
        drop(answer);
        // A token for each retry, and one deposit.
        assert_eq!(budget.balance(None), if calls == 1 { 50.1 } else { 45.0 });
    }
}

#[tokio::test(start_paused = true)]
async fn r20_a_spent_budget_stops_and_never_delays() {
    let budget = RetryBudget::new().floor(1);
    let client = service([status(503)]);
    let gauges = client.gauges();
    let service = default_stack(&budget, client);
    service
        .clone()
        .oneshot(to("a:m", 0, request()))
        .await
        .unwrap();
    assert_eq!(gauges.calls(), 2);
    let call = open();
    let answer = service
        .clone()
        .oneshot(to("a:m", 0, request_of(&call)))
        .await
        .unwrap();
    assert_eq!((answer.status().as_u16(), gauges.calls()), (503, 3));
    assert_eq!(
        (call.opened().elapsed(), call.ledger().waited),
        (Duration::ZERO, Duration::ZERO)
    );
    let ledger = call.ledger();
    let refused = ledger.entries.last().unwrap();
    assert_eq!(refused.kind, Some(Kind::Refused(Refusal::BudgetSpent)));
    assert_eq!((refused.n, refused.sent), (1, false));
    assert_eq!(refused.target.as_ref().unwrap().as_str(), "a:m");
    // Another target has tokens of its own, and the floor comes back.
    service
        .clone()
        .oneshot(to("b:m", 0, request()))
        .await
        .unwrap();
    assert_eq!(gauges.calls(), 5);
    advance(seconds(10)).await;
    service.oneshot(to("a:m", 0, request())).await.unwrap();
    assert_eq!(gauges.calls(), 7);
}

#[tokio::test(start_paused = true)]
async fn r05_in_an_outage_the_floor_is_all_there_is() {
    let budget = RetryBudget::new();
    let client = service([status(503)]);
    let gauges = client.gauges();
    let service = default_stack(&budget, client);
    let begin = Instant::now();
    for _ in 0..500 {
        service.clone().oneshot(request()).await.unwrap();
    }
    let refilled = begin.elapsed().as_secs() / 10;
    let retries = gauges.calls() - 500;
    assert!(
        retries >= 3 && retries <= 3 + refilled as usize,
        "{retries}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_knows_its_end_through_the_layer() {
    let client = service([stream([
        BodyStep::data(TOKEN),
        BodyStep::data(END),
        BodyStep::Hang,
    ])]);
    let answer = default_stack(&RetryBudget::new(), client)
        .oneshot(request())
        .await
        .unwrap();
    let body = answer.into_body();
    pin!(body);
    assert_eq!(body.state().ending(), None);
    body.as_mut().cut(Ending::Dropped);
    assert_eq!(body.state().ending(), Some(Ending::Dropped));
}

#[tokio::test(start_paused = true)]
async fn r07_a_refused_retry_costs_nothing_while_another_copy_is_sent() {
    let budget = RetryBudget::new();
    let client = service([status(503), whole()]);
    let peek = ServiceBuilder::new()
        .layer(PeekLayer::new())
        .service(client);
    let calls = Arc::new(AtomicUsize::new(0));
    let below = service_fn(move |request: Request<String>| {
        let (peek, n) = (peek.clone(), calls.fetch_add(1, Ordering::SeqCst));
        async move {
            // The second time it is another copy of the call that is sent.
            let answer = peek.oneshot(request).await;
            match n {
                0 => answer,
                _ => Err(Error::new(Kind::Refused(Refusal::BulkheadFull)).into()),
            }
        }
    });
    let call = open();
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(budget.clone()))
        .service(below);
    let answer = stack.oneshot(request_of(&call)).await.unwrap();
    assert_eq!((answer.status().as_u16(), call.sent()), (503, 2));
    assert_eq!(budget.balance(None), 3.0);
    // The refusal is written down, although the answer before it is passed on.
    let refused = call.ledger().entries.pop().unwrap();
    assert_eq!(refused.kind, Some(Kind::Refused(Refusal::BulkheadFull)));
    assert!(!refused.sent);
}
