//! An answer in no dialect: the pieces that it comes in, streamed or whole.

use std::borrow::Cow;

use llm_call::Kind;

/// One piece of an answer. A whole answer is the same pieces, one after another.
///
/// The order is: `Start`, then content in any order, then `Finish`, with `Usage` anywhere between, then
/// `End`; or `Failed` anywhere, after which nothing counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    /// The first event. What is unknown is empty.
    Start {
        id: Cow<'a, str>,
        model: Cow<'a, str>,
    },
    /// Keeps the connection alive.
    Ping,
    Text(Cow<'a, str>),
    /// The model thinks aloud.
    Reasoning(Cow<'a, str>),
    /// The model declines, in words that are not its answer.
    Refusal(Cow<'a, str>),
    /// A call of a tool begins. `call` counts the calls of this answer from 0, without a gap.
    ToolCall {
        call: usize,
        id: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    /// A fragment of the JSON of its arguments. Calls may be interleaved.
    Arguments {
        call: usize,
        json: Cow<'a, str>,
    },
    /// No more arguments of this call follow. Not every dialect says so.
    ToolEnd {
        call: usize,
    },
    Finish(Finish),
    /// Counts so far; later ones replace earlier ones field by field.
    Usage(Counts),
    /// The provider failed in the middle, or instead of an answer.
    Failed {
        kind: Kind,
        message: Cow<'a, str>,
    },
    /// The end marker.
    End,
    /// Something that the dialect of the caller has no place for was left out.
    Lost(&'static str),
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    /// At one of the caller's sequences, if it says which.
    StopSequence(Option<String>),
    Length,
    ToolCalls,
    /// The provider's filter, or the model, declined.
    Filtered,
    /// A long turn that the caller may let go on (Anthropic).
    Pause,
}

/// Tokens used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All of the prompt, with what came from a cache and what was written to one.
    pub(crate) input: Option<u64>,
    pub(crate) cache_read: Option<u64>,
    pub(crate) cache_written: Option<u64>,
    /// All of the answer, reasoning included.
    pub(crate) output: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

impl Counts {
    /// These, and the earlier ones where these say nothing.
    pub(crate) fn or(self, earlier: Counts) -> Counts {
        Counts {
            input: self.input.or(earlier.input),
            cache_read: self.cache_read.or(earlier.cache_read),
            cache_written: self.cache_written.or(earlier.cache_written),
            output: self.output.or(earlier.output),
            reasoning: self.reasoning.or(earlier.reasoning),
        }
    }
}

/// An event, or a whole answer, that is not what its dialect has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Garbled(pub(crate) Cow<'static, str>);
