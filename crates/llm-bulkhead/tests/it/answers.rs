//! How long an answer holds its permit, and what a refusal looks like.

use std::{pin::Pin, time::Duration};

use http::StatusCode;
use http_body::Body as _;
use http_body_util::{BodyExt, Full as Whole};
use llm_bulkhead::{BulkheadLayer, Pool, Until};
use llm_call::{Answer, Cause, Ending, Kind, PeekLayer, Phase, Refusal, RespondLayer};
use llm_chaos::testing::{BodyStep, Respond, service};
use tokio::time::Instant;
use tower::{Layer, ServiceBuilder, ServiceExt};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn k01_a_stream_holds_its_permit_to_its_end() {
    let answer = Respond::ok([
        BodyStep::from("a"),
        BodyStep::wait(s(30)),
        BodyStep::from("b"),
    ]);
    let world = over(Pool::new(1).wait(s(60)), answer);
    let response = world.stack.clone().oneshot(request()).await.unwrap();
    let mut body = response.into_body();
    let began = tokio::time::Instant::now();
    let mut next = world.begin(request());
    body.frame().await.unwrap().unwrap();
    assert!(poll(&mut next).is_pending());
    body.frame().await.unwrap().unwrap();
    assert_eq!(world.counts().1, usize::from(!body.is_end_stream()));
    assert!(body.frame().await.is_none());
    // The body is kept, and its permit is not.
    next.await.unwrap();
    assert_eq!(began.elapsed(), s(30));
}

