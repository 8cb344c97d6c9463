//! Clocks that tick at the wrong moment, on paused time.

use std::{
    cell::RefCell,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use crate::support::*;
use http_body::Body;
use http_body_util::BodyExt;
use llm_call::{Answer, Call, CallSettings, Cause, Commit, Ending, Kind, PeekLayer, Phase};
use llm_chaos::testing::{Fuzzed, Respond, drop_fuzz, drop_fuzz_body};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tokio::time::Instant;
use tower::{Layer, ServiceBuilder, ServiceExt};

#[tokio::test(start_paused = true)]
async fn t08_a_stall_is_not_made_of_the_time_that_the_reader_was_away() {
    // After its absence the next frame needs a moment, as from any client with a task of its own.
    let (client, _) = serve(stream([
        data(TOKEN),
        Wait(s(1)),
        data(PING),
        Wait(ms(1)),
        data(TOKEN),
        data(FINISH),
    ]));
    let (request, call) = ask(Some(true), false);
    let service = TimeoutLayer::new().alone().layer(client);
    let mut body = service.oneshot(request).await.unwrap().into_body();
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
    }
    tokio::time::sleep(s(60)).await;
    let (frames, error) = read(body).await;
    assert!(error.is_none(), "{error:?} after {frames} frames");
    assert_eq!(call.ledger().entries[0].kind, Some(Kind::Success));
}

#[tokio::test(start_paused = true)]
async fn t03_a_stall_is_still_one_when_the_reader_was_away() {
    let mut steps = vec![data(TOKEN)];
    for _ in 0..100 {
        steps.extend([Wait(s(3)), data(PING)]);
    }
    let (client, _) = serve(stream(steps));
    let (request, _) = ask(Some(true), false);
    let service = TimeoutLayer::new().alone().layer(client);
    let mut body = service.oneshot(request).await.unwrap().into_body();
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    tokio::time::sleep(s(60)).await;
    let back = Instant::now();
    assert_timed_out(&read(body).await.1.unwrap(), Phase::Stall);
    // Six seconds of the twenty had passed before.
    assert_eq!(back.elapsed().as_secs(), 14);
}

#[tokio::test(start_paused = true)]
async fn t08_a_late_reader_does_not_make_the_first_token_late() {
    let (client, _) = serve(stream([Wait(ms(1)), data(TOKEN), data(FINISH)]));
    let service = ServiceBuilder::new()
        .layer(TimeoutLayer::new())
        .layer(PeekLayer::new().commit(Commit::Headers))
        .service(client.clone());
    let (request, _) = ask(Some(true), false);
    let body = service.oneshot(request).await.unwrap().into_body();
    tokio::time::sleep(s(60)).await;
    let (frames, error) = read(body).await;
    assert!(error.is_none(), "{error:?} after {frames} frames");
}

#[tokio::test(start_paused = true)]
async fn t08_a_body_that_its_reader_drew_out_is_not_blamed_on_the_target() {
    let (client, _) = serve(audio(vec![data("a"); 100]));
    let (request, call) = ask(None, false);
    let service = TimeoutLayer::new().alone().layer(client);
    let mut body = service.oneshot(request).await.unwrap().into_body();
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(_) => tokio::time::sleep(s(3)).await,
            Err(error) => break error,
        }
    };
    assert_timed_out(&error, Phase::Reader);
    assert_eq!(
        call.ledger().entries[0].kind,
        Some(Kind::TimedOut(Phase::Reader))
    );
}

