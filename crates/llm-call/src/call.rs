//! [`Call`]: one logical request, as all its layers and copies see it, and [`Attempt`]: one copy.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    Capability, Dialect, Ending, Error, Kind, Matrix, Outcome, Phase, Refusal, State, Target,
    ledger::{Entry, Ledger},
};

/// Attempts that one call may send over all its layers, the first one included.
pub const MAX_ATTEMPTS: u32 = 6;

/// Why an inner future or body was dropped before its end, by the layer that dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A time limit passed.
    TimedOut(Phase),
    /// Another copy of the request answered first.
    HedgeLost,
}

/// What kind of work a request is, for layers that treat the kinds differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Workload {
    /// A person waits for the answer.
    #[default]
    Interactive,
    /// Nobody waits for this very answer.
    Background,
    /// The service talks to itself: probes, evaluations.
    Internal,
}

/// What the opener of a call says about it.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_call::{Call, CallSettings, Workload};
///
/// let call = Call::open(
///     CallSettings::new()
///         .tenant("acme")
///         .workload(Workload::Background)
///         .max_attempts(2)
///         .timeout(Duration::from_secs(90)),
/// );
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(call);
/// ```
#[derive(Clone, Debug)]
pub struct CallSettings {
    tenant: Option<Arc<str>>,
    workload: Workload,
    max_attempts: u32,
    timeout: Option<Duration>,
    matrix: Option<Arc<Matrix>>,
}

impl CallSettings {
    /// No tenant, interactive, at most six attempts, no time limit of its own.
    pub fn new() -> CallSettings {
        CallSettings {
            tenant: None,
            workload: Workload::Interactive,
            max_attempts: MAX_ATTEMPTS,
            timeout: None,
            matrix: None,
        }
    }

    /// Whose call this is. Default: nobody's in particular.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// What kind of work this is. Default: [`Workload::Interactive`].
    #[must_use]
    pub fn workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self
    }

    /// How often this call may be sent over all layers, the first attempt included. Default: 6.
    /// At least one is sent.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// The verdicts of failures that the layers themselves find for this call (time limits,
    /// refusals). Default: [`Matrix::default`]. What the provider sends is classified by the
    /// [`PeekLayer`](crate::PeekLayer), which has a matrix of its own
    /// ([`Standard::with_matrix`](crate::Standard::with_matrix)): give both the same.
    #[must_use]
    pub fn matrix(mut self, matrix: impl Into<Arc<Matrix>>) -> Self {
        self.matrix = Some(matrix.into());
        self
    }

    /// How long the call may take until it is answered, counted from its opening. Default: as long
    /// as the deadline layer says; a deadline layer shortens this and never lengthens it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Default for CallSettings {
    fn default() -> Self {
        CallSettings::new()
    }
}

/// What was read from the request itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The dialect of the request's path.
    pub dialect: Option<Dialect>,
    /// The model that the caller asked for.
    pub model: Option<Box<str>>,
    /// What is asked for.
    pub capability: Option<Capability>,
    /// Whether the answer is asked for event by event; `None` where the request does not tell.
    pub streamed: Option<bool>,
    /// Whether the model is asked to think first, so that its first token comes late.
    pub thinking: bool,
    /// Estimated input size in tokens (a quarter of the bytes of the body).
    pub input_tokens: u64,
    /// The most output tokens that the caller wants, if it says so.
    pub max_tokens: Option<u64>,
    /// Whether the request defines tools.
    pub tools: bool,
    /// Whether the answer must be JSON.
    pub json: bool,
    /// Whether the request holds images.
    pub images: bool,
    /// How often the caller's own client has already retried (`x-stainless-retry-count`).
    pub caller_retries: u32,
}

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

    /// What kind of work this is.
    pub fn workload(&self) -> Workload {
        self.0.settings.workload
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
    /// same poll. The first cause stays.
    pub fn set_cause(&self, n: u32, cause: Cause) {
        self.core().ledger.set_cause(n, cause);
    }

    /// Says why all copies under way are about to be dropped, as [`Call::set_cause`] does for one.
    pub fn set_cause_all(&self, cause: Cause) {
        self.core().ledger.set_cause_all(cause);
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
        self.core().ledger.waited += wait;
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
        Ok(Record {
            call: self.clone(),
            index,
            open: true,
        })
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

/// One copy of a request on its way to one target: the second of the two extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Where the copy goes; `None` where nobody chose.
    pub target: Option<Target>,
    /// The number of the copy within its call, from [`Call::number`]; 0 where nobody numbered it.
    pub n: u32,
    /// How many other targets are left for this call.
    pub alternatives: u32,
    /// The dialect that the target speaks; `None` where the path tells.
    pub dialect: Option<Dialect>,
    /// A Peek above has counted this copy and keeps its record.
    pub(crate) counted: bool,
}

impl Attempt {
    /// A copy without a target.
    pub fn new(n: u32) -> Attempt {
        Attempt {
            n,
            ..Attempt::default()
        }
    }

    /// The same copy, on its way to a target.
    #[must_use]
    pub fn with_target(mut self, target: Option<Target>) -> Attempt {
        self.target = target;
        self
    }

    /// The same copy, with so many other targets left.
    #[must_use]
    pub fn with_alternatives(mut self, alternatives: u32) -> Attempt {
        self.alternatives = alternatives;
        self
    }

    /// The same copy, to a target of this dialect.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Option<Dialect>) -> Attempt {
        self.dialect = dialect;
        self
    }
}

/// The open record of a sent attempt. Closed once: by [`Record::close`], or on drop with the cause
/// that was set before.
#[derive(Debug)]
pub(crate) struct Record {
    call: Call,
    index: usize,
    open: bool,
}

impl Record {
    /// The first token came.
    pub(crate) fn first_token(&self, at: Instant) {
        let at = at.saturating_duration_since(self.call.0.opened);
        if let Some(entry) = self.call.core().ledger.entries.get_mut(self.index) {
            entry.first_token.get_or_insert(at);
        }
    }

    /// The attempt failed before there was a body.
    pub(crate) fn fail(mut self, outcome: Outcome) {
        self.write(outcome.kind, outcome.retry_after, None, Instant::now());
    }

    /// The body ended.
    pub(crate) fn close(mut self, ending: Ending, state: &State, now: Instant) {
        let hint = match ending {
            Ending::Failed(outcome) => outcome.retry_after,
            _ => None,
        };
        self.write(ending.kind(), hint, Some(state), now);
    }

    fn write(&mut self, kind: Kind, hint: Option<Duration>, state: Option<&State>, now: Instant) {
        self.open = false;
        let opened = self.call.0.opened;
        if let Some(entry) = self.call.core().ledger.entries.get_mut(self.index) {
            // A copy that our own layer ended is written with that layer's reason.
            entry.kind = Some(match (kind, entry.cause) {
                (Kind::Cancelled, Some(Cause::TimedOut(phase))) => Kind::TimedOut(phase),
                _ => kind,
            });
            entry.ended = Some(now.saturating_duration_since(opened));
            entry.retry_after = hint;
            if let Some(state) = state {
                let first = state.first_token();
                entry.first_token = first.map(|at| at.saturating_duration_since(opened));
                entry.usage = state.usage();
                entry.bytes = state.bytes();
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.open {
            self.write(Kind::Cancelled, None, None, Instant::now());
        }
    }
}
