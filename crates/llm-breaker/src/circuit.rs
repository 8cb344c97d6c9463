//! [`Circuit`]: one circuit behind its lock, and the handle on it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use crate::{CircuitState, Forced, Key, Policy, Snapshot, core::Core, history::History};

/// A circuit that calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) key: Key,
    pub(crate) hash: u64,
    pub(crate) policy: Policy,
    core: Mutex<Core>,
    history: Arc<History>,
}

impl Shared {
    pub(crate) fn new(
        key: Key,
        hash: u64,
        policy: Policy,
        history: Arc<History>,
        now: Instant,
    ) -> Shared {
        Shared {
            key,
            hash,
            core: Mutex::new(Core::new(policy.clone(), fastrand::u64(..), now)),
            policy,
            history,
        }
    }

    /// Does something to the circuit, writes down what changed, and wakes who waits for it once
    /// the lock is free.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core();
        let value = change(&mut core);
        let changes = core.changes();
        if changes.is_empty() {
            return value;
        }
        let last = self.history.write(&self.key, changes.drain(..));
        drop(core);
        self.history.wake(last);
        value
    }

    /// Writes down and tells what changed before anybody could see the circuit.
    pub(crate) fn publish(&self) {
        self.with(|_| ());
    }

    /// Looks at it as it is; nothing may change.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing under the lock can panic half-way, so a poisoned state is a whole one.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on one circuit, to look at it and to operate it by hand.
///
/// While it lives, its circuit is not forgotten.
///
/// # Example
///
/// ```
/// use llm_breaker::{Breakers, CircuitState};
///
/// let breakers = Breakers::new();
/// let circuit = breakers.target(&"openai:gpt-4.1-mini:streaming".parse()?);
/// circuit.force_open(); // maintenance: no streamed call goes there
/// assert_eq!(circuit.state(), CircuitState::Open);
/// circuit.release(); // the next call is a trial
/// # Ok::<(), llm_call::InvalidTarget>(())
/// ```
#[derive(Clone)]
pub struct Circuit(pub(crate) Arc<Shared>);

impl Circuit {
    /// Whose circuit it is.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The state now.
    pub fn state(&self) -> CircuitState {
        let now = Instant::now();
        self.0.with(|core| {
            core.elapse(now);
            core.state()
        })
    }

    /// Everything that can be seen of it now.
    pub fn snapshot(&self) -> Snapshot {
        let now = Instant::now();
        self.0.with(|core| core.snapshot(self.0.key.clone(), now))
    }

    /// Refuses every call until it is released or reset. No timer and no late outcome ends that.
    ///
    /// This is one circuit alone; [`Breakers::force_open`](crate::Breakers::force_open) is for all
    /// of a target.
    pub fn force_open(&self) {
        self.force(Forced::Open);
    }

    /// Lets every call through until it is released or reset, whatever becomes of them.
    pub fn force_closed(&self) {
        self.force(Forced::Closed);
    }

    pub(crate) fn force(&self, forced: Forced) {
        let now = Instant::now();
        self.0.with(|core| core.force(forced, now));
    }

    /// Ends what was forced. A circuit that was forced open stays open until the next call, which is
    /// a trial, and closes when trials have succeeded; [`reset`](Circuit::reset) closes it at once.
    /// One that was forced closed begins anew. Does nothing to a circuit that is not forced.
    pub fn release(&self) {
        let now = Instant::now();
        self.0.with(|core| core.release(now));
    }

    /// Closes it and forgets everything but the totals, also what was forced.
    pub fn reset(&self) {
        let now = Instant::now();
        self.0.with(|core| core.reset(now));
    }
}

impl fmt::Debug for Circuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Circuit").field(&self.0.key).finish()
    }
}
