//! [`Snapshot`]: what happened so far.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use llm_call::Target;

/// What [`Hedges`](crate::Hedges) have done so far, and know. Counts never go down.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Whether no hedges are sent.
    pub paused: bool,
    /// Calls that could be hedged, and paid in.
    pub calls: u64,
    /// Calls that could not: no stream was asked for, they have side effects, are too large or have one
    /// attempt left; or nothing is known of them, for want of an `IdentifyLayer` above.
    pub ineligible: u64,
    /// Those of them whose tenant had no token when they came, so that no hedge was prepared.
    pub without_token: u64,
    /// Hedges that were started.
    pub hedges: u64,
    /// Those of them that gave the answer.
    pub won: u64,
    /// Those of them that were never sent (no target was free, a circuit open, a bulkhead full, or
    /// the first copy answered before they were ready). Their tokens went back.
    pub unsent: u64,
    /// Calls with a token that ended without a hedge for a reason, by the reason. One that was answered
    /// before its hedge was due is not among them.
    pub skipped: Skipped,
    /// What is known of each target, in the order of their text, those without a target first.
    pub targets: Vec<TargetTimes>,
}

/// Why hedges were not started. A call counts once, for what stood in the way last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Another call took the last token of the tenant meanwhile.
    pub budget: u64,
    /// The call had met a failure after which nothing is hedged, such as a rate limit or overload.
    pub kind: u64,
    /// It would not have been due before the deadline.
    pub deadline: u64,
    /// The call had no attempt left.
    pub attempts: u64,
    /// The hedges were paused meanwhile.
    pub paused: u64,
    /// Too little was known of the target's times, of a call that thinks or wants a whole answer.
    pub unknown: u64,
    /// The first token had come, and a layer below still held it back.
    pub begun: u64,
}

/// What is known of a target.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TargetTimes {
    /// The target; `None` for requests without one.
    pub target: Option<Target>,
    /// Which of its times.
    pub measure: Measure,
    /// How many copies of requests it is known from; older ones count half, a quarter, and so on.
    pub samples: f64,
    /// How long a call waits here before it is hedged; `None` where too little is known to say.
    pub delay: Option<Duration>,
}

/// What a call waits for. The times of each are known by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// The first token of a stream.
    FirstToken,
    /// The first token of a stream, from a model that is asked to think before it.
    AfterThinking,
    /// All of an answer that is not streamed.
    WholeAnswer,
}

/// Why one hedge was not started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Skip {
    Budget,
    Kind,
    Deadline,
    Attempts,
    Paused,
    Unknown,
    Begun,
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: Count,
    pub(crate) ineligible: Count,
    pub(crate) without_token: Count,
    pub(crate) hedges: Count,
    pub(crate) won: Count,
    pub(crate) unsent: Count,
    budget: Count,
    kind: Count,
    deadline: Count,
    attempts: Count,
    paused: Count,
    unknown: Count,
    begun: Count,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Totals {
    pub(crate) fn skipped(&self, skip: Skip) {
        match skip {
            Skip::Budget => &self.budget,
            Skip::Kind => &self.kind,
            Skip::Deadline => &self.deadline,
            Skip::Attempts => &self.attempts,
            Skip::Paused => &self.paused,
            Skip::Unknown => &self.unknown,
            Skip::Begun => &self.begun,
        }
        .add();
    }

    pub(crate) fn snapshot(&self, paused: bool, targets: Vec<TargetTimes>) -> Snapshot {
        Snapshot {
            paused,
            calls: self.calls.get(),
            ineligible: self.ineligible.get(),
            without_token: self.without_token.get(),
            hedges: self.hedges.get(),
            won: self.won.get(),
            unsent: self.unsent.get(),
            skipped: Skipped {
                budget: self.budget.get(),
                kind: self.kind.get(),
                deadline: self.deadline.get(),
                attempts: self.attempts.get(),
                paused: self.paused.get(),
                unknown: self.unknown.get(),
                begun: self.begun.get(),
            },
            targets,
        }
    }
}
