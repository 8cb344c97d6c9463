//! The contract of `Service`, for every service alone, over and under every other one, and in
//! stacks of several.

use std::{future::poll_fn, pin::pin, task::Poll};

use futures_util::future::join_all;
use llm_call::{Client, Kind};
use llm_chaos::testing::Respond;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::{answers::*, rows::*, world::*};

/// Calls, one after the other, at once, and with one dropped in between.
async fn exercise(rows: &[Row]) {
    let what = &names(rows);
    let sheds = rows.iter().any(|row| row.0 == SHED.0);
    let is_answer = |heard: &Heard, text: &str| {
        let whole = heard.status == Some(200) && heard.kind == Kind::Success && heard.text == text;
        // Respond tells of a refusal as of an overload.
        let is_refusal = matches!(heard.kind, Kind::Refused(_) | Kind::Overloaded);
        let refused = sheds && (is_refusal || heard.status == Some(503));
        assert!(whole || refused, "{what}: {heard:?}");
        whole
    };

    for (answer, text, streamed) in [
        (whole(), WHOLE.to_owned(), false),
        (stream(), stream_text(), true),
    ] {
        let world = World::new([answer.after(ms(10))]);
        let mut stack = world.stack(rows);
        let mut calls = Vec::new();
        let mut request = || {
            let call = open();
            calls.push(call.clone());
            request(&call, streamed)
        };

        let mut answered = 0;
        for _ in 0..3 {
            let heard = patiently(what, next(&mut stack, request())).await;
            answered += usize::from(is_answer(&heard, &text));
        }
        let crowd: Vec<_> = (0..4).map(|_| exchange(&stack, request())).collect();
        for heard in patiently(what, join_all(crowd)).await {
            answered += usize::from(is_answer(&heard, &text));
        }
        for polls in 1..4 {
            dropped(&stack, request(), polls).await;
            let heard = patiently(what, exchange(&stack, request())).await;
            answered += usize::from(is_answer(&heard, &text));
        }
        assert!(answered >= if sheds { 1 } else { 10 }, "{what}: {answered}");
        // A buffer lets go of what was dropped when its worker runs.
        tokio::time::sleep(ms(1)).await;
        world.assert_settled(&calls, what);
    }
}

/// An inner service that fails: each call ends, and when the service is well again it is asked.
async fn exercise_failures(rows: &[Row]) {
    let what = &names(rows);
    let failures: [fn() -> Respond; 6] = [
        reset,
        || status(503),
        cut_early,
        cut,
        error_event,
        || hint("20"),
    ];
    for failure in failures {
        let world = World::new([failure(), failure(), stream()]);
        let stack = world.stack(rows);
        let mut calls = Vec::new();
        let mut last = None;
        for _ in 0..3 {
            let call = open();
            calls.push(call.clone());
            last = Some(patiently(what, exchange(&stack, request(&call, true))).await);
            // The target's rest, and the circuit's.
            tokio::time::sleep(PATIENCE).await;
        }
        let last = last.unwrap();
        assert_eq!(last.status, Some(200), "{what}: {last:?}");
        assert_eq!(last.text, stream_text(), "{what}");
        world.assert_settled(&calls, what);
    }
}

/// Nothing may wait for ever.
async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = timeout(PATIENCE, future).await;
    result.unwrap_or_else(|_| panic!("{what}: a deadlock"))
}

/// A call that is polled so often, and dropped.
async fn dropped(
    stack: &Client,
    request: http::Request<http_body_util::Full<bytes::Bytes>>,
    polls: usize,
) {
    let mut call = pin!(stack.clone().oneshot(request));
    for _ in 0..polls {
        let ended = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        if ended {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn r18_each_service_alone_keeps_the_contract_over_everything() {
    for &row in ALL {
        for &foreign in FOREIGN {
            exercise(&[row, foreign]).await;
            exercise(&[foreign, row]).await;
        }
        exercise_failures(&[row]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn r18_each_service_keeps_the_contract_over_each_other_one() {
    for &upper in ALL {
        for &lower in ALL {
            for &foreign in FOREIGN {
                exercise(&[upper, lower, foreign]).await;
            }
            exercise_failures(&[upper, lower]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c02_the_documented_order_keeps_the_contract_over_everything() {
    let order = [&[RESPOND], CANONICAL].concat();
    for &foreign in FOREIGN {
        for place in 0..=order.len() {
            let mut rows = order.clone();
            rows.insert(place, foreign);
            exercise(&rows).await;
        }
    }
    exercise_failures(CANONICAL).await;
}

#[tokio::test(start_paused = true)]
async fn c01_any_order_keeps_the_contract() {
    let mut dice = fastrand::Rng::with_seed(1);
    for _ in 0..cases(200) {
        let mut rows = any_order(&mut dice);
        exercise_failures(&rows).await;
        rows.insert(dice.usize(0..=rows.len()), *dice.choice(FOREIGN).unwrap());
        exercise(&rows).await;
    }
}
