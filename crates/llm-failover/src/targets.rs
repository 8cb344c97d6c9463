//! [`Targets`]: whom a request may be sent to, and who rests.

mod choose;

pub(crate) use choose::{Next, Order};

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use llm_call::{Abilities, Call, Capability, InvalidTarget, Outcome, Target};
use tokio::time::Instant;

use crate::rest::{Pace, Rested, Rests};

/// The targets of a [`FailoverLayer`](crate::FailoverLayer): a handle that the user makes, keeps
/// and passes in.
///
/// # Example
///
/// ```
/// use llm_failover::Targets;
///
/// // The primary first, the others when it cannot answer.
/// let targets = Targets::ordered(["openai:gpt-4.1-mini", "azure:gpt-4.1-mini"])?;
/// // Three calls in four begin at the first one.
/// let spread = Targets::weighted([("eu:mistral-small", 3), ("us:mistral-small", 1)])?;
/// # Ok::<(), llm_failover::InvalidTargets>(())
/// ```
///
/// # Clone and shared state
///
/// A clone is the same set: who rests is known to all. [`snapshot`](Targets::snapshot),
/// [`drain`](Targets::drain) and [`wake`](Targets::wake) work at any time.
#[derive(Clone)]
pub struct Targets(Arc<Shared>);

struct Shared {
    settings: Settings,
    state: Mutex<Vec<Live>>,
}

#[derive(Clone)]
struct Settings {
    entries: Vec<Entry>,
    weighted: bool,
    pace: Pace,
    per_tenant: bool,
}

#[derive(Clone)]
struct Entry {
    base: Target,
    weight: u32,
    /// The target for each capability, where the model is fixed; the last one is for none.
    ready: Option<Vec<Target>>,
    /// What it can do, if that is known.
    abilities: Option<Abilities>,
}

#[derive(Clone, Debug, Default)]
struct Live {
    rests: Rests,
    drained: bool,
}

/// Targets that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTargets {
    /// There is no target, so nothing could ever be sent.
    Empty,
    /// More than 64 targets.
    TooMany,
    /// The same target twice; a second key or region needs a second provider name.
    Twice(Target),
    /// All weights are zero.
    NoWeight,
    /// A text that is no target.
    Target(InvalidTarget),
}

impl fmt::Display for InvalidTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidTargets::Empty => f.write_str("no targets: give at least one"),
            InvalidTargets::TooMany => f.write_str("too many targets: at most 64"),
            InvalidTargets::Twice(target) => write!(
                f,
                "target {target} is given twice; give a second key or region its own provider name"
            ),
            InvalidTargets::NoWeight => {
                f.write_str("all weights are zero: give at least one target a weight")
            }
            InvalidTargets::Target(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InvalidTargets {}

impl From<InvalidTarget> for InvalidTargets {
    fn from(error: InvalidTarget) -> Self {
        InvalidTargets::Target(error)
    }
}

/// What one target is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetState {
    /// Which one.
    pub target: Target,
    /// How much longer it rests; `None` when it does not.
    pub rests: Option<Duration>,
    /// How many tenants it rests for, where rests are kept apart by tenant.
    pub resting_tenants: usize,
    /// Whether it was taken out by [`Targets::drain`].
    pub drained: bool,
}

impl Targets {
    /// Targets in order: each call begins at the first that does not rest.
    ///
    /// # Errors
    ///
    /// When there is none, one is given twice, or a text is no target.
    pub fn ordered<T: AsRef<str>>(
        targets: impl IntoIterator<Item = T>,
    ) -> Result<Targets, InvalidTargets> {
        Targets::build(targets.into_iter().map(|target| (target, 1)), false)
    }

    /// Targets at random by weight: each call begins at one drawn by weight, and fails over to the
    /// others in an order drawn the same way. A target of weight 0 is only failed over to. Calls of
    /// one [affinity](llm_call::CallSettings::affinity) draw the same order.
    ///
    /// # Errors
    ///
    /// As [`Targets::ordered`], and when all weights are zero.
    pub fn weighted<T: AsRef<str>>(
        targets: impl IntoIterator<Item = (T, u32)>,
    ) -> Result<Targets, InvalidTargets> {
        Targets::build(targets.into_iter(), true)
    }

    fn build<T: AsRef<str>>(
        targets: impl Iterator<Item = (T, u32)>,
        weighted: bool,
    ) -> Result<Targets, InvalidTargets> {
        let mut entries: Vec<Entry> = Vec::new();
        for (text, weight) in targets {
            let base: Target = text.as_ref().parse()?;
            if entries.iter().any(|entry| entry.base == base) {
                return Err(InvalidTargets::Twice(base));
            }
            let ready = match base.model() {
                None => None,
                Some(_) => {
                    let with = |c: &Capability| base.complete(None, Some(*c));
                    let mut ready: Vec<_> =
                        Capability::ALL.iter().map(with).collect::<Result<_, _>>()?;
                    ready.push(base.clone());
                    Some(ready)
                }
            };
            entries.push(Entry {
                base,
                weight,
                ready,
                abilities: None,
            });
        }
        match entries.len() {
            0 => return Err(InvalidTargets::Empty),
            1..=64 => {}
            _ => return Err(InvalidTargets::TooMany),
        }
        if entries.iter().all(|entry| entry.weight == 0) {
            return Err(InvalidTargets::NoWeight);
        }
        Ok(Targets::of(Settings {
            entries,
            weighted,
            pace: Pace {
                first: Duration::from_secs(10),
                longest: Duration::from_secs(60),
                quota: Duration::from_secs(600),
            },
            per_tenant: false,
        }))
    }

