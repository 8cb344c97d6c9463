//! [`Ledger`]: what happened to one call.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Cause, Ending, Kind, Target, Usage};

/// What happened to one call, as far as it has gone.
///
/// All times count from the opening of the call. `Display` is one line a step, for a log or an
/// error message. Secrets never get in: nothing of a header or a body is kept.
///
/// # Example
///
/// Open the call yourself, keep a clone, and read it when the answer has ended:
///
/// ```
/// use std::time::Duration;
/// use llm_call::{Call, CallSettings};
///
/// # fn send(_: http::Request<()>) {}
/// let call = Call::open(CallSettings::new().tenant("acme").timeout(Duration::from_secs(4)));
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(call.clone());
/// send(request);
/// println!("{}", call.ledger());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ledger {
    /// The copies of the request, in the order they were sent or refused.
    pub entries: Vec<Entry>,
    /// Time spent waiting between attempts.
    pub waited: Duration,
    /// How the whole call ended and when; `None` while it goes on.
    pub ended: Option<(Ending, Duration)>,
}

/// One copy of the request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The number of the copy within the call; 0 for a target that was passed over before there was
    /// one. A retry on the same target keeps it: `#1`, `#1`, `#2`
    /// is one retry and one failover.
    pub n: u32,
    /// Which copy of a hedged request it was part of: 0 for the first, else a number that all attempts
    /// of that copy have in common.
    pub hedge: u32,
    /// Where it went.
    pub target: Option<Target>,
    /// Whether it reached the client below; a refused copy did not.
    pub sent: bool,
    /// When it was sent or refused.
    pub opened: Duration,
    /// When its first token came.
    pub first_token: Option<Duration>,
    /// When it ended.
    pub ended: Option<Duration>,
    /// What became of it; `None` while it goes on.
    pub kind: Option<Kind>,
    /// Why a layer of ours ended it.
    pub cause: Option<Cause>,
    /// The server's hint on when to come back.
    pub retry_after: Option<Duration>,
    /// Tokens as the provider reported them.
    pub usage: Usage,
    /// Body bytes read.
    pub bytes: u64,
    /// What it is billed, as far as can be told; `None` while it goes on, and where nothing is: it
    /// was not sent, or the provider answered with an error before any content.
    pub billed: Option<Billed>,
    /// What the request lost on its way into the dialect of the target, as names separated by `, `.
    pub lost: Option<Arc<str>>,
}

/// What one attempt is billed, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Billed {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// How well that is known.
    pub certainty: Certainty,
}

/// How well it is known what an attempt is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Certainty {
    /// The provider said so.
    Reported,
    /// Counted here: a quarter of the bytes of the prompt, and one token for each event with content.
    Estimated,
    /// Counted here, as above, of an answer that was left before its end at a provider that goes on
    /// generating, or may do so: more may be billed. Whether all of the prompt had been sent is not
    /// known; it counts as sent.
    AtLeast,
}

impl Entry {
    pub(crate) fn new(n: u32, target: Option<Target>, opened: Duration) -> Entry {
        Entry {
            n,
            hedge: 0,
            target,
            sent: false,
            opened,
            first_token: None,
            ended: None,
            kind: None,
            cause: None,
            retry_after: None,
            usage: Usage::default(),
            bytes: 0,
            billed: None,
            lost: None,
        }
    }
}

impl Ledger {
    pub(crate) fn set_cause(&mut self, n: u32, cause: Cause) {
        let open = |entry: &&mut Entry| entry.n == n && entry.kind.is_none();
        if let Some(entry) = self.entries.iter_mut().rev().find(open) {
            entry.cause.get_or_insert(cause);
        }
    }

    pub(crate) fn set_cause_if(&mut self, is_meant: impl Fn(&Entry) -> bool, cause: Cause) {
        for entry in &mut self.entries {
            if entry.kind.is_none() && is_meant(entry) {
                entry.cause.get_or_insert(cause);
            }
        }
    }

    pub(crate) fn finish(&mut self, ending: Ending, at: Duration) {
        self.ended.get_or_insert((ending, at));
    }

    /// Attempts that were sent.
    pub fn sent(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.sent)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} ", self.n)?;
        if self.hedge > 0 {
            f.write_str("(hedge) ")?;
        }
        match &self.target {
            Some(target) => write!(f, "{target}")?,
            None => f.write_str("(no target)")?,
        }
        write!(f, " at {} ms: ", self.opened.as_millis())?;
        match self.kind {
            Some(kind) => write!(f, "{kind}")?,
            None => f.write_str("under way")?,
        }
        if let Some(ended) = self.ended {
            write!(
                f,
                " after {} ms",
                ended.saturating_sub(self.opened).as_millis()
            )?;
        }
        if let Some(first) = self.first_token {
            write!(
                f,
                ", first token {} ms",
                first.saturating_sub(self.opened).as_millis()
            )?;
        }
        if self.cause == Some(Cause::HedgeLost) {
            f.write_str(", lost to another copy")?;
        }
        if let Some(hint) = self.retry_after {
            write!(f, ", come back in {} ms", hint.as_millis())?;
        }
        if let Some(billed) = self.billed {
            let certainty = match billed.certainty {
                Certainty::Reported => "",
                Certainty::Estimated => "about ",
                Certainty::AtLeast => "at least ",
            };
            write!(
                f,
                ", {certainty}{} + {} tokens",
                billed.input, billed.output
            )?;
        }
        if let Some(lost) = &self.lost {
            write!(f, ", lost {lost}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            writeln!(f, "{entry}")?;
        }
        if !self.waited.is_zero() {
            writeln!(f, "waited {} ms", self.waited.as_millis())?;
        }
        if let Some((ending, at)) = self.ended {
            writeln!(f, "{} after {} ms", ending.kind(), at.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;

    #[test]
    fn the_cause_of_all_is_that_of_the_open_copies_that_have_none() {
        let mut ledger = Ledger::default();
        for n in 1..=3 {
            ledger.entries.push(Entry::new(n, None, Duration::ZERO));
        }
        ledger.entries[0].kind = Some(Kind::Overloaded);
        ledger.set_cause(2, Cause::HedgeLost);
        ledger.set_cause_if(|_| true, Cause::TimedOut(Phase::Deadline));
        let causes: Vec<_> = ledger.entries.iter().map(|entry| entry.cause).collect();
        assert_eq!(
            causes,
            [
                None,
                Some(Cause::HedgeLost),
                Some(Cause::TimedOut(Phase::Deadline))
            ]
        );
    }
}
