//! [`Call`]: one logical request, as all its layers and copies see it.

mod attempt;
mod facts;
mod record;
mod settings;

pub use attempt::{Attempt, Cause};
pub use facts::Facts;
pub use settings::{CallSettings, MAX_ATTEMPTS, Workload};

pub(crate) use record::Record;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    Ending, Error, Kind, Outcome, Phase, Refusal, Target,
    ledger::{Entry, Ledger},
};

/// One logical request, shared by all its layers and copies.
///
/// It travels in the request's extensions and is the only protocol between the layers that send
/// more than once: how many attempts are left, until when, which targets are taken, why an inner
/// future was dropped, and what happened so far ([`Ledger`]).
///
/// # Clone and shared state
///
/// A clone is the same call. Its state sits behind one mutex that is held for a few instructions
/// and never across a poll.
#[derive(Clone)]
pub struct Call(Arc<Shared>);

struct Shared {
    settings: CallSettings,
    opened: Instant,
    facts: OnceLock<Facts>,
    core: Mutex<Core>,
}

/// The state of a call. Pure: time is an argument.
#[derive(Debug)]
struct Core {
    deadline: Option<Instant>,
    numbered: u32,
    sent: u32,
    counted: bool,
    /// Targets that a copy is using or has used.
    taken: Vec<Target>,
    ledger: Ledger,
}

impl Call {
    /// Opens a call now.
    pub fn open(settings: CallSettings) -> Call {
        let opened = Instant::now();
        let deadline = settings.timeout.and_then(|t| opened.checked_add(t));
        Call(Arc::new(Shared {
            settings,
            opened,
            facts: OnceLock::new(),
            core: Mutex::new(Core {
                deadline,
                numbered: 0,
                sent: 0,
                counted: false,
                taken: Vec::new(),
                ledger: Ledger::default(),
            }),
        }))
    }

    /// The call of a request; opens one with default settings where there is none.
    pub fn of<B>(request: &mut http::Request<B>) -> Call {
        if let Some(call) = request.extensions().get::<Call>() {
            return call.clone();
        }
        let call = Call::open(CallSettings::new());
        request.extensions_mut().insert(call.clone());
        call
    }

    /// Whose call this is.
    pub fn tenant(&self) -> Option<&str> {
        self.0.settings.tenant.as_deref()
    }

    /// Whose call this is, as a name to keep.
    pub fn tenant_name(&self) -> Option<Arc<str>> {
        self.0.settings.tenant.clone()
    }

    /// Which class its tenant is of.
    pub fn class(&self) -> Option<&str> {
        self.0.settings.class.as_deref()
    }

    /// Whether answering it does more than to answer.
    pub fn has_side_effects(&self) -> bool {
        self.0.settings.side_effects
    }

    /// The most retries on one target that the call allows; `None` where it leaves that to the layer.
    pub fn retries(&self) -> Option<u32> {
        self.0.settings.retries
    }

    /// What kind of work this is.
    pub fn workload(&self) -> Workload {
        self.0.settings.workload
    }

    /// A number that calls of one [affinity](CallSettings::affinity) have in common.
    pub fn affinity(&self) -> Option<u64> {
        self.0.settings.affinity
    }

    /// When the call was opened.
    pub fn opened(&self) -> Instant {
        self.0.opened
    }

    /// What was read from the request, once [`IdentifyLayer`](crate::IdentifyLayer) has read it.
    pub fn facts(&self) -> Option<&Facts> {
        self.0.facts.get()
    }

    /// Writes down what was read from the request; the first writer wins.
    pub fn set_facts(&self, facts: Facts) {
        let _ = self.0.facts.set(facts);
    }

    /// Until when the call must be answered.
    pub fn deadline(&self) -> Option<Instant> {
        self.core().deadline
    }

    /// Makes the deadline at most `deadline`. It never moves back.
    pub fn tighten(&self, deadline: Instant) {
        let mut core = self.core();
        core.deadline = Some(core.deadline.map_or(deadline, |d| d.min(deadline)));
    }

    /// A number for one more copy of the request; the first is 1.
    pub fn number(&self) -> u32 {
        let mut core = self.core();
        core.numbered += 1;
        core.numbered
    }

    /// The outcome of a failure that a layer found itself, by the matrix of this call.
    pub fn outcome(&self, kind: Kind) -> Outcome {
        match &self.0.settings.matrix {
            Some(matrix) => matrix.outcome(kind),
            None => Outcome::of(kind),
        }
    }

    /// Attempts sent so far.
    pub fn sent(&self) -> u32 {
        self.core().sent
    }

    /// The fields of the request that must reach the target.
    pub fn required(&self) -> &[Box<str>] {
        &self.0.settings.required
    }

    /// Attempts that may still be sent, over all layers.
    pub fn attempts_left(&self) -> u32 {
        self.0
            .settings
            .max_attempts
            .saturating_sub(self.core().sent)
    }

    /// Takes a target for this call, unless a copy of the request is using it or has used it.
    ///
    /// A leased target is used up for this call, whatever becomes of the copy; only
    /// [`Lease::give_back`] frees it, for a target that was never reached.
    pub fn lease(&self, target: &Target) -> Option<Lease> {
        let mut core = self.core();
        if core.taken.contains(target) {
            return None;
        }
        core.taken.push(target.clone());
        drop(core);
        Some(Lease {
            call: self.clone(),
            target: target.clone(),
        })
    }

