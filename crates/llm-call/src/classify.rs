//! [`Classify`]: from what was seen of an attempt to its [`Outcome`].

mod fault;
mod rules;

pub(crate) use fault::{Fault, parse};

use std::{
    error::Error as StdError,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, StatusCode};

use crate::{
    Error, Health, Kind, Matrix, Outcome, Retry, find_cause, hint,
    media::{Media, media},
};

/// What was seen of an attempt, at the moment it can be judged.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// A whole answer: an error status, or a 2xx body in one piece that holds an error object.
    Answer {
        /// The status.
        status: StatusCode,
        /// The headers.
        headers: &'a HeaderMap,
        /// The body, or the beginning of a large one.
        body: &'a [u8],
    },
    /// An error event inside a 2xx stream.
    Event {
        /// The headers of the answer, as long as they are at hand: before commit.
        headers: Option<&'a HeaderMap>,
        /// The data of the event, as sent.
        data: &'a [u8],
    },
    /// The answer finished for a reason that is a failure.
    Finish {
        /// The failure, as [`Finish::Failed`](crate::Finish::Failed) has it.
        kind: Kind,
        /// The model failed by chance; the target is well.
        random: bool,
    },
    /// A 2xx that is no answer: HTML or text where JSON was due, truncated JSON.
    Malformed {
        /// The status.
        status: StatusCode,
        /// The headers.
        headers: &'a HeaderMap,
        /// The beginning of the body.
        body: &'a [u8],
    },
    /// A 2xx with nothing in it.
    Empty {
        /// By its protocol the answer came to its end: then the model had nothing to say, which
        /// is not the target's fault.
        finished: bool,
    },
    /// The client failed before an answer began.
    Transport(&'a (dyn StdError + 'static)),
    /// The body ended before the answer did: by an error, or without one.
    Cut(Option<&'a (dyn StdError + 'static)>),
}

impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bodies may hold what people said: their size is enough.
        match self {
            Seen::Answer { status, body, .. } => f
                .debug_struct("Answer")
                .field("status", status)
                .field("body", &body.len())
                .finish_non_exhaustive(),
            Seen::Event { data, .. } => f
                .debug_struct("Event")
                .field("data", &data.len())
                .finish_non_exhaustive(),
            Seen::Finish { kind, random } => f
                .debug_struct("Finish")
                .field("kind", kind)
                .field("random", random)
                .finish(),
            Seen::Malformed { status, body, .. } => f
                .debug_struct("Malformed")
                .field("status", status)
                .field("body", &body.len())
                .finish_non_exhaustive(),
            Seen::Empty { finished } => {
                f.debug_struct("Empty").field("finished", finished).finish()
            }
            Seen::Transport(error) => f.debug_tuple("Transport").field(error).finish(),
            Seen::Cut(error) => f.debug_tuple("Cut").field(error).finish(),
        }
    }
}

/// Judges an attempt that did not simply succeed.
///
/// Peek asks once for each attempt, and everyone else reads its [`Outcome`]. Implement it to know
/// a provider better than [`Standard`] does, and leave the rest to that.
///
/// # Example
///
/// ```
/// use std::time::SystemTime;
///
/// use llm_call::{Classify, Kind, Outcome, Seen, Standard};
///
/// /// In-house: a 418 is the sign of a full queue.
/// struct InHouse(Standard);
///
/// impl Classify for InHouse {
///     fn classify(&self, seen: &Seen<'_>, now: SystemTime) -> Outcome {
///         match seen {
///             Seen::Answer { status, .. } if status.as_u16() == 418 => {
///                 Outcome::of(Kind::Overloaded)
///             }
///             _ => self.0.classify(seen, now),
///         }
///     }
/// }
/// ```
pub trait Classify {
    /// The outcome of what was seen. `now` is for hints that are a date.
    fn classify(&self, seen: &Seen<'_>, now: SystemTime) -> Outcome;
}

impl<C: Classify + ?Sized> Classify for Arc<C> {
    fn classify(&self, seen: &Seen<'_>, now: SystemTime) -> Outcome {
        (**self).classify(seen, now)
    }
}

/// The longest wait that is still a reason to come back to the same target.
///
/// A limit by the minute is whole again within minutes: six, where OpenAI's headers speak of a
/// full refill. What takes longer (Groq's nine minutes for tokens by the day, Azure's whole day)
/// is a quota in the dress of a rate limit. Then the verdict is [`Retry::Never`], with the hint
/// unshortened.
const LONGEST_WAIT: Duration = Duration::from_secs(6 * 60);

/// The classifier for the providers of the [`Dialect`](crate::Dialect)s, the clouds that host
/// them, and the proxies before them.
///
/// It goes by what the body says before it goes by the status, since providers give the same
/// status to failures that need opposite answers: a 429 can be a rate limit, an empty purse, a
/// request that never fits, or no capacity at all.
///
/// # Clone and shared state
///
/// Cloning is cheap; a matrix of one's own is shared.
#[derive(Clone, Debug, Default)]
pub struct Standard {
    matrix: Option<Arc<Matrix>>,
}

impl Standard {
    /// A classifier whose verdicts start from this table. What is known of the single case (a
    /// stated wait, `x-should-retry`) still comes on top.
    pub fn with_matrix(matrix: Matrix) -> Standard {
        Standard {
            matrix: Some(Arc::new(matrix)),
        }
    }

