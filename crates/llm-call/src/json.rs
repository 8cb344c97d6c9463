//! A walk over a JSON text that allocates nothing of its own: each value is shown with the path
//! that leads to it.
//!
//! The whole text is checked: a truncated one, or one with something after it, is an error. Only a
//! string with escapes is copied, by the parser.

use std::{borrow::Cow, fmt};

use memchr::memchr;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The steps of a path that are told apart. Every dialect's keys are in one table, since a walk
/// does not know yet whose text it reads.
macro_rules! steps {
    ($($name:ident = $key:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Step {
            /// An element of an array.
            Item,
            /// A key that no rule is about.
            Other,
            $($name,)*
        }

        impl Step {
            fn of(key: &str) -> Step {
                match key {
                    $($key => Step::$name,)*
                    _ => Step::Other,
                }
            }
        }
    };
}

steps! {
    Arguments = "arguments",
    Audio = "audio",
    BlockReason = "blockReason",
    BudgetTokens = "budget_tokens",
    CacheCreationInputTokens = "cache_creation_input_tokens",
    CacheReadInputTokens = "cache_read_input_tokens",
    CachedContentTokenCount = "cachedContentTokenCount",
    CachedTokens = "cached_tokens",
    Candidates = "candidates",
    CandidatesTokenCount = "candidatesTokenCount",
    Choices = "choices",
    CompletionTokens = "completion_tokens",
    CompletionTokensDetails = "completion_tokens_details",
    Content = "content",
    ContentBlock = "content_block",
    Contents = "contents",
    Delta = "delta",
    Done = "done",
    DoneReason = "done_reason",
    Effort = "effort",
    Enabled = "enabled",
    ErrorKey = "error",
    EvalCount = "eval_count",
    FileData = "fileData",
    FinishReason = "finish_reason",
    FinishReasonCamel = "finishReason",
    Format = "format",
    FunctionCall = "function_call",
    Functions = "functions",
    GenerationConfig = "generationConfig",
    Images = "images",
    IncludeThoughts = "includeThoughts",
    IncompleteDetails = "incomplete_details",
    Index = "index",
    InlineData = "inlineData",
    Input = "input",
    InputTokens = "input_tokens",
    InputTokensCamel = "inputTokens",
    InputTokensDetails = "input_tokens_details",
    MaxCompletionTokens = "max_completion_tokens",
    MaxOutputTokens = "max_output_tokens",
    MaxOutputTokensCamel = "maxOutputTokens",
    MaxTokens = "max_tokens",
    Message = "message",
    Messages = "messages",
    MimeType = "mimeType",
    Model = "model",
    NumPredict = "num_predict",
    Object = "object",
    Options = "options",
    Output = "output",
    OutputConfig = "output_config",
    OutputFormat = "output_format",
    OutputTokens = "output_tokens",
    OutputTokensCamel = "outputTokens",
    OutputTokensDetails = "output_tokens_details",
    PartialJson = "partial_json",
    Parts = "parts",
    PromptEvalCount = "prompt_eval_count",
    PromptFeedback = "promptFeedback",
    PromptTokenCount = "promptTokenCount",
    PromptTokens = "prompt_tokens",
    PromptTokensDetails = "prompt_tokens_details",
    Reason = "reason",
    Reasoning = "reasoning",
    ReasoningContent = "reasoning_content",
    ReasoningDetails = "reasoning_details",
    ReasoningEffort = "reasoning_effort",
    ReasoningTokens = "reasoning_tokens",
    Refusal = "refusal",
    Response = "response",
    ResponseFormat = "response_format",
    ResponseMimeType = "responseMimeType",
    Status = "status",
    StopReason = "stop_reason",
    StopReasonCamel = "stopReason",
    Stream = "stream",
    Summary = "summary",
    Text = "text",
    Think = "think",
    Thinking = "thinking",
    ThinkingBudget = "thinkingBudget",
    ThinkingConfig = "thinkingConfig",
    ThinkingLevel = "thinkingLevel",
    ThoughtsTokenCount = "thoughtsTokenCount",
    Tokens = "tokens",
    ToolCalls = "tool_calls",
    ToolPlan = "tool_plan",
    Tools = "tools",
    Type = "type",
    Usage = "usage",
    UsageMetadata = "usageMetadata",
    XGroq = "x_groq",
    // How serde_json shows a number when any crate of the build asks for arbitrary precision.
    PreciseNumber = "$serde_json::private::Number",
}

/// A value, without what is inside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// A number, cut to a whole one that an `i64` can hold.
    Number(i64),
    Text(&'a str),
    /// An array begins.
    List,
    /// An object begins.
    Object,
    /// The object ends.
    End,
}

impl Value<'_> {
    /// A string that is not empty.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Value::Text(text) if !text.is_empty())
    }

    /// A number of things: below 0 there are none.
    pub(crate) fn count(self) -> Option<u64> {
        match self {
            Value::Number(number) => Some(u64::try_from(number).unwrap_or(0)),
            _ => None,
        }
    }
}

