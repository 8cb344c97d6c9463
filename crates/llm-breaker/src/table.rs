//! The circuits by their keys, and which of them are forgotten when there are too many.

use std::{hash::RandomState, sync::Arc};

use hashbrown::HashTable;
use tokio::time::Instant;

use llm_call::Target;

use crate::{Forced, Key, circuit::Shared, key::KeyRef};

#[derive(Debug)]
pub(crate) struct Table {
    circuits: HashTable<Arc<Shared>>,
    /// What is forced for targets, the last word last.
    rules: Vec<(Target, Forced)>,
    random: RandomState,
    max: usize,
    /// At how many circuits the idle ones are next looked for. It doubles with what is left, so
    /// that looking costs each new circuit the same.
    sweep_at: usize,
    /// New keys to turn away before circuits are looked through again: none could go.
    turned_away: usize,
}

/// The least number of circuits that is worth sweeping.
const FEW: usize = 64;

impl Table {
    pub(crate) fn new(max: usize) -> Table {
        let mut table = Table {
            circuits: HashTable::new(),
            rules: Vec::new(),
            random: RandomState::new(),
            max: 0,
            sweep_at: 0,
            turned_away: 0,
        };
        table.set_max(max);
        table
    }

    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max.max(1);
        self.sweep_at = FEW;
        self.turned_away = 0;
    }

    pub(crate) fn hash(&self, key: KeyRef<'_>) -> u64 {
        key.hash(&self.random)
    }

    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<&Arc<Shared>> {
        let same = |shared: &Arc<Shared>| shared.key.borrow() == key;
        self.circuits.find(self.hash(key), same)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Shared>> {
        self.circuits.iter()
    }

    /// From now on circuits of the target are made as forced.
    pub(crate) fn force(&mut self, target: &Target, forced: Forced) {
        self.release(target);
        self.rules.push((target.clone(), forced));
    }

    /// No longer, also for more particular targets.
    pub(crate) fn release(&mut self, target: &Target) {
        self.rules.retain(|(other, _)| !covers(target, other));
    }

    /// Forces a new circuit as its target is; whether it is.
    pub(crate) fn apply_rule(&self, shared: &Shared) -> bool {
        let rule = self.rule(&shared.key);
        if let Some(forced) = rule {
            shared.core().force(forced, Instant::now());
        }
        rule.is_some()
    }

    /// What is forced for the target of a key.
    pub(crate) fn rule(&self, key: &Key) -> Option<Forced> {
        let mut rules = self.rules.iter().rev();
        let rule = rules.find(|(target, _)| key.is_of(target));
        rule.map(|(_, forced)| *forced)
    }

    /// Puts a circuit in, whatever the number, forced as its target is. The key must be new.
    pub(crate) fn insert(&mut self, shared: Arc<Shared>) {
        self.apply_rule(&shared);
        let hash = shared.hash;
        self.circuits
            .insert_unique(hash, shared, |other| other.hash);
    }

    /// Whether there is room for one more; forgets circuits for it where it has to.
    pub(crate) fn make_room(&mut self, now: Instant) -> bool {
        let len = self.circuits.len();
        if len < self.sweep_at.min(self.max) {
            return true;
        }
        if self.turned_away > 0 {
            self.turned_away -= 1;
            return false;
        }
        self.circuits
            .retain(|shared| is_used(shared) || !shared.core().is_idle(now));
        let left = self.circuits.len();
        self.sweep_at = FEW.max(left * 2);
        if left < self.max {
            return true;
        }
        let batch = self.max.div_ceil(8);
        self.forget_oldest(left - self.max + batch, now);
        let room = self.max.saturating_sub(self.circuits.len());
        self.turned_away = batch.min(FEW).saturating_sub(room);
        room > 0
    }

    /// Forgets those that are longest out of use among those that may go, at most so many.
    fn forget_oldest(&mut self, most: usize, now: Instant) {
        let may_go = |shared: &Arc<Shared>| {
            let core = shared.core();
            (!is_used(shared) && core.may_go(now)).then(|| core.last_used())
        };
        let mut ages: Vec<_> = self.circuits.iter().filter_map(may_go).collect();
        if ages.is_empty() {
            return;
        }
        let last = most.min(ages.len()) - 1;
        let (_, newest, _) = ages.select_nth_unstable(last);
        let (newest, mut gone) = (*newest, 0);
        self.circuits.retain(|shared| {
            let goes = gone < most && may_go(shared).is_some_and(|used| used <= newest);
            gone += usize::from(goes);
            !goes
        });
    }
}

/// Whether a target is `scope` or a more particular one.
pub(crate) fn covers(scope: &Target, target: &Target) -> bool {
    let model = scope.model();
    let capability = scope.capability();
    scope.provider() == target.provider()
        && (model.is_none() || model == target.model())
        && (capability.is_none() || capability == target.capability())
}

/// Whether a call or a handle holds it. Who looks it up needs the lock that is held here.
fn is_used(shared: &Arc<Shared>) -> bool {
    Arc::strong_count(shared) > 1
}
