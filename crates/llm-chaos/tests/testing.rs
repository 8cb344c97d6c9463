//! The testing helpers find what they are there to find.
#![cfg(feature = "testing")]

use std::cell::Cell;
use std::future::poll_fn;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use llm_chaos::testing::{
    BodyStep, Fuzzed, Live, Respond, Strict, drop_fuzz, drop_fuzz_body, service,
};
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt};

const SECOND: Duration = Duration::from_secs(1);

fn request() -> Request<()> {
    Request::new(())
}

fn streaming() -> Respond {
    Respond::ok([
        BodyStep::data("a"),
        BodyStep::wait(SECOND),
        BodyStep::data("b"),
    ])
    .after(2 * SECOND)
}

#[tokio::test]
#[should_panic(expected = "called without readiness")]
async fn strict_panics_at_a_call_without_readiness() {
    let mut strict = Strict::new(service([Respond::hang()]));
    let _future = strict.call(request());
}

#[tokio::test]
#[should_panic(expected = "called without readiness")]
async fn strict_panics_at_a_second_call_on_one_readiness() {
    let mut strict = Strict::new(service([Respond::hang()]));
    poll_fn(|cx| Service::<Request<()>>::poll_ready(&mut strict, cx))
        .await
        .unwrap();
    let _first = strict.call(request());
    let _second = strict.call(request());
}

#[tokio::test]
#[should_panic(expected = "called without readiness")]
async fn a_clone_of_a_ready_strict_is_not_ready() {
    let mut strict = Strict::new(service([Respond::hang()]));
    poll_fn(|cx| Service::<Request<()>>::poll_ready(&mut strict, cx))
        .await
        .unwrap();
    let _future = strict.clone().call(request());
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_order_on_time_and_the_last_repeats() {
    let scripted = service([
        Respond::error("boom"),
        Respond::status(StatusCode::SERVICE_UNAVAILABLE, ["down"]).header("retry-after", "1"),
        streaming(),
    ]);
    let gauges = scripted.gauges();
    assert_eq!(
        scripted
            .clone()
            .oneshot(request())
            .await
            .unwrap_err()
            .to_string(),
        "boom"
    );
    let down = scripted.clone().oneshot(request()).await.unwrap();
    assert_eq!(
        (down.status(), &down.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    for _ in 0..2 {
        let start = Instant::now();
        let response = scripted.clone().oneshot(request()).await.unwrap();
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "ab"
        );
        assert_eq!(start.elapsed(), 3 * SECOND);
    }
    drop(down);
    assert_eq!((gauges.calls(), gauges.live()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn gauges_count_what_is_alive_and_when_it_went() {
    let scripted = service([streaming(), Respond::hang()]);
    let gauges = scripted.gauges();
    let start = Instant::now();
    let response = scripted.clone().oneshot(request()).await.unwrap();
    assert_eq!((gauges.live_futures(), gauges.live_bodies()), (0, 1));
    let hang = scripted.clone().call(request());
    assert_eq!(gauges.live_futures(), 1);
    sleep(SECOND).await;
    drop(hang);
    drop(response);
    assert_eq!(gauges.live(), 0);
    let drops: Vec<_> = gauges
        .drops()
        .into_iter()
        .map(|(what, at)| (what, at - start))
        .collect();
    assert_eq!(
        drops,
        [
            (Live::Future, 2 * SECOND),
            (Live::Future, 3 * SECOND),
            (Live::Body, 3 * SECOND)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_can_fail_or_hang() {
    let scripted = service([Respond::ok([BodyStep::data("a"), BodyStep::Error("cut")])]);
    let response = scripted.oneshot(request()).await.unwrap();
    assert_eq!(
        response
            .into_body()
            .collect()
            .await
            .unwrap_err()
            .to_string(),
        "cut"
    );
    let scripted = service([Respond::ok([BodyStep::Hang])]);
    let response = scripted.oneshot(request()).await.unwrap();
    assert!(
        tokio::time::timeout(SECOND, response.into_body().collect())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn drop_fuzz_visits_every_state_once() {
    let states = Cell::new(0);
    let mut checks = Vec::new();
    let ended = drop_fuzz(
        || async {
            states.set(states.get() + 1);
            sleep(SECOND).await;
            sleep(SECOND).await;
        },
        |polls| checks.push(polls),
    )
    .await;
    assert_eq!(ended, Fuzzed::Finished(3));
    assert_eq!(checks, [0, 1, 2, 3]);
    assert_eq!(states.get(), 3, "an unpolled async block does not start");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "leaked after 2 polls")]
async fn drop_fuzz_finds_a_planted_leak() {
    let permits = Cell::new(1);
    drop_fuzz(
        || async {
            sleep(SECOND).await;
            permits.set(permits.get() - 1);
            // The permit comes back only if this is not dropped here.
            sleep(SECOND).await;
            permits.set(permits.get() + 1);
        },
        |polls| assert_eq!(permits.get(), 1, "leaked after {polls} polls"),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn drop_fuzz_says_when_a_future_hangs() {
    let ended = drop_fuzz(
        || async {
            sleep(SECOND).await;
            std::future::pending::<()>().await;
        },
        |_| (),
    )
    .await;
    assert_eq!(ended, Fuzzed::Stuck(2));
}

#[tokio::test(start_paused = true)]
async fn bodies_are_dropped_at_every_frame() {
    let scripted = service([streaming()]);
    let gauges = scripted.gauges();
    let ended = drop_fuzz_body(
        || async {
            scripted
                .clone()
                .oneshot(request())
                .await
                .unwrap()
                .into_body()
        },
        |_| assert_eq!(gauges.live(), 0),
    )
    .await;
    // Frame, wait, frame, end.
    assert_eq!(ended, Fuzzed::Finished(4));
}