    fn of(settings: Settings) -> Targets {
        let state = Mutex::new(vec![Live::default(); settings.entries.len()]);
        Targets(Arc::new(Shared { settings, state }))
    }

    /// How long a rate-limited target rests that gave no hint: `first`, doubling with each further
    /// such answer to `longest`. Default: 10 s to 60 s.
    ///
    /// As every setter: the result is a set of its own, in which nobody rests yet.
    #[must_use]
    pub fn rest(self, first: Duration, longest: Duration) -> Targets {
        let mut settings = self.0.settings.clone();
        settings.pace.first = first;
        settings.pace.longest = longest;
        Targets::of(settings)
    }

    /// How long a target rests whose quota is spent and that gave no hint. Default: 10 min.
    #[must_use]
    pub fn quota_rest(self, rest: Duration) -> Targets {
        let mut settings = self.0.settings.clone();
        settings.pace.quota = rest;
        Targets::of(settings)
    }

    /// Keeps the rests of each [tenant](Call::tenant) apart. To be used where callers bring keys of
    /// their own: one caller's rate limit or spent quota is then not everybody's. Calls without a
    /// tenant share one rest. The 10,000 tenants that rest longest are remembered for each target.
    #[must_use]
    pub fn rests_per_tenant(self) -> Targets {
        let mut settings = self.0.settings.clone();
        settings.per_tenant = true;
        Targets::of(settings)
    }

    /// What each target can do, asked once for each: with a catalogue of `llm-provider`,
    /// `|target| catalog.abilities(target).cloned()`. Default: everything.
    ///
    /// A target that lacks what a call needs, as [`IdentifyLayer`](llm_call::IdentifyLayer) has read
    /// it from the request, is passed over, and the [ledger](llm_call::Ledger) says so; a call that
    /// no target can serve is [`Refusal::Unable`](llm_call::Refusal::Unable), and the error names what
    /// it needs. How many tokens a request has is an estimate, so targets whose context window is too
    /// small by it are asked last.
    #[must_use]
    pub fn abilities(self, of: impl Fn(&Target) -> Option<Abilities>) -> Targets {
        let mut settings = self.0.settings.clone();
        for entry in &mut settings.entries {
            entry.abilities = of(&entry.base);
        }
        Targets::of(settings)
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.settings.entries.len()
    }

    /// The targets as they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        self.0.settings.entries.iter().map(|entry| &entry.base)
    }

    /// What each target is doing now.
    pub fn snapshot(&self) -> Vec<TargetState> {
        let now = Instant::now();
        let state = self.state();
        let pairs = self.0.settings.entries.iter().zip(state.iter());
        pairs
            .map(|(entry, live)| TargetState {
                target: entry.base.clone(),
                rests: match live.rests.at(None, now) {
                    Rested::Yes => None,
                    Rested::IfNeeded(until) | Rested::No(until) => Some(until - now),
                },
                resting_tenants: live.rests.resting(now),
                drained: live.drained,
            })
            .collect()
    }

    /// Takes a target out by hand. Calls under way go on. Returns whether the target is one of
    /// these.
    pub fn drain(&self, target: &Target) -> bool {
        self.change(target, |live| live.drained = true)
    }

    /// Takes a drained target back in. Returns whether the target is one of these.
    pub fn restore(&self, target: &Target) -> bool {
        self.change(target, |live| live.drained = false)
    }

    /// Ends a target's rest by hand. Returns whether the target is one of these.
    pub fn wake(&self, target: &Target) -> bool {
        self.change(target, |live| live.rests = Rests::default())
    }

    fn change(&self, target: &Target, change: impl FnOnce(&mut Live)) -> bool {
        let index = self
            .0
            .settings
            .entries
            .iter()
            .position(|e| e.base == *target);
        let mut state = self.state();
        match index.and_then(|index| state.get_mut(index)) {
            Some(live) => {
                change(live);
                true
            }
            None => false,
        }
    }

    /// The outcome of an attempt at the target with this index.
    pub(crate) fn record(&self, index: usize, call: &Call, outcome: Outcome, now: Instant) {
        let tenant = self.tenant(call);
        if let Some(live) = self.state().get_mut(index) {
            live.rests
                .record(tenant, outcome, self.0.settings.pace, now);
        }
    }

    /// Whose rests count for a call.
    fn tenant<'a>(&self, call: &'a Call) -> Option<&'a str> {
        call.tenant().filter(|_| self.0.settings.per_tenant)
    }

    fn state(&self) -> MutexGuard<'_, Vec<Live>> {
        // Each entry is written whole, so a poisoned state is a sound one.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.snapshot()).finish()
    }
}
