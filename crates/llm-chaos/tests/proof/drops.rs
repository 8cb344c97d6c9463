//! Whatever is dropped, after any number of polls, leaves nothing.

use std::{cell::RefCell, task::Context, task::Waker};

use llm_call::{Call, Client};
use llm_chaos::testing::{Fuzzed, Respond, drop_fuzz};
use tower::Service;

use crate::{answers::*, rows::*, world::*};

/// What a provider may do to a call, and whether the call asks for a stream.
pub(crate) const SCENES: &[(&str, bool, fn() -> Vec<Respond>)] = &[
    ("a whole answer", false, || vec![whole().after(ms(50))]),
    ("a stream", true, || vec![stream().after(ms(50))]),
    ("hangs for ever", true, || vec![Respond::hang()]),
    ("hangs once", true, || vec![Respond::hang(), stream()]),
    ("an error at once", true, || vec![reset()]),
    ("an error once", true, || {
        vec![reset().after(ms(5)), stream()]
    }),
    ("503", false, || vec![status(503).after(ms(5))]),
    ("500 once", false, || vec![status(500), whole()]),
    ("401", false, || vec![status(401)]),
    ("503 with an endless body", true, || {
        vec![status_that_hangs(503), stream()]
    }),
    ("a slow body", true, || vec![slow()]),
    ("cut before the first token", true, || {
        vec![cut_early(), stream()]
    }),
    ("cut after the first token", true, || vec![cut()]),
    ("an end that is none", true, || vec![endless()]),
    ("silent after the first token", true, || vec![silent()]),
    ("silent before the first token", true, || {
        vec![mute(), stream()]
    }),
    ("an error event", true, || vec![error_event(), stream()]),
    ("an error event in the middle", true, || {
        vec![late_error_event()]
    }),
    ("a late first token", true, || {
        vec![late(ms(4_500)), stream()]
    }),
    ("two late first tokens", true, || {
        vec![late(ms(4_500)), late(ms(1_200))]
    }),
    ("a late first token, then an error", true, || {
        vec![late(ms(4_500)), reset()]
    }),
    ("a hint", true, || vec![hint("300"), stream()]),
    ("a long hint", true, || vec![hint("60000"), stream()]),
    ("hints for ever", true, || vec![hint("300")]),
];

/// Makes a call that is not polled yet.
fn call(stack: &mut Client, call: &Call, streamed: bool) -> llm_call::ClientFuture {
    let mut context = Context::from_waker(Waker::noop());
    assert!(stack.poll_ready(&mut context).is_ready());
    stack.call(request(call, streamed))
}

/// Drops one exchange after every number of its polls, in its future and in its body.
async fn fuzz(rows: &[Row], scene: &str, streamed: bool, answers: fn() -> Vec<Respond>) -> Fuzzed {
    let what = names(rows);
    let state = RefCell::new(None);
    let make = || {
        let (world, opened) = (World::new(answers()), open());
        let mut stack = world.stack(rows);
        let calling = call(&mut stack, &opened, streamed);
        *state.borrow_mut() = Some((world, opened));
        async { drop(read(calling).await) }
    };
    drop_fuzz(make, |polls| {
        let state = state.borrow();
        let (world, call) = state.as_ref().unwrap();
        let when = format!("{what}: {scene}, after {polls} polls");
        world.assert_settled(std::slice::from_ref(call), &when);
        if rows.first().is_some_and(|row| row.0 == IDENTIFY.0) {
            assert!(call.ledger().ended.is_some(), "no final record, {when}");
        }
        world.assert_paid(call, rows, &when);
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn c03_each_service_alone_leaves_nothing_wherever_it_is_dropped() {
    for &(scene, streamed, answers) in SCENES {
        for &row in ALL {
            fuzz(&[row], scene, streamed, answers).await;
            fuzz(&[IDENTIFY, row], scene, streamed, answers).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c03_the_documented_order_leaves_nothing_wherever_it_is_dropped() {
    for &(scene, streamed, answers) in SCENES {
        for &foreign in &FOREIGN[..2] {
            let rows = [CANONICAL, &[foreign]].concat();
            let ended = fuzz(&rows, scene, streamed, answers).await;
            // Nothing waits for ever: the deadline and the limits on streams see to that.
            assert!(matches!(ended, Fuzzed::Finished(_)), "{scene}: {ended:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c03_any_order_leaves_nothing_wherever_it_is_dropped() {
    let mut dice = fastrand::Rng::with_seed(2);
    for _ in 0..cases(1_000) {
        let rows = any_order(&mut dice);
        let &(scene, streamed, answers) = dice.choice(SCENES).unwrap();
        fuzz(&rows, scene, streamed, answers).await;
    }
}