#[tokio::test(start_paused = true)]
async fn k01_a_body_that_says_it_is_over_is_not_polled_to_be_sure() {
    let bulkhead = shared(Pool::new(1));
    let client = tower::service_fn(async |_: http::Request<String>| {
        Ok::<_, std::io::Error>(http::Response::new(Whole::from("whole")))
    });
    let stack = BulkheadLayer::new(bulkhead.clone()).layer(client);
    let mut body = stack.oneshot(request()).await.unwrap().into_body();
    assert_eq!(body.size_hint().exact(), Some(5));
    assert_eq!(bulkhead.snapshot().in_flight, 1);
    body.frame().await.unwrap().unwrap();
    assert!(body.is_end_stream());
    assert_eq!(bulkhead.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn k01_an_answer_without_a_body_holds_nothing() {
    let bulkhead = shared(Pool::new(1));
    let client = tower::service_fn(async |_: http::Request<String>| {
        Ok::<_, std::io::Error>(http::Response::new(Whole::<bytes::Bytes>::default()))
    });
    let stack = BulkheadLayer::new(bulkhead.clone()).layer(client);
    let _response = stack.oneshot(request()).await.unwrap();
    assert_eq!(bulkhead.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn k01_an_error_frees_the_permit() {
    let world = over(Pool::new(1), Respond::error("reset"));
    world.call(request()).await.unwrap_err();
    assert_eq!(world.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn until_the_response_holds_a_permit_no_longer_than_that() {
    let layer = BulkheadLayer::new(shared(Pool::new(1))).until(Until::Response);
    let world = world(&layer, [slow_stream().after(s(1))]);
    let mut sent = world.begin(request());
    assert_eq!(world.counts(), (1, 0));
    let response = (&mut sent).await.unwrap();
    assert_eq!(world.counts(), (0, 0));
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stopped_loses_its_permit_and_learns_of_it() {
    let world = over(Pool::new(1).wait(s(20)), slow_stream());
    let response = world.stack.clone().oneshot(request()).await.unwrap();
    let mut stopped = response.into_body();
    stopped.frame().await.unwrap().unwrap();
    // Callers come, and the sixth or so finds that nobody reads.
    let mut refused = 0;
    let answered = loop {
        match world.stack.clone().oneshot(request()).await {
            Ok(response) => break response,
            Err(_) => refused += 1,
        }
    };
    assert!((5..=7).contains(&refused), "{refused}");
    assert_eq!(
        (world.counts(), world.pool("default").abandoned),
        ((1, 0), 1)
    );
    let error = stopped.frame().await.unwrap().unwrap_err();
    assert_eq!(kind(&error), Kind::TimedOut(Phase::Reader));
    assert!(stopped.is_end_stream());
    assert_eq!(stopped.size_hint().exact(), Some(0));
    assert!(stopped.frame().await.is_none());
    drop(stopped);
    assert_eq!(world.counts(), (1, 0), "released once");
    drop(answered);
    assert_eq!(world.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_began_to_read_counts_as_with_its_reader() {
    let world = over(Pool::new(1).wait(s(200)), slow_stream());
    let _unread = world.stack.clone().oneshot(request()).await.unwrap();
    let _held = world.begin(request());
    tokio::time::advance(s(121)).await;
    // Somebody else looks; who waited longest is served.
    let mut other = world.begin(request());
    assert_eq!(
        (world.counts(), world.pool("default").abandoned),
        ((1, 1), 1)
    );
    assert!(poll(&mut other).is_pending());
}

#[tokio::test(start_paused = true)]
async fn k05_who_waits_alone_gets_the_permit_of_a_reader_that_stopped() {
    let pool = Pool::new(1).wait(Duration::MAX).abandon_after(s(80));
    let world = over(pool, slow_stream());
    let _unread = world.stack.clone().oneshot(request()).await.unwrap();
    let started = Instant::now();
    // Nobody else comes who could look.
    let _answer = world.stack.clone().oneshot(request()).await.unwrap();
    let waited = started.elapsed();
    assert!((s(80)..=s(90)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_silent_keeps_its_reader_its_permit() {
    let world = over(Pool::new(1), slow_stream());
    let response = world.stack.clone().oneshot(request()).await.unwrap();
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    let mut frame = Box::pin(body.frame());
    assert!(poll(&mut frame).is_pending());
    for _ in 0..60 {
        tokio::time::advance(s(8)).await;
        let sent = world.stack.clone().oneshot(request());
        assert!(sent.await.is_err());
    }
    assert_eq!(world.pool("default").abandoned, 0);
    drop(frame);
    assert!(body.frame().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn k14_a_refusal_over_http_says_which_limit_it_was_and_when_to_come_back() {
    let bulkhead = shared(Pool::new(2).tenant_limit(1).wait(s(0)));
    let stack = ServiceBuilder::new()
        .layer(RespondLayer::new())
        .layer(BulkheadLayer::new(bulkhead))
        .layer(PeekLayer::new())
        .service(service([Respond::hang()]));
    let mut held = Box::pin(stack.clone().oneshot(by("a")));
    assert!(poll(&mut held).is_pending());
    let answer = stack.clone().oneshot(by("a")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "1");
    let mut other = Box::pin(stack.clone().oneshot(by("b")));
    assert!(poll(&mut other).is_pending());
    let answer = stack.oneshot(by("c")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["retry-after"], "1");
}

#[tokio::test(start_paused = true)]
async fn k14_a_refusal_says_what_is_full() {
    let layer = BulkheadLayer::new(shared(Pool::new(2).tenant_limit(1).queue(0))).by_target();
    let world = world(&layer, [Respond::hang()]);
    let with = |tenant: &str| {
        let mut request = by(tenant);
        let attempt = to("openai:gpt")
            .extensions()
            .get::<llm_call::Attempt>()
            .cloned();
        request.extensions_mut().insert(attempt.unwrap());
        request
    };
    let _a = world.begin(with("a"));
    let error = world.call(with("a")).await.unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::TenantFull));
    assert_eq!(full(&error).tenant_limit, Some(1));
    assert_eq!(
        full(&error).to_string(),
        "the tenant has its 1 calls in the pool default, 1 of 2 under way and 0 waiting"
    );
    let _b = world.begin(with("b"));
    let error = world.call(with("c")).await.unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::BulkheadFull));
    let error_here = error.downcast_ref::<llm_call::Error>().unwrap();
    assert_eq!(error_here.target().unwrap().as_str(), "openai:gpt");
    let full = full(&error);
    assert_eq!((full.limit, full.in_flight, full.queued), (2, 2, 0));
    assert_eq!((full.tenant_limit, full.total_limit), (None, None));
    world.bulkhead.resize("default", 9).unwrap();
    world.bulkhead.resize_total(Some(2)).unwrap();
    let error = world.call(with("c")).await.unwrap_err();
    assert_eq!(crate::support::full(&error).total_limit, Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_answer_stays_an_answer() {
    let token = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    let steps = [BodyStep::from(token), BodyStep::wait(s(60))];
    let answer = Respond::ok(steps).header("content-type", "text/event-stream");
    let bulkhead = shared(Pool::new(1));
    let stack = ServiceBuilder::new()
        .layer(BulkheadLayer::new(bulkhead.clone()))
        .layer(PeekLayer::new())
        .service(service([answer]));
    let mut body = Box::pin(stack.oneshot(request()).await.unwrap().into_body());
    assert!(body.state().is_streamed() && body.state().ending().is_none());
    assert_eq!(bulkhead.snapshot().in_flight, 1);
    let ending = Ending::Cut(Cause::HedgeLost);
    Pin::as_mut(&mut body).cut(ending);
    assert_eq!(bulkhead.snapshot().in_flight, 0);
    assert_eq!(body.state().ending(), Some(ending));
}
