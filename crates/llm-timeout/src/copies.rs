use llm_call::{Call, Cause, Kind, Outcome, Phase, Target};
use tokio::time::Instant;

/// The copies of a request that a limit ends, and the call to tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    call: Option<Call>,
    /// The number of the one copy; `None` for all that are under way.
    n: Option<u32>,
}

impl Copies {
    /// One attempt of a call.
    pub(crate) fn one(call: Option<Call>, n: u32) -> Copies {
        Copies { call, n: Some(n) }
    }

    /// The whole call.
    pub(crate) fn all(call: Call) -> Copies {
        Copies {
            call: Some(call),
            n: None,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.call.as_ref().and_then(Call::deadline)
    }

    /// Whether a token has come to a copy that is still under way.
    pub(crate) fn have_token(&self) -> bool {
        self.call.as_ref().is_some_and(|call| {
            let ledger = call.ledger();
            let mut open = ledger
                .entries
                .iter()
                .filter(|entry| entry.kind.is_none() && self.n.is_none_or(|n| entry.n == n));
            open.any(|entry| entry.first_token.is_some())
        })
    }

    /// What a limit that passed is worth to the call.
    pub(crate) fn outcome(&self, phase: Phase) -> Outcome {
        let kind = Kind::TimedOut(phase);
        match &self.call {
            Some(call) => call.outcome(kind),
            None => Outcome::of(kind),
        }
    }

    /// Writes down why they are about to be dropped.
    pub(crate) fn timed_out(&self, phase: Phase) {
        let cause = Cause::TimedOut(phase);
        match (&self.call, self.n) {
            (Some(call), Some(n)) => call.set_cause(n, cause),
            (Some(call), None) => call.set_cause_all(cause),
            (None, _) => {}
        }
    }

    /// Writes down that there was no time left to send.
    pub(crate) fn not_sent(&self, target: Option<&Target>, phase: Phase) {
        if let Some(call) = &self.call {
            call.note_refused(self.n.unwrap_or(0), target, Kind::TimedOut(phase));
        }
    }
}
