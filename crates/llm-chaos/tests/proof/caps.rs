//! One cap on the attempts of a call, over everything that sends.

use llm_call::{Call, CallSettings};
use llm_retry::RetryBudget;

use crate::{answers::*, rows::*, world::*};

#[tokio::test(start_paused = true)]
async fn c04_the_cap_of_a_call_holds_over_everything_that_sends() {
    let mut dice = fastrand::Rng::with_seed(4);
    let mut reached = 0;
    for round in 0..cases(300) {
        let cap = dice.u32(1..=8);
        let answer = *dice
            .choice(
                [
                    reset,
                    || status(503),
                    || late(ms(4_500)),
                    error_event,
                    mute,
                    cut_early,
                ]
                .as_slice(),
            )
            .unwrap();
        let mut world = World::new([answer()]);
        world.budget = RetryBudget::new().floor(100);
        world.targets = llm_failover::Targets::ordered(["a:m1", "a:m2", "a:m3", "a:m4"]).unwrap();
        let rows = match round % 2 {
            0 => CANONICAL.to_vec(),
            _ => [&[IDENTIFY, RETRY][..], &any_order(&mut dice), CANONICAL].concat(),
        };
        let call = Call::open(CallSettings::new().max_attempts(cap));
        let what = format!("cap {cap}: {}", names(&rows));
        exchange(&world.stack(&rows), request(&call, true)).await;
        let sent = world.gauges.calls();
        assert!(sent as u32 <= cap, "{sent} attempts, {what}");
        assert!(call.sent() <= cap, "{what}");
        reached += u64::from(sent as u32 == cap);
        world.assert_settled(&[call], &what);
    }
    // The cap is what stopped many of them.
    assert!(reached > cases(100), "{reached}");
}
