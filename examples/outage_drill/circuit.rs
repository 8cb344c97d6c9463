//! The primary's circuit breaker: its settings on the play's clock, and what it did.

use std::time::Duration;

use llm_breaker::{Breakers, CircuitState, InvalidSettings, Policy, Settings, Transition};
use tokio::time::Instant;

use crate::{clocks::Limits, incident::PRIMARY};

/// Breakers with their usual settings on a faster clock.
pub(crate) fn breakers(limits: Limits, factor: f64) -> Result<Breakers, InvalidSettings> {
    let usual = |seconds: u64| Duration::from_secs(seconds).div_f64(factor);
    let policy: Policy = Settings::new()
        .window_time(usual(30))
        .slow_answer(usual(8))
        .slow_first_token(usual(4))
        .slow_thinking(usual(30))
        .dwell(usual(60))
        .ramp(limits.ramp)
        .open_for(limits.open)
        // It would double to 120 s, which is nothing in an outage of hours. But the incident's clock
        // runs faster than the requests', and in the play it would be hours.
        .open_max(limits.open)
        .build()?;
    Ok(Breakers::with(policy))
}

/// One change of the circuit, at its time in the play.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) at: Duration,
    pub(crate) to: CircuitState,
    pub(crate) reason: String,
}

/// What the primary's circuit did in the play.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Circuit {
    pub(crate) changes: Vec<Change>,
}

impl Circuit {
    pub(crate) fn of_primary(history: &[Transition], began: Instant) -> Circuit {
        let changes = history.iter().filter(|transition| {
            let target = transition.key.as_target();
            target.is_some_and(|target| target.provider() == PRIMARY)
        });
        Circuit {
            changes: changes
                .map(|transition| Change {
                    at: transition.at.saturating_duration_since(began),
                    to: transition.to,
                    reason: transition.reason.to_string(),
                })
                .collect(),
        }
    }

    /// Its states until `end`, without a gap: since when, until when.
    pub(crate) fn spans(
        &self,
        end: Duration,
    ) -> impl Iterator<Item = (Duration, Duration, CircuitState)> {
        let begin = (Duration::ZERO, CircuitState::Closed);
        let changes = self.changes.iter().map(|change| (change.at, change.to));
        let starts = std::iter::once(begin).chain(changes);
        let ends = (self.changes.iter().map(|change| change.at)).chain([end]);
        (starts.zip(ends)).map(move |((from, state), to)| (from.min(end), to.min(end), state))
    }

    /// How often it opened after having been closed.
    pub(crate) fn outages(&self) -> usize {
        let states = self.spans(Duration::MAX).map(|(_, _, state)| state);
        let states: Vec<_> = states.collect();
        let opened = |pair: &&[CircuitState]| *pair == [CircuitState::Closed, CircuitState::Open];
        states.windows(2).filter(|pair| opened(pair)).count()
    }

    /// How often it let trial calls through.
    pub(crate) fn trials(&self) -> usize {
        let half_open = |change: &&Change| change.to == CircuitState::HalfOpen;
        self.changes.iter().filter(half_open).count()
    }

    /// From `from` to the first time that it opened, and why.
    pub(crate) fn opened_after(&self, from: Duration) -> Option<(Duration, &str)> {
        self.first(CircuitState::Open, from)
    }

    /// From `from` to the first time that it closed, and why.
    pub(crate) fn closed_after(&self, from: Duration) -> Option<(Duration, &str)> {
        self.first(CircuitState::Closed, from)
    }

    fn first(&self, to: CircuitState, from: Duration) -> Option<(Duration, &str)> {
        let mut changes = self.changes.iter();
        let change = changes.find(|change| change.to == to && change.at >= from)?;
        Some((change.at - from, &change.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn circuit(changes: &[(u32, CircuitState)]) -> Circuit {
        let change = |(at, to): &(u32, CircuitState)| Change {
            at: *at * S,
            to: *to,
            reason: format!("at {at}"),
        };
        Circuit {
            changes: changes.iter().map(change).collect(),
        }
    }

    #[test]
    fn its_states_fill_the_play() {
        use CircuitState::{Closed, HalfOpen, Open};
        let circuit = circuit(&[
            (3, Open),
            (5, HalfOpen),
            (6, Open),
            (8, HalfOpen),
            (9, Closed),
        ]);
        let spans: Vec<_> = circuit.spans(7 * S).collect();
        assert_eq!(
            spans[..4],
            [
                (Duration::ZERO, 3 * S, Closed),
                (3 * S, 5 * S, Open),
                (5 * S, 6 * S, HalfOpen),
                (6 * S, 7 * S, Open),
            ]
        );
        assert!(spans[4..].iter().all(|(from, to, _)| from == to));
        assert_eq!((circuit.outages(), circuit.trials()), (1, 2));
        assert_eq!(circuit.opened_after(2 * S), Some((S, "at 3")));
        assert_eq!(circuit.closed_after(4 * S), Some((5 * S, "at 9")));
        assert_eq!(circuit.closed_after(10 * S), None);
        assert_eq!(
            Circuit::default().spans(S).collect::<Vec<_>>(),
            [(Duration::ZERO, S, Closed)]
        );
    }
}