    fn outcome(&self, kind: Kind) -> Outcome {
        match &self.matrix {
            Some(matrix) => matrix.outcome(kind),
            None => Outcome::of(kind),
        }
    }

    fn answer(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Outcome {
        let root = parse(body);
        let mut fault = root.as_ref().and_then(Fault::of);
        if status.is_success() && !fault.as_ref().is_some_and(|fault| fault.declared) {
            return self.outcome(if root.is_some() {
                Kind::Success
            } else {
                Kind::Malformed
            });
        }
        if root.is_none() && media(headers) == Media::Text {
            fault = std::str::from_utf8(body).ok().map(Fault::of_text);
        }
        let mut fault = fault.unwrap_or_default();
        // AWS names its errors in a header, with a URL behind the name.
        let name = headers
            .get("x-amzn-errortype")
            .and_then(|value| value.to_str().ok()?.split(':').next());
        fault.names.extend(name);
        self.fault(status.as_u16(), headers, &fault, now)
    }

    fn event(&self, headers: Option<&HeaderMap>, data: &[u8], now: SystemTime) -> Outcome {
        let root = parse(data);
        let fault = match &root {
            Some(root) => Fault::of(root),
            None => std::str::from_utf8(data).ok().map(Fault::of_text),
        };
        let none = HeaderMap::new();
        self.fault(
            StatusCode::OK.as_u16(),
            headers.unwrap_or(&none),
            &fault.unwrap_or_default(),
            now,
        )
    }

    fn fault(
        &self,
        status: u16,
        headers: &HeaderMap,
        fault: &Fault<'_>,
        now: SystemTime,
    ) -> Outcome {
        // The body knows better where the status is a good one, and where a load balancer made a
        // 503 of a 429.
        let status = match fault.status {
            Some(inner) if status < 300 || (status >= 500 && inner == 429) => inner,
            _ => status,
        };
        let kind = rules::kind(status, fault);
        let hint = hint::asked(headers, Some(fault), now).or_else(|| {
            // On other failures the headers of the limits say nothing of this one.
            matches!(kind, Kind::RateLimited | Kind::Overloaded)
                .then(|| hint::reset(headers, now))
                .flatten()
        });
        let mut outcome = self.outcome(kind).retry_after(hint);
        let verdict = &mut outcome.verdict;
        match status {
            // Nothing changes by asking again.
            501 | 505 => verdict.retry = Retry::Never,
            // The server was not reached, or too busy: time heals that, other than a plain 500.
            502 | 503 | 504 | 520..=530 if verdict.retry == Retry::Once => {
                verdict.retry = Retry::Yes;
            }
            // Gemini cancels by itself; who really left does not read this.
            499 if fault.is(&["CANCELLED"]) => verdict.retry = Retry::Yes,
            _ => {}
        }
        if kind == Kind::InvalidRequest {
            if fault.is(&["tool_use_failed", "json_validate_failed"]) {
                // The model's fault, by chance, in the dress of a bad request (Groq).
                verdict.retry = Retry::Once;
                verdict.fail_over = true;
            } else if fault.is(&["not_supported_error"]) {
                // Another server may have what this one was built without (llama.cpp).
                verdict.fail_over = true;
            }
        }
        match headers
            .get("x-should-retry")
            .map(http::HeaderValue::as_bytes)
        {
            Some(b"true") if kind != Kind::QuotaExhausted => verdict.retry = Retry::Yes,
            Some(b"false") => verdict.retry = Retry::Never,
            _ => {}
        }
        if hint.is_some_and(|wait| wait > LONGEST_WAIT) {
            verdict.retry = Retry::Never;
        }
        outcome
    }
}

impl Classify for Standard {
    fn classify(&self, seen: &Seen<'_>, now: SystemTime) -> Outcome {
        match *seen {
            Seen::Answer {
                status,
                headers,
                body,
            } => self.answer(status, headers, body, now),
            Seen::Event { headers, data } => self.event(headers, data, now),
            Seen::Finish { kind, random } => {
                let mut outcome = self.outcome(kind);
                if random {
                    outcome.verdict.retry = outcome.verdict.retry.min(Retry::Once);
                    outcome.verdict.breaker = Health::Neutral;
                }
                outcome
            }
            Seen::Malformed { .. } => self.outcome(Kind::Malformed),
            Seen::Empty { finished } => {
                let mut outcome = self.outcome(Kind::Empty);
                if finished {
                    outcome.verdict.breaker = Health::Neutral;
                }
                outcome
            }
            Seen::Transport(error) => match find_cause::<Error>(error) {
                Some(ours) => ours.outcome(),
                None => self.outcome(Kind::of(error)),
            },
            Seen::Cut(error) => match error.and_then(find_cause::<Error>) {
                Some(ours) => ours.outcome(),
                None => self.outcome(Kind::Interrupted),
            },
        }
    }
}

/// The wait that Gemini states in the body.
fn hinted(fault: &Fault<'_>) -> Option<Duration> {
    hint::duration(fault.retry_info()?)
}

#[cfg(test)]
mod tests;