#[tokio::test(start_paused = true)]
async fn t02_the_first_token_of_a_stream_that_is_held_whole_comes_in_time() {
    let mut steps = vec![data(TOKEN)];
    for _ in 0..20 {
        steps.extend([Wait(s(1)), data(TOKEN)]);
    }
    steps.push(data(FINISH));
    let (client, _) = serve(stream(steps));
    let service = ServiceBuilder::new()
        .layer(TimeoutLayer::new())
        .layer(PeekLayer::new().commit(Commit::Whole))
        .service(client.clone());
    let (start, (request, _)) = (Instant::now(), ask(Some(true), false));
    let body = service.clone().oneshot(request).await.unwrap().into_body();
    assert_eq!(start.elapsed().as_secs(), 20);
    assert_eq!(read(body).await.0, 22);

    // The limit on the whole holds, and a stream without a token is left at once.
    for (respond, phase, seconds) in [
        (stream([data(TOKEN), Hang]), Phase::Stream, 120),
        (stream([data(PING), Hang]), Phase::FirstToken, 5),
    ] {
        let (client, gauges) = serve(respond);
        let service = ServiceBuilder::new()
            .layer(TimeoutLayer::new())
            .layer(PeekLayer::new().commit(Commit::Whole))
            .service(client.clone());
        let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
        assert_timed_out(&service.oneshot(request).await.unwrap_err(), phase);
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_eq!(call.ledger().entries[0].kind, Some(Kind::TimedOut(phase)));
        assert_eq!(gauges.live(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn t02_a_body_whose_end_is_there_when_a_limit_passes_is_whole() {
    let (client, _) = serve(stream([data(TOKEN), data(TOKEN), data(FINISH)]));
    let (request, call) = ask(Some(true), false);
    let service = TimeoutLayer::new().alone().layer(client);
    let mut body = service.oneshot(request).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(s(121)).await;
    let (frames, error) = read(body).await;
    assert!(error.is_none(), "{error:?} after {frames} frames");
    assert_eq!(frames, 2);
    assert_eq!(call.ledger().entries[0].kind, Some(Kind::Success));
}

#[tokio::test(start_paused = true)]
async fn t02_the_shortest_limits_fire_and_the_longest_never_do() {
    let shortest = Duration::from_nanos(1);
    for (respond, phase) in [
        (Respond::hang(), Phase::FirstToken),
        (stream([data(TOKEN), Hang]), Phase::Idle),
    ] {
        let (client, gauges) = serve(respond);
        let layer = TimeoutLayer::new().first_token(shortest).idle(shortest);
        let (start, (request, call)) = (Instant::now(), ask(Some(true), false));
        let error = match layer.alone().layer(client).oneshot(request).await {
            Ok(response) => read(response.into_body()).await.1.unwrap(),
            Err(error) => error,
        };
        assert_timed_out(&error, phase);
        assert!(start.elapsed() <= ms(2));
        assert_eq!(call.ledger().entries[0].cause, Some(Cause::TimedOut(phase)));
        assert_eq!(gauges.live(), 0);
    }
    let max = Duration::MAX;
    let layer = TimeoutLayer::new().answer(max).reader(max).idle(max);
    let layers = (
        DeadlineLayer::new(max).thinking(max),
        layer,
        PeekLayer::new(),
    );
    let (client, _) = serve(audio([data("a"), Wait(s(1 << 30)), data("b")]));
    let body = layers.layer(client).oneshot(plain()).await.unwrap();
    let mut body = body.into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(s(1 << 30)).await;
    assert_eq!(read(body).await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn t04_of_limits_at_one_instant_the_one_that_says_most_is_named() {
    for (first_token, answer, stream, deadline, streamed, phase) in [
        (5, 9, 5, 5, true, Phase::Deadline),
        (5, 9, 5, 9, true, Phase::FirstToken),
        (9, 5, 9, 5, false, Phase::Deadline),
        (9, 5, 5, 9, false, Phase::Answer),
    ] {
        let (client, _) = serve(Respond::hang());
        let layer = TimeoutLayer::new()
            .first_token(s(first_token))
            .answer(s(answer))
            .stream(s(stream));
        let settings = CallSettings::new().timeout(s(deadline));
        let (request, call) = ask_by(settings, Some(streamed), false);
        let error = layer.alone().layer(client).oneshot(request).await;
        assert_timed_out(&error.unwrap_err(), phase);
        assert_eq!(call.ledger().entries[0].kind, Some(Kind::TimedOut(phase)));
    }
    // After commit the silence that came to an end is named, and not the whole.
    let (client, _) = serve(stream([data(TOKEN), Hang]));
    let layer = TimeoutLayer::new().idle(s(7)).stall(s(7)).stream(s(7));
    let body = layer.alone().layer(client).oneshot(plain()).await.unwrap();
    assert_timed_out(&read(body.into_body()).await.1.unwrap(), Phase::Idle);
}

#[tokio::test(start_paused = true)]
async fn c03_layers_of_this_crate_upon_each_other_leave_nothing_behind() {
    for streamed in [Some(true), Some(false), None] {
        let steps = [
            data(PING),
            Wait(s(1)),
            data(TOKEN),
            Wait(s(1)),
            data(TOKEN),
            Hang,
        ];
        let (client, gauges) = serve(stream(steps).after(s(1)));
        let service = ServiceBuilder::new()
            .layer(DeadlineLayer::new(s(30)))
            .layer(TimeoutLayer::new().idle(s(3)))
            .layer(TimeoutLayer::new().idle(s(3)).first_token(s(4)))
            .layer(DeadlineLayer::new(s(20)))
            .layer(PeekLayer::new())
            .service(client);
        let calls = RefCell::new(Vec::new());
        let send = || {
            let (request, call) = ask(streamed, false);
            calls.borrow_mut().push(call);
            service.clone().oneshot(request)
        };
        let check = |polls| {
            assert_eq!(gauges.live(), 0, "after {polls} polls");
            let ledger = calls.borrow().last().map(Call::ledger).unwrap_or_default();
            let open = ledger.entries.iter().any(|entry| entry.kind.is_none());
            assert!(!open, "after {polls} polls: {ledger}");
        };
        let ended = drop_fuzz(send, check).await;
        assert!(matches!(ended, Fuzzed::Finished(_)), "{ended:?}");
        let body = || async { send().await.unwrap().into_body() };
        let ended = drop_fuzz_body(body, check).await;
        assert!(matches!(ended, Fuzzed::Finished(_)), "{ended:?}");
        let ledger = calls.borrow().last().map(Call::ledger).unwrap();
        assert_eq!(ledger.entries.len(), 1, "{ledger}");
        assert_eq!(ledger.entries[0].kind, Some(Kind::TimedOut(Phase::Idle)));
    }
}

#[tokio::test(start_paused = true)]
async fn t02_every_commit_keeps_to_every_phase() {
    let layer = TimeoutLayer::new()
        .first_token(s(2))
        .answer(s(3))
        .idle(s(4))
        .stall(s(5))
        .stream(s(60));
    for commit in [
        Commit::Headers,
        Commit::FirstToken,
        Commit::Window(s(1)),
        Commit::Whole,
    ] {
        let pings = |first| {
            let ping = [Wait(s(1)), data(PING)];
            let pings = ping.into_iter().cycle().take(400);
            stream(std::iter::once(data(first)).chain(pings).chain([Hang]))
        };
        let whole = commit == Commit::Whole;
        let after = |phase| if whole { Phase::Stream } else { phase };
        for (respond, streamed, phase) in [
            (Respond::hang(), true, Phase::FirstToken),
            (pings(PING), true, Phase::FirstToken),
            (stream([data(TOKEN), Hang]), true, after(Phase::Idle)),
            (pings(TOKEN), true, after(Phase::Stall)),
            (Respond::hang(), false, Phase::Answer),
            (json([data("{"), Hang]), false, Phase::Answer),
            (audio([data("a"), Hang]), false, Phase::Answer),
        ] {
            let (client, gauges) = serve(respond);
            let service = ServiceBuilder::new()
                .layer(layer.clone())
                .layer(PeekLayer::new().commit(commit))
                .service(client.clone());
            let (request, call) = ask(Some(streamed), false);
            let error = match service.oneshot(request).await {
                Ok(response) => read(response.into_body()).await.1.unwrap(),
                Err(error) => error,
            };
            assert_timed_out(&error, phase);
            let entry = call.ledger().entries.remove(0);
            assert_eq!(entry.kind, Some(Kind::TimedOut(phase)), "{commit:?}");
            assert_eq!(entry.cause, Some(Cause::TimedOut(phase)), "{commit:?}");
            assert_eq!(gauges.live(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t05_a_cut_while_a_timer_is_armed_is_the_end() {
    let (client, gauges) = serve(stream([data(TOKEN), Hang]));
    let (request, call) = ask(Some(true), false);
    let layers = (DeadlineLayer::default(), TimeoutLayer::new().alone());
    let mut body = layers.layer(client).oneshot(request).await.unwrap();
    let held = Held::new();
    let mut poll = |cut: Option<Ending>| {
        let mut body = Pin::new(body.body_mut());
        if let Some(ending) = cut {
            body.as_mut().cut(ending);
        }
        body.poll_frame(&mut held.context())
    };
    assert!(poll(None).is_ready());
    assert!(poll(None).is_pending());
    let mut idle = Context::from_waker(std::task::Waker::noop());
    assert!(matches!(poll(Some(Ending::Dropped)), Poll::Ready(None)));
    // A second one changes nothing.
    let again = Ending::Cut(Cause::TimedOut(Phase::Idle));
    assert!(matches!(poll(Some(again)), Poll::Ready(None)));
    assert_eq!((held.timers(), gauges.live()), (0, 0));
    assert!(Pin::new(body.body_mut()).poll_frame(&mut idle).is_ready());
    assert_eq!(call.ledger().entries[0].kind, Some(Kind::Cancelled));
}
