//! The circuit, one rule at a time.

use super::*;
use crate::Settings;

const OPEN: CircuitState = CircuitState::Open;
const CLOSED: CircuitState = CircuitState::Closed;
const HALF_OPEN: CircuitState = CircuitState::HalfOpen;

const GOOD: End = End::Success;
const BAD: End = End::Failure {
    kind: Kind::ServerError,
    hint: None,
};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn told(hint: Duration) -> End {
    End::Failure {
        kind: Kind::Overloaded,
        hint: Some(hint),
    }
}

/// A circuit with a clock.
struct World {
    core: Core,
    now: Instant,
}

impl World {
    fn new(settings: Settings) -> World {
        World::seeded(settings, 1)
    }

    fn seeded(settings: Settings, seed: u64) -> World {
        let now = Instant::now();
        World {
            core: Core::new(settings.build().unwrap(), seed, now),
            now,
        }
    }

    fn admit(&mut self) -> Permit {
        self.core.admit(0, self.now).unwrap()
    }

    fn refused(&mut self) -> Refused {
        self.core.admit(0, self.now).unwrap_err()
    }

    fn settle(&mut self, permit: Permit, end: End) {
        let slow = matches!(end, End::Success | End::Failure { .. }).then_some(false);
        self.core.settle(permit, end, slow, self.now);
    }

    fn call(&mut self, end: End) {
        let permit = self.admit();
        self.settle(permit, end);
    }

    fn slow_call(&mut self, slow: bool) {
        let permit = self.admit();
        self.core.settle(permit, GOOD, Some(slow), self.now);
    }

    /// Opens it by failures in a row.
    fn trip(&mut self) {
        while self.core.state() == CLOSED {
            self.call(BAD);
        }
        assert_eq!(self.core.state(), OPEN);
    }

