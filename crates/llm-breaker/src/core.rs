//! One circuit. Pure: `now` is an argument, and the dice are seeded.
//!
//! The states and their arrows:
//!
//! - Closed -> Open: too many failures or slow calls ([`Core::trip`]).
//! - Open -> HalfOpen: the first call at or after the end of the open time ([`Core::ask`]).
//! - HalfOpen -> Closed: enough trials succeeded, or one had by the end of the dwell.
//! - HalfOpen -> Open: a trial failed, or none had succeeded by the end of the dwell.
//! - By hand, from anywhere: [`Core::force`], [`Core::release`], [`Core::reset`].

mod by_hand;
mod view;

use std::time::Duration;

use llm_call::Kind;
use tokio::time::Instant;

use crate::{
    CircuitState, Forced, Policy, Reason, Totals,
    ramp::Ramp,
    settings::Settings,
    window::{Counts, Window},
};

#[derive(Debug)]
pub(crate) struct Core {
    policy: Policy,
    phase: Phase,
    forced: Option<Forced>,
    generation: u64,
    /// One entry for each call, at its end.
    failures: Window,
    /// One entry for each call, at its first token or its end.
    slowness: Window,
    in_a_row: u32,
    failed_half_opens: u32,
    /// By how much open times are shortened, in millionths of the jitter: drawn once for an
    /// outage, so that a later open time is never shorter than an earlier one.
    jitter: Option<u32>,
    /// Until when the server asked to be left alone.
    hint: Option<Instant>,
    ramp: Option<Ramp>,
    last_failure: Option<Kind>,
    last_used: Instant,
    totals: Totals,
    dice: fastrand::Rng,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { until: Instant },
    HalfOpen(Trials),
}

#[derive(Clone, Copy, Debug)]
struct Trials {
    entered: Instant,
    outstanding: u32,
    succeeded: u32,
    /// Those outstanding that are past their first token.
    delivering: u32,
    /// Those that were slow, outstanding or not.
    slow: u32,
}

/// A change of state that is still to be written down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) from: CircuitState,
    pub(crate) to: CircuitState,
    pub(crate) at: Instant,
    pub(crate) reason: Reason,
}

/// An admitted call. It counts for the generation that it was admitted in and for no other.
#[derive(Debug)]
#[must_use = "a call that is admitted must be settled"]
pub(crate) struct Permit {
    generation: u64,
    delivering: bool,
}

/// Why a call was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// For so long, where anybody knows.
    Open(Option<Duration>),
    /// All trials are under way.
    Trials,
    /// The traffic is still growing, and there is another target.
    Ramp,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure { kind: Kind, hint: Option<Duration> },
    Neutral,
    Abandoned,
}

impl Core {
    pub(crate) fn new(policy: Policy, seed: u64, now: Instant) -> Core {
        let set = policy.get();
        Core {
            failures: Window::new(set.window_calls, set.window_time, now),
            slowness: Window::new(set.window_calls, set.window_time, now),
            policy,
            phase: Phase::Closed,
            forced: None,
            generation: 0,
            in_a_row: 0,
            failed_half_opens: 0,
            jitter: None,
            hint: None,
            ramp: None,
            last_failure: None,
            last_used: now,
            totals: Totals::default(),
            dice: fastrand::Rng::with_seed(seed),
            changes: Vec::new(),
        }
    }

    /// Lets a call through, or not. `alternatives`: how many other targets it has left.
    pub(crate) fn admit(&mut self, alternatives: u32, now: Instant) -> Result<Permit, Refused> {
        self.elapse(now);
        if let Err(refused) = self.ask(alternatives, now) {
            self.totals.refused += 1;
            return Err(refused);
        }
        self.totals.admitted += 1;
        self.totals.in_flight += 1;
        self.last_used = now;
        Ok(Permit {
            generation: self.generation,
            delivering: false,
        })
    }

    fn ask(&mut self, alternatives: u32, now: Instant) -> Result<(), Refused> {
        match &mut self.phase {
            Phase::Closed => match &mut self.ramp {
                Some(ramp) if alternatives > 0 => match ramp.admits(now) {
                    Some(true) => Ok(()),
                    Some(false) => Err(Refused::Ramp),
                    None => {
                        self.ramp = None;
                        Ok(())
                    }
                },
                _ => Ok(()),
            },
            Phase::Open { .. } if self.forced.is_some() => Err(Refused::Open(None)),
            Phase::Open { until } if now < *until => Err(Refused::Open(Some(*until - now))),
            Phase::Open { .. } => {
                let trials = Trials {
                    entered: now,
                    outstanding: 1,
                    succeeded: 0,
                    delivering: 0,
                    slow: 0,
                };
                self.enter(Phase::HalfOpen(trials), Reason::Due, now);
                Ok(())
            }
            Phase::HalfOpen(trials) => {
                if trials.outstanding + trials.succeeded >= self.policy.get().trials {
                    return Err(Refused::Trials);
                }
                trials.outstanding += 1;
                Ok(())
            }
        }
    }

