use llm_call::{Kind, Phase};
use proptest::prelude::*;

use super::*;

const NO_WAIT: Rules = Rules {
    base: Duration::ZERO,
    ..Rules::DEFAULT
};

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A first failure with plenty of everything left.
fn failed(kind: Kind) -> Situation {
    let now = Instant::now();
    Situation {
        outcome: Outcome::of(kind),
        retries: 0,
        used_once: false,
        attempts_left: 5,
        alternatives: 0,
        until: None,
        now,
    }
}

fn retries(s: &Situation) -> bool {
    Rules::DEFAULT.wait(s, u32::MAX / 2).is_some()
}

#[test]
fn r15_every_kind_is_retried_as_its_row_says() {
    for &kind in Kind::ALL {
        let first = failed(kind);
        let again = Situation {
            retries: 1,
            used_once: true,
            ..first
        };
        let elsewhere = Situation {
            alternatives: 1,
            ..first
        };
        let sound = first.outcome.verdict.retry;
        assert_eq!(retries(&first), sound != Retry::Never, "{kind}");
        assert_eq!(retries(&again), sound == Retry::Yes, "{kind}");
        let silent = kind.is_silent();
        assert_eq!(
            retries(&elsewhere),
            sound != Retry::Never && !silent,
            "{kind}"
        );
    }
}

#[test]
fn r09_a_success_is_never_sent_again_whatever_its_row_says() {
    let mut s = failed(Kind::Success);
    s.outcome.verdict = s.outcome.verdict.retry(Retry::Yes);
    assert!(!retries(&s));
}

#[test]
fn a_retry_that_was_not_for_a_once_leaves_the_once() {
    let s = Situation {
        retries: 1,
        ..failed(Kind::ServerError)
    };
    assert!(retries(&s));
}

#[test]
fn r01_neither_the_retries_nor_the_attempts_are_exceeded() {
    for (done, left, retried) in [
        (0, 1, true),
        (1, 1, true),
        (2, 4, false),
        (9, 4, false),
        (0, 0, false),
    ] {
        let s = Situation {
            retries: done,
            attempts_left: left,
            ..failed(Kind::Overloaded)
        };
        assert_eq!(retries(&s), retried, "{done} done, {left} left");
    }
}

#[test]
fn r01_each_of_the_other_targets_keeps_an_attempt() {
    for (others, left, retried) in [(1, 2, true), (1, 1, false), (2, 3, true), (2, 2, false)] {
        let s = Situation {
            alternatives: others,
            attempts_left: left,
            ..failed(Kind::Overloaded)
        };
        assert_eq!(retries(&s), retried, "{others} others, {left} attempts");
    }
    // A failure that goes nowhere else leaves nothing to anybody.
    let s = Situation {
        alternatives: 2,
        attempts_left: 1,
        ..failed(Kind::Conflict)
    };
    assert!(retries(&s));
}

#[test]
fn r11_the_wait_and_an_attempt_fit_into_the_deadline_or_the_call_fails_now() {
    for (left, retried) in [(0, false), (499, false), (500, true), (501, true)] {
        let mut s = failed(Kind::Overloaded);
        s.until = Some(s.now + millis(left));
        assert_eq!(NO_WAIT.wait(&s, 0).is_some(), retried, "{left} ms");
        // The wait counts: a hint of a second on top.
        s.outcome.retry_after = Some(millis(1000));
        s.until = Some(s.now + millis(left + 1000));
        assert_eq!(
            NO_WAIT.wait(&s, 0).is_some(),
            retried,
            "{left} ms and a hint"
        );
    }
    // What was drawn counts, not what might have been.
    let mut s = failed(Kind::Overloaded);
    s.until = Some(s.now + millis(600));
    assert!(Rules::DEFAULT.wait(&s, u32::MAX / 10 * 3).is_some());
    assert!(Rules::DEFAULT.wait(&s, u32::MAX / 10 * 5).is_none());
}

#[test]
fn r11_a_deadline_that_has_passed_fails_now() {
    let mut s = failed(Kind::Overloaded);
    s.until = Some(s.now);
    s.now += millis(5);
    assert!(NO_WAIT.wait(&s, 0).is_none());
}

