//! What the documented order is for.

use llm_call::Kind;
use llm_retry::RetryBudget;

use crate::{answers::*, rows::*, world::*};

#[tokio::test(start_paused = true)]
async fn c02_one_failure_of_any_kind_is_not_seen_by_the_caller() {
    let failures = [
        reset(),
        status(500),
        status(503),
        status_that_hangs(503),
        hint("300"),
        hint("60000"),
        mute(),
        cut_early(),
        error_event(),
        llm_chaos::testing::Respond::hang(),
    ];
    for failure in failures {
        let what = format!("{failure:?}");
        let world = World::new([failure, stream()]);
        let heard = exchange(&world.stack(CANONICAL), request(&open(), true)).await;
        assert_eq!(heard.status, Some(200), "{what}: {heard:?}");
        assert_eq!(heard.text, stream_text(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn f01_after_the_first_token_no_other_answer_is_spliced_in() {
    for answer in [cut(), late_error_event(), silent(), endless(), slow()] {
        let what = format!("{answer:?}");
        let world = World::new([answer, stream()]);
        let heard = exchange(&world.stack(CANONICAL), request(&open(), true)).await;
        assert_eq!(world.gauges.calls(), 1, "{what}");
        assert_eq!(heard.status, Some(200), "{what}");
        // What came second says the role first.
        assert!(!heard.text.contains("role"), "{what}: {}", heard.text);
        let complete = heard.text.contains("[DONE]");
        assert_eq!(heard.kind == Kind::Success, complete, "{what}: {heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn f08_the_first_attempt_on_each_target_costs_nothing_and_retries_do() {
    for (tokens, attempts) in [(0, 2), (1, 4)] {
        let mut world = World::new([status(503)]);
        let never = std::time::Duration::from_secs(1_000_000_000);
        world.budget = RetryBudget::new().floor(tokens).refill(never);
        let heard = exchange(&world.stack(CANONICAL), request(&open(), true)).await;
        // The provider's own answer comes back when nobody did better.
        assert_eq!(heard.status, Some(503), "{heard:?}");
        assert_eq!(heard.text, "{\"error\":{\"message\":\"503\"}}");
        assert_eq!(
            world.gauges.calls(),
            attempts,
            "{tokens} tokens for each target"
        );
    }
}
