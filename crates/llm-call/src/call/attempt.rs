use crate::{Dialect, Phase, Target};

/// One copy of a request on its way to one target: the second of the two extensions.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Where the copy goes; `None` where nobody chose.
    pub target: Option<Target>,
    /// The number of the copy within its call, from [`Call::number`](crate::Call::number); 0 where
    /// nobody numbered it. Who sends the same copy to the same target again leaves it as it is, so
    /// that whoever made the copy can still say why it is dropped.
    pub n: u32,
    /// How many other targets are left for this call.
    pub alternatives: u32,
    /// The dialect that the target speaks; `None` where the path tells.
    pub dialect: Option<Dialect>,
    /// A Peek above has counted this copy and keeps its record.
    pub(crate) counted: bool,
}

impl Clone for Attempt {
    /// A clone is one more copy: a Peek below counts it, whatever a Peek above has counted.
    fn clone(&self) -> Attempt {
        Attempt {
            target: self.target.clone(),
            n: self.n,
            alternatives: self.alternatives,
            dialect: self.dialect,
            counted: false,
        }
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

/// Why an inner future or body was dropped before its end, by the layer that dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A time limit passed.
    TimedOut(Phase),
    /// Another copy of the request answered first.
    HedgeLost,
}
