//! When a hedge is sent and which copy decides, on paused time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::time::Duration;

use common::*;
use http::Request;
use http_body_util::BodyExt;
use llm_call::{
    Answer, Attempt, Call, CallSettings, Cause, Certainty, Error, Facts, IdentifyLayer, Kind,
    PeekLayer, Phase, Refusal, ResponseExt, Target,
};
use llm_chaos::testing::{BodyStep, Live, Respond, Strict, service};
use llm_hedge::{HedgeLayer, Hedges, Measure, Settings};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

fn delay(hedges: &Hedges, target: Option<&Target>) -> Duration {
    hedges.delay(target, Measure::FirstToken).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_late_first_token_is_hedged_and_the_first_good_one_wins() {
    let client = service([token_after(60_000), token_after(500)]);
    let gauges = client.gauges();
    let (hedges, call) = (free(), call());
    let answer = stack(&hedges, client).oneshot(request_of(&call)).await;
    let answer = answer.unwrap();
    assert!(answer.outcome().is_success());
    assert_eq!(call.opened().elapsed(), millis(3_500));
    assert_eq!(gauges.calls(), 2);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.ends_with(END.as_bytes()));
    let snapshot = hedges.snapshot();
    assert_eq!((snapshot.calls, snapshot.hedges, snapshot.won), (1, 1, 1));
    assert_eq!(hedges.balance(None), 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_copies_have_numbers_of_their_own_and_the_hedge_says_what_it_is() {
    let client = service([token_after(60_000), token_after(500)]);
    let gauges = client.gauges();
    let call = call();
    (stack(&free(), client).oneshot(request_of(&call)).await).unwrap();
    let attempts: Vec<_> = (gauges.requests().iter())
        .map(|request| request.extensions().get::<Attempt>().unwrap().clone())
        .map(|attempt| (attempt.n, attempt.hedge))
        .collect();
    assert_eq!(attempts, [(1, 0), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_somebody_above_gave_stays_and_so_does_the_target() {
    for (given, first, second) in [(0, 1, 2), (7, 7, 1)] {
        let client = service([token_after(60_000), token_after(500)]);
        let gauges = client.gauges();
        let mut request = request_of(&call());
        let attempt = Attempt::new(given).with_target(Some(target("a:m")));
        request.extensions_mut().insert(attempt);
        stack(&free(), client).oneshot(request).await.unwrap();
        for (n, request) in [first, second].into_iter().zip(gauges.requests()) {
            let attempt = request.extensions().get::<Attempt>().unwrap();
            assert_eq!((attempt.n, &attempt.target), (n, &Some(target("a:m"))));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn h01_at_most_one_hedge_a_call_and_one_for_ten_calls() {
    let client = service([token_after(6_000)]);
    let gauges = client.gauges();
    let hedges = Hedges::new();
    let stack = stack(&hedges, client);
    for n in 1..=200 {
        let call = call();
        (stack.clone().oneshot(request_of(&call)).await).unwrap();
        assert!(call.sent() <= 2);
        assert_eq!(gauges.calls(), n + n / 10, "after {n} calls");
    }
    let snapshot = hedges.snapshot();
    assert_eq!((snapshot.calls, snapshot.hedges), (200, 20));
    assert_eq!(snapshot.without_token, 180);
}

#[tokio::test(start_paused = true)]
async fn h01_a_burst_is_bounded_and_each_tenant_pays_for_itself() {
    let client = service([whole_after(0)]);
    let policy = Settings::new().burst(2).build().unwrap();
    let hedges = Hedges::with(policy);
    let stack = stack(&hedges, client);
    for _ in 0..100 {
        let call = open(CallSettings::new().tenant("acme"));
        (stack.clone().oneshot(request_of(&call)).await).unwrap();
    }
    assert_eq!(hedges.balance(Some("acme")), 2.0);
    assert_eq!(hedges.balance(Some("other")), 0.0);
    assert_eq!(hedges.balance(None), 0.0);
}

#[tokio::test(start_paused = true)]
async fn h02_the_first_delay_until_enough_is_known() {
    let client = service([token_after(400)]);
    let hedges = free();
    let stack = stack(&hedges, client);
    for _ in 0..19 {
        (stack.clone().oneshot(request_of(&call())).await).unwrap();
        assert_eq!(delay(&hedges, None), seconds(3));
    }
    (stack.clone().oneshot(request_of(&call())).await).unwrap();
    let delay = delay(&hedges, None).as_secs_f64();
    assert!((delay / 0.4 - 1.0).abs() < 0.02, "{delay}");
    assert_eq!(hedges.snapshot().hedges, 0);
    let times = &hedges.snapshot().targets[0];
    assert_eq!((times.samples, times.measure), (20.0, Measure::FirstToken));
}

#[tokio::test(start_paused = true)]
async fn h02_then_the_target_counts_by_its_own_times() {
    let mut answers = vec![token_after(400); 20];
    answers.extend([Respond::hang(), token_after(100)]);
    let hedges = free();
    let stack = stack(&hedges, service(answers));
    for _ in 0..20 {
        (stack.clone().oneshot(request_of(&call())).await).unwrap();
    }
    let (delay, call) = (delay(&hedges, None), call());
    (stack.oneshot(request_of(&call)).await).unwrap();
    let took = call.opened().elapsed();
    assert!(
        took >= delay + millis(100) && took < delay + millis(103),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn h03_a_token_that_is_gone_meanwhile_neither_fails_nor_delays_the_call() {
    // Two calls, one token.
    let hedges = Hedges::with(Settings::new().percent(50.0).build().unwrap());
    let quick = stack(&hedges, service([whole_after(0)]));
    (quick.oneshot(request_of(&call())).await).unwrap();
    let client = service([token_after(8_000)]);
    let gauges = client.gauges();
    let stack = stack(&hedges, client);
    let calls = [call(), call()];
    let [one, two] = calls
        .each_ref()
        .map(|call| stack.clone().oneshot(request_of(call)));
    assert_eq!(hedges.balance(None), 0.5);
    let (one, two) = tokio::join!(one, two);
    assert!(one.unwrap().outcome().is_success() && two.unwrap().outcome().is_success());
    assert_eq!(calls[0].opened().elapsed(), seconds(8));
    // The second call came to 1.5 tokens when the first had not taken its own yet.
    assert_eq!(gauges.calls(), 3);
    let snapshot = hedges.snapshot();
    assert_eq!((snapshot.hedges, snapshot.skipped.budget), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn h03_paused_nothing_is_sent_nor_paid_and_it_is_still_learned() {
    let client = service([token_after(8_000)]);
    let gauges = client.gauges();
    let hedges = free();
    let stack = stack(&hedges, client);
    hedges.pause();
    (stack.clone().oneshot(request_of(&call())).await).unwrap();
    let snapshot = hedges.snapshot();
    assert!(snapshot.paused);
    assert_eq!(
        (gauges.calls(), snapshot.calls, hedges.balance(None)),
        (1, 0, 0.0)
    );
    assert_eq!(snapshot.targets[0].samples, 1.0);
    // Paused while it waits.
    hedges.resume();
    let waiting = stack.clone().oneshot(request_of(&call()));
    let (answer, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(seconds(1)).await;
        hedges.pause();
    });
    answer.unwrap();
    assert_eq!((gauges.calls(), hedges.snapshot().skipped.paused), (2, 1));
    assert_eq!(hedges.balance(None), 1.0);
}

#[tokio::test(start_paused = true)]
async fn h04_a_failure_never_beats_a_copy_that_runs() {
    for (first, hedge, took) in [
        (token_after(6_000), status_after(500, 10), 6_000),
        (token_after(6_000), status_after(429, 10), 6_000),
        (
            token_after(6_000),
            Respond::error("reset").after(millis(10)),
            6_000,
        ),
        (status_after(500, 4_000), token_after(2_000), 5_000),
        (status_after(503, 4_000), token_after(2_000), 5_000),
        (
            Respond::error("reset").after(seconds(4)),
            token_after(2_000),
            5_000,
        ),
    ] {
        let client = service([first, hedge]);
        let gauges = client.gauges();
        let call = call();
        let answer = stack(&free(), client).oneshot(request_of(&call)).await;
        assert!(answer.unwrap().outcome().is_success());
        assert_eq!(call.opened().elapsed(), millis(took));
        assert_eq!((gauges.calls(), gauges.live()), (2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn h04_in_the_same_instant_the_first_copy_wins() {
    let client = service([token_after(5_000), token_after(2_000)]);
    let (hedges, call) = (free(), call());
    (stack(&hedges, client).oneshot(request_of(&call)).await).unwrap();
    assert_eq!(call.opened().elapsed(), seconds(5));
    assert_eq!(hedges.snapshot().won, 0);
    let entries = call.ledger().entries;
    assert_eq!(entries[1].cause, Some(Cause::HedgeLost));
    // The hedge, which lost, teaches nothing.
    assert_eq!(hedges.snapshot().targets[0].samples, 1.0);
}

#[tokio::test(start_paused = true)]
async fn h05_a_failure_that_another_target_may_not_have_starts_the_hedge_at_once() {
    for first in [
        status_after(500, 100),
        Respond::error("reset").after(millis(100)),
    ] {
        let client = service([first, token_after(200)]);
        let call = call();
        let answer = stack(&free(), client).oneshot(request_of(&call)).await;
        assert!(answer.unwrap().outcome().is_success());
        assert_eq!(call.opened().elapsed(), millis(300));
    }
}

#[tokio::test(start_paused = true)]
async fn h05_where_there_is_no_token_the_failure_is_returned_at_once() {
    let client = service([status_after(500, 100)]);
    let gauges = client.gauges();
    let call = call();
    let answer = stack(&Hedges::new(), client)
        .oneshot(request_of(&call))
        .await;
    assert_eq!((kind(&answer), gauges.calls()), (Kind::ServerError, 1));
    assert_eq!(call.opened().elapsed(), millis(100));
}

#[tokio::test(start_paused = true)]
async fn h05_never_after_a_rate_limit_or_overload() {
    for (code, expected) in [
        (429, Kind::RateLimited),
        (503, Kind::Overloaded),
        (529, Kind::Overloaded),
        (401, Kind::Authentication),
        (400, Kind::InvalidRequest),
    ] {
        let client = service([status_after(code, 100), token_after(0)]);
        let gauges = client.gauges();
        let (hedges, call) = (free(), call());
        let answer = stack(&hedges, client).oneshot(request_of(&call)).await;
        assert_eq!((kind(&answer), gauges.calls()), (expected, 1), "{code}");
        assert_eq!(call.opened().elapsed(), millis(100));
        assert_eq!((hedges.snapshot().hedges, hedges.balance(None)), (0, 1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn h05_nor_where_the_call_met_one_on_its_way() {
    let (router, [a, b, c]) = Router::new([
        ("a:m", vec![status_after(429, 100)]),
        ("b:m", vec![token_after(9_000)]),
        ("c:m", vec![token_after(0)]),
    ]);
    let hedges = free();
    let answer = router.hedged(&hedges).oneshot(request_of(&call())).await;
    assert_eq!(kind(&answer), Kind::Success);
    assert_eq!((a.calls(), b.calls(), c.calls()), (1, 1, 0));
    let snapshot = hedges.snapshot();
    assert_eq!((snapshot.hedges, snapshot.skipped.kind), (0, 1));
    assert_eq!(hedges.balance(None), 1.0);
}

#[tokio::test(start_paused = true)]
async fn h05_a_request_that_is_wrong_anywhere_ends_both_copies_at_once() {
    for (first, hedge, took) in [
        (token_after(60_000), status_after(400, 100), 3_100),
        (status_after(400, 4_000), token_after(60_000), 4_000),
    ] {
        let client = service([first, hedge]);
        let gauges = client.gauges();
        let call = call();
        let answer = stack(&free(), client).oneshot(request_of(&call)).await;
        assert_eq!(kind(&answer), Kind::InvalidRequest);
        assert_eq!(call.opened().elapsed(), millis(took));
        // What is left is the answer itself.
        assert_eq!((gauges.live_futures(), gauges.live_bodies()), (0, 0));
        let entries = call.ledger().entries;
        assert!(
            entries
                .iter()
                .any(|entry| entry.cause == Some(Cause::HedgeLost))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn h06_the_loser_is_gone_before_the_winner_is_returned() {
    // The headers of the loser are here, so that there is a body to drop.
    for (first, hedge) in [
        (token_after(60_000), token_after(1_000)),
        (token_after(4_000), token_after(60_000)),
        (Respond::hang(), token_after(1_000)),
    ] {
        let hangs = format!("{first:?}").contains("Hang");
        let client = service([first, hedge]);
        let gauges = client.gauges();
        let answer = stack(&free(), client).oneshot(request_of(&call())).await;
        let answer = answer.unwrap();
        assert_eq!((gauges.live_futures(), gauges.live_bodies()), (0, 1));
        let dropped = |live| gauges.drops().iter().filter(|drop| drop.0 == live).count();
        assert_eq!(dropped(Live::Future), 2);
        assert_eq!(dropped(Live::Body), usize::from(!hangs));
        let now = Instant::now();
        assert!(gauges.drops().last().unwrap().1 == now);
        drop(answer);
        assert_eq!(gauges.live(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn h07_the_ledger_has_the_loser_as_cancelled_and_what_it_costs() {
    let client = service([token_after(60_000), token_after(1_000)]);
    let call = call();
    let answer = stack(&free(), client).oneshot(request_of(&call)).await;
    let entries = call.ledger().entries;
    assert_eq!(entries[0].kind, Some(Kind::Cancelled));
    assert_eq!(entries[0].cause, Some(Cause::HedgeLost));
    assert_eq!(entries[0].ended, Some(seconds(4)));
    let billed = entries[0].billed.unwrap();
    assert_eq!(
        (billed.input, billed.certainty),
        (1_000, Certainty::AtLeast)
    );
    assert_eq!((entries[1].kind, entries[1].cause), (None, None));
    assert!(call.ledger().to_string().contains("lost to another copy"));
    answer.unwrap().into_body().collect().await.unwrap();
    assert_eq!(call.ledger().entries[1].kind, Some(Kind::Success));
}

#[tokio::test(start_paused = true)]
async fn h08_a_first_copy_that_loses_teaches_at_least_its_age_and_a_hedge_nothing() {
    let (router, _) = Router::new([
        ("a:m", vec![token_after(60_000)]),
        ("b:m", vec![token_after(400)]),
    ]);
    let policy = Settings::new().percent(100.0).min_samples(1);
    let hedges = Hedges::with(policy.build().unwrap());
    (router.hedged(&hedges).oneshot(request_of(&call())).await).unwrap();
    let targets = hedges.snapshot().targets;
    let samples: Vec<_> = targets.iter().map(|times| times.samples).collect();
    assert_eq!(samples, [1.0]);
    // Of a it is known that it takes more than 3.4 s, which is no quantile, and of b nothing.
    for name in ["a:m", "b:m"] {
        assert_eq!(delay(&hedges, Some(&target(name))), seconds(3));
    }
}

#[tokio::test(start_paused = true)]
async fn h08_first_copies_are_learned_from_once_and_hedges_and_failures_are_not() {
    // A call that is dropped.
    let hedges = free();
    let samples = |hedges: &Hedges| -> f64 {
        let targets = hedges.snapshot().targets;
        targets.iter().map(|times| times.samples).sum()
    };
    let dropped_call = call();
    let hanging = stack(&hedges, service([Respond::hang()]));
    let dropped =
        tokio::time::timeout(seconds(5), hanging.oneshot(request_of(&dropped_call))).await;
    assert!(dropped.is_err());
    assert_eq!((dropped_call.sent(), samples(&hedges)), (2, 1.0));
    // Failures of their own.
    let failing = stack(&hedges, service([status_after(500, 10)]));
    (failing.oneshot(request_of(&call())).await).unwrap();
    assert_eq!(samples(&hedges), 1.0);
    // A failure, and then an answer.
    let second = stack(&hedges, service([status_after(500, 10), token_after(10)]));
    (second.oneshot(request_of(&call())).await).unwrap();
    assert_eq!(samples(&hedges), 1.0);
    // The same call once more, as a layer above may send it: what is known of it stays.
    let quick = stack(&hedges, service([token_after(10)]));
    tokio::time::sleep(millis(1)).await;
    (quick.oneshot(request_of(&dropped_call)).await).unwrap();
    assert_eq!(samples(&hedges), 2.0);
}

#[tokio::test(start_paused = true)]
async fn h08_what_a_call_left_behind_is_learned_from_once_however_often_it_comes_by() {
    let hedges = Hedges::new();
    let stack = stack(&hedges, service([token_after(60_000)]));
    let call = call();
    for learned in [1.0, 2.0, 3.0] {
        let future = stack.clone().oneshot(request_of(&call));
        assert!(tokio::time::timeout(seconds(2), future).await.is_err());
        assert_eq!(hedges.snapshot().targets[0].samples, learned);
    }
}

#[tokio::test(start_paused = true)]
async fn h08_a_copy_that_a_time_limit_ended_took_at_least_so_long() {
    let client = service([Respond::hang(), token_after(400)]);
    let policy = Settings::new().percent(100.0).min_samples(1);
    let hedges = Hedges::with(policy.build().unwrap());
    let call = call();
    // As a limit on the first token of each attempt ends it.
    let below = PeekLayer::new().layer(client);
    let limited = service_fn(move |request: Request<String>| {
        let (below, call) = (
            below.clone(),
            Call::clone(request.extensions().get().unwrap()),
        );
        async move {
            let mut attempt = Box::pin(below.oneshot(request));
            if let Ok(result) = tokio::time::timeout(seconds(2), &mut attempt).await {
                return result;
            }
            let phase = Phase::FirstToken;
            call.set_cause_all(Cause::TimedOut(phase));
            drop(attempt);
            Err(Error::new(Kind::TimedOut(phase)).into())
        }
    });
    let stack = HedgeLayer::new(hedges.clone()).layer(limited);
    let answer = stack.oneshot(request_of(&call)).await;
    assert_eq!(kind(&answer), Kind::Success);
    assert_eq!(call.opened().elapsed(), millis(2_400));
    assert_eq!(hedges.snapshot().targets[0].samples, 1.0);
    let fine = PeekLayer::new().layer(service([token_after(400)]));
    let fine = HedgeLayer::new(hedges.clone()).layer(fine);
    fine.oneshot(request_of(&self::call())).await.unwrap();
    let delay = delay(&hedges, None).as_secs_f64();
    assert!((delay / 0.4 - 1.0).abs() < 0.02, "{delay}");
}

#[tokio::test(start_paused = true)]
async fn h09_headers_and_keep_alives_are_no_first_token() {
    let pings = (0..100).flat_map(|_| {
        [
            BodyStep::data(": keep-alive\n\n"),
            BodyStep::wait(millis(200)),
        ]
    });
    let client = service([stream(pings), token_after(100)]);
    let call = call();
    (stack(&free(), client).oneshot(request_of(&call)).await).unwrap();
    assert_eq!(call.opened().elapsed(), millis(3_100));
}

#[tokio::test(start_paused = true)]
async fn h09_after_the_first_token_nothing_is_sent() {
    let client = service([stream([
        BodyStep::data(TOKEN),
        BodyStep::wait(seconds(60)),
        BodyStep::data(END),
    ])]);
    let gauges = client.gauges();
    let answer = stack(&free(), client).oneshot(request_of(&call())).await;
    answer.unwrap().into_body().collect().await.unwrap();
    assert_eq!(gauges.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn h09_nor_while_a_layer_below_holds_the_first_token_back() {
    let client = service([token_after(1_000)]);
    let gauges = client.gauges();
    let below = PeekLayer::new().layer(client);
    let holding = service_fn(move |request: Request<String>| {
        let below = below.clone();
        async move {
            let answer = below.oneshot(request).await;
            tokio::time::sleep(seconds(10)).await;
            answer
        }
    });
    let hedges = free();
    let stack = HedgeLayer::new(hedges.clone()).layer(holding);
    stack.oneshot(request_of(&call())).await.unwrap();
    assert_eq!((gauges.calls(), hedges.snapshot().skipped.begun), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn h10_the_hedge_goes_to_another_target() {
    let (router, [a, b]) = Router::new([
        ("a:m", vec![token_after(60_000)]),
        ("b:m", vec![token_after(100)]),
    ]);
    let call = call();
    let answer = router.hedged(&free()).oneshot(request_of(&call)).await;
    let answer = answer.unwrap();
    assert_eq!(answer.body().state().target(), Some(&target("b:m")));
    assert_eq!((a.calls(), b.calls(), a.live()), (1, 1, 0));
    let entries = call.ledger().entries;
    assert_eq!((entries[0].hedge, entries[1].hedge), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn h10_where_there_is_no_other_the_token_goes_back_and_the_first_copy_goes_on() {
    let (router, [a]) = Router::new([("a:m", vec![token_after(6_000)])]);
    let (hedges, call) = (free(), call());
    let answer = router.hedged(&hedges).oneshot(request_of(&call)).await;
    assert_eq!((kind(&answer), a.calls()), (Kind::Success, 1));
    assert_eq!(call.opened().elapsed(), seconds(6));
    assert_eq!(hedges.balance(None), 1.0);
    let snapshot = hedges.snapshot();
    assert_eq!((snapshot.hedges, snapshot.unsent, snapshot.won), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn h10_the_token_goes_back_as_soon_as_the_hedge_is_refused() {
    let (router, _) = Router::new([("a:m", vec![token_after(6_000)])]);
    let hedges = free();
    let mut future = Box::pin(router.hedged(&hedges).oneshot(request_of(&call())));
    assert!(tokio::time::timeout(seconds(4), &mut future).await.is_err());
    assert_eq!(hedges.balance(None), 1.0);
    future.await.unwrap();
    assert_eq!((hedges.balance(None), hedges.snapshot().unsent), (1.0, 1));
}

#[tokio::test(start_paused = true)]
async fn h05_a_call_that_found_no_target_at_all_is_not_hedged() {
    let (router, []) = Router::new([]);
    let hedges = free();
    let answer = router.hedged(&hedges).oneshot(request_of(&call())).await;
    assert_eq!(kind(&answer), Kind::Refused(Refusal::NoTarget));
    assert_eq!(hedges.snapshot().hedges, 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_cancelled_before_forbids_no_hedge() {
    let client = service([Respond::hang(), Respond::hang(), token_after(100)]);
    let (hedges, call) = (free(), call());
    let stack = stack(&hedges, client);
    let left = stack.clone().oneshot(request_of(&call));
    assert!(tokio::time::timeout(seconds(1), left).await.is_err());
    let again = stack.oneshot(request_of(&call)).await;
    assert_eq!((kind(&again), hedges.snapshot().won), (Kind::Success, 1));
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_again_when_the_first_copy_goes_elsewhere() {
    let (router, [_, b, c]) = Router::new([
        ("a:m", vec![status_after(500, 2_000)]),
        ("b:m", vec![token_after(60_000)]),
        ("c:m", vec![token_after(100)]),
    ]);
    let call = call();
    let answer = router.hedged(&free()).oneshot(request_of(&call)).await;
    assert_eq!(kind(&answer), Kind::Success);
    assert_eq!(call.opened().elapsed(), millis(2_000 + 3_000 + 100));
    assert_eq!((b.calls(), c.calls(), b.live()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn h11_a_race_moves_no_deadline_and_the_winner_may_stream_on() {
    let client = service([
        token_after(60_000),
        stream([
            BodyStep::data(TOKEN),
            BodyStep::wait(seconds(100)),
            BodyStep::data(END),
        ]),
    ]);
    let call = open(CallSettings::new().timeout(seconds(20)));
    let deadline = call.deadline();
    let answer = stack(&free(), client).oneshot(request_of(&call)).await;
    assert_eq!(call.deadline(), deadline);
    let answer = answer.unwrap().into_body().collect().await.unwrap();
    assert!(answer.to_bytes().ends_with(END.as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn h12_of_two_failures_the_more_telling_one_is_returned() {
    let error = || Respond::error("reset").after(seconds(4));
    for (first, hedge, expected) in [
        // The later of two of a kind: the first copy ends at 4 s, the hedge at 3 s and its time.
        (
            status_after(500, 4_000),
            status_after(503, 10),
            Kind::ServerError,
        ),
        (
            status_after(500, 4_000),
            status_after(503, 2_000),
            Kind::Overloaded,
        ),
        // An answer over an error, in either order.
        (error(), status_after(503, 10), Kind::Overloaded),
        (error(), status_after(503, 2_000), Kind::Overloaded),
        (
            status_after(500, 4_000),
            Respond::error("reset").after(seconds(2)),
            Kind::ServerError,
        ),
        (
            status_after(500, 4_000),
            Respond::error("reset"),
            Kind::ServerError,
        ),
    ] {
        let client = service([first, hedge]);
        let gauges = client.gauges();
        let answer = stack(&free(), client).oneshot(request_of(&call())).await;
        assert_eq!((kind(&answer), gauges.calls()), (expected, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn h12_a_refusal_of_ours_hides_no_failure_of_a_target() {
    // At once, and after the delay.
    for after in [100, 4_000] {
        for fail in [
            status_after(500, after),
            Respond::error("reset").after(millis(after)),
        ] {
            let (router, _) = Router::new([("a:m", vec![fail])]);
            let hedges = free();
            let answer = router.hedged(&hedges).oneshot(request_of(&call())).await;
            assert!(!matches!(kind(&answer), Kind::Refused(_)));
            assert_eq!(hedges.balance(None), 1.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn h12_a_kept_failure_holds_no_connection() {
    // An error page that never ends, while the hedge is under way.
    let endless = std::iter::repeat_n(BodyStep::data(vec![b' '; 40_000]), 4);
    let page = Respond::status(
        http::StatusCode::INTERNAL_SERVER_ERROR,
        endless.chain([BodyStep::Hang]),
    );
    let client = service([page.after(millis(100)), Respond::hang()]);
    let gauges = client.gauges();
    let mut future = Box::pin(stack(&free(), client).oneshot(request_of(&call())));
    assert!(tokio::time::timeout(seconds(2), &mut future).await.is_err());
    assert_eq!(
        (gauges.calls(), gauges.live_futures(), gauges.live_bodies()),
        (2, 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn h13_h14_only_what_may_be_sent_twice_is_hedged() {
    let not_streamed = Call::open(CallSettings::new());
    not_streamed.set_facts(Facts::default());
    let large = Call::open(CallSettings::new());
    let mut facts = streamed();
    facts.input_tokens = 16_001;
    large.set_facts(facts);
    for call in [
        open(CallSettings::new().side_effects(true)),
        open(CallSettings::new().max_attempts(1)),
        Call::open(CallSettings::new()),
        not_streamed,
        large,
    ] {
        let client = service([token_after(9_000)]);
        let gauges = client.gauges();
        let hedges = free();
        (stack(&hedges, client).oneshot(request_of(&call)).await).unwrap();
        assert_eq!(gauges.calls(), 1);
        let snapshot = hedges.snapshot();
        assert_eq!((snapshot.calls, hedges.balance(None)), (0, 0.0));
        assert!(snapshot.targets.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn h13_whole_answers_are_hedged_where_that_is_asked_for() {
    h02_only_once_their_times_are_known(&|| whole_after(20_000), &Facts::default()).await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_think_have_times_of_their_own() {
    let mut facts = streamed();
    facts.thinking = true;
    h02_only_once_their_times_are_known(&|| token_after(20_000), &facts).await;
}

async fn h02_only_once_their_times_are_known(slow: &dyn Fn() -> Respond, facts: &Facts) {
    let mut answers = vec![slow(); 20];
    answers.extend([Respond::hang(), whole_after(100)]);
    let client = service(answers);
    let gauges = client.gauges();
    let hedges = free();
    let layer = HedgeLayer::new(hedges.clone()).whole_answers(true);
    let stack = layer.layer(PeekLayer::new().layer(Strict::new(client)));
    let send = || async {
        let call = Call::open(CallSettings::new());
        call.set_facts(facts.clone());
        (stack.clone().oneshot(request_of(&call)).await).unwrap();
        call.opened().elapsed().as_secs_f64()
    };
    for _ in 0..20 {
        send().await;
    }
    assert_eq!(gauges.calls(), 20);
    let took = send().await;
    assert!((took / 20.1 - 1.0).abs() < 0.02, "{took}");
    let snapshot = hedges.snapshot();
    assert_eq!((snapshot.hedges, snapshot.skipped.unknown), (1, 20));
    let [times] = &snapshot.targets[..] else {
        panic!("{snapshot:?}");
    };
    assert!(times.measure != Measure::FirstToken);
    assert_eq!(times.samples, 21.0);
    assert_eq!(delay(&hedges, None), seconds(3));
}

#[tokio::test(start_paused = true)]
async fn h14_the_limit_on_the_input_is_the_largest_that_is_hedged() {
    for (limit, calls) in [(999, 1), (1_000, 2)] {
        let client = service([token_after(9_000), token_after(0)]);
        let gauges = client.gauges();
        let layer = HedgeLayer::new(free()).max_input_tokens(limit);
        let stack = layer.layer(PeekLayer::new().layer(client));
        (stack.oneshot(request_of(&call())).await).unwrap();
        assert_eq!(gauges.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn h15_a_hedge_that_is_not_due_before_the_deadline_is_not_sent() {
    for (ms, hedges_sent) in [(2_999, 0), (3_000, 0), (3_001, 1)] {
        let client = service([Respond::hang()]);
        let hedges = free();
        let call = open(CallSettings::new().timeout(millis(ms)));
        let future = stack(&hedges, client).oneshot(request_of(&call));
        assert!(tokio::time::timeout(seconds(9), future).await.is_err());
        let snapshot = hedges.snapshot();
        assert_eq!(snapshot.hedges, hedges_sent, "{ms}");
        assert_eq!(snapshot.skipped.deadline, 1 - hedges_sent, "{ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn h15_attempts_that_are_spent_meanwhile_are_not_asked_for_again() {
    let (router, [_, _, c]) = Router::new([
        ("a:m", vec![status_after(500, 100)]),
        ("b:m", vec![token_after(9_000)]),
        ("c:m", vec![token_after(0)]),
    ]);
    let hedges = free();
    let call = open(CallSettings::new().max_attempts(2));
    let answer = router.hedged(&hedges).oneshot(request_of(&call)).await;
    assert_eq!((kind(&answer), c.calls()), (Kind::Success, 0));
    assert_eq!(hedges.snapshot().skipped.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn alone_it_reads_from_the_request_whether_a_stream_is_asked_for() {
    for (body, calls) in [
        ("{\"model\":\"m\",\"stream\":true,\"messages\":[]}", 2),
        ("{\"model\":\"m\",\"messages\":[]}", 1),
    ] {
        let client = service([token_after(6_000)]);
        let gauges = client.gauges();
        let layer = HedgeLayer::new(free()).alone();
        let stack = IdentifyLayer::new().layer(layer.layer(Strict::new(client)));
        let request = Request::post("/v1/chat/completions")
            .body(http_body_util::Full::<bytes::Bytes>::from(body))
            .unwrap();
        stack.oneshot(request).await.unwrap();
        assert_eq!(gauges.calls(), calls, "{body}");
        // Each copy has a number, and the target that the request came with.
        for (n, request) in (1..).zip(gauges.requests()).take_while(|_| calls == 2) {
            let attempt = request.extensions().get::<Attempt>().unwrap();
            assert_eq!((attempt.n, attempt.target.is_some()), (n, true));
        }
    }
}
