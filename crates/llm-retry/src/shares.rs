//! A share for each target: the pure core of the budget. `now` is an argument.

use std::{collections::HashMap, time::Duration};

use llm_call::Target;
use tokio::time::Instant;

use crate::share::{Share, Terms};

/// The most targets that have a share of their own.
pub(crate) const MOST_TARGETS: usize = 10_000;

/// After so long without use, a share that holds more than its floor may be forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// How often a full table is searched for shares that can go.
const SWEEP: Duration = Duration::from_secs(1);

/// The shares of all targets, and one for those that have none.
#[derive(Debug)]
pub(crate) struct Shares {
    common: Share,
    targets: HashMap<Target, Used>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Used {
    share: Share,
    last: Instant,
}

impl Shares {
    pub(crate) fn new(terms: &Terms) -> Shares {
        Shares {
            common: Share::new(terms),
            targets: HashMap::new(),
            swept: None,
        }
    }

    /// The share of a target; the common one where there is no target, and where there are too
    /// many of them.
    pub(crate) fn share<'a>(
        &mut self,
        target: Option<&'a Target>,
        terms: &Terms,
        now: Instant,
    ) -> (&mut Share, Option<&'a Target>) {
        let Some(target) = target else {
            return (&mut self.common, None);
        };
        if !self.targets.contains_key(target) {
            if !self.has_room(terms, now) {
                return (&mut self.common, None);
            }
            let share = Share::new(terms);
            let used = Used { share, last: now };
            self.targets.insert(target.clone(), used);
        }
        match self.targets.get_mut(target) {
            Some(used) => {
                used.last = now;
                (&mut used.share, Some(target))
            }
            None => (&mut self.common, None),
        }
    }

    /// The share of a target that has a planned retry: it is not forgotten meanwhile.
    pub(crate) fn planned(&mut self, target: Option<&Target>) -> &mut Share {
        match target.and_then(|target| self.targets.get_mut(target)) {
            Some(used) => &mut used.share,
            None => &mut self.common,
        }
    }

    pub(crate) fn balance(&self, target: Option<&Target>, terms: &Terms, now: Instant) -> u64 {
        let share = match target {
            None => self.common,
            Some(target) => self
                .targets
                .get(target)
                .map_or_else(|| Share::new(terms), |used| used.share),
        };
        share.balance(terms, now)
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.targets.keys()
    }

    /// Forgets shares of which a new one would be as good, where the table is full.
    fn has_room(&mut self, terms: &Terms, now: Instant) -> bool {
        if self.targets.len() < MOST_TARGETS {
            return true;
        }
        let due = |swept| now.saturating_duration_since(swept) >= SWEEP;
        if self.swept.is_none_or(due) {
            self.swept = Some(now);
            self.targets.retain(|_, Used { share, last }| {
                let idle = now.saturating_duration_since(*last) >= IDLE;
                !(share.is_new(terms, now) || idle && share.is_replete(terms, now))
            });
        }
        self.targets.len() < MOST_TARGETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::TOKEN;

    const TERMS: Terms = Terms {
        deposit: TOKEN / 10,
        most: 100 * TOKEN,
        floor: 3 * TOKEN,
        refill: Duration::from_secs(10),
    };

    fn target(name: &str) -> Target {
        name.parse().unwrap()
    }

    fn full(now: Instant) -> Shares {
        let mut shares = Shares::new(&TERMS);
        for i in 0..MOST_TARGETS {
            let target = target(&format!("p:{i}"));
            shares
                .share(Some(&target), &TERMS, now)
                .0
                .deposit(&TERMS, now);
        }
        shares
    }

    #[test]
    fn what_was_earned_is_forgotten_after_a_minute_and_not_before() {
        let start = Instant::now();
        let mut shares = full(start);
        let new = target("new:m");
        for (after, own) in [(0, false), (59, false), (60, true)] {
            let now = start + Duration::from_secs(after);
            let (_, key) = shares.share(Some(&new), &TERMS, now);
            assert_eq!(key.is_some(), own, "after {after} s");
        }
        assert_eq!(shares.targets.len(), 1);
    }

    #[test]
    fn a_full_table_is_searched_once_a_second() {
        let start = Instant::now();
        let mut shares = full(start);
        let new = target("new:m");
        assert!(shares.share(Some(&new), &TERMS, start).1.is_none());
        // One would be found now, if anybody looked.
        let spent = target("p:7");
        let used = shares.targets.get_mut(&spent).unwrap();
        used.share = Share::new(&TERMS);
        for (after, own) in [(999, false), (1000, true)] {
            let now = start + Duration::from_millis(after);
            assert_eq!(shares.share(Some(&new), &TERMS, now).1.is_some(), own);
        }
        assert_eq!(shares.targets.len(), MOST_TARGETS);
    }

    #[test]
    fn a_target_that_is_used_owes_or_waits_is_kept() {
        let start = Instant::now();
        let mut shares = full(start);
        let later = start + Duration::from_secs(60);
        let [used, owing, waiting] = ["p:1", "p:2", "p:3"].map(target);
        shares.share(Some(&used), &TERMS, start + Duration::from_secs(1));
        let (share, _) = shares.share(Some(&owing), &TERMS, start);
        // Below the floor for as long as nothing comes back.
        let never = Terms {
            refill: Duration::MAX,
            ..TERMS
        };
        assert!(share.withdraw(&never, start));
        share.spend(&never, start);
        let (share, _) = shares.share(Some(&waiting), &TERMS, start);
        for _ in 0..20 {
            share.deposit(&TERMS, start);
        }
        assert!(share.withdraw(&TERMS, start));
        let new = target("new:m");
        assert!(shares.share(Some(&new), &never, later).1.is_some());
        assert_eq!(shares.targets.len(), 4);
        for kept in [used, owing, waiting, new] {
            assert!(shares.targets.contains_key(&kept), "{kept}");
        }
    }
}
