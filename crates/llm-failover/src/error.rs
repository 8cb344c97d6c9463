use std::{error::Error as StdError, fmt, time::Duration};

use llm_call::{Error, Kind, Target, find_cause};

/// Why no target answered: the source of the error that [`Failover`](crate::Failover) gives up
/// with. `Display` lists every attempt.
#[derive(Debug, Default)]
pub struct AllFailed {
    attempts: Vec<FailedAttempt>,
}

/// One attempt that did not answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// Where it went.
    pub target: Target,
    /// What became of it.
    pub kind: Kind,
    /// How long it took.
    pub took: Duration,
    /// What lay beneath, in the words of the innermost source; `None` where the provider gave an
    /// answer, or where there was nothing beneath.
    pub cause: Option<Box<str>>,
    /// What the caller may be told of it, besides the kind.
    pub told: Option<Box<str>>,
}

/// The longest cause that is kept, in bytes.
const LONGEST_CAUSE: usize = 200;

/// The innermost source: "connection refused" rather than what it led to. URLs, which may hold
/// keys, stand further out.
fn cause(error: &(dyn StdError + 'static)) -> Option<Box<str>> {
    let mut innermost = error.source()?;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let end = (0..=text.len().min(LONGEST_CAUSE))
        .rev()
        .find(|end| text.is_char_boundary(*end))?;
    Some(text[..end].into())
}

impl AllFailed {
    pub(crate) fn push(
        &mut self,
        target: Target,
        kind: Kind,
        took: Duration,
        error: Option<&(dyn StdError + 'static)>,
    ) {
        self.attempts.push(FailedAttempt {
            target,
            kind,
            took,
            cause: error.and_then(cause),
            told: (error.and_then(find_cause::<Error>))
                .and_then(Error::told)
                .map(Box::from),
        });
    }

    /// What the caller may be told of the last attempt of this kind.
    pub(crate) fn told(&self, kind: Kind) -> Option<Box<str>> {
        let mut attempts = self.attempts.iter().rev();
        attempts.find(|attempt| attempt.kind == kind)?.told.clone()
    }

    /// The attempts, in the order they were made. Empty when no target was available.
    pub fn attempts(&self) -> &[FailedAttempt] {
        &self.attempts
    }
}

impl fmt::Display for AllFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.attempts.is_empty() {
            return f.write_str("no target was tried: each rests, is drained, or is in use by another copy of the call");
        }
        f.write_str("no target answered: ")?;
        for (i, attempt) in self.attempts.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(
                f,
                "{} {} after {} ms",
                attempt.target,
                attempt.kind,
                attempt.took.as_millis()
            )?;
            if let Some(cause) = &attempt.cause {
                write!(f, " ({cause})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for AllFailed {}
