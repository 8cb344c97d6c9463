use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{Share, TOKEN, Terms};

const REFILL: u64 = 10;

fn terms(percent: u64, most: u64, floor: u64) -> Terms {
    Terms {
        deposit: percent * TOKEN / 100,
        most: most * TOKEN,
        floor: floor * TOKEN,
        refill: seconds(REFILL),
    }
}

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn grants(share: &mut Share, terms: &Terms, now: Instant) -> u64 {
    let mut grants = 0;
    while share.withdraw(terms, now) {
        share.spend(terms, now);
        grants += 1;
    }
    grants
}

#[test]
fn r04_no_ratio_is_rounded() {
    let now = Instant::now();
    for percent in 1..=200 {
        let terms = terms(percent, 100, 0);
        let mut share = Share::new(&terms);
        let mut granted = 0;
        for _ in 0..10_000 {
            share.deposit(&terms, now);
            granted += grants(&mut share, &terms, now);
        }
        // 60 % are 60 %, not 100 %.
        assert_eq!(granted, 10_000 * percent / 100, "{percent} %");
    }
}

#[test]
fn r06_the_floor_comes_back_at_its_pace_and_no_further() {
    let start = Instant::now();
    let terms = terms(10, 100, 3);
    let mut share = Share::new(&terms);
    assert_eq!(grants(&mut share, &terms, start), 3);
    for (after, tokens) in [
        (0, 0),
        (9, 0),
        (10, 1),
        (19, 1),
        (20, 2),
        (30, 3),
        (86_400, 3),
    ] {
        let balance = share.balance(&terms, start + seconds(after));
        assert_eq!(balance, tokens * TOKEN, "after {after} s");
    }
    // After a long silence the floor is there for the first who asks.
    assert_eq!(grants(&mut share, &terms, start + seconds(86_400)), 3);
    // And the clock of the next token starts there, not at the last one.
    assert_eq!(grants(&mut share, &terms, start + seconds(86_409)), 0);
    assert_eq!(grants(&mut share, &terms, start + seconds(86_410)), 1);
}

#[test]
fn r06_deposits_neither_stop_nor_restart_the_clock_of_the_floor() {
    let start = Instant::now();
    let terms = terms(10, 100, 3);
    let mut share = Share::new(&terms);
    assert_eq!(grants(&mut share, &terms, start), 3);
    for second in 1..=9 {
        share.deposit(&terms, start + seconds(second));
    }
    assert_eq!(share.balance(&terms, start + seconds(9)), 9 * TOKEN / 10);
    assert_eq!(share.balance(&terms, start + seconds(10)), 19 * TOKEN / 10);
    // The last token of the floor is no more than what is missing.
    assert_eq!(share.balance(&terms, start + seconds(30)), 3 * TOKEN);
}

#[test]
fn r06_nobody_holds_more_than_the_most() {
    let now = Instant::now();
    for (most, floor) in [(100, 3), (2, 3), (0, 3), (1, 0)] {
        let terms = terms(30, most, floor);
        let mut share = Share::new(&terms);
        assert!(share.balance(&terms, now) <= terms.most);
        for _ in 0..2_000 {
            share.deposit(&terms, now);
        }
        assert_eq!(grants(&mut share, &terms, now), most);
        let later = share.balance(&terms, now + seconds(86_400));
        assert_eq!(later, floor.min(most) * TOKEN);
    }
}

#[test]
fn r07_a_refund_makes_no_second_token_of_one_that_came_back() {
    let start = Instant::now();
    let terms = terms(10, 100, 3);
    let mut share = Share::new(&terms);
    for _ in 0..3 {
        assert!(share.withdraw(&terms, start));
    }
    // What is planned is not missing.
    let later = start + seconds(100);
    assert!(!share.withdraw(&terms, later));
    for _ in 0..3 {
        share.refund(&terms, later);
    }
    assert_eq!(share.balance(&terms, later), 3 * TOKEN);
    assert!(share.is_new(&terms, later));
}

#[test]
fn r07_a_refund_is_never_cut_short() {
    let now = Instant::now();
    let terms = terms(100, 5, 3);
    let mut share = Share::new(&terms);
    for _ in 0..2 {
        assert!(share.withdraw(&terms, now));
    }
    for _ in 0..10 {
        share.deposit(&terms, now);
    }
    assert_eq!(share.balance(&terms, now), 3 * TOKEN);
    for tokens in [4, 5] {
        share.refund(&terms, now);
        assert_eq!(share.balance(&terms, now), tokens * TOKEN);
    }
}

#[test]
fn r06_a_token_is_missed_from_the_moment_its_retry_was_sent() {
    let start = Instant::now();
    let terms = terms(10, 100, 1);
    let mut share = Share::new(&terms);
    assert!(share.withdraw(&terms, start));
    // Sent after 2 s, over after 9 s.
    share.spend(&terms, start + seconds(2));
    assert_eq!(share.balance(&terms, start + seconds(11)), 0);
    assert_eq!(share.balance(&terms, start + seconds(12)), TOKEN);
}

#[test]
fn r06_no_clock_and_no_setting_panics() {
    let start = Instant::now() + seconds(1000);
    for refill in [
        Duration::ZERO,
        Duration::from_nanos(1),
        seconds(1),
        Duration::MAX,
    ] {
        for deposit in [0, 1, u64::from(u32::MAX) * TOKEN / 100] {
            let terms = Terms {
                deposit,
                most: u64::from(u32::MAX) * TOKEN,
                floor: u64::from(u32::MAX) * TOKEN,
                refill,
            };
            let mut share = Share::new(&terms);
            for now in [start, start - seconds(500), start + seconds(1 << 40)] {
                assert!(share.withdraw(&terms, now));
                share.deposit(&terms, now);
                share.spend(&terms, now);
                assert!(share.withdraw(&terms, now));
                share.refund(&terms, now);
                assert!(share.balance(&terms, now) <= terms.most);
            }
        }
    }
}

