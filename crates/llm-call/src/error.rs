//! [`Error`], the one error that the family adds, and how to read any error.

use std::{error::Error as StdError, fmt, io, time::Duration};

use crate::{Kind, Outcome, Target};

/// The error type of every service from Peek upward.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// No usable answer: what every layer of the family fails with.
///
/// It says what happened ([`Outcome`]), where ([`Target`]), and what lay beneath
/// ([`source`](StdError::source)). `Display` prints this level alone.
///
/// # Example
///
/// ```
/// use llm_call::{BoxError, Error, Kind};
///
/// let error: BoxError = Error::new(Kind::Overloaded).into();
/// assert_eq!(Kind::of(&*error), Kind::Overloaded);
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    outcome: Outcome,
    target: Option<Target>,
    source: Option<BoxError>,
    told: Option<Box<str>>,
}

impl Error {
    /// An error of a kind, with the verdict of the default matrix.
    pub fn new(kind: Kind) -> Error {
        Error::from(Outcome::of(kind))
    }

    /// The same error with the target it happened at.
    #[must_use]
    pub fn with_target(mut self, target: Option<Target>) -> Error {
        self.0.target = target;
        self
    }

    /// The same error with what lay beneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with what the caller is told of it, where the kind alone does not help: which
    /// field of its request is wrong. [`Respond`](crate::Respond) writes it into the answer, so
    /// nothing of targets, keys or upstream texts belongs there.
    #[must_use]
    pub fn with_told(mut self, message: impl Into<Box<str>>) -> Error {
        self.0.told = Some(message.into());
        self
    }

    /// The same error with a word on when to come back.
    #[must_use]
    pub fn with_retry_after(mut self, hint: Option<Duration>) -> Error {
        self.0.outcome.retry_after = hint;
        self
    }

    /// What happened.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// What happened, in one word.
    pub fn kind(&self) -> Kind {
        self.0.outcome.kind
    }

    /// What the caller is told of it besides its kind, by this error or by one beneath.
    pub fn told(&self) -> Option<&str> {
        self.0
            .told
            .as_deref()
            .or_else(|| find_cause::<Error>(self.source()?)?.told())
    }

    /// Where it happened, if a target was known.
    pub fn target(&self) -> Option<&Target> {
        self.0.target.as_ref()
    }
}

impl From<Outcome> for Error {
    fn from(outcome: Outcome) -> Self {
        Error(Box::new(Inner {
            outcome,
            target: None,
            source: None,
            told: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().describe())?;
        if let Some(told) = &self.0.told {
            write!(f, ": {told}")?;
        }
        if let Some(target) = self.target() {
            write!(f, " ({target})")?;
        }
        if let Some(hint) = self.0.outcome.retry_after {
            let millis = hint.as_nanos().div_ceil(1_000_000);
            write!(f, "; come back in {millis} ms")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("target", &self.0.target)
            .field("retry_after", &self.0.outcome.retry_after)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl Outcome {
    /// What an error is worth, whoever made it: the outcome of an [`Error`] in its chain of
    /// sources, else that of its [`Kind`] by the default matrix.
    pub fn of_error(error: &(dyn StdError + 'static)) -> Outcome {
        match find_cause::<Error>(error) {
            Some(error) => error.outcome(),
            None => Outcome::of(Kind::of(error)),
        }
    }
}

/// The first error of type `E` in the chain of sources, the outermost included.
pub fn find_cause<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            // Its `source` passes over the error that it wraps.
            Some(wrapped) => Some(wrapped as _),
            None => error.source(),
        };
    }
    None
}
