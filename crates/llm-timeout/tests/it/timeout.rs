//! The phases of one attempt, on paused time.

use std::{
    cell::RefCell,
    future::Future,
    pin::{Pin, pin},
    task::Poll,
};

use crate::support::*;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use llm_call::{
    Answer, BoxError, Call, CallSettings, Cause, Commit, Ending, Kind, PeekLayer, Phase,
};
use llm_chaos::testing::{
    Fuzzed, Respond, Scripted, ScriptedFuture, Strict, drop_fuzz, drop_fuzz_body,
};
use llm_timeout::{Limits, TimeoutBody, TimeoutLayer};
use tokio::time::{Instant, timeout};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

type Committed = Response<TimeoutBody<Peeked>>;

async fn send(
    client: &Strict<Scripted>,
    request: http::Request<()>,
) -> Result<Committed, BoxError> {
    send_by(TimeoutLayer::new(), client, request).await
}

async fn send_by(
    layer: TimeoutLayer,
    client: &Strict<Scripted>,
    request: http::Request<()>,
) -> Result<Committed, BoxError> {
    let service = ServiceBuilder::new().layer(layer.alone());
    service.service(client.clone()).oneshot(request).await
}

/// The only record of a call: what became of its attempt, and the cause.
fn record(call: &Call) -> (Kind, Option<Cause>) {
    let ledger = call.ledger();
    assert_eq!(ledger.entries.len(), 1, "{ledger}");
    (ledger.entries[0].kind.unwrap(), ledger.entries[0].cause)
}

#[track_caller]
fn assert_recorded(call: &Call, phase: Phase) {
    let cause = Cause::TimedOut(phase);
    assert_eq!(record(call), (Kind::TimedOut(phase), Some(cause)));
}