/// The same rules, second by second and with nothing to save.
struct Model {
    terms: Terms,
    tokens: u64,
    planned: u64,
    below: u64,
}

impl Model {
    fn new(terms: Terms) -> Model {
        Model {
            terms,
            tokens: terms.floor.min(terms.most),
            planned: 0,
            below: 0,
        }
    }

    fn missing(&self) -> u64 {
        let floor = self.terms.floor.min(self.terms.most);
        floor.saturating_sub(self.tokens + self.planned)
    }

    fn second(&mut self) {
        if self.missing() == 0 {
            return;
        }
        self.below += 1;
        if self.below == REFILL {
            self.below = 0;
            self.tokens += self.missing().min(TOKEN);
        }
    }

    fn settle(&mut self) {
        if self.missing() == 0 {
            self.below = 0;
        }
    }

    fn deposit(&mut self) {
        let room = self.terms.most - self.tokens - self.planned;
        self.tokens += self.terms.deposit.min(room);
        self.settle();
    }

    fn withdraw(&mut self) -> bool {
        let granted = self.tokens >= TOKEN;
        if granted {
            self.tokens -= TOKEN;
            self.planned += TOKEN;
        }
        granted
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Pass(u64),
    Answered,
    Plan,
    Sent,
    Dropped,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..25u64).prop_map(Op::Pass),
        6 => Just(Op::Answered),
        3 => Just(Op::Plan),
        2 => Just(Op::Sent),
        1 => Just(Op::Dropped),
    ]
}

fn any_terms() -> impl Strategy<Value = Terms> {
    (0..200u64, 0..12u64, 0..5u64).prop_map(|(percent, most, floor)| terms(percent, most, floor))
}

/// Compares a share with the model, from so many answered calls on.
fn follow(terms: Terms, answered: u32, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut now = Instant::now();
    let mut share = Share::new(&terms);
    let mut model = Model::new(terms);
    for _ in 0..answered {
        share.deposit(&terms, now);
        model.deposit();
    }
    for op in ops {
        match op {
            Op::Pass(s) => {
                now += seconds(s);
                for _ in 0..s {
                    model.second();
                }
            }
            Op::Answered => {
                share.deposit(&terms, now);
                model.deposit();
            }
            Op::Plan => prop_assert_eq!(share.withdraw(&terms, now), model.withdraw()),
            Op::Sent if model.planned > 0 => {
                share.spend(&terms, now);
                model.planned -= TOKEN;
            }
            Op::Dropped if model.planned > 0 => {
                share.refund(&terms, now);
                model.planned -= TOKEN;
                model.tokens += TOKEN;
            }
            Op::Sent | Op::Dropped => {}
        }
        prop_assert_eq!(share.balance(&terms, now), model.tokens);
        prop_assert!(model.tokens + model.planned <= terms.most);
    }
    Ok(())
}

proptest! {
    #[test]
    fn r06_a_share_is_what_the_naive_model_says(
        terms in any_terms(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        follow(terms, 0, ops)?;
    }

    #[test]
    fn r02_in_every_window_retries_are_paid_for(
        terms in any_terms(),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let start = Instant::now();
        let mut share = Share::new(&terms);
        let mut now = start;
        let mut planned = Vec::new();
        // Of each step: from when to when, what was held before it, what it paid in, what it sent.
        let mut steps = Vec::new();
        for op in ops {
            let held = share.balance(&terms, now) + planned.len() as u64 * TOKEN;
            let (before, mut paid, mut sent) = (now, 0, 0);
            match op {
                Op::Pass(s) => now += seconds(s),
                Op::Answered => {
                    share.deposit(&terms, now);
                    paid = terms.deposit;
                }
                Op::Plan => {
                    if share.withdraw(&terms, now) {
                        planned.push(now);
                    }
                }
                Op::Sent => {
                    if planned.pop().is_some() {
                        share.spend(&terms, now);
                        sent = TOKEN;
                    }
                }
                Op::Dropped => {
                    if planned.pop().is_some() {
                        share.refund(&terms, now);
                    }
                }
            }
            steps.push((before, now, held, paid, sent));
        }
        for (i, &(from, _, held, ..)) in steps.iter().enumerate() {
            let (mut paid, mut sent) = (0, 0);
            for &(_, to, _, p, s) in &steps[i..] {
                paid += p;
                sent += s;
                // One that was on its way already may come in the window.
                let back = (to - from).as_secs() / REFILL + 1;
                prop_assert!(sent <= held + paid + back * TOKEN);
            }
        }
        // From a fresh budget on, without the history.
        let (paid, sent) = steps.iter().fold((0, 0), |(p, s), step| (p + step.3, s + step.4));
        let back = (now - start).as_secs() / REFILL;
        prop_assert!(sent <= terms.floor.min(terms.most) + paid + back * TOKEN);
    }
}

proptest! {
    // Each case begins with 10⁵ calls, so there are fewer.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(64)))]
    #[test]
    fn r06_so_it_is_after_a_hundred_thousand_answered_calls(
        terms in any_terms(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        follow(terms, 100_000, ops)?;
    }
}
