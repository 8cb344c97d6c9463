//! The circuit against a naive model, which keeps everything that ever happened and recounts.

use proptest::prelude::*;

use super::*;
use crate::Settings;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Good,
    Bad(Option<u64>),
    Neutral,
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Wait(u64),
    Admit,
    /// A call under way has its first token.
    Token(usize, bool),
    /// A call under way ends.
    End(usize, How, bool),
    Force(bool),
    Release,
    Reset,
}

/// A call of the model.
#[derive(Clone, Debug)]
struct Call {
    era: usize,
    token: bool,
    slow: bool,
    ended: Option<How>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Closed,
    Open(u64),
    Half(u64),
}

/// Times are milliseconds.
#[derive(Debug)]
struct Model {
    set: Settings,
    at: At,
    forced: Option<Forced>,
    era: usize,
    calls: Vec<Call>,
    /// What counted in this closed era, or before it: when, in which era, and whether it was bad.
    ends: Vec<(u64, usize, bool)>,
    tokens: Vec<(u64, usize, bool)>,
    failed_half_opens: u32,
    hints: Vec<u64>,
    changes: Vec<(CircuitState, CircuitState)>,
}

impl Model {
    fn new(set: Settings) -> Model {
        Model {
            set,
            at: At::Closed,
            forced: None,
            era: 0,
            calls: Vec::new(),
            ends: Vec::new(),
            tokens: Vec::new(),
            failed_half_opens: 0,
            hints: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn state(&self) -> CircuitState {
        match self.at {
            At::Closed => CircuitState::Closed,
            At::Open(_) => CircuitState::Open,
            At::Half(_) => CircuitState::HalfOpen,
        }
    }

    fn go(&mut self, at: At) {
        let from = self.state();
        self.at = at;
        self.era += 1;
        if at == At::Closed {
            self.failed_half_opens = 0;
            self.hints.clear();
            self.ends.clear();
            self.tokens.clear();
        }
        if from != self.state() {
            self.changes.push((from, self.state()));
        }
    }

    fn counts(&self, list: &[(u64, usize, bool)], now: u64) -> (usize, usize) {
        let span = self.set.window_time.as_millis() as u64;
        let last: Vec<_> = list.iter().rev().take(self.set.window_calls).collect();
        let young: Vec<_> = last.iter().filter(|(at, ..)| now - at < span).collect();
        (young.iter().filter(|(_, _, bad)| *bad).count(), young.len())
    }

    fn open(&mut self, now: u64) {
        let steps = [1, 1, 1, 2, 4, 8, 16, 32];
        let step = steps[(self.failed_half_opens as usize).min(7)];
        let for_ms =
            (self.set.open_for.as_millis() as u64 * step).min(self.set.open_max.as_millis() as u64);
        let told = self.hints.iter().copied().max().unwrap_or(0);
        self.go(At::Open(told.max(now + for_ms)));
    }

    fn in_a_row(&self) -> usize {
        self.ends.iter().rev().take_while(|(.., bad)| *bad).count()
    }

    fn forget_hints(&mut self, now: u64) {
        let failures = self.counts(&self.ends, now).0;
        if self.at == At::Closed && failures == 0 && self.in_a_row() == 0 {
            self.hints.clear();
        }
    }

    fn trip(&mut self, now: u64) {
        let in_a_row = self.in_a_row();
        let rate = |(bad, all): (usize, usize), percent: u8| {
            all >= self.set.min_calls && bad as f64 / all as f64 >= f64::from(percent) / 100.0
        };
        if in_a_row >= self.set.failures_in_a_row as usize
            || rate(self.counts(&self.ends, now), self.set.failure_percent)
            || rate(self.counts(&self.tokens, now), self.set.slow_percent)
        {
            self.open(now);
        }
    }

    fn elapse(&mut self, now: u64) {
        if let At::Half(since) = self.at
            && now - since >= self.set.dwell.as_millis() as u64
        {
            let good = |c: &&Call| {
                c.era == self.era && (c.ended == Some(How::Good) || c.ended.is_none() && c.token)
            };
            if self.calls.iter().any(|c| good(&c)) {
                self.go(At::Closed);
            } else {
                self.go(At::Open(now));
            }
        }
    }

    fn admit(&mut self, now: u64) -> bool {
        let admitted = match (self.forced, self.at) {
            (Some(Forced::Open), _) => false,
            (Some(Forced::Closed), _) | (None, At::Closed) => true,
            (None, At::Open(until)) if now < until => false,
            (None, At::Open(_)) => {
                self.go(At::Half(now));
                true
            }
            (None, At::Half(_)) => self.held_slots() < self.set.trials as usize,
        };
        if admitted {
            self.calls.push(Call {
                era: self.era,
                token: false,
                slow: false,
                ended: None,
            });
        }
        admitted
    }

    fn held_slots(&self) -> usize {
        let holds = |c: &&Call| c.era == self.era && matches!(c.ended, None | Some(How::Good));
        self.calls.iter().filter(holds).count()
    }

    fn counts_now(&self, call: usize) -> bool {
        self.calls[call].era == self.era && self.forced.is_none()
    }

    fn token(&mut self, call: usize, slow: bool, now: u64) {
        if self.counts_now(call) {
            self.forget_hints(now);
            self.calls[call].token = true;
            if self.at == At::Closed {
                self.tokens.push((now, self.era, slow));
                self.trip(now);
            }
            self.slow_trial(call, slow, now);
        }
    }

    /// Whether the trials are too slow.
    fn slow_trial(&mut self, call: usize, slow: bool, now: u64) -> bool {
        self.calls[call].slow |= slow;
        let slow_ones = self.calls.iter().filter(|c| c.era == self.era && c.slow);
        let share = slow_ones.count() as f64 / f64::from(self.set.trials);
        let reopens = slow
            && matches!(self.at, At::Half(_))
            && share >= f64::from(self.set.slow_percent) / 100.0;
        if reopens {
            self.failed_half_opens += 1;
            self.open(now);
        }
        reopens
    }

    fn end(&mut self, call: usize, how: How, slow: Option<bool>, now: u64) {
        let counts = self.counts_now(call);
        self.calls[call].ended = Some(how);
        if !counts {
            return;
        }
        self.forget_hints(now);
        if let How::Bad(Some(hint)) = how {
            self.hints.push(now + hint);
        }
        let bad = matches!(how, How::Bad(_));
        if !bad && self.slow_trial(call, slow == Some(true), now) {
            return;
        }
        match self.at {
            At::Closed => {
                if let Some(slow) = slow {
                    self.tokens.push((now, self.era, slow));
                }
                match how {
                    How::Good => self.ends.push((now, self.era, false)),
                    How::Bad(_) => self.ends.push((now, self.era, true)),
                    _ if slow.is_none() => return,
                    _ => {}
                }
                self.trip(now);
            }
            At::Half(_) => match how {
                How::Bad(_) => {
                    self.failed_half_opens += 1;
                    self.open(now);
                }
                How::Good => {
                    let good = |c: &&Call| c.era == self.era && c.ended == Some(How::Good);
                    let good = self.calls.iter().filter(good).count();
                    if good >= self.set.trial_successes as usize {
                        self.go(At::Closed);
                    }
                }
                How::Neutral | How::Abandoned => {}
            },
            At::Open(_) => unreachable!("nothing is admitted while it is open"),
        }
    }
}

/// Core and model side by side, with a permit for each call under way.
struct Pair {
    core: Core,
    model: Model,
    base: Instant,
    now: u64,
    live: Vec<(usize, Permit)>,
    refused: u64,
    changes: Vec<(CircuitState, CircuitState)>,
}

impl Pair {
    fn new(set: Settings) -> Pair {
        let base = Instant::now();
        Pair {
            core: Core::new(set.clone().build().unwrap(), 7, base),
            model: Model::new(set),
            base,
            now: 0,
            live: Vec::new(),
            refused: 0,
            changes: Vec::new(),
        }
    }

    fn at(&self) -> Instant {
        self.base + ms(self.now)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Wait(wait) => self.now += wait,
            Op::Admit => {
                let at = self.at();
                self.model.elapse(self.now);
                let admitted = self.core.admit(0, at);
                assert_eq!(admitted.is_ok(), self.model.admit(self.now));
                match admitted {
                    Ok(permit) => self.live.push((self.model.calls.len() - 1, permit)),
                    Err(_) => self.refused += 1,
                }
            }
            Op::Token(index, slow) => {
                let at = self.at();
                let live = self.live.len().max(1);
                if let Some((call, permit)) = self.live.get_mut(index % live)
                    && !self.model.calls[*call].token
                {
                    self.model.elapse(self.now);
                    self.model.token(*call, slow, self.now);
                    self.core.first_token(permit, slow, at);
                    self.model.calls[*call].token = true;
                }
            }
            Op::End(index, how, slow) => {
                if self.live.is_empty() {
                    return;
                }
                let (call, permit) = self.live.swap_remove(index % self.live.len());
                self.model.elapse(self.now);
                let slow = match how {
                    _ if self.model.calls[call].token => None,
                    How::Good | How::Bad(_) => Some(slow),
                    How::Abandoned => slow.then_some(true),
                    How::Neutral => None,
                };
                let end = match how {
                    How::Good => End::Success,
                    How::Bad(hint) => End::Failure {
                        kind: Kind::ServerError,
                        hint: hint.map(ms),
                    },
                    How::Neutral => End::Neutral,
                    How::Abandoned => End::Abandoned,
                };
                self.model.end(call, how, slow, self.now);
                self.core.settle(permit, end, slow, self.at());
            }
            Op::Force(open) => {
                let forced = if open { Forced::Open } else { Forced::Closed };
                self.model.elapse(self.now);
                self.model.forced = Some(forced);
                let at = if open { At::Open(self.now) } else { At::Closed };
                self.model.go(at);
                self.core.force(forced, self.at());
            }
            Op::Release => {
                match self.model.forced.take() {
                    Some(Forced::Open) => self.model.go(At::Open(self.now)),
                    Some(Forced::Closed) => self.model.go(At::Closed),
                    None => {}
                }
                self.core.release(self.at());
            }
            Op::Reset => {
                self.model.elapse(self.now);
                self.model.forced = None;
                self.model.go(At::Closed);
                self.core.reset(self.at());
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let at = self.at();
        self.model.elapse(self.now);
        let shot = self.core.snapshot(crate::Key::url("h", "/"), at);
        let drained = self.core.changes().drain(..);
        self.changes.extend(drained.map(|c| (c.from, c.to)));
        let model = &self.model;
        assert_eq!(shot.state, model.state());
        assert_eq!(shot.forced, model.forced);
        assert_eq!(self.changes, model.changes);
        // CB13: each change begins where the one before ended, and changes something.
        for pair in self.changes.windows(2) {
            assert_eq!(pair[0].1, pair[1].0);
        }
        assert!(self.changes.iter().all(|(from, to)| from != to));
        let retry_in = match model.at {
            At::Open(until) if model.forced.is_none() => Some(ms(until.saturating_sub(self.now))),
            _ => None,
        };
        assert_eq!(shot.retry_in, retry_in);
        let failures = model.counts(&model.ends, self.now);
        let slowness = model.counts(&model.tokens, self.now);
        assert_eq!((shot.window_failures, shot.window_calls), failures);
        assert_eq!((shot.window_slow, shot.window_timed), slowness);
        // CB27.
        for (rate, (bad, all)) in [(shot.failure_rate, failures), (shot.slow_rate, slowness)] {
            let expected = (all >= model.set.min_calls).then(|| bad as f64 / all as f64);
            assert_eq!(rate, expected);
            assert!(rate.is_none_or(|rate| (0.0..=1.0).contains(&rate)));
        }
        // CB1.
        let t = shot.totals;
        let ended = |how: fn(&How) -> bool| {
            let ended = model.calls.iter().filter_map(|c| c.ended.as_ref());
            ended.filter(|e| how(e)).count() as u64
        };
        assert_eq!(t.admitted, model.calls.len() as u64);
        assert_eq!(t.in_flight, self.live.len() as u64);
        assert_eq!(t.succeeded, ended(|e| *e == How::Good));
        assert_eq!(t.failed, ended(|e| matches!(e, How::Bad(_))));
        assert_eq!(t.neutral, ended(|e| *e == How::Neutral));
        assert_eq!(t.abandoned, ended(|e| *e == How::Abandoned));
        assert_eq!(t.refused, self.refused);
        let all = t.succeeded + t.failed + t.neutral + t.abandoned + t.in_flight;
        assert_eq!(t.admitted, all);
        // CB4.
        if let At::Half(_) = model.at {
            let out = |c: &&Call| c.era == model.era && c.ended.is_none();
            let out = model.calls.iter().filter(out).count();
            assert_eq!(shot.trials as usize, out);
            assert!(model.held_slots() <= model.set.trials as usize);
        }
    }
}

fn small() -> Settings {
    Settings::new()
        .window_calls(6)
        .window_time(ms(2_000))
        .min_calls(3)
        .failure_percent(50)
        .slow_percent(60)
        .failures_in_a_row(4)
        .open_for(ms(1_000))
        .open_max(ms(4_000))
        .open_jitter_percent(0)
        .trials(3)
        .trial_successes(2)
        .dwell(ms(3_000))
        .ramp(Duration::ZERO)
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        4 => Just(How::Good),
        3 => Just(How::Bad(None)),
        1 => (0..6_000u64).prop_map(|hint| How::Bad(Some(hint))),
        1 => Just(How::Neutral),
        1 => Just(How::Abandoned),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => Just(Op::Admit),
        10 => (any::<usize>(), any::<bool>()).prop_map(|(i, slow)| Op::Token(i, slow)),
        25 => (any::<usize>(), how(), any::<bool>()).prop_map(|(i, how, slow)| Op::End(i, how, slow)),
        15 => (0..700u64).prop_map(Op::Wait),
        5 => (900..3_100u64).prop_map(Op::Wait),
        1 => any::<bool>().prop_map(Op::Force),
        1 => Just(Op::Release),
        1 => Just(Op::Reset),
    ]
}

proptest! {
    #[test]
    fn cb09_any_history_is_as_the_naive_recount_has_it(
        ops in proptest::collection::vec(op(), 1..300),
    ) {
        let mut pair = Pair::new(small());
        for op in ops {
            pair.apply(op);
        }
    }

    #[test]
    fn cb09_the_default_settings_too(ops in proptest::collection::vec(op(), 1..300)) {
        let mut pair = Pair::new(Settings::new().open_jitter_percent(0).ramp(Duration::ZERO));
        for op in ops {
            let longer = if let Op::Wait(wait) = op { Op::Wait(wait * 10) } else { op };
            pair.apply(longer);
        }
    }
}

proptest! {
    // Each case begins with 10⁵ calls, so there are fewer.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(64)))]
    #[test]
    fn cb09_so_it_is_after_a_hundred_thousand_good_calls(
        gap in 0..3u64,
        ops in proptest::collection::vec(op(), 1..100),
    ) {
        let mut pair = Pair::new(small());
        for _ in 0..100_000 {
            pair.now += gap;
            let permit = pair.core.admit(0, pair.at()).unwrap();
            assert!(pair.model.admit(pair.now));
            let call = pair.model.calls.len() - 1;
            pair.core.settle(permit, End::Success, Some(false), pair.at());
            pair.model.calls[call].ended = Some(How::Good);
            pair.model.ends.push((pair.now, 0, false));
            pair.model.tokens.push((pair.now, 0, false));
        }
        for op in ops {
            pair.apply(op);
        }
    }
}