    /// The open time that is left.
    fn left(&self) -> Duration {
        match self.core.phase {
            Phase::Open { until } => until - self.now,
            _ => panic!("not open"),
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Waits until it lets a trial through, and lets it.
    fn trial(&mut self) -> Permit {
        let left = self.left();
        self.wait(left);
        let permit = self.admit();
        assert_eq!(self.core.state(), HALF_OPEN);
        permit
    }

    fn reasons(&mut self) -> Vec<String> {
        let changes = self.core.changes().drain(..);
        changes.map(|change| change.reason.to_string()).collect()
    }

    fn shot(&mut self) -> crate::Snapshot {
        self.core.snapshot(crate::Key::url("h", "/"), self.now)
    }
}

fn rate_only() -> Settings {
    Settings::new().failures_in_a_row(u32::MAX)
}

#[test]
fn cb11_it_opens_at_exactly_the_share_of_failures_and_not_below() {
    // 24 % of 50.
    let mut world = World::new(rate_only());
    for i in 0..200 {
        world.call(if i % 50 < 12 && i >= 50 { BAD } else { GOOD });
    }
    assert_eq!(world.core.state(), CLOSED);
    // 25 % of 48, of 12.
    for (calls, bad) in [(48, 12), (12, 3)] {
        let mut world = World::new(rate_only());
        for _ in 0..calls - bad {
            world.call(GOOD);
        }
        for i in 0..bad {
            assert_eq!(world.core.state(), CLOSED, "{i} of {calls}");
            world.call(BAD);
        }
        assert_eq!(world.core.state(), OPEN);
        assert_eq!(world.reasons(), [format!("{bad} of {calls} calls failed")]);
    }
}

#[test]
fn cb11_below_the_minimum_of_calls_no_share_opens_it() {
    let mut world = World::new(rate_only());
    for _ in 0..9 {
        world.call(BAD);
    }
    assert_eq!(world.core.state(), CLOSED);
    assert_eq!(world.shot().failure_rate, None);
    // The tenth call decides, although it is a good one.
    world.call(GOOD);
    assert_eq!(world.core.state(), OPEN);
}

#[test]
fn cb11_slow_calls_open_it_at_their_share() {
    let mut world = World::new(Settings::new());
    for _ in 0..30 {
        world.slow_call(false);
    }
    for _ in 0..19 {
        world.slow_call(true);
    }
    assert_eq!(world.core.state(), CLOSED);
    world.slow_call(true);
    assert_eq!(world.reasons(), ["20 of 50 calls were slow"]);
}

#[test]
fn with_one_target_alone_it_can_open_for_a_dead_one_only() {
    let settings = Settings::new()
        .failure_percent(80)
        .min_calls(20)
        .failures_in_a_row(20);
    let mut world = World::new(settings);
    let mut dice = fastrand::Rng::with_seed(30);
    for _ in 0..100_000 {
        world.now += Duration::from_millis(50);
        world.call(if dice.u8(..100) < 30 { BAD } else { GOOD });
    }
    assert_eq!(world.core.state(), CLOSED);
    for _ in 0..20 {
        world.call(BAD);
    }
    assert_eq!(world.core.state(), OPEN);
}

#[test]
fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
    let mut world = World::new(Settings::new());
    for _ in 0..4 {
        world.call(BAD);
    }
    // Neither what says nothing nor who leaves interrupts the row.
    world.call(End::Neutral);
    world.call(End::Abandoned);
    assert_eq!(world.core.state(), CLOSED);
    world.call(BAD);
    assert_eq!(world.reasons(), ["5 calls failed in a row"]);

    let mut world = World::new(Settings::new().failure_percent(100));
    for _ in 0..50 {
        for _ in 0..4 {
            world.call(BAD);
        }
        world.call(GOOD);
    }
    assert_eq!(world.core.state(), CLOSED);
}

#[test]
fn cb19_what_says_nothing_opens_nothing_although_time_changed_the_share() {
    let mut world = World::new(rate_only());
    for _ in 0..31 {
        world.call(GOOD);
    }
    world.wait(s(20));
    for _ in 0..10 {
        world.call(BAD);
    }
    // From here on the window holds nothing but failures.
    world.wait(s(10));
    world.call(End::Neutral);
    world.call(End::Abandoned);
    assert_eq!(world.core.state(), CLOSED);
    world.call(GOOD);
    assert_eq!(world.reasons(), ["10 of 11 calls failed"]);
}

#[test]
fn cb20_a_call_adds_at_most_one_to_each_count() {
    let mut world = World::new(rate_only());
    for _ in 0..5 {
        let mut permit = world.admit();
        world.core.first_token(&mut permit, true, world.now);
        world.core.settle(permit, BAD, None, world.now);
    }
    let shot = world.shot();
    assert_eq!((shot.window_failures, shot.window_calls), (5, 5));
    assert_eq!((shot.window_slow, shot.window_timed), (5, 5));
    assert_eq!(shot.totals.slow, 5);
}

#[test]
fn cb15_an_open_circuit_admits_none_before_its_time_and_then_one_call_makes_it_half_open() {
    let mut world = World::new(Settings::new().trials(1).trial_successes(1));
    world.trip();
    let left = world.left();
    world.wait(left - Duration::from_nanos(1));
    assert_eq!(
        world.refused(),
        Refused::Open(Some(Duration::from_nanos(1)))
    );
    world.wait(Duration::from_nanos(1));
    let trial = world.admit();
    assert_eq!(world.refused(), Refused::Trials);
    world.reasons();
    world.settle(trial, GOOD);
    assert_eq!(world.reasons(), ["1 trials succeeded"]);
}

#[test]
fn cb20_a_target_that_is_slow_and_not_down_stays_open() {
    let mut world = World::new(Settings::new());
    world.trip();
    for slow in 1..=3 {
        world.now += world.left();
        // One of five may be slow, two of five may not: that is 40 %.
        world.slow_call(true);
        assert_eq!(world.core.state(), HALF_OPEN);
        world.slow_call(true);
        assert_eq!(world.core.state(), OPEN);
        assert_eq!(world.core.failed_half_opens, slow);
    }
    // As soon as the first token of a stream was slow.
    world.now += world.left();
    world.slow_call(true);
    let mut stream = world.admit();
    world.core.first_token(&mut stream, true, world.now);
    assert_eq!(world.core.state(), OPEN);
    world.settle(stream, GOOD);
    // Those that are not slow close it, although one was.
    world.now += world.left();
    for slow in [false, true, false] {
        world.slow_call(slow);
    }
    assert_eq!(world.core.state(), CLOSED);
}

#[test]
fn cb04_a_crowd_gets_no_more_than_the_trials() {
    let mut world = World::new(Settings::new());
    world.trip();
    let mut trials = vec![world.trial()];
    for _ in 0..100 {
        trials.extend(world.core.admit(3, world.now));
    }
    assert_eq!(trials.len(), 5);
    // A slot that succeeded is not free again; three of them close it.
    for left in [4, 3] {
        world.settle(trials.pop().unwrap(), GOOD);
        assert_eq!(world.refused(), Refused::Trials);
        assert_eq!(world.shot().trials, left);
    }
    world.settle(trials.pop().unwrap(), GOOD);
    assert_eq!(world.core.state(), CLOSED);
}

#[test]
fn cb05_trials_that_say_nothing_give_their_slot_back_for_ever() {
    let mut world = World::new(Settings::new());
    world.trip();
    let trial = world.trial();
    world.settle(trial, End::Abandoned);
    for end in [End::Neutral, End::Abandoned].repeat(500) {
        world.call(end);
    }
    assert_eq!(world.core.state(), HALF_OPEN);
    for _ in 0..3 {
        world.call(GOOD);
    }
    assert_eq!(world.core.state(), CLOSED);
}

/// Every order in which five trials can end, each in one of four ways.
#[test]
fn cb04_every_order_of_endings_of_five_trials() {
    let ends = [GOOD, BAD, End::Neutral, End::Abandoned];
    let mut orders = Vec::new();
    permute(&mut [0, 1, 2, 3, 4], 0, &mut orders);
    assert_eq!(orders.len(), 120);
    for ways in 0..4usize.pow(5) {
        let way = |trial: usize| ends[ways / 4usize.pow(trial as u32) % 4];
        for order in &orders {
            let mut world = World::new(Settings::new());
            world.trip();
            let mut trials = vec![Some(world.trial())];
            trials.extend((1..5).map(|_| Some(world.admit())));
            let (mut good, mut expected) = (0, HALF_OPEN);
            for &trial in order {
                // The first to decide does; what comes later is of another generation.
                match way(trial) {
                    GOOD if expected == HALF_OPEN => good += 1,
                    BAD if expected == HALF_OPEN => expected = OPEN,
                    _ => {}
                }
                if good == 3 {
                    expected = CLOSED;
                }
                world.settle(trials[trial].take().unwrap(), way(trial));
                assert_eq!(world.core.state(), expected, "{ways} {order:?}");
            }
            let shot = world.shot();
            assert_eq!(shot.totals.in_flight, 0);
            assert_eq!(
                (shot.window_calls, shot.trials),
                (if expected == CLOSED { 0 } else { 5 }, 0)
            );
        }
    }
}

fn permute(items: &mut [usize; 5], from: usize, out: &mut Vec<[usize; 5]>) {
    if from == items.len() {
        return out.push(*items);
    }
    for i in from..items.len() {
        items.swap(from, i);
        permute(items, from + 1, out);
        items.swap(from, i);
    }
}

#[test]
fn cb03_a_call_from_before_the_outage_decides_no_trial() {
    for late in [GOOD, BAD, End::Neutral, End::Abandoned] {
        let mut world = World::new(Settings::new().trial_successes(1));
        let mut old = world.admit();
        let older = world.admit();
        world.trip();
        world.settle(older, late);
        let trial = world.trial();
        world.core.first_token(&mut old, true, world.now);
        world.settle(old, late);
        let shot = world.shot();
        assert_eq!((shot.state, shot.trials), (HALF_OPEN, 1));
        world.settle(trial, GOOD);
        assert_eq!(world.core.state(), CLOSED);
    }
}

#[test]
fn cb03_late_failures_of_trials_do_not_open_what_was_closed() {
    let mut world = World::new(Settings::new());
    world.trip();
    let mut trials = vec![world.trial()];
    trials.extend((0..4).map(|_| world.admit()));
    for trial in trials.drain(..3).collect::<Vec<_>>() {
        world.settle(trial, GOOD);
    }
    for trial in trials {
        world.settle(trial, BAD);
    }
    let shot = world.shot();
    assert_eq!((shot.state, shot.failures_in_a_row), (CLOSED, 0));
    assert_eq!(shot.window_calls, 0);
}

#[test]
fn cb06_trials_that_hang_do_not_hold_it_half_open() {
    let mut world = World::new(Settings::new());
    world.trip();
    let _hung: Vec<_> = std::iter::once(world.trial())
        .chain((0..4).map(|_| world.core.admit(0, world.now).unwrap()))
        .collect();
    world.wait(s(60) - Duration::from_nanos(1));
    assert_eq!(world.refused(), Refused::Trials);
    world.wait(Duration::from_nanos(1));
    world.reasons();
    // The very next call is the trial, and a success of it counts.
    for _ in 0..3 {
        world.call(GOOD);
    }
    assert_eq!(
        world.reasons(),
        [
            "the half-open time is over",
            "the open time is over",
            "3 trials succeeded"
        ]
    );
}

#[test]
fn cb06_without_traffic_it_leaves_half_open_when_somebody_looks() {
    let mut world = World::new(Settings::new());
    world.trip();
    let trial = world.trial();
    world.wait(s(60));
    let shot = world.shot();
    assert_eq!((shot.state, shot.retry_in), (OPEN, Some(Duration::ZERO)));
    // No trial failed, so the next outage is not a longer one.
    assert_eq!(shot.failed_half_opens, 0);
    world.settle(trial, GOOD);
    assert_eq!(world.core.state(), OPEN);
}

#[test]
fn cb06_a_stream_that_delivers_counts_as_a_success_at_the_end_of_the_dwell() {
    let mut world = World::new(Settings::new());
    world.trip();
    let mut trial = world.trial();
    world.core.first_token(&mut trial, true, world.now);
    world.wait(s(59));
    assert_eq!(world.shot().state, HALF_OPEN);
    world.wait(s(1));
    assert_eq!(world.shot().state, CLOSED);
    // What becomes of it later is of another generation.
    world.settle(trial, BAD);
    assert_eq!(world.shot().failures_in_a_row, 0);
}

#[test]
fn cb06_a_stream_that_was_delivering_and_was_dropped_does_not_count() {
    let mut world = World::new(Settings::new());
    world.trip();
    let mut trial = world.trial();
    world.core.first_token(&mut trial, false, world.now);
    world.settle(trial, End::Abandoned);
    world.wait(s(60));
    assert_eq!(world.shot().state, OPEN);
}

#[test]
fn cb06_one_success_is_enough_at_the_end_of_the_dwell() {
    let mut world = World::new(Settings::new());
    world.trip();
    let trial = world.trial();
    world.settle(trial, GOOD);
    assert_eq!(world.shot().state, HALF_OPEN);
    world.wait(s(60));
    assert_eq!(world.shot().state, CLOSED);
}

#[test]
fn cb16_the_open_time_doubles_from_the_third_failed_half_open_on() {
    let mut world = World::new(Settings::new().open_jitter_percent(0));
    world.trip();
    let mut times = vec![world.left()];
    for _ in 0..7 {
        let trial = world.trial();
        world.settle(trial, BAD);
        times.push(world.left());
    }
    assert_eq!(times, [30, 30, 30, 60, 120, 120, 120, 120].map(s));
    // Closing begins anew.
    let trial = world.trial();
    world.settle(trial, GOOD);
    world.call(GOOD);
    world.call(GOOD);
    assert_eq!(world.core.state(), CLOSED);
    world.trip();
    assert_eq!(world.left(), s(30));
}

#[test]
fn cb16_jitter_shortens_within_its_bounds_and_never_shrinks_in_an_outage() {
    let mut first = std::collections::HashSet::new();
    for seed in 0..200 {
        let mut world = World::seeded(Settings::new(), seed);
        world.trip();
        let mut last = world.left();
        first.insert(last);
        for base in [30, 30, 60, 120, 120, 120] {
            assert!(last >= s(24) && last <= s(120));
            let trial = world.trial();
            world.settle(trial, BAD);
            let next = world.left();
            assert!(next >= last);
            assert!(next >= s(base) * 4 / 5 && next <= s(base));
            last = next;
        }
    }
    assert!(first.len() > 190, "two circuits draw differently");
    let (shortest, longest) = (first.iter().min().unwrap(), first.iter().max().unwrap());
    assert!(*shortest < s(25) && *longest > s(29));
}

#[test]
fn cb16_each_outage_draws_its_own_jitter() {
    let mut world = World::new(Settings::new());
    let mut drawn = std::collections::HashSet::new();
    for _ in 0..50 {
        world.trip();
        drawn.insert(world.left());
        let trial = world.trial();
        world.settle(trial, GOOD);
        world.call(GOOD);
        world.call(GOOD);
        assert_eq!(world.core.state(), CLOSED);
    }
    assert!(drawn.len() > 45);
}

#[test]
fn cb16_a_hint_of_the_server_is_a_floor_that_nothing_shortens() {
    // By the failure that opens it.
    let mut world = World::new(Settings::new());
    for _ in 0..4 {
        world.call(BAD);
    }
    world.call(told(s(1_000)));
    assert_eq!(world.left(), s(1_000));
    // By one before it that still holds.
    let mut world = World::new(Settings::new());
    world.call(told(s(1_000)));
    world.wait(s(10));
    world.trip();
    assert_eq!(world.left(), s(990));
    // One that is over, or shorter, is no reason to open for less.
    let mut world = World::new(Settings::new().open_jitter_percent(0));
    world.call(told(s(5)));
    world.wait(s(10));
    world.trip();
    assert_eq!(world.left(), s(30));
    // By a trial.
    let trial = world.trial();
    world.settle(trial, told(s(7_200)));
    assert_eq!(world.left(), s(7_200));
    // Closing forgets it.
    let trial = world.trial();
    world.settle(trial, GOOD);
    world.call(GOOD);
    world.call(GOOD);
    world.trip();
    assert_eq!(world.left(), s(30));
}

#[test]
fn cb16_a_hint_counts_as_long_as_its_failure_does() {
    let set = || Settings::new().open_jitter_percent(0);
    // The target went on to answer, for longer than a window.
    let mut world = World::new(set());
    world.call(told(s(3_600)));
    world.call(GOOD);
    world.wait(s(30));
    world.trip();
    assert_eq!(world.left(), s(30));
    // So it did until it was slow.
    let mut world = World::new(set());
    world.call(told(s(3_600)));
    world.call(GOOD);
    world.wait(s(30));
    for _ in 0..10 {
        let mut permit = world.admit();
        world.core.first_token(&mut permit, true, world.now);
    }
    assert_eq!(world.left(), s(30));
    // Not for as long.
    let mut world = World::new(set());
    world.call(told(s(3_600)));
    world.call(GOOD);
    world.wait(s(29));
    world.trip();
    assert_eq!(world.left(), s(3_571));
    // Nothing since but failures, however long ago.
    let mut world = World::new(set());
    world.call(told(s(3_600)));
    world.wait(s(600));
    world.trip();
    assert_eq!(world.left(), s(3_000));
}

#[test]
fn cb16_a_hint_beyond_the_clock_does_not_panic() {
    for hint in [
        Duration::MAX,
        s(u64::MAX),
        s(u64::MAX / 2),
        s(i64::MAX as u64),
    ] {
        let mut world = World::new(Settings::new().failures_in_a_row(1));
        world.call(told(hint));
        assert!(world.left() > s(20 * 365 * 86_400));
        assert!(matches!(world.refused(), Refused::Open(Some(_))));
    }
    let mut world = World::new(
        Settings::new()
            .open_for(Duration::MAX)
            .open_max(Duration::MAX)
            .dwell(Duration::MAX)
            .ramp(Duration::MAX),
    );
    world.trip();
    assert!(world.core.dwell_end().is_none());
    world.wait(s(40 * 365 * 86_400));
    assert!(world.core.admit(0, world.now).is_ok());
    assert!(world.core.dwell_end().is_none());
    assert!(!world.core.may_go(world.now));
}

#[test]
fn cb18_closing_clears_the_window() {
    let mut world = World::new(Settings::new().ramp(Duration::ZERO));
    world.call(GOOD);
    world.trip();
    let trial = world.trial();
    world.settle(trial, GOOD);
    world.call(GOOD);
    world.call(GOOD);
    let shot = world.shot();
    assert_eq!((shot.state, shot.window_calls), (CLOSED, 0));
    assert_eq!((shot.window_timed, shot.failures_in_a_row), (0, 0));
    assert_eq!((shot.last_failure, shot.failed_half_opens), (None, 0));
    // Four failures of the new era do not open it: those of the old one are gone.
    for _ in 0..4 {
        world.call(BAD);
    }
    assert_eq!(world.core.state(), CLOSED);
}

#[test]
fn cb14_forced_open_admits_none_and_no_timer_or_late_outcome_ends_it() {
    let mut world = World::new(Settings::new());
    let late: Vec<_> = (0..3).map(|_| world.admit()).collect();
    world.core.force(Forced::Open, world.now);
    for permit in late {
        world.settle(permit, GOOD);
    }
    for _ in 0..10 {
        world.wait(s(3_600));
        assert_eq!(world.refused(), Refused::Open(None));
    }
    assert_eq!(world.shot().retry_in, None);
    world.core.release(world.now);
    let trial = world.admit();
    assert_eq!(world.core.state(), HALF_OPEN);
    world.settle(trial, BAD);
    assert_eq!(world.core.state(), OPEN);
    assert_eq!(
        world.reasons(),
        [
            "forced by hand",
            "the open time is over",
            "a trial failed: server_error"
        ]
    );
}

#[test]
fn cb14_forced_closed_admits_all_and_then_begins_anew() {
    let mut world = World::new(Settings::new());
    world.trip();
    world.core.force(Forced::Closed, world.now);
    let kept: Vec<_> = (0..7).map(|_| world.admit()).collect();
    for _ in 0..100 {
        world.call(told(s(600)));
    }
    let shot = world.shot();
    assert_eq!((shot.state, shot.forced), (CLOSED, Some(Forced::Closed)));
    assert_eq!((shot.window_calls, shot.totals.failed), (0, 105));
    world.core.release(world.now);
    // Those admitted while it was forced are of another generation.
    for permit in kept {
        world.settle(permit, BAD);
    }
    assert_eq!(world.shot().state, CLOSED);
    world.trip();
    assert!(world.left() <= s(30));
}

#[test]
fn cb14_forcing_a_half_open_circuit_ends_its_trials() {
    for forced in [Forced::Open, Forced::Closed] {
        let mut world = World::new(Settings::new());
        world.trip();
        let trial = world.trial();
        world.core.force(forced, world.now);
        world.wait(s(120));
        world.settle(trial, BAD);
        assert_eq!(world.shot().forced, Some(forced));
        world.core.reset(world.now);
        let shot = world.shot();
        assert_eq!((shot.state, shot.forced), (CLOSED, None));
    }
}

#[test]
fn cb13_by_hand_only_what_shows_is_a_change() {
    let mut world = World::new(Settings::new());
    let before = world.core.generation;
    world.core.release(world.now);
    assert_eq!(
        world.core.generation, before,
        "there was nothing to release"
    );
    world.core.force(Forced::Closed, world.now);
    world.core.release(world.now);
    world.core.reset(world.now);
    assert_eq!(world.core.generation, before + 3);
    assert!(world.reasons().is_empty());
    world.core.force(Forced::Open, world.now);
    world.core.force(Forced::Open, world.now);
    world.core.release(world.now);
    world.core.reset(world.now);
    assert_eq!(world.reasons(), ["forced by hand", "reset by hand"]);
}

#[test]
fn the_ramp_refuses_only_who_has_another_target() {
    let mut world = World::new(Settings::new());
    world.trip();
    let trial = world.trial();
    world.settle(trial, GOOD);
    world.call(GOOD);
    world.call(GOOD);
    let mut admitted = 0;
    for _ in 0..100 {
        world.call(GOOD);
        match world.core.admit(1, world.now) {
            Ok(permit) => {
                admitted += 1;
                world.settle(permit, GOOD);
            }
            Err(refused) => assert_eq!(refused, Refused::Ramp),
        }
    }
    assert_eq!(admitted, 11);
    world.wait(s(10));
    for _ in 0..100 {
        let permit = world.core.admit(1, world.now).unwrap();
        world.settle(permit, GOOD);
    }
    // One that was reset by hand has no ramp.
    world.core.reset(world.now);
    for _ in 0..100 {
        let permit = world.core.admit(1, world.now).unwrap();
        world.settle(permit, GOOD);
    }
}

#[test]
fn cb10_a_clock_that_runs_backwards_does_no_harm() {
    let mut world = World::new(Settings::new());
    world.wait(s(1_000));
    let start = world.now;
    for i in 0..200u64 {
        world.now = start - Duration::from_millis(i * 7 % 900);
        if let Ok(mut permit) = world.core.admit(0, world.now) {
            world.now -= s(100);
            world.core.first_token(&mut permit, i % 3 == 0, world.now);
            world.settle(permit, if i % 2 == 0 { BAD } else { GOOD });
        }
        world.shot();
        world.wait(s(130));
    }
    let totals = world.shot().totals;
    assert_eq!(totals.in_flight, 0);
}
