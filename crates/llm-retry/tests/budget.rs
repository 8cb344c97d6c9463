//! Which answers pay into the budget, and where.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::pin::pin;

use common::*;
use http_body_util::BodyExt;
use llm_call::{Answer, Call, Cause, Ending, Facts};
use llm_chaos::testing::{BodyStep, Respond, service};
use llm_retry::RetryBudget;
use tower::ServiceExt;

fn streamed() -> Respond {
    stream([BodyStep::data(TOKEN), BodyStep::data(END), BodyStep::Hang])
}

#[tokio::test(start_paused = true)]
async fn r05_a_stream_pays_at_its_end_marker() {
    let budget = RetryBudget::new();
    let answer = default_stack(&budget, service([streamed()]))
        .oneshot(request())
        .await
        .unwrap();
    assert_eq!(budget.balance(None), 3.0);
    let mut body = pin!(answer.into_body());
    while body.state().ending().is_none() {
        body.frame().await.unwrap().unwrap();
    }
    assert_eq!(budget.balance(None), 3.1);
}

#[tokio::test(start_paused = true)]
async fn r05_what_does_not_end_well_pays_nothing() {
    let cut = stream([BodyStep::data(TOKEN), BodyStep::Error("reset")]);
    for answer in [status(400), status(404), cut] {
        let budget = RetryBudget::new();
        let stack = default_stack(&budget, service([answer]));
        let answer = stack.oneshot(request()).await.unwrap();
        let _ = answer.into_body().collect().await;
        assert_eq!(budget.balance(None), 3.0);
    }
    // Dropped by the caller, and cut by a layer of ours.
    for cut in [false, true] {
        let budget = RetryBudget::new();
        let stack = default_stack(&budget, service([streamed()]));
        let answer = stack.oneshot(request()).await.unwrap();
        let mut body = Box::pin(answer.into_body());
        body.frame().await.unwrap().unwrap();
        if cut {
            body.as_mut().cut(Ending::Cut(Cause::HedgeLost));
        }
        drop(body);
        assert_eq!(budget.balance(None), 3.0);
    }
}

#[tokio::test(start_paused = true)]
async fn r05_the_target_that_answered_is_paid() {
    let budget = RetryBudget::new();
    let service = default_stack(&budget, service([status(503), whole()]));
    for target in ["a:m", "b:m", "b:m"] {
        service
            .clone()
            .oneshot(to(target, 0, request()))
            .await
            .unwrap();
    }
    let of = |target: &str| budget.balance(Some(&target.parse().unwrap()));
    assert_eq!(
        (of("a:m"), of("b:m"), budget.balance(None)),
        (2.1, 3.2, 3.0)
    );
}

#[tokio::test(start_paused = true)]
async fn r05_copies_of_one_call_pay_once() {
    let budget = RetryBudget::new();
    let service = default_stack(&budget, service([whole()]));
    let call = open();
    for target in ["a:m", "b:m"] {
        service
            .clone()
            .oneshot(to(target, 0, request_of(&call)))
            .await
            .unwrap();
    }
    let of = |target: &str| budget.balance(Some(&target.parse().unwrap()));
    assert_eq!((of("a:m"), of("b:m")), (3.1, 3.0));
}

#[tokio::test(start_paused = true)]
async fn r16_a_call_that_the_caller_had_to_retry_pays_nothing() {
    for (retries, balance) in [(0, 3.1), (1, 3.0)] {
        let budget = RetryBudget::new();
        let call: Call = open();
        let mut facts = Facts::default();
        facts.caller_retries = retries;
        call.set_facts(facts);
        let stack = default_stack(&budget, service([whole()]));
        stack.oneshot(request_of(&call)).await.unwrap();
        assert_eq!(budget.balance(None), balance);
    }
}

#[tokio::test(start_paused = true)]
async fn r02_with_half_of_the_answers_failing_retries_are_a_tenth_of_the_good_ones() {
    let budget = RetryBudget::new().floor(0);
    let answers = (0..2000).map(|i| if i % 2 == 0 { whole() } else { status(503) });
    let client = service(answers.chain([whole()]));
    let gauges = client.gauges();
    let service = default_stack(&budget, client);
    let mut good = 0;
    for _ in 0..1000 {
        let answer = service.clone().oneshot(request()).await.unwrap();
        good += usize::from(answer.status() == 200);
    }
    let retries = gauges.calls() - 1000;
    assert!(retries * 10 <= good, "{retries} for {good}");
    assert!(retries * 10 + 10 >= good, "{retries} for {good}");
}

#[tokio::test(start_paused = true)]
async fn r08_a_planned_retry_has_already_paid() {
    let budget = RetryBudget::new().refill(seconds(1_000_000));
    let stack = default_stack(&budget, service([later("1000"), streamed()]));
    let mut sent = pin!(stack.oneshot(request()));
    let waiting = tokio::time::timeout(millis(900), &mut sent).await;
    assert!(waiting.is_err());
    assert_eq!(budget.balance(None), 2.0);
    // Nor does it pay again once it is sent.
    let _answer = sent.await.unwrap();
    assert_eq!(budget.balance(None), 2.0);
}
