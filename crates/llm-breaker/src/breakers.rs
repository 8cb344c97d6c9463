//! [`Breakers`]: the circuits of one process.

use std::{
    fmt,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use llm_call::Target;
use tokio::time::{Instant, timeout_at};

use crate::{
    Circuit, Forced, Key, Policy, Snapshot, Transition, circuit::Shared, history::History,
    key::KeyRef, table::Table,
};

/// How many circuits are kept, unless [`Breakers::max_keys`] says otherwise.
const MAX_KEYS: usize = 10_000;

/// The circuits that calls share, one for each [`Key`]: what a [`BreakerLayer`](crate::BreakerLayer)
/// is made with, and what an operator looks at.
///
/// # Clone and shared state
///
/// A clone is the same set. Looking up a known circuit takes a read lock and allocates nothing;
/// each circuit has a lock of its own that is held for a few instructions and never across a poll.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_breaker::{Breakers, Settings};
///
/// // A local model is given more time than the others.
/// let patient = Settings::new().slow_first_token(Duration::from_secs(15)).build()?;
/// let breakers = Breakers::by(move |key| match key.as_target() {
///     Some(target) if target.provider() == "ollama" => patient.clone(),
///     _ => Default::default(),
/// });
///
/// let log = breakers.clone();
/// async move {
///     let mut last = 0;
///     loop {
///         let change = log.changed_after(last).await;
///         println!("{change}");
///         last = change.number;
///     }
/// };
/// # Ok::<(), llm_breaker::InvalidSettings>(())
/// ```
#[derive(Clone)]
pub struct Breakers(Arc<Set>);

struct Set {
    policy: Box<dyn Fn(&Key) -> Policy + Send + Sync>,
    table: RwLock<Table>,
    history: Arc<History>,
    unwatched: AtomicU64,
}

impl Breakers {
    /// Circuits with the default settings.
    pub fn new() -> Breakers {
        Breakers::with(Policy::default())
    }

    /// Circuits with these settings.
    pub fn with(policy: Policy) -> Breakers {
        Breakers::by(move |_| policy.clone())
    }

    /// Circuits with settings that depend on the key. The function is asked when a key is new, and
    /// holds no lock then.
    pub fn by(policy: impl Fn(&Key) -> Policy + Send + Sync + 'static) -> Breakers {
        Breakers(Arc::new(Set {
            policy: Box::new(policy),
            table: RwLock::new(Table::new(MAX_KEYS)),
            history: Arc::new(History::new()),
            unwatched: AtomicU64::new(0),
        }))
    }

    /// How many circuits calls may make, at least one. Default: 10,000.
    ///
    /// When there are more, those are forgotten that are closed and longest out of use; from 64 on
    /// also those with nothing in their windows, whose totals alone are lost. One that
    /// is open, half-open, forced or in use never is, unless it was left alone for longer than
    /// [`open_max`](crate::Settings::open_max) after its open time. If none can go, calls of a new
    /// key go through without a circuit: see [`Breakers::unwatched`].
    #[must_use]
    pub fn max_keys(self, keys: usize) -> Breakers {
        self.write().set_max(keys);
        self
    }

    /// Refuses all calls to a target until it is released: in the circuits that there are and in
    /// those that come, of every class. What the target leaves out matches anything: `openai` is the
    /// whole provider, `openai:gpt-4.1-mini` each capability of the model.
    ///
    /// # Example
    ///
    /// ```
    /// use llm_breaker::{Breakers, CircuitState};
    ///
    /// let breakers = Breakers::new();
    /// breakers.force_open(&"openai:gpt-4.1-mini".parse()?); // maintenance
    /// let streaming = breakers.target(&"openai:gpt-4.1-mini:streaming".parse()?);
    /// assert_eq!(streaming.state(), CircuitState::Open);
    /// breakers.release(&"openai".parse()?); // the next call is a trial
    /// # Ok::<(), llm_call::InvalidTarget>(())
    /// ```
    pub fn force_open(&self, target: &Target) {
        self.force(target, Forced::Open);
    }

    /// Lets all calls to a target through until it is released, whatever becomes of them. Matches as
    /// [`Breakers::force_open`] does.
    pub fn force_closed(&self, target: &Target) {
        self.force(target, Forced::Closed);
    }

    /// Ends what was forced for a target, and for every more particular one, by whichever handle.
    /// What is forced for a wider one stays. See [`Circuit::release`].
    pub fn release(&self, target: &Target) {
        self.write().release(target);
        for circuit in self.matching(target) {
            let wider = self.read().rule(circuit.key());
            match wider {
                Some(forced) => circuit.force(forced),
                None => circuit.release(),
            }
        }
    }

    fn force(&self, target: &Target, forced: Forced) {
        // In this order: a circuit that is made meanwhile heeds the rule.
        self.write().force(target, forced);
        for circuit in self.matching(target) {
            circuit.force(forced);
        }
    }

    fn matching(&self, target: &Target) -> Vec<Circuit> {
        let table = self.read();
        let circuits = table.iter().filter(|shared| shared.key.is_of(target));
        circuits.cloned().map(Circuit).collect()
    }

    /// The circuit of a key, if a call or a handle has made it.
    pub fn get(&self, key: &Key) -> Option<Circuit> {
        self.read().find(key.borrow()).cloned().map(Circuit)
    }

    /// The circuit of a key. Makes it where there is none, also when there are too many, so that it
    /// can be forced before the first call.
    pub fn circuit(&self, key: &Key) -> Circuit {
        self.get(key).unwrap_or_else(|| {
            let shared = self.make(key.clone());
            let mut table = self.write();
            if let Some(found) = table.find(key.borrow()) {
                return Circuit(found.clone());
            }
            // Whoever asks for it by hand gets it.
            table.make_room(Instant::now());
            table.insert(shared.clone());
            drop(table);
            shared.publish();
            Circuit(shared)
        })
    }

    /// The circuit of exactly this target, for calls without a class. As [`Breakers::circuit`].
    ///
    /// In a stack, calls have their target *completed* with the model and the capability of the
    /// request: one that failover knows as `openai:gpt-4.1-mini` has the circuits
    /// `openai:gpt-4.1-mini:streaming` and `openai:gpt-4.1-mini:chat`. To operate all of them, use
    /// [`Breakers::force_open`].
    pub fn target(&self, target: &Target) -> Circuit {
        self.circuit(&Key::target(target.clone()))
    }

    /// All circuits, in no order.
    pub fn circuits(&self) -> Vec<Circuit> {
        self.read().iter().cloned().map(Circuit).collect()
    }

    /// All circuits as they are now, in no order.
    pub fn snapshot(&self) -> Vec<Snapshot> {
        self.circuits().iter().map(Circuit::snapshot).collect()
    }

    /// The last 1,000 transitions of all circuits, the oldest first.
    pub fn history(&self) -> Vec<Transition> {
        self.0.history.kept()
    }

    /// Calls that went through without a circuit, since there were too many keys.
    pub fn unwatched(&self) -> u64 {
        self.0.unwatched.load(Ordering::Relaxed)
    }

    /// The first transition after this very call, whenever the future is polled. Whoever is to see
    /// all of them uses [`Breakers::changed_after`]: several can come at once.
    pub fn changed(&self) -> impl Future<Output = Transition> + Send + 'static + use<> {
        self.changed_after(self.0.history.last())
    }

    /// The first transition with a higher number than this one; with 0 the first of all. The number
    /// of one transition leads to the next, so none is missed while it is among the last 1,000. Of
    /// those that are gone, it gives the oldest that is left.
    ///
    /// It also keeps the time: a half-open circuit whose time is over moves on while somebody
    /// waits here, although no call comes.
    ///
    /// # Cancellation
    ///
    /// Dropping it loses nothing: what it would have given stands in [`Breakers::history`].
    ///
    /// # Panics
    ///
    /// Waits on `tokio::time`: panics when it is polled outside a Tokio runtime with time enabled.
    pub fn changed_after(
        &self,
        number: u64,
    ) -> impl Future<Output = Transition> + Send + 'static + use<> {
        let breakers = self.clone();
        let mut told = self.0.history.subscribe();
        async move {
            loop {
                if let Some(transition) = breakers.0.history.after(number) {
                    return transition;
                }
                // The sender lives in `breakers`, so there is always one to wait for.
                let told = told.changed();
                match breakers.next_dwell_end() {
                    Some(due) => {
                        if timeout_at(due, told).await.is_err() {
                            breakers.elapse();
                        }
                    }
                    None => {
                        let _ = told.await;
                    }
                }
            }
        }
    }

    /// The circuit of a request; `None` where there are too many already.
    pub(crate) fn watch(&self, key: KeyRef<'_>) -> Option<Arc<Shared>> {
        let found = self.read().find(key).cloned();
        found.or_else(|| self.watch_new(key))
    }

    #[cold]
    fn watch_new(&self, key: KeyRef<'_>) -> Option<Arc<Shared>> {
        let shared = self.make(key.to_key());
        let mut table = self.write();
        if let Some(found) = table.find(key) {
            return Some(found.clone());
        }
        if !table.make_room(Instant::now()) {
            if table.apply_rule(&shared) {
                // It is not kept, does what it is forced to, and is nothing to write down.
                shared.core().changes().clear();
                return Some(shared);
            }
            drop(table);
            self.0.unwatched.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        table.insert(shared.clone());
        drop(table);
        shared.publish();
        Some(shared)
    }

    fn make(&self, key: Key) -> Arc<Shared> {
        let policy = (self.0.policy)(&key);
        let hash = self.read().hash(key.borrow());
        let history = self.0.history.clone();
        Arc::new(Shared::new(key, hash, policy, history, Instant::now()))
    }

    fn next_dwell_end(&self) -> Option<Instant> {
        let table = self.read();
        table
            .iter()
            .filter_map(|shared| shared.core().dwell_end())
            .min()
    }

    fn elapse(&self) {
        let now = Instant::now();
        for circuit in self.circuits() {
            circuit.0.with(|core| core.elapse(now));
        }
    }

    // The table is written whole or, if making a circuit panics, not at all.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Breakers {
    fn default() -> Self {
        Breakers::new()
    }
}

impl fmt::Debug for Breakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As they are: what is printed for a log changes nothing.
        let circuits = self.circuits();
        let states = circuits.iter().map(|Circuit(shared)| {
            let state = shared.core().state();
            (shared.key.to_string(), state)
        });
        f.debug_map().entries(states).finish()
    }
}
