//! What counts, once each.

use futures_util::future::join_all;
use http::Request;
use llm_breaker::{
    BreakerLayer, Breakers, CircuitOpen, CircuitState, Forced, Key, Settings, Totals,
};
use llm_call::{
    Answer, Attempt, Call, CallSettings, Cause, Ending, Error, Health, Kind, Matrix, Outcome,
    PeekLayer, Phase, Refusal, ResponseExt, Workload, find_cause,
};
use llm_chaos::testing::{BodyStep, Respond, service};
use std::pin::Pin;
use tower::{ServiceBuilder, ServiceExt};

use crate::support::*;

fn totals(set: impl FnOnce(&mut Totals)) -> Totals {
    let mut totals = Totals::default();
    set(&mut totals);
    totals
}

#[tokio::test(start_paused = true)]
async fn failures_open_it_and_a_refused_call_does_not_reach_the_inner_service() {
    let world = world([status(503)]);
    for _ in 0..5 {
        assert_eq!(world.call().await, Kind::Overloaded);
    }
    let error = world.send(request()).await.unwrap_err();
    assert_eq!(world.gauges.calls(), 5);
    assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::CircuitOpen));
    let ours = find_cause::<Error>(&*error).unwrap();
    assert_eq!(ours.target(), Some(&target("a:m")));
    let wait = ours.outcome().retry_after.unwrap();
    assert!(wait > s(23) && wait <= s(30), "{wait:?}");
    let open = find_cause::<CircuitOpen>(&*error).unwrap();
    assert_eq!(open.last_failure, Some(Kind::Overloaded));
    assert_eq!(
        open.to_string(),
        "the circuit of a:m is open; last failure: the provider is overloaded"
    );
    let t = world.totals();
    assert_eq!((t.admitted, t.failed, t.refused), (5, 5, 1));
}

