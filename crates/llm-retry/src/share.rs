//! The tokens of one target: the pure core of the budget. `now` is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// One retry, in the unit that tokens are counted in. Whole numbers, so that no ratio is rounded.
pub(crate) const TOKEN: u64 = 1_000_000;

/// What a budget pays in and lets stand. In micro-tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// For each call that was answered well.
    pub(crate) deposit: u64,
    /// The most that a share holds.
    pub(crate) most: u64,
    /// What comes back by itself.
    pub(crate) floor: u64,
    /// How long one token of the floor takes to come back.
    pub(crate) refill: Duration,
}

impl Terms {
    /// A floor cannot stand above the most that is held.
    fn floor(&self) -> u64 {
        self.floor.min(self.most)
    }
}

/// The tokens of one target.
///
/// `tokens + planned` never exceeds [`Terms::most`], so a refund is never cut short; and what is
/// planned still counts towards the floor, so that a refund never makes a second token of one that
/// has come back meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    tokens: u64,
    /// Paid for retries of which it is not known yet whether they are sent.
    planned: u64,
    /// Below the floor: since when the next token is on its way back.
    since: Option<Instant>,
}

impl Share {
    /// A share that nobody has used.
    pub(crate) fn new(terms: &Terms) -> Share {
        Share {
            tokens: terms.floor(),
            planned: 0,
            since: None,
        }
    }

    /// A call was answered well.
    pub(crate) fn deposit(&mut self, terms: &Terms, now: Instant) {
        self.refill(terms, now);
        let room = terms.most.saturating_sub(self.planned);
        self.tokens = self.tokens.saturating_add(terms.deposit).min(room);
        self.stamp(terms, now);
    }

    /// Takes the token of one retry, if there is one. It stays planned until [`Share::refund`] or
    /// [`Share::spend`].
    pub(crate) fn withdraw(&mut self, terms: &Terms, now: Instant) -> bool {
        self.refill(terms, now);
        let Some(rest) = self.tokens.checked_sub(TOKEN) else {
            return false;
        };
        self.tokens = rest;
        self.planned += TOKEN;
        true
    }

    /// A planned retry was not sent.
    pub(crate) fn refund(&mut self, terms: &Terms, now: Instant) {
        self.refill(terms, now);
        self.planned -= TOKEN;
        self.tokens += TOKEN;
    }

    /// A planned retry was sent, at `at`.
    pub(crate) fn spend(&mut self, terms: &Terms, at: Instant) {
        self.refill(terms, at);
        self.planned -= TOKEN;
        self.stamp(terms, at);
    }

    /// What a retry can take now.
    pub(crate) fn balance(mut self, terms: &Terms, now: Instant) -> u64 {
        self.refill(terms, now);
        self.tokens
    }

    /// Whether nothing is lost by replacing this share by a new one.
    pub(crate) fn is_new(mut self, terms: &Terms, now: Instant) -> bool {
        self.refill(terms, now);
        self == Share::new(terms)
    }

    /// Whether nothing is gained by replacing this share by a new one.
    pub(crate) fn is_replete(mut self, terms: &Terms, now: Instant) -> bool {
        self.refill(terms, now);
        self.planned == 0 && self.tokens >= terms.floor()
    }

    fn refill(&mut self, terms: &Terms, now: Instant) {
        let Some(since) = self.since else {
            return;
        };
        let missing = terms.floor().saturating_sub(self.tokens + self.planned);
        let whole = missing.div_ceil(TOKEN);
        let elapsed = now.saturating_duration_since(since);
        let due = match elapsed.as_nanos().checked_div(terms.refill.as_nanos()) {
            Some(due) => u64::try_from(due).map_or(whole, |due| due.min(whole)),
            // No wait at all.
            None => whole,
        };
        self.tokens += (due * TOKEN).min(missing);
        // A floor is a number of tokens that fits in 32 bits, and what is due has elapsed.
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        self.since = Some(since + terms.refill * due);
        self.stamp(terms, now);
    }

    /// Starts the clock of the floor where it does not run, or stops it.
    fn stamp(&mut self, terms: &Terms, at: Instant) {
        self.since = if self.tokens + self.planned < terms.floor() {
            self.since.or(Some(at))
        } else {
            None
        };
    }
}

#[cfg(test)]
mod tests;