    /// Whether [`Call::lease`] would get this target.
    pub fn is_free(&self, target: &Target) -> bool {
        !self.core().taken.contains(target)
    }

    /// Says why the copy numbered `n` is about to be dropped. To be called before the drop, in the
    /// same poll. The first cause stays. Where copies share a number, since a layer clones requests
    /// without numbering them, the last one that is under way is meant.
    pub fn set_cause(&self, n: u32, cause: Cause) {
        self.core().ledger.set_cause(n, cause);
    }

    /// The same for all that is under way of one copy of a [hedged](Attempt::hedge) request,
    /// whatever targets it has gone to since.
    pub fn set_cause_hedge(&self, hedge: u32, cause: Cause) {
        self.core()
            .ledger
            .set_cause_if(|entry| entry.hedge == hedge, cause);
    }

    /// What is under way of one copy of a [hedged](Attempt::hedge) request: where it was sent last,
    /// and when; `None` while nothing is.
    pub fn under_way(&self, hedge: u32) -> Option<(Option<Target>, Instant)> {
        let core = self.core();
        let open = |entry: &&Entry| entry.hedge == hedge && entry.sent && entry.kind.is_none();
        let entry = core.ledger.entries.iter().rev().find(open)?;
        Some((entry.target.clone(), self.0.opened + entry.opened))
    }

    /// Says why all copies under way are about to be dropped, as [`Call::set_cause`] does for one.
    pub fn set_cause_all(&self, cause: Cause) {
        self.core().ledger.set_cause_if(|_| true, cause);
    }

    /// Whether this call's good answer is still to be counted: true for the first who asks. So a
    /// budget that lives on answered calls gets one deposit a call, however many layers pay in.
    pub fn count_answered(&self) -> bool {
        !std::mem::replace(&mut self.core().counted, true)
    }

    /// Writes down that a layer refused the copy numbered `n` before it was sent.
    pub fn note_refused(&self, n: u32, target: Option<&Target>, kind: Kind) {
        let at = self.0.opened.elapsed();
        self.core().ledger.entries.push(Entry {
            kind: Some(kind),
            ended: Some(at),
            ..Entry::new(n, target.cloned(), at)
        });
    }

    /// Writes down that a layer waits before it sends again.
    pub fn note_wait(&self, wait: Duration) {
        let mut core = self.core();
        core.ledger.waited = core.ledger.waited.saturating_add(wait);
    }

    /// What happened so far.
    pub fn ledger(&self) -> Ledger {
        self.core().ledger.clone()
    }

    /// How the whole call ended; the first word stays.
    pub fn finish(&self, ending: Ending) {
        let at = self.0.opened.elapsed();
        self.core().ledger.finish(ending, at);
    }

    /// The last gate before the wire: counts the attempt and opens its record, or refuses it.
    pub(crate) fn send(&self, attempt: &Attempt, now: Instant) -> Result<Record, Error> {
        let mut core = self.core();
        let refusal = if core.deadline.is_some_and(|deadline| deadline <= now) {
            Some(Kind::TimedOut(Phase::Deadline))
        } else if core.sent >= self.0.settings.max_attempts {
            Some(Kind::Refused(Refusal::AttemptsSpent))
        } else {
            None
        };
        let at = now.saturating_duration_since(self.0.opened);
        let mut entry = Entry::new(attempt.n, attempt.target.clone(), at);
        entry.hedge = attempt.hedge;
        entry.lost = attempt.lost.clone();
        if let Some(kind) = refusal {
            entry.kind = Some(kind);
            entry.ended = Some(at);
            core.ledger.entries.push(entry);
            let outcome = self.outcome(kind);
            return Err(Error::from(outcome).with_target(attempt.target.clone()));
        }
        core.sent += 1;
        entry.sent = true;
        // Most calls are one attempt, and a stream holds its ledger for long.
        if core.ledger.entries.is_empty() {
            core.ledger.entries.reserve_exact(1);
        }
        core.ledger.entries.push(entry);
        let index = core.ledger.entries.len() - 1;
        drop(core);
        Ok(Record::new(self.clone(), index, attempt.drop_stops_bill))
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing under the lock can panic half-way, so a poisoned state is a whole one.
        self.0.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.core();
        f.debug_struct("Call")
            .field("tenant", &self.0.settings.tenant)
            .field("workload", &self.0.settings.workload)
            .field("deadline", &core.deadline)
            .field("sent", &core.sent)
            .field("taken", &core.taken)
            .finish_non_exhaustive()
    }
}

/// A target that one copy of a call has taken.
#[derive(Debug)]
#[must_use = "a lease says which target to send to"]
pub struct Lease {
    call: Call,
    target: Target,
}

impl Lease {
    /// The leased target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The target was never reached (a bulkhead was full, a circuit open): another copy of this
    /// call may still take it.
    pub fn give_back(self) {
        self.call.core().taken.retain(|taken| *taken != self.target);
    }
}