    /// The first token of a streamed answer came.
    pub(crate) fn first_token(&mut self, permit: &mut Permit, slow: bool, now: Instant) {
        self.elapse(now);
        self.totals.slow += u64::from(slow);
        if !self.counts_for(permit) {
            return;
        }
        self.forget_hint(now);
        match &mut self.phase {
            Phase::Closed => {
                self.slowness.push(slow, now);
                self.trip(now);
            }
            Phase::HalfOpen(trials) if !permit.delivering => {
                permit.delivering = true;
                trials.delivering += 1;
                if slow {
                    self.slow_trial(now);
                }
            }
            Phase::HalfOpen(_) | Phase::Open { .. } => {}
        }
    }

    /// A call ended. `slow`: whether it was, where that was not counted at its first token.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a permit is used up by its end"
    )]
    pub(crate) fn settle(&mut self, permit: Permit, end: End, slow: Option<bool>, now: Instant) {
        self.elapse(now);
        self.totals.in_flight -= 1;
        self.totals.slow += u64::from(slow == Some(true));
        *match end {
            End::Success => &mut self.totals.succeeded,
            End::Failure { .. } => &mut self.totals.failed,
            End::Neutral => &mut self.totals.neutral,
            End::Abandoned => &mut self.totals.abandoned,
        } += 1;
        if !self.counts_for(&permit) {
            return;
        }
        self.forget_hint(now);
        if let End::Failure { kind, hint } = end {
            self.last_failure = Some(kind);
            let hint = hint.map(|hint| later(now, hint));
            self.hint = self.hint.max(hint);
        }
        let failed = matches!(end, End::Failure { .. });
        if slow == Some(true) && !failed && self.slow_trial(now) {
            return;
        }
        match &mut self.phase {
            Phase::Closed => {
                if let Some(slow) = slow {
                    self.slowness.push(slow, now);
                }
                match end {
                    End::Neutral | End::Abandoned if slow.is_none() => return,
                    End::Success => {
                        self.failures.push(false, now);
                        self.in_a_row = 0;
                    }
                    End::Failure { .. } => {
                        self.failures.push(true, now);
                        self.in_a_row = self.in_a_row.saturating_add(1);
                    }
                    End::Neutral | End::Abandoned => {}
                }
                self.trip(now);
            }
            Phase::HalfOpen(trials) => {
                trials.outstanding -= 1;
                trials.delivering -= u32::from(permit.delivering);
                match end {
                    End::Success => {
                        trials.succeeded += 1;
                        let succeeded = trials.succeeded;
                        if succeeded >= self.policy.get().trial_successes {
                            self.recover(Reason::TrialsSucceeded(succeeded), now);
                        }
                    }
                    End::Failure { kind, .. } => {
                        self.failed_half_opens = self.failed_half_opens.saturating_add(1);
                        self.open(Reason::TrialFailed(kind), now);
                    }
                    End::Neutral | End::Abandoned => {}
                }
            }
            Phase::Open { .. } => {}
        }
    }

    /// A trial was slow. Opens the circuit again where as many are as open a closed one: a target that
    /// is slow and not down would close it again and again.
    fn slow_trial(&mut self, now: Instant) -> bool {
        let Phase::HalfOpen(trials) = &mut self.phase else {
            return false;
        };
        trials.slow += 1;
        let set = self.policy.get();
        let (slow, calls) = (trials.slow as usize, set.trials as usize);
        let counts = Counts {
            hits: slow,
            total: calls,
        };
        let reached = counts.reach(set.slow_percent);
        if reached {
            self.failed_half_opens = self.failed_half_opens.saturating_add(1);
            self.open(Reason::Slow { slow, calls }, now);
        }
        reached
    }

    fn counts_for(&self, permit: &Permit) -> bool {
        permit.generation == self.generation && self.forced.is_none()
    }

    /// A closed circuit has no use for a hint once the failures that it came with are over: what
    /// the target answered since has outlived it.
    fn forget_hint(&mut self, now: Instant) {
        if self.hint.is_some()
            && matches!(self.phase, Phase::Closed)
            && self.in_a_row == 0
            && self.failures.counts(now).hits == 0
        {
            self.hint = None;
        }
    }

    /// What is due by time alone: the end of the dwell. To be called before anything else.
    pub(crate) fn elapse(&mut self, now: Instant) {
        let Phase::HalfOpen(trials) = self.phase else {
            return;
        };
        if now.saturating_duration_since(trials.entered) < self.policy.get().dwell {
            return;
        }
        if trials.succeeded + trials.delivering > 0 {
            self.recover(Reason::Dwell, now);
        } else {
            self.enter(Phase::Open { until: now }, Reason::Dwell, now);
        }
    }

    /// When the dwell ends, if the circuit is half-open and it ever does.
    pub(crate) fn dwell_end(&self) -> Option<Instant> {
        match self.phase {
            Phase::HalfOpen(trials) => trials.entered.checked_add(self.policy.get().dwell),
            Phase::Closed | Phase::Open { .. } => None,
        }
    }

    /// Opens a closed circuit if there is a reason.
    fn trip(&mut self, now: Instant) {
        // Nearly always so, and then there is nothing to work out.
        if self.in_a_row == 0 && !self.failures.has_hits() && !self.slowness.has_hits() {
            return;
        }
        let set = self.policy.get();
        let (min, percent, slow_percent) = (set.min_calls, set.failure_percent, set.slow_percent);
        if self.in_a_row >= set.failures_in_a_row && set.failures_in_a_row < u32::MAX {
            return self.open(Reason::FailuresInARow(self.in_a_row), now);
        }
        let Counts { hits, total } = self.failures.counts(now);
        if total >= min && (Counts { hits, total }).reach(percent) {
            let (failed, calls) = (hits, total);
            return self.open(Reason::Failures { failed, calls }, now);
        }
        let Counts { hits, total } = self.slowness.counts(now);
        if total >= min && (Counts { hits, total }).reach(slow_percent) {
            let (slow, calls) = (hits, total);
            self.open(Reason::Slow { slow, calls }, now);
        }
    }

    fn open(&mut self, reason: Reason, now: Instant) {
        let dice = &mut self.dice;
        let jitter = *self.jitter.get_or_insert_with(|| dice.u32(..=MILLION));
        let delay = open_time(self.policy.get(), self.failed_half_opens, jitter);
        let until = later(now, delay);
        let until = self.hint.map_or(until, |hint| hint.max(until));
        self.enter(Phase::Open { until }, reason, now);
    }

    /// Closes a half-open circuit.
    fn recover(&mut self, reason: Reason, now: Instant) {
        self.enter(Phase::Closed, reason, now);
        self.ramp = Ramp::new(self.policy.get().ramp, now);
    }

    /// The one place where the phase changes. What was admitted before no longer counts.
    fn enter(&mut self, phase: Phase, reason: Reason, now: Instant) {
        let from = self.state();
        self.phase = phase;
        self.generation += 1;
        let to = self.state();
        if to == CircuitState::Closed {
            self.failures.clear();
            self.slowness.clear();
            self.in_a_row = 0;
            self.failed_half_opens = 0;
            self.jitter = None;
            self.hint = None;
            self.ramp = None;
            self.last_failure = None;
        }
        if from != to {
            let at = now;
            self.changes.push(Change {
                from,
                to,
                at,
                reason,
            });
        }
    }

    /// The changes of state that are still to be written down.
    pub(crate) fn changes(&mut self) -> &mut Vec<Change> {
        &mut self.changes
    }

    pub(crate) fn state(&self) -> CircuitState {
        match self.phase {
            Phase::Closed => CircuitState::Closed,
            Phase::Open { .. } => CircuitState::Open,
            Phase::HalfOpen(_) => CircuitState::HalfOpen,
        }
    }

    pub(crate) fn last_failure(&self) -> Option<Kind> {
        self.last_failure
    }

    pub(crate) fn last_used(&self) -> Instant {
        self.last_used
    }
}

const MILLION: u32 = 1_000_000;

/// How long to stay open after so many failed half-opens in a row: 30, 30, 30, 60, 120 s.
fn open_time(set: &Settings, failed_half_opens: u32, jitter: u32) -> Duration {
    let doublings = failed_half_opens.saturating_sub(2);
    let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
    let time = set.open_for.saturating_mul(factor).min(set.open_max);
    let all = 100 * u64::from(MILLION);
    let left = all - u64::from(set.open_jitter_percent) * u64::from(jitter);
    let share = left as f64 / all as f64;
    // Below one, so it cannot overflow; one itself must not round.
    if left == all {
        time
    } else {
        time.mul_f64(share)
    }
}

/// A time too far for the clock is as good as one in thirty years.
fn later(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    now.checked_add(wait).unwrap_or_else(|| now + FAR)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