#[tokio::test(start_paused = true)]
async fn cb08_own_refusals_are_no_failures_and_the_server_s_hint_is_kept() {
    let world = world([status(503).header("retry-after", "300")]);
    for _ in 0..5 {
        world.call().await;
    }
    for _ in 0..1_000 {
        assert_eq!(world.call().await, Kind::Refused(Refusal::CircuitOpen));
    }
    assert_eq!(world.circuit().snapshot().retry_in, Some(s(300)));
    assert_eq!(world.totals().failed, 5);
    // It recovers.
    tokio::time::advance(s(300)).await;
    let inner = self::world_with(world.breakers.clone(), [good()]);
    for _ in 0..3 {
        assert_eq!(inner.call().await, Kind::Success);
    }
    assert_eq!(world.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn cb07_a_refusal_by_an_inner_layer_takes_no_slot() {
    let breakers = Breakers::new();
    let key = Key::target(target("a:m"));
    let failing = world_with(breakers.clone(), [status(500)]);
    for _ in 0..5 {
        failing.call().await;
    }
    tokio::time::advance(s(31)).await;
    let full = over(&breakers, |_| async {
        Err(Error::new(Kind::Refused(Refusal::BulkheadFull)).into())
    });
    for _ in 0..100 {
        let error = full.clone().oneshot(request()).await.unwrap_err();
        assert_eq!(Kind::of(&*error), Kind::Refused(Refusal::BulkheadFull));
    }
    let shot = breakers.circuit(&key).snapshot();
    assert_eq!((shot.state, shot.trials), (CircuitState::HalfOpen, 0));
    assert_eq!((shot.totals.neutral, shot.totals.refused), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn cb21_what_the_caller_or_the_key_did_wrong_never_opens_it() {
    for code in [400, 401, 402, 403, 404, 409, 413, 422, 429] {
        let world = world([status(code)]);
        for _ in 0..50 {
            world.call().await;
        }
        assert_eq!(world.state(), CircuitState::Closed, "{code}");
        let expected = totals(|t| (t.admitted, t.neutral) = (50, 50));
        assert_eq!(world.totals(), expected, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn cb20_a_stream_counts_once_slow_at_its_first_token_and_failed_at_its_end() {
    let steps = [
        BodyStep::from(TOKEN),
        BodyStep::wait(s(2)),
        BodyStep::Error("reset"),
    ];
    let world = world([stream(steps).after(s(5))]);
    let response = world.send(request()).await.unwrap();
    assert!(response.outcome().is_success());
    let shot = world.circuit().snapshot();
    assert_eq!((shot.window_slow, shot.window_timed), (1, 1));
    assert_eq!((shot.window_failures, shot.window_calls), (0, 0));
    assert_eq!(
        shot.totals,
        totals(|t| (t.admitted, t.slow, t.in_flight) = (1, 1, 1))
    );
    use http_body_util::BodyExt;
    response.into_body().collect().await.unwrap_err();
    let shot = world.circuit().snapshot();
    assert_eq!((shot.window_slow, shot.window_timed), (1, 1));
    assert_eq!((shot.window_failures, shot.window_calls), (1, 1));
    assert_eq!(
        shot.totals,
        totals(|t| (t.admitted, t.slow, t.failed) = (1, 1, 1))
    );
    assert_eq!(shot.last_failure, Some(Kind::Interrupted));
}

#[tokio::test(start_paused = true)]
async fn cb20_slow_is_measured_to_both_sides_of_its_limit() {
    let answer = |streamed: bool, after: u64, more: u64| {
        let respond = if streamed { good_stream() } else { good() };
        respond.after(s(after) + std::time::Duration::from_millis(more))
    };
    for (streamed, thinking, limit) in [
        (true, false, 4),
        (false, false, 8),
        (true, true, 30),
        (false, true, 30),
    ] {
        let policy = Settings::new().window_time(s(90)).build().unwrap();
        let answers = [answer(streamed, limit, 0), answer(streamed, limit, 1)];
        let world = world_with(Breakers::with(policy), answers);
        for slow in [0, 1] {
            let call = call_for(streamed, thinking);
            assert_eq!(
                world.call_with(copy_of(Some(&call), 1)).await,
                Kind::Success
            );
            assert_eq!(world.totals().slow, slow, "{streamed} {thinking}");
        }
        let shot = world.circuit().snapshot();
        assert_eq!((shot.window_timed, shot.window_calls), (2, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn cb20_slow_first_tokens_open_it_although_every_answer_is_good() {
    let steps = [BodyStep::from(TOKEN), BodyStep::wait(s(60)), STOP.into()];
    let world = world([stream(steps).after(s(5))]);
    let answers = join_all((0..10).map(|_| world.send(request()))).await;
    // Before a single one has ended.
    assert_eq!(world.reasons(), ["10 of 10 calls were slow"]);
    assert_eq!(world.totals().in_flight, 10);
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn cb22_an_error_event_in_the_middle_is_a_failure_whatever_the_status() {
    let world = world([stream([TOKEN.into(), ERROR_EVENT.into()])]);
    for _ in 0..5 {
        assert_eq!(world.call().await, Kind::ServerError);
    }
    assert_eq!(world.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn cb22_a_stream_that_ends_without_its_end_is_a_failure_and_one_read_to_done_is_not() {
    let world = world([stream([TOKEN.into()]), good_stream()]);
    assert_eq!(world.call().await, Kind::Interrupted);
    // An SDK stops at `[DONE]` and drops the body.
    use http_body_util::BodyExt;
    let mut body = world.send(request()).await.unwrap().into_body();
    while body.state().ending().is_none() {
        body.frame().await.unwrap().unwrap();
    }
    assert_eq!(
        world.totals(),
        totals(|t| (t.admitted, t.failed, t.succeeded) = (2, 1, 1))
    );
    drop(body);
    assert_eq!(world.totals().succeeded, 1);
}

#[tokio::test(start_paused = true)]
async fn cb22_a_reader_that_leaves_after_the_first_token_is_no_failure() {
    let steps = [BodyStep::from(TOKEN), BodyStep::Hang];
    let world = world([stream(steps)]);
    for _ in 0..100 {
        drop(world.send(request()).await.unwrap());
    }
    assert_eq!(
        world.totals(),
        totals(|t| (t.admitted, t.abandoned) = (100, 100))
    );
    assert_eq!(world.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_cuts_a_stream_counts_by_its_phase() {
    for (phase, expected) in [
        (Phase::Idle, totals(|t| (t.admitted, t.failed) = (1, 1))),
        (Phase::Stall, totals(|t| (t.admitted, t.failed) = (1, 1))),
        (Phase::Reader, totals(|t| (t.admitted, t.neutral) = (1, 1))),
        (
            Phase::Deadline,
            totals(|t| (t.admitted, t.neutral) = (1, 1)),
        ),
    ] {
        let world = world([stream([TOKEN.into(), BodyStep::Hang])]);
        let mut body = world.send(request()).await.unwrap().into_body();
        Pin::new(&mut body).cut(Ending::Cut(Cause::TimedOut(phase)));
        assert_eq!(world.totals(), expected, "{phase:?}");
    }
    let world = world([stream([TOKEN.into(), BodyStep::Hang])]);
    let mut body = world.send(request()).await.unwrap().into_body();
    Pin::new(&mut body).cut(Ending::Cut(Cause::HedgeLost));
    assert_eq!(
        world.totals(),
        totals(|t| (t.admitted, t.abandoned) = (1, 1))
    );
}

#[tokio::test(start_paused = true)]
async fn the_matrix_of_the_call_judges_limits_and_refusals() {
    let kind = Kind::TimedOut(Phase::Reader);
    let refused = Kind::Refused(Refusal::CircuitOpen);
    let matrix = Matrix::default()
        .set(kind, Matrix::default()[kind].breaker(Health::Failure))
        .set(refused, Matrix::default()[refused].degrade(false));
    let call = Call::open(CallSettings::new().matrix(matrix));
    let world = world([stream([TOKEN.into(), BodyStep::Hang])]);
    let response = world.send(copy_of(Some(&call), 1)).await.unwrap();
    let mut body = response.into_body();
    Pin::new(&mut body).cut(Ending::Cut(Cause::TimedOut(Phase::Reader)));
    assert_eq!(world.totals().failed, 1);
    world.circuit().force_open();
    let error = world.send(copy_of(Some(&call), 1)).await.unwrap_err();
    assert!(!Outcome::of_error(&*error).verdict.degrade);
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_counts_at_once_and_not_when_its_body_is_read() {
    let world = world([status(500)]);
    let kept: Vec<_> = [world.send(request()).await, world.send(request()).await].into();
    assert_eq!(world.totals(), totals(|t| (t.admitted, t.failed) = (2, 2)));
    drop(kept);
    assert_eq!(world.totals(), totals(|t| (t.admitted, t.failed) = (2, 2)));
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_below_is_a_failure_and_slow() {
    let breakers = Breakers::new();
    let stack = over(&breakers, |_| async {
        tokio::time::sleep(s(3)).await;
        Err(Error::new(Kind::TimedOut(Phase::FirstToken)).into())
    });
    for _ in 0..5 {
        stack.clone().oneshot(request()).await.unwrap_err();
    }
    let shot = breakers.target(&target("a:m")).snapshot();
    assert_eq!(shot.state, CircuitState::Open);
    assert_eq!((shot.window_slow, shot.window_failures), (5, 5));
    assert_eq!(shot.totals.slow, 5);
}

#[tokio::test(start_paused = true)]
async fn each_target_and_each_url_has_a_circuit_of_its_own() {
    let world = world([status(500)]);
    for _ in 0..5 {
        world.call().await;
    }
    let mut other = request();
    let attempt = Attempt::new(1).with_target(Some(target("a:m:streaming")));
    other.extensions_mut().insert(attempt);
    assert_eq!(world.call_with(other).await, Kind::ServerError);
    // Without a target: authority and path, without what is secret.
    let by_url = |uri: &str, host: &str| {
        let request = Request::post(uri).header("host", host);
        request.body(String::from("{}")).unwrap()
    };
    for (uri, host) in [
        ("http://user:pw@h:1/v1/chat/completions?key=x", "other"),
        ("/v1/chat/completions", "h:1"),
        ("/v1/chat/completions", ""),
    ] {
        world.call_with(by_url(uri, host)).await;
    }
    let mut keys: Vec<_> = world
        .breakers
        .snapshot()
        .iter()
        .map(|shot| format!("{}: {}", shot.key, shot.totals.admitted))
        .collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "/v1/chat/completions: 1",
            "a:m: 5",
            "a:m:streaming: 1",
            "h:1/v1/chat/completions: 2"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn classes_are_kept_apart() {
    let breakers = Breakers::new();
    let stack = ServiceBuilder::new()
        .layer(
            BreakerLayer::new(breakers.clone()).class(|call| match call.workload() {
                Workload::Interactive => call.tenant(),
                _ => Some("background"),
            }),
        )
        .layer(PeekLayer::new())
        .service(service([status(500)]));
    let calls = [
        Some(Call::open(CallSettings::new())),
        Some(Call::open(CallSettings::new().tenant("acme"))),
        Some(Call::open(
            CallSettings::new().workload(Workload::Background),
        )),
        None,
    ];
    for call in &calls {
        let _ = stack.clone().oneshot(copy_of(call.as_ref(), 1)).await;
    }
    let shots = breakers.snapshot();
    let mut keys: Vec<_> = shots
        .iter()
        .map(|shot| format!("{}: {}", shot.key, shot.totals.admitted))
        .collect();
    keys.sort();
    assert_eq!(keys, ["a:m [acme]: 1", "a:m [background]: 1", "a:m: 2"]);
    // The handle finds them too.
    let key = Key::target(target("a:m")).with_class("acme");
    assert_eq!(breakers.circuit(&key).snapshot().totals.failed, 1);
    assert_eq!(breakers.circuits().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn policies_may_differ_by_key() {
    let strict = Settings::new().failures_in_a_row(1).build().unwrap();
    let breakers = Breakers::by(move |key| match key.as_target() {
        Some(target) if target.provider() == "a" => strict.clone(),
        _ => Default::default(),
    });
    let world = world_with(breakers, [status(500)]);
    world.call().await;
    assert_eq!(world.state(), CircuitState::Open);
    let mut other = request();
    let attempt = Attempt::new(1).with_target(Some(target("b")));
    other.extensions_mut().insert(attempt);
    for _ in 0..4 {
        world.call_with(other.clone()).await;
    }
    let b = world.breakers.target(&target("b"));
    assert_eq!(b.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn cb14_forced_open_executes_no_call_and_forced_closed_executes_all() {
    let world = world([status(500)]);
    // Before the first call.
    world.circuit().force_open();
    for _ in 0..10 {
        let error = world.send(request()).await.unwrap_err();
        assert_eq!(Outcome::of_error(&*error).retry_after, None);
        tokio::time::advance(s(600)).await;
    }
    assert_eq!(world.gauges.calls(), 0);
    world.circuit().force_closed();
    for _ in 0..50 {
        assert_eq!(world.call().await, Kind::ServerError);
    }
    let shot = world.circuit().snapshot();
    assert_eq!(shot.forced, Some(Forced::Closed));
    assert_eq!(shot.totals.failed, 50);
    world.circuit().release();
    assert_eq!(world.circuit().snapshot().window_calls, 0);
}

#[tokio::test(start_paused = true)]
async fn the_ramp_sends_a_part_elsewhere_while_there_is_an_elsewhere() {
    let breakers = Breakers::new();
    let failing = world_with(breakers.clone(), [status(500)]);
    for _ in 0..5 {
        failing.call().await;
    }
    tokio::time::advance(s(31)).await;
    let world = world_with(breakers, [good()]);
    for _ in 0..3 {
        assert_eq!(world.call().await, Kind::Success);
    }
    let mut with_others = request();
    let attempt = Attempt::new(1).with_target(Some(target("a:m")));
    let attempt = attempt.with_alternatives(1);
    with_others.extensions_mut().insert(attempt);
    let (mut good, mut last) = (0, None);
    for _ in 0..100 {
        match world.send(with_others.clone()).await {
            Ok(_) => good += 1,
            Err(error) => last = Some(error),
        }
        assert_eq!(world.call().await, Kind::Success, "alone it refuses none");
    }
    assert!((9..=12).contains(&good), "{good}");
    let error = last.unwrap();
    assert_eq!(Outcome::of_error(&*error).retry_after, Some(s(0)));
    let open = find_cause::<CircuitOpen>(&*error).unwrap();
    assert!(open.to_string().contains("traffic still grows"), "{open}");
    tokio::time::advance(s(10)).await;
    for _ in 0..20 {
        assert_eq!(world.call_with(with_others.clone()).await, Kind::Success);
    }
}

#[tokio::test(start_paused = true)]
async fn connection_errors_count_as_their_kind_says() {
    let world = world([Respond::error("reset")]);
    for _ in 0..5 {
        world.call().await;
    }
    assert_eq!(world.reasons(), ["5 calls failed in a row"]);
}

#[tokio::test(start_paused = true)]
async fn a_circuit_can_be_named_by_any_part_of_the_request() {
    let breakers = Breakers::new();
    let by_region = |request: &http::request::Parts| {
        let region = request.headers.get("x-region");
        Key::url("", region.map_or("none", |region| region.to_str().unwrap()))
    };
    let stack = ServiceBuilder::new()
        .layer(BreakerLayer::new(breakers.clone()).key(by_region))
        .layer(PeekLayer::new())
        .service(service([status(500)]));
    for region in ["eu", "us", "eu"] {
        let mut request = copy_of(None, 1);
        request
            .headers_mut()
            .insert("x-region", http::HeaderValue::from_static(region));
        let _ = stack.clone().oneshot(request).await;
    }
    let admitted = |region| {
        let circuit = breakers.circuit(&Key::url("", region));
        circuit.snapshot().totals.admitted
    };
    assert_eq!((admitted("eu"), admitted("us")), (2, 1));
    assert_eq!(breakers.circuits().len(), 2);
}
