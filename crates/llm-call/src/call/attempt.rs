use std::sync::Arc;

use tokio::time::Instant;

use crate::{Dialect, Phase, Target};

/// One copy of a request on its way to one target: the second of the two extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Where the copy goes; `None` where nobody chose.
    pub target: Option<Target>,
    /// The number of the copy within its call, from [`Call::number`](crate::Call::number); 0 where
    /// nobody numbered it. Who sends the same copy to the same target again leaves it as it is, so
    /// that whoever made the copy can still say why it is dropped.
    pub n: u32,
    /// Which copy of a hedged request this is part of: 0 for the first, else a number of that copy
    /// alone. It stays as it is when the copy fails over or is retried.
    pub hedge: u32,
    /// How many other targets are left for this call.
    pub alternatives: u32,
    /// When a layer above ends the copy to go to another target: its share of the deadline. `None`
    /// where nobody does.
    pub share_ends: Option<Instant>,
    /// The dialect that the target speaks; `None` where the path tells.
    pub dialect: Option<Dialect>,
    /// Whether the target stops generating, and billing, when the connection is dropped. Whoever
    /// knows the target writes it. `false` where nobody knows.
    pub drop_stops_bill: bool,
    /// What the request lost on its way into the dialect of the target, as names separated by `, `.
    pub lost: Option<Arc<str>>,
    /// A Peek above has counted this copy and keeps its record.
    pub(crate) counted: Counted,
}

/// A mark of one copy. A clone is one more copy and has none; it is the same request all the same.
#[derive(Debug, Default, Eq)]
pub(crate) struct Counted(pub(crate) bool);

impl Clone for Counted {
    fn clone(&self) -> Counted {
        Counted(false)
    }
}

impl PartialEq for Counted {
    fn eq(&self, _: &Counted) -> bool {
        true
    }
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

    /// The same copy, as part of this copy of a hedged request.
    #[must_use]
    pub fn with_hedge(mut self, hedge: u32) -> Attempt {
        self.hedge = hedge;
        self
    }

    /// The same copy, to a target that stops billing when it is dropped, or not.
    #[must_use]
    pub fn with_drop_stops_bill(mut self, stops: bool) -> Attempt {
        self.drop_stops_bill = stops;
        self
    }

    /// The same copy, with so many other targets left.
    #[must_use]
    pub fn with_alternatives(mut self, alternatives: u32) -> Attempt {
        self.alternatives = alternatives;
        self
    }

    /// The same copy, which is ended then.
    #[must_use]
    pub fn with_share_ends(mut self, at: Option<Instant>) -> Attempt {
        self.share_ends = at;
        self
    }

    /// The same copy, which has lost this on its way into the dialect of its target.
    #[must_use]
    pub fn with_lost(mut self, lost: Option<Arc<str>>) -> Attempt {
        self.lost = lost;
        self
    }

    /// The same copy, to a target of this dialect.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Option<Dialect>) -> Attempt {
        self.dialect = dialect;
        self
    }
}

/// Why an inner future or body was dropped before its end, by the layer that dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A time limit passed.
    TimedOut(Phase),
    /// Another copy of the request answered first.
    HedgeLost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_equal_and_is_counted_for_itself() {
        let mut attempt = Attempt::new(1).with_alternatives(2);
        attempt.counted = Counted(true);
        let clone = attempt.clone();
        assert!(!clone.counted.0);
        assert_eq!(clone, attempt);
        assert_ne!(clone, Attempt::new(1));
    }
}