#[tokio::test(start_paused = true)]
async fn t02_a_provider_that_says_nothing_is_left_after_the_first_token_limit() {
    let start = Instant::now();
    for respond in [
        Respond::hang(),
        stream([Hang]),
        stream([data(PING), Wait(s(3)), data(PING), Hang]).after(s(1)),
    ] {
        let (client, gauges) = serve(respond);
        let began = start.elapsed();
        let (request, call) = ask(Some(true), false);
        let error = send(&client, request).await.unwrap_err();
        assert_timed_out(&error, Phase::FirstToken);
        assert_eq!(target(&error).as_deref(), Some("a:m"));
        assert_eq!((start.elapsed() - began).as_secs(), 5);
        assert_recorded(&call, Phase::FirstToken);
        assert!(call.ledger().to_string().contains("timed_out_first_token"));
        assert_eq!((gauges.calls(), gauges.live()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn t02_an_answer_in_one_piece_has_its_own_limit() {
    for (streamed, thinking, seconds) in [
        (Some(false), false, 20),
        (None, false, 20),
        (Some(false), true, 80),
        (Some(true), true, 60),
    ] {
        let (client, _) = serve(json([data("{"), Hang]));
        let (start, (request, call)) = (Instant::now(), ask(streamed, thinking));
        let error = send(&client, request).await.unwrap_err();
        let phase = if streamed == Some(true) {
            Phase::FirstToken
        } else {
            Phase::Answer
        };
        assert_timed_out(&error, phase);
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_recorded(&call, phase);
    }
    // Nothing known at all: no call, no facts.
    let start = Instant::now();
    let error = send(&serve(Respond::hang()).0, plain()).await.unwrap_err();
    assert_timed_out(&error, Phase::Answer);
    assert_eq!((start.elapsed().as_secs(), target(&error)), (20, None));
}

#[tokio::test(start_paused = true)]
async fn t02_a_stream_nobody_announced_gets_its_clocks_when_it_shows() {
    let (client, _) = serve(stream([data(TOKEN), Hang]).after(s(15)));
    let start = Instant::now();
    let body = send(&client, plain()).await.unwrap().into_body();
    let (frames, error) = read(body).await;
    assert_timed_out(&error.unwrap(), Phase::Idle);
    assert_eq!((frames, start.elapsed().as_secs()), (1, 25));
}

#[tokio::test(start_paused = true)]
async fn t02_a_stream_that_falls_silent_is_cut() {
    let (client, gauges) = serve(stream([data(TOKEN), Wait(s(9)), data(TOKEN), Hang]));
    let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
    let body = send(&client, request).await.unwrap().into_body();
    let (frames, error) = read(body).await;
    let error = error.unwrap();
    assert_timed_out(&error, Phase::Idle);
    assert_eq!(target(&error).as_deref(), Some("a:m"));
    assert_eq!((frames, start.elapsed().as_secs()), (2, 19));
    assert_recorded(&call, Phase::Idle);
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn t02_once_content_was_delivered_nothing_is_sent_again() {
    let (client, _) = serve(stream([data(TOKEN), Hang]));
    let body = send(&client, plain()).await.unwrap().into_body();
    let error = read(body).await.1.unwrap();
    let verdict = llm_call::find_cause::<llm_call::Error>(&*error)
        .unwrap()
        .outcome()
        .verdict;
    assert_eq!(verdict.retry, llm_call::Retry::Never);
    assert!(!verdict.fail_over);
}

#[tokio::test(start_paused = true)]
async fn t03_pings_are_sound_for_idle_and_silence_for_stall() {
    let mut steps = vec![data(TOKEN)];
    for _ in 0..100 {
        steps.extend([Wait(s(3)), data(PING)]);
    }
    let (client, _) = serve(stream(steps));
    let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
    let body = send(&client, request).await.unwrap().into_body();
    let (frames, error) = read(body).await;
    assert_timed_out(&error.unwrap(), Phase::Stall);
    assert_eq!((frames, start.elapsed().as_secs()), (7, 20));
    assert_recorded(&call, Phase::Stall);
}

#[tokio::test(start_paused = true)]
async fn t02_a_stream_has_a_limit_on_the_whole() {
    let mut steps = Vec::new();
    for _ in 0..100 {
        steps.extend([data(TOKEN), Wait(s(3))]);
    }
    let (client, _) = serve(stream(steps).after(s(2)));
    let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
    let body = send(&client, request).await.unwrap().into_body();
    let (_, error) = read(body).await;
    assert_timed_out(&error.unwrap(), Phase::Stream);
    assert_eq!(start.elapsed().as_secs(), 120);
    assert_recorded(&call, Phase::Stream);
}

#[tokio::test(start_paused = true)]
async fn t02_the_limit_on_the_whole_holds_although_there_is_always_something_to_read() {
    let (client, _) = serve(stream(vec![data(TOKEN); 100]));
    let mut body = send(&client, plain()).await.unwrap().into_body();
    let mut frames = 0;
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(_) => frames += 1,
            Err(error) => break error,
        }
        tokio::time::sleep(s(7)).await;
    };
    // Drawn out by its reader: the target is not to blame.
    assert_timed_out(&error, Phase::Reader);
    assert_eq!(frames, 120 / 7 + 2);
}

#[tokio::test(start_paused = true)]
async fn t02_an_early_commit_does_not_end_the_wait_for_the_first_token() {
    for commit in [Commit::Headers, Commit::Window(s(1))] {
        let (client, _) = serve(stream([data(PING), Hang]));
        let service = ServiceBuilder::new()
            .layer(TimeoutLayer::new())
            .layer(PeekLayer::new().commit(commit))
            .service(client.clone());
        let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
        let body = service.oneshot(request).await.unwrap().into_body();
        let (frames, error) = read(body).await;
        assert_timed_out(&error.unwrap(), Phase::FirstToken);
        assert_eq!((frames, start.elapsed().as_secs()), (1, 5));
        assert_recorded(&call, Phase::FirstToken);
    }
}

#[tokio::test(start_paused = true)]
async fn t02_nothing_fires_after_the_end() {
    let whole = [data(TOKEN), data(FINISH), data(DONE)];
    let (client, _) = serve(stream(whole));
    let (request, call) = ask(Some(true), false);
    let mut body = send(&client, request).await.unwrap().into_body();
    while body.frame().await.is_some() {}
    tokio::time::sleep(s(1000)).await;
    assert!(body.frame().await.is_none());
    assert_eq!(record(&call), (Kind::Success, None));
}

#[tokio::test(start_paused = true)]
async fn t02_a_stream_that_lacks_only_its_end_ends_cleanly() {
    for steps in [
        vec![data(TOKEN), data(FINISH), Hang],
        vec![data(TOKEN), data(FINISH), data(DONE), Hang],
    ] {
        let (client, gauges) = serve(stream(steps.clone()));
        let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
        let body = send(&client, request).await.unwrap().into_body();
        let (frames, error) = read(body).await;
        assert!(error.is_none());
        assert_eq!((frames, start.elapsed().as_secs()), (steps.len() - 1, 10));
        assert_eq!(record(&call), (Kind::Success, None));
        assert_eq!(gauges.live(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn t02_a_body_that_is_no_stream_must_be_whole_in_time() {
    let (client, _) = serve(audio([data("a"), Hang]).after(s(5)));
    let (start, (request, call)) = (Instant::now(), ask(None, false));
    let body = send(&client, request).await.unwrap().into_body();
    let (frames, error) = read(body).await;
    assert_timed_out(&error.unwrap(), Phase::Answer);
    assert_eq!((frames, start.elapsed().as_secs()), (1, 20));
    assert_recorded(&call, Phase::Answer);
}

#[tokio::test(start_paused = true)]
async fn t01_an_attempt_never_outlives_the_deadline_of_its_call() {
    let (client, _) = serve(Respond::hang());
    let settings = CallSettings::new().timeout(s(3));
    let (start, (request, call)) = (Instant::now(), ask_by(settings, Some(true), false));
    let error = send(&client, request).await.unwrap_err();
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_recorded(&call, Phase::Deadline);

    // An answer that is not streamed must be whole by then.
    let (client, _) = serve(audio([data("a"), Hang]));
    let settings = CallSettings::new().timeout(s(3));
    let (start, (request, call)) = (Instant::now(), ask_by(settings, None, false));
    let body = send(&client, request).await.unwrap().into_body();
    assert_timed_out(&read(body).await.1.unwrap(), Phase::Deadline);
    assert_eq!(start.elapsed().as_secs(), 3);
    assert_recorded(&call, Phase::Deadline);

    // A stream has its own limits.
    let (client, _) = serve(stream([data(TOKEN), Wait(s(9)), data(FINISH), data(DONE)]));
    let settings = CallSettings::new().timeout(s(3));
    let (request, _) = ask_by(settings, Some(true), false);
    let body = send(&client, request).await.unwrap().into_body();
    assert!(read(body).await.1.is_none());
}

#[tokio::test(start_paused = true)]
async fn t01_a_deadline_that_is_tightened_on_the_way_is_kept() {
    let (client, _) = serve(Respond::hang());
    let (start, (request, call)) = (Instant::now(), ask(None, false));
    let sending = send(&client, request);
    let tighten = async {
        tokio::time::sleep(s(2)).await;
        call.tighten(start + s(4));
        std::future::pending::<()>().await;
    };
    // Both in one task: whoever tightens wakes it.
    let error = tokio::select! {
        biased;
        () = tighten => unreachable!(),
        result = sending => result.unwrap_err(),
    };
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn t01_a_deadline_that_is_tightened_while_a_body_comes_is_kept() {
    let (client, _) = serve(audio([data("a"), Hang]));
    let (start, (request, call)) = (Instant::now(), ask(None, false));
    let mut body = send(&client, request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert!(timeout(s(1), body.frame()).await.is_err());
    call.tighten(start + s(3));
    assert_timed_out(&read(body).await.1.unwrap(), Phase::Deadline);
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn t04_the_inner_result_wins_over_a_limit_at_the_same_instant() {
    let (request, _) = ask(Some(true), false);
    let (client, _) = serve(Respond::error("connection reset").after(s(5)));
    let error = send(&client, request).await.unwrap_err();
    let source = error.source().map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("connection reset"));

    let (request, _) = ask(Some(true), false);
    let (client, _) = serve(stream([data(TOKEN), Wait(s(10)), fail()]).after(s(5)));
    let body = send(&client, request).await.unwrap().into_body();
    let error = read(body).await.1.unwrap();
    assert_eq!(Kind::of(&*error), Kind::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn t05_firing_drops_what_is_inside_in_the_same_poll() {
    let (client, gauges) = serve(Respond::hang());
    let (request, call) = ask(Some(true), false);
    let mut service = TimeoutLayer::new().alone().layer(client);
    let ready = <_ as ServiceExt<http::Request<()>>>::ready(&mut service);
    let mut future = pin!(ready.await.unwrap().call(request));
    assert!(timeout(s(4), future.as_mut()).await.is_err());
    assert_eq!(gauges.live(), 1);
    assert!(future.as_mut().await.is_err());
    // The future itself is still there.
    assert_eq!(gauges.live(), 0);
    assert_recorded(&call, Phase::FirstToken);

    let (client, gauges) = serve(stream([data(TOKEN), Hang]));
    let (request, call) = ask(Some(true), false);
    let mut body = send(&client, request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert!(timeout(s(9), body.frame()).await.is_err());
    assert_eq!(gauges.live(), 1);
    assert!(!body.is_end_stream());
    assert!(body.frame().await.unwrap().is_err());
    assert_eq!(gauges.live(), 0);
    assert_recorded(&call, Phase::Idle);
}

#[tokio::test(start_paused = true)]
async fn t06_what_a_model_needs_is_settable() {
    let layer = TimeoutLayer::new()
        .first_token(s(1))
        .model("m", Limits::new().first_token(s(2)).idle(s(3)));
    let (client, _) = serve(Respond::hang());
    let (start, (request, _)) = (Instant::now(), ask(Some(true), false));
    let error = send_by(layer.clone(), &client, request).await.unwrap_err();
    assert_timed_out(&error, Phase::FirstToken);
    assert_eq!(start.elapsed().as_secs(), 2);

    let (client, _) = serve(stream([data(TOKEN), Hang]));
    let (start, (request, _)) = (Instant::now(), ask(Some(true), false));
    let body = send_by(layer, &client, request).await.unwrap().into_body();
    assert_timed_out(&read(body).await.1.unwrap(), Phase::Idle);
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn t07_without_time_nothing_is_sent() {
    let (client, gauges) = serve(stream([data(TOKEN)]));
    let layer = TimeoutLayer::new().first_token(s(0));
    let (request, call) = ask(Some(true), false);
    let error = send_by(layer, &client, request).await.unwrap_err();
    assert_timed_out(&error, Phase::FirstToken);
    assert_eq!(target(&error).as_deref(), Some("a:m"));
    assert_eq!(record(&call).0, Kind::TimedOut(Phase::FirstToken));
    assert_eq!(call.sent(), 0);

    let (request, call) = ask_by(CallSettings::new().timeout(s(1)), Some(true), false);
    tokio::time::sleep(s(1)).await;
    let error = send(&client, request).await.unwrap_err();
    assert_timed_out(&error, Phase::Deadline);
    assert_eq!(record(&call).0, Kind::TimedOut(Phase::Deadline));
    assert_eq!(gauges.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn t07_a_limit_beyond_all_time_never_passes() {
    let layer = TimeoutLayer::new()
        .first_token(std::time::Duration::MAX)
        .idle(std::time::Duration::MAX)
        .stall(std::time::Duration::from_secs(u64::MAX / 4))
        .stream(std::time::Duration::MAX);
    let (client, _) =
        serve(stream([data(TOKEN), Wait(s(1_000_000)), data(FINISH)]).after(s(1_000_000)));
    let (request, _) = ask(Some(true), false);
    let body = send_by(layer, &client, request).await.unwrap().into_body();
    assert!(read(body).await.1.is_none());
}

#[tokio::test(start_paused = true)]
async fn t08_a_slow_reader_is_not_a_slow_server() {
    let steps = [
        data(TOKEN),
        data(TOKEN),
        data(TOKEN),
        Wait(s(9)),
        data(FINISH),
        data(DONE),
    ];
    let (client, _) = serve(stream(steps));
    let (request, call) = ask(Some(true), false);
    let mut body = send(&client, request).await.unwrap().into_body();
    let mut frames = 0;
    while let Some(frame) = body.frame().await {
        frame.unwrap();
        frames += 1;
        tokio::time::sleep(s(15)).await;
    }
    assert_eq!(frames, 5);
    assert_eq!(record(&call).0, Kind::Success);
}

#[tokio::test(start_paused = true)]
async fn t08_a_reader_that_had_stopped_is_let_go_and_the_target_is_not_blamed() {
    let (client, gauges) = serve(stream([data(TOKEN), data(TOKEN), data(TOKEN), Hang]));
    let (request, call) = ask(Some(true), false);
    let mut body = send(&client, request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(s(121)).await;
    let (frames, error) = read(body).await;
    // What was there at that moment is handed on.
    assert_eq!(frames, 1);
    assert_timed_out(&error.unwrap(), Phase::Reader);
    assert_recorded(&call, Phase::Reader);
    assert_eq!(gauges.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn t08_the_end_of_a_finished_answer_is_handed_on_however_late() {
    let (client, _) = serve(stream([data(TOKEN), data(FINISH), data(DONE), Hang]));
    let mut body = send(&client, plain()).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(s(121)).await;
    let (frames, error) = read(body).await;
    assert_eq!((frames, error.is_none()), (2, true));
}

#[tokio::test(start_paused = true)]
async fn t08_a_whole_answer_is_never_lost_to_a_reader_that_was_away() {
    let (client, _) = serve(stream([data(TOKEN), data(FINISH), data(DONE)]));
    let service = ServiceBuilder::new()
        .layer(TimeoutLayer::new())
        .layer(PeekLayer::new().commit(Commit::Whole))
        .service(client.clone());
    let mut body = service.oneshot(plain()).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(s(500)).await;
    let (frames, error) = read(body).await;
    assert_eq!((frames, error.is_none()), (2, true));
}

#[tokio::test(start_paused = true)]
async fn t09_a_timer_is_made_at_the_first_wait_and_ends_with_it() {
    let held = Held::new();
    let (client, _) = serve(Respond::hang());
    let mut future = Box::pin(send(&client, plain()));
    assert_eq!(held.timers(), 0);
    assert!(future.as_mut().poll(&mut held.context()).is_pending());
    assert_eq!(held.timers(), 1);
    drop(future);
    assert_eq!(held.timers(), 0);

    let (client, _) = serve(stream([data(TOKEN), Hang]));
    let mut body = send(&client, plain()).await.unwrap().into_body();
    for timers in [0, 1, 1] {
        let _ = Pin::new(&mut body).poll_frame(&mut held.context());
        assert_eq!(held.timers(), timers);
    }
    Pin::new(&mut body).cut(Ending::Dropped);
    assert_eq!(held.timers(), 0);
}

#[tokio::test(start_paused = true)]
async fn t09_after_many_calls_no_timer_is_left() {
    let held = Held::new();
    let steps = [Wait(ms(1)), data(TOKEN), Wait(ms(1)), data(FINISH)];
    let (client, gauges) = serve(stream(steps).after(ms(1)));
    let mut ended = Vec::new();
    for _ in 0..1000 {
        let mut future = Box::pin(send(&client, plain()));
        let mut body = loop {
            match future.as_mut().poll(&mut held.context()) {
                Poll::Ready(response) => break response.unwrap().into_body(),
                Poll::Pending => tokio::time::advance(ms(1)).await,
            }
        };
        loop {
            match Pin::new(&mut body).poll_frame(&mut held.context()) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(frame)) => drop(frame.unwrap()),
                Poll::Pending => tokio::time::advance(ms(1)).await,
            }
        }
        ended.push((future, body));
    }
    // Although the futures and bodies themselves are kept.
    assert_eq!((held.timers(), gauges.live()), (0, 0));
    assert_eq!(ended.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn c03_dropped_at_any_poll_nothing_is_left() {
    let steps = [
        data(PING),
        Wait(s(1)),
        data(TOKEN),
        Wait(s(1)),
        data(TOKEN),
        Hang,
    ];
    let (client, gauges) = serve(stream(steps).after(s(1)));
    let calls = RefCell::new(Vec::new());
    let request = || {
        let (request, call) = ask(Some(true), false);
        calls.borrow_mut().push(call);
        request
    };
    let check = |polls| {
        assert_eq!(gauges.live(), 0, "after {polls} polls");
        let ledger = calls.borrow().last().map(Call::ledger).unwrap_or_default();
        let open = ledger.entries.iter().any(|entry| entry.kind.is_none());
        assert!(!open, "after {polls} polls: {ledger}");
    };
    let ended = drop_fuzz(|| send(&client, request()), check).await;
    assert!(matches!(ended, Fuzzed::Finished(_)), "{ended:?}");
    let body = || async { send(&client, request()).await.unwrap().into_body() };
    let ended = drop_fuzz_body(body, check).await;
    assert!(matches!(ended, Fuzzed::Finished(_)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn c01_readiness_is_that_of_the_service_inside() {
    let (client, gauges) = serve(Respond::hang());
    let mut service = ServiceBuilder::new()
        .layer(TimeoutLayer::new())
        .layer(PeekLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(client.clone());
    for _ in 0..3 {
        let (request, _) = ask(Some(true), false);
        let ready = timeout(
            s(1),
            <_ as ServiceExt<http::Request<()>>>::ready(&mut service),
        )
        .await;
        let future = ready.expect("a permit came back").unwrap().call(request);
        let mut other = service.clone();
        assert!(
            timeout(
                s(1),
                <_ as ServiceExt<http::Request<()>>>::ready(&mut other)
            )
            .await
            .is_err()
        );
        assert_timed_out(&future.await.unwrap_err(), Phase::FirstToken);
    }
    assert_eq!((gauges.calls(), gauges.live()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cut_from_outside_ends_the_answer_with_the_reason_given() {
    let (client, gauges) = serve(stream([data(TOKEN), Hang]));
    let (request, call) = ask(Some(true), false);
    let mut body = send(&client, request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    Pin::new(&mut body).cut(Ending::Cut(Cause::HedgeLost));
    assert_eq!(gauges.live(), 0);
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(body.frame().await.is_none());
    assert_eq!(record(&call).0, Kind::Cancelled);
}

#[tokio::test]
async fn the_size_and_the_end_of_a_whole_answer_are_passed_on() {
    let body = send(&serve(json([data(JSON)])).0, plain()).await;
    let mut body = body.unwrap().into_body();
    assert_eq!(body.size_hint().exact(), Some(JSON.len() as u64));
    assert!(!body.is_end_stream());
    body.frame().await.unwrap().unwrap();
    assert!(body.is_end_stream());
}

#[test]
fn the_types_are_as_free_as_what_they_hold() {
    fn free<T: Send + Sync + Unpin>() {}
    free::<TimeoutBody<Peeked>>();
    free::<TimeoutLayer>();
    fn shared<T: Send + Sync + Clone>() {}
    shared::<llm_timeout::Timeout<Strict<Scripted>>>();
    shared::<llm_timeout::Deadline<Strict<Scripted>>>();
    fn sent<T: Send + Sync>() {}
    sent::<llm_timeout::ResponseFuture<ScriptedFuture>>();
}
