//! Which calls get a fault, and which fault.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;

use crate::window::Window;
use crate::{Api, Fault, Reply};

/// What a rule does to a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Injection {
    /// A whole answer of a provider instead of the call, in the words of the API of the path.
    Answer(Fault),
    /// An answer of one's own instead of the call.
    Reply(Arc<Reply>),
    /// The call is made so much later.
    Latency(Duration),
    /// The call is not made and never ends.
    Hang,
    /// The call is not made and fails with [`ConnectionReset`](std::io::ErrorKind::ConnectionReset).
    Reset,
    /// The body fails with `ConnectionReset` after so many frames.
    CutAfterFrames(u64),
    /// The body fails with `ConnectionReset` after so many bytes.
    CutAfterBytes(u64),
    /// The body ends as if it were complete after so many frames.
    EndAfterFrames(u64),
    /// The body ends as if it were complete after so many bytes.
    EndAfterBytes(u64),
    /// The body pauses once after so many frames.
    Stall {
        /// Frames before the pause.
        after_frames: u64,
        /// The pause.
        pause: Duration,
    },
    /// Every frame after so many is broken in the middle: two bytes that are not UTF-8.
    GarbleAfterFrames(u64),
    /// Frames have at most so many bytes.
    Split(NonZeroUsize),
    /// Frames have at most so many bytes and come one by one.
    Drip {
        /// Bytes of a frame.
        bytes: NonZeroUsize,
        /// Time before each frame but the first.
        gap: Duration,
    },
}

/// An injection, and the calls that it takes; all of them unless narrowed.
#[derive(Clone)]
pub struct Rule {
    pub(super) injection: Injection,
    pub(super) window: Window,
    when: Option<Arc<dyn Fn(&Parts) -> bool + Send + Sync>>,
}

impl Rule {
    /// A rule that takes every call.
    ///
    /// # Panics
    ///
    /// If the injection is an [`Answer`](Injection::Answer) with a fault that is no whole answer,
    /// such as [`Fault::Cut`].
    #[must_use]
    pub fn new(injection: Injection) -> Self {
        if let Injection::Answer(fault) = injection {
            let whole = Reply::of_fault(fault, Api::Chat, "", Duration::ZERO).is_some();
            assert!(
                whole,
                "the fault `{fault}` is no whole answer; use another injection"
            );
        }
        Self {
            injection,
            window: Window::default(),
            when: None,
        }
    }

    /// Only this share of the calls, 0 to 1. The rates of the rules that are open at the same
    /// time are shares of all calls, in order: 0.4 and 0.2 leave 0.4 of them alone.
    ///
    /// # Panics
    ///
    /// If the rate is not between 0 and 1.
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&rate),
            "a rate is between 0 and 1, not {rate}"
        );
        self.window.rate = rate;
        self
    }

    /// Only the first `times` calls that it would take.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.window.times = Some(times);
        self
    }

    /// The first `skip` calls that it would take are left alone.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Self {
        self.window.skip = skip;
        self
    }

    /// Not before this time since the layer was made.
    #[must_use]
    pub fn from(mut self, from: Duration) -> Self {
        self.window.from = from;
        self
    }

    /// Not at or after this time since the layer was made.
    #[must_use]
    pub fn until(mut self, to: Duration) -> Self {
        self.window.to = Some(to);
        self
    }

    /// Only calls whose request is so. A second predicate replaces the first.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    pub(super) fn wants(&self, parts: &Parts) -> bool {
        self.when.as_ref().is_none_or(|when| when(parts))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("injection", &self.injection)
            .field("window", &self.window)
            .field("when", &self.when.is_some())
            .finish()
    }
}
