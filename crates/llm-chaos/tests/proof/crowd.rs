//! Many calls at once through one stack with one permit, over a provider that does anything, with
//! callers that leave at any time. All of it follows from a seed.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use llm_bulkhead::Pool;
use llm_call::{Call, CallSettings, Kind, Workload};
use tokio::time::{sleep, timeout};

use crate::{answers::ms, drops::SCENES, rows::*, world::*};

const CALLS: usize = 30;

/// What became of a crowd.
#[derive(Debug, PartialEq)]
struct Report {
    /// How each call ended, where its caller did not leave, and what its ledger says.
    calls: Vec<(Option<Kind>, String)>,
    sent: usize,
}

fn some_time(dice: &mut Rng, most: u64) -> Duration {
    ms(dice.u64(0..most))
}

/// The documented order without the bulkhead below the breaker, so that what the breaker admits is
/// what is sent.
fn without_bulkhead_below() -> Vec<Row> {
    let mut rows = CANONICAL.to_vec();
    rows.retain(|row| row.0 != BULKHEAD_BY_TARGET.0);
    rows
}

/// `leave` is the share of callers who do not stay to the end.
async fn crowd(rows: &[Row], seed: u64, leave: f64) -> (World, Vec<Call>, Report) {
    // What the layers draw for themselves follows from the seed too.
    fastrand::seed(seed);
    let mut dice = Rng::with_seed(seed);
    let mut answers = Vec::new();
    for _ in 0..4 * CALLS {
        let (_, _, scene) = dice.choice(SCENES).unwrap();
        let answer = scene().swap_remove(0);
        answers.push(answer);
    }
    let mut world = World::new(answers);
    world.pool = Pool::new(1).queue(4).wait(ms(2_000));
    let stack = world.stack(rows);
    let mut calls = Vec::new();
    let mut exchanges = Vec::new();
    for i in 0..CALLS {
        let (begin, patience) = (some_time(&mut dice, 20_000), some_time(&mut dice, 8_000));
        let (leaves, streamed) = (dice.f64() < leave, dice.bool());
        let workload = *dice
            .choice([Workload::Interactive, Workload::Background].as_slice())
            .unwrap();
        let tenant = *dice.choice(["a", "b", "c"].as_slice()).unwrap();
        let stack = stack.clone();
        exchanges.push(async move {
            sleep(begin).await;
            let settings = CallSettings::new().tenant(tenant).workload(workload);
            let call = Call::open(settings);
            let exchange = exchange(&stack, request(&call, streamed));
            let limit = if leaves { patience } else { PATIENCE };
            let heard = timeout(limit, exchange).await.ok();
            assert!(leaves || heard.is_some(), "seed {seed}: call {i} hangs");
            (call, heard.map(|heard| heard.kind))
        });
    }
    let mut report = Vec::new();
    for (call, kind) in join_all(exchanges).await {
        report.push((kind, call.ledger().to_string()));
        calls.push(call);
    }
    let report = Report {
        calls: report,
        sent: world.gauges.calls(),
    };
    (world, calls, report)
}

#[tokio::test(start_paused = true)]
async fn c03_a_crowd_that_leaves_at_random_leaves_nothing() {
    for seed in 0..cases(20) {
        let rows = [CANONICAL, &[FOREIGN[1]]].concat();
        let (world, calls, _) = crowd(&rows, seed, 0.5).await;
        world.assert_settled(&calls, &format!("seed {seed}"));
        for call in &calls {
            assert!(
                call.ledger().ended.is_some(),
                "seed {seed}:\n{}",
                call.ledger()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c03_a_crowd_over_any_order_leaves_nothing() {
    let mut dice = Rng::with_seed(3);
    for seed in 0..cases(40) {
        let rows = any_order(&mut dice);
        // Without time limits a call may hang for ever, so nobody stays.
        let (world, calls, _) = crowd(&rows, seed, 1.0).await;
        world.assert_settled(&calls, &format!("seed {seed}, {}", names(&rows)));
    }
}

#[tokio::test(start_paused = true)]
async fn c01_each_observer_counts_a_call_once() {
    for seed in 0..cases(10) {
        let (world, calls, report) = crowd(&without_bulkhead_below(), seed, 0.0).await;
        world.assert_settled(&calls, &format!("seed {seed}"));
        // Attempts: the wire, the ledgers and the circuits agree.
        let in_ledgers: usize = calls.iter().map(|call| call.ledger().sent().count()).sum();
        let circuits = world.breakers.snapshot();
        let admitted: u64 = circuits.iter().map(|circuit| circuit.totals.admitted).sum();
        assert_eq!(in_ledgers, report.sent, "seed {seed}");
        assert_eq!(admitted, report.sent as u64, "seed {seed}");
        // Calls: each ended once, as its caller heard.
        for (call, (kind, ledger)) in calls.iter().zip(&report.calls) {
            let (ending, _) = call.ledger().ended.unwrap();
            assert_eq!(Some(ending.kind()), *kind, "seed {seed}:\n{ledger}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c07_the_same_seed_gives_the_same_ledgers() {
    for seed in 0..3 {
        let (_, _, first) = crowd(CANONICAL, seed, 0.5).await;
        let (_, _, again) = crowd(CANONICAL, seed, 0.5).await;
        assert_eq!(first, again, "seed {seed}");
    }
    let (_, _, one) = crowd(CANONICAL, 1, 0.5).await;
    let (_, _, other) = crowd(CANONICAL, 2, 0.5).await;
    assert_ne!(one, other);
}