#[test]
fn r12_a_hint_is_waited_for_in_full_and_with_jitter_or_not_at_all() {
    for (hint, alternatives, retried) in [
        (0, 0, true),
        (2000, 1, true),
        (2001, 1, false),
        (2001, 0, true),
        (60_000, 0, true),
        (60_001, 0, false),
    ] {
        let mut s = failed(Kind::RateLimited);
        s.outcome.retry_after = Some(millis(hint));
        s.alternatives = alternatives;
        let waits: Vec<_> = [0, u32::MAX / 2, u32::MAX]
            .map(|roll| Rules::DEFAULT.wait(&s, roll))
            .into();
        for wait in &waits {
            assert_eq!(wait.is_some(), retried, "{hint} ms, {alternatives} others");
        }
        if let [Some(least), Some(middle), Some(most)] = waits[..] {
            assert_eq!(least, millis(hint));
            assert!(least < middle && middle < most && most < millis(hint + 250));
        }
    }
}

#[test]
fn r12_the_longest_wait_holds_while_targets_are_left_too() {
    let rules = Rules {
        hint_limit: Duration::MAX,
        ..Rules::DEFAULT
    };
    let mut s = failed(Kind::RateLimited);
    s.alternatives = 1;
    s.outcome.retry_after = Some(millis(60_001));
    assert!(rules.wait(&s, 0).is_none());
}

#[test]
fn r13_the_ceiling_doubles_and_stops() {
    let rules = Rules {
        retries: u32::MAX,
        ..Rules::DEFAULT
    };
    for (n, ceiling) in [
        (0, 250),
        (1, 500),
        (2, 1000),
        (4, 4000),
        (5, 5000),
        (31, 5000),
        (32, 5000),
        (u32::MAX - 1, 5000),
    ] {
        let s = Situation {
            retries: n,
            ..failed(Kind::Overloaded)
        };
        let draws = (0..1000u32).map(|i| rules.wait(&s, i * (u32::MAX / 1000)).unwrap());
        let draws: Vec<_> = draws.collect();
        let ceiling = millis(ceiling);
        assert_eq!(draws[0], Duration::ZERO);
        assert!(draws.iter().all(|wait| *wait < ceiling));
        let mean = draws.iter().sum::<Duration>() / 1000;
        assert!(
            mean > ceiling * 49 / 100 && mean < ceiling * 51 / 100,
            "{n}: {mean:?}"
        );
        // The jitter is drawn below the cap, not added to it.
        assert!(rules.wait(&s, u32::MAX).unwrap() > ceiling * 99 / 100);
    }
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..100_000u64).prop_map(millis),
        (any::<u64>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

proptest! {
    #[test]
    fn r13_no_number_and_no_duration_overflows(
        durations in proptest::array::uniform7(any_duration()),
        numbers in proptest::array::uniform4(any::<u32>()),
        hinted in any::<bool>(),
    ) {
        let [base, longest_backoff, hint_limit, longest_wait, least_attempt, hint, left] = durations;
        let [retries, alternatives, roll, attempts_left] = numbers;
        let rules = Rules {
            retries: u32::MAX,
            base,
            longest_backoff,
            hint_limit,
            longest_wait,
            least_attempt,
        };
        let mut s = failed(Kind::RateLimited);
        s.retries = retries;
        s.alternatives = alternatives;
        s.attempts_left = attempts_left;
        s.outcome.retry_after = hinted.then_some(hint);
        s.until = s.now.checked_add(left);
        if let Some(wait) = rules.wait(&s, roll) {
            let hint = s.outcome.retry_after.unwrap_or_default();
            prop_assert!(wait >= hint);
            prop_assert!(wait <= hint.saturating_add(longest_backoff));
            prop_assert!(hint <= longest_wait);
            if let Some(deadline) = s.until {
                prop_assert!(s.now + wait + least_attempt <= deadline);
            }
        }
    }

    #[test]
    fn r12_a_phase_of_silence_never_beats_another_target(roll in any::<u32>(), others in 1..9u32) {
        for phase in [Phase::Connect, Phase::FirstToken, Phase::Answer] {
            let s = Situation { alternatives: others, ..failed(Kind::TimedOut(phase)) };
            prop_assert!(Rules::DEFAULT.wait(&s, roll).is_none());
        }
    }
}