/// How deep the paths go. What lies deeper is checked and not shown.
const DEPTH: usize = 8;

struct Path {
    steps: [Step; DEPTH],
    len: usize,
}

impl Path {
    fn push(&mut self, step: Step) {
        if let Some(slot) = self.steps.get_mut(self.len) {
            *slot = step;
        }
        self.len += 1;
    }

    fn pop(&mut self) {
        self.len -= 1;
    }
}

/// Shows each value of a JSON text to `on`, in the order of the text.
///
/// The elements of an array at the root are shown like roots: some servers wrap the whole answer
/// in one.
pub(crate) fn walk(
    text: &[u8],
    mut on: impl FnMut(&[Step], Value<'_>),
) -> Result<(), serde_json::Error> {
    let mut path = Path {
        steps: [Step::Other; DEPTH],
        len: 0,
    };
    let text = with_whole_surrogates(text);
    let mut json = serde_json::Deserializer::from_slice(&text);
    let root = Walker {
        path: &mut path,
        on: &mut on,
        root: true,
    };
    root.deserialize(&mut json)?;
    json.end()
}

/// The same text with U+FFFD for each half of a surrogate pair that stands alone.
///
/// A server that cuts text between the halves (in JavaScript, between two chunks of a stream) sends
/// such an escape. Clients in JavaScript and Python read it; the parser here does not.
pub(crate) fn with_whole_surrogates(text: &[u8]) -> Cow<'_, [u8]> {
    let mut mended = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = memchr(b'\\', &text[at..]) {
        at += found;
        let length = match (
            surrogate(&text[at..]),
            surrogate(&text[(at + 6).min(text.len())..]),
        ) {
            (Some(Half::High), Some(Half::Low)) => 12,
            (Some(_), _) => {
                mended.to_mut()[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // Whatever is escaped, a backslash among it, is no beginning.
            (None, _) => 2,
        };
        at = (at + length).min(text.len());
    }
    mended
}

enum Half {
    High,
    Low,
}

/// Half of a surrogate pair, escaped, at the start of the text.
fn surrogate(text: &[u8]) -> Option<Half> {
    let [b'\\', b'u', b'd' | b'D', second, third, fourth, ..] = text else {
        return None;
    };
    if !third.is_ascii_hexdigit() || !fourth.is_ascii_hexdigit() {
        return None;
    }
    match second.to_ascii_lowercase() {
        b'8'..=b'9' | b'a'..=b'b' => Some(Half::High),
        b'c'..=b'f' => Some(Half::Low),
        _ => None,
    }
}

struct Walker<'w, F> {
    path: &'w mut Path,
    on: &'w mut F,
    root: bool,
}

impl<F: FnMut(&[Step], Value<'_>)> Walker<'_, F> {
    fn show(&mut self, value: Value<'_>) {
        if let Some(path) = self.path.steps.get(..self.path.len) {
            (self.on)(path, value);
        }
    }

    fn child(&mut self) -> Walker<'_, F> {
        Walker {
            path: self.path,
            on: self.on,
            root: false,
        }
    }
}

impl<'de, F: FnMut(&[Step], Value<'_>)> DeserializeSeed<'de> for Walker<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&[Step], Value<'_>)> Visitor<'de> for Walker<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.show(Value::Null);
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        self.show(Value::Bool(value));
        Ok(())
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        self.show(Value::Number(i64::try_from(value).unwrap_or(i64::MAX)));
        Ok(())
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        self.show(Value::Number(value));
        Ok(())
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        // The cast is saturating, and NaN becomes 0.
        self.show(Value::Number(value as i64));
        Ok(())
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<(), E> {
        self.show(Value::Text(value));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if self.root {
            while items.next_element_seed(self.child())?.is_some() {}
            return Ok(());
        }
        self.show(Value::List);
        self.path.push(Step::Item);
        while items.next_element_seed(self.child())?.is_some() {}
        self.path.pop();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut key = entries.next_key_seed(Key)?;
        if key == Some(Step::PreciseNumber) {
            let digits: String = entries.next_value()?;
            return self.visit_f64(digits.parse().unwrap_or(0.0));
        }
        self.show(Value::Object);
        while let Some(step) = key {
            self.path.push(step);
            entries.next_value_seed(self.child())?;
            self.path.pop();
            key = entries.next_key_seed(Key)?;
        }
        self.show(Value::End);
        Ok(())
    }
}

/// Reads a key as a step.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Step;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Step, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Step;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Step, E> {
        Ok(Step::of(key))
    }
}

#[cfg(test)]
mod tests;
