//! One deadline for the whole call, on paused time.

use std::time::Duration;

use crate::support::*;
use http::Response;
use http_body_util::BodyExt;
use llm_call::{BoxError, Call, CallSettings, Cause, Commit, Kind, PeekLayer, Phase};
use llm_chaos::testing::{Respond, Scripted, Strict};
use llm_timeout::{DeadlineLayer, TimeoutBody, TimeoutLayer};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

type Committed = Response<TimeoutBody<Peeked>>;

async fn send(
    layer: DeadlineLayer,
    client: &Strict<Scripted>,
    request: http::Request<()>,
) -> Result<Committed, BoxError> {
    let service = ServiceBuilder::new().layer(layer.alone());
    service.service(client.clone()).oneshot(request).await
}

#[tokio::test(start_paused = true)]
async fn t01_the_call_ends_at_its_deadline() {
    for (thinking, seconds) in [(false, 25), (true, 120)] {
        let (client, gauges) = serve(Respond::hang());
        let (start, (request, call)) = (Instant::now(), ask(Some(true), thinking));
        let error = send(DeadlineLayer::default(), &client, request).await;
        assert_timed_out(&error.unwrap_err(), Phase::Deadline);
        assert_eq!(start.elapsed().as_secs(), seconds);
        let entry = &call.ledger().entries[0];
        assert_eq!(entry.kind, Some(Kind::TimedOut(Phase::Deadline)));
        assert_eq!(entry.cause, Some(Cause::TimedOut(Phase::Deadline)));
        assert_eq!(gauges.live(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn t01_it_bounds_a_stream_until_its_first_token_and_no_longer() {
    let (client, _) = serve(stream([data(TOKEN), Wait(s(60)), data(FINISH)]));
    let (request, _) = ask(Some(true), false);
    let body = send(DeadlineLayer::default(), &client, request).await;
    let (frames, error) = read(body.unwrap().into_body()).await;
    assert_eq!((frames, error.is_none()), (2, true));
}

#[tokio::test(start_paused = true)]
async fn t01_it_bounds_an_answer_that_is_not_streamed_until_its_end() {
    let (client, gauges) = serve(json([data("{"), Hang]).after(s(5)));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::default())
        .layer(PeekLayer::new().commit(Commit::Headers))
        .service(client.clone());
    let (start, (request, call)) = (Instant::now(), ask(Some(false), false));
    let body = service.oneshot(request).await.unwrap().into_body();
    let (frames, error) = read(body).await;
    assert_timed_out(&error.unwrap(), Phase::Deadline);
    assert_eq!((frames, start.elapsed().as_secs()), (1, 25));
    let kind = call.ledger().entries[0].kind;
    assert_eq!(kind, Some(Kind::TimedOut(Phase::Deadline)));
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn t01_it_bounds_an_endless_body_although_there_is_always_something_to_read() {
    let (client, _) = serve(audio(vec![data("a"); 100]));
    let (request, _) = ask(None, false);
    let response = send(DeadlineLayer::default(), &client, request).await;
    let mut body = response.unwrap().into_body();
    let mut frames = 0;
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(_) => frames += 1,
            Err(error) => break error,
        }
        tokio::time::sleep(s(5)).await;
    };
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!(frames, 25 / 5 + 1);
}

#[tokio::test(start_paused = true)]
async fn t05_the_inner_future_is_dropped_when_it_fires() {
    let (client, gauges) = serve(Respond::hang());
    let (request, _) = ask(Some(true), false);
    let mut service = DeadlineLayer::new(s(1)).alone().layer(client);
    let ready = <_ as ServiceExt<http::Request<()>>>::ready(&mut service);
    let mut future = std::pin::pin!(ready.await.unwrap().call(request));
    assert!(future.as_mut().await.is_err());
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn t06_a_deadline_is_never_moved_back() {
    // Not by a layer above one that is tighter, nor by a second pass, nor by the caller's wish.
    let (client, _) = serve(Respond::hang());
    let (start, (request, call)) = (Instant::now(), ask(None, false));
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(s(4)))
        .layer(DeadlineLayer::new(s(9)).alone())
        .service(client.clone());
    let error = service.clone().oneshot(request.clone()).await.unwrap_err();
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!(start.elapsed().as_secs(), 4);
    let deadline = call.deadline();
    let error = service.oneshot(request).await.unwrap_err();
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!((call.deadline(), call.sent()), (deadline, 1));

    for (asked, kept) in [(s(2), s(2)), (s(90), s(25))] {
        let settings = CallSettings::new().timeout(asked);
        let (start, (request, _)) = (Instant::now(), ask_by(settings, None, false));
        let error = send(DeadlineLayer::default(), &client, request).await;
        assert_timed_out(&error.unwrap_err(), Phase::Deadline);
        assert_eq!(start.elapsed().as_secs(), kept.as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn t07_without_time_nothing_is_sent() {
    let (client, gauges) = serve(json([data(JSON)]));
    let (request, call) = ask(None, false);
    let error = send(DeadlineLayer::new(s(0)), &client, request).await;
    assert_timed_out(&error.unwrap_err(), Phase::Deadline);
    let entry = call.ledger().entries[0].clone();
    assert_eq!(entry.kind, Some(Kind::TimedOut(Phase::Deadline)));
    // Refused here, and not by the last gate before the wire.
    assert_eq!((entry.n, entry.target), (0, None));

    let (request, _) = ask_by(CallSettings::new().timeout(s(1)), None, false);
    tokio::time::sleep(s(2)).await;
    let error = send(DeadlineLayer::default(), &client, request).await;
    assert_timed_out(&error.unwrap_err(), Phase::Deadline);
    assert_eq!(gauges.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn t07_the_longest_duration_sets_no_deadline() {
    let (client, _) = serve(json([data(JSON)]).after(s(1_000_000)));
    let (request, call) = ask(None, false);
    let response = send(DeadlineLayer::new(Duration::MAX), &client, request).await;
    assert!(response.is_ok());
    assert_eq!(call.deadline(), None);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_call_gets_one_and_its_attempts_keep_to_it() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let note = seen.clone();
    let (client, _) = serve(Respond::hang());
    let service = ServiceBuilder::new()
        .layer(DeadlineLayer::new(s(7)))
        .map_request(move |request: http::Request<()>| {
            *note.lock().unwrap() = request.extensions().get::<Call>().cloned();
            request
        })
        .layer(TimeoutLayer::new().alone())
        .service(client.clone());
    let start = Instant::now();
    let error = service.oneshot(plain()).await.unwrap_err();
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!(start.elapsed().as_secs(), 7);
    let call = seen.lock().unwrap().take().unwrap();
    assert_eq!(call.deadline(), Some(start + s(7)));
}
