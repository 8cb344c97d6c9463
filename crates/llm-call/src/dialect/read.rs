//! Reading one JSON text of an answer, whichever dialect it is in.
//!
//! One table for all dialects: no path means two things in two of them.

use super::{Dialect, Finish, Usage};
use crate::json::{Step, Value, walk};

/// What one JSON text held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    pub(super) dialect: Option<Dialect>,
    pub(super) token: bool,
    pub(super) error: bool,
    pub(super) end: bool,
    /// The text has the shape of an answer of a chat model.
    pub(super) answer: bool,
    /// The choices that were mentioned, and those that finished, one bit each.
    pub(super) choices: u64,
    pub(super) finished: u64,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Usage,
    /// The answer is still being made in the background.
    pub(super) pending: bool,
    /// The choice that is being read.
    index: u64,
    choice: Option<Finish>,
    /// Tokens that the provider counts beside the others: by cache, by thoughts.
    cache: u32,
    thoughts: u32,
    /// The text is an OpenAI response object, whose status is a finish.
    response: bool,
    status: Option<Finish>,
    incomplete: Option<Finish>,
}

/// Reads a whole text; an error if it is not JSON, or not to its end.
pub(super) fn read(text: &[u8]) -> Result<Notes, serde_json::Error> {
    let mut notes = Notes::default();
    walk(text, |path, value| notes.note(path, value))?;
    notes.settle();
    Ok(notes)
}

impl Notes {
    fn note(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        match path {
            [] | [Other, ..] => {}
            [Usage | UsageMetadata, rest @ ..]
            | [Message | Delta | XGroq | Response, Usage, rest @ ..] => {
                self.usage(rest, value);
            }
            [Choices, rest @ ..] => {
                self.is(Dialect::OpenAiChat);
                self.choice(rest, value);
            }
            [Candidates, rest @ ..] => {
                self.is(Dialect::Gemini);
                self.candidate(rest, value);
            }
            [PromptFeedback, BlockReason] if value.is_text() => {
                self.is(Dialect::Gemini);
                self.finish(Finish::failed(crate::Kind::ContentFiltered));
            }
            // Anthropic's blocks.
            [Content, Item, rest @ ..] | [ContentBlock, rest @ ..] => self.part(rest, value),
            [Delta, rest @ ..] => self.delta(rest, value),
            // Ollama, Cohere in one piece, Anthropic's start.
            [Message, rest @ ..] => self.said(rest, value),
            [Output, rest @ ..] => self.output(rest, value),
            [Response] if value.is_text() => {
                // Ollama's generate.
                self.token = true;
            }
            [Response, Output, rest @ ..] => self.output(rest, value),
            [Response, Status] | [Status] => self.status(value),
            [Response, IncompleteDetails, Reason] | [IncompleteDetails, Reason] => {
                if let Value::Text(reason) = value {
                    self.incomplete = Some(Finish::of(reason));
                }
            }
            [ErrorKey] | [XGroq, ErrorKey] | [Response, ErrorKey] => {
                self.error |= value == Value::Object || value.is_text();
            }
            [Object] if value == Value::Text("error") => self.error = true,
            [Object] | [Response, Object] if value == Value::Text("response") => {
                self.is(Dialect::OpenAiResponses);
                self.response = true;
            }
            [Type] => self.kind(value),
            [Thinking] => self.token |= value.is_text(),
            [StopReason | StopReasonCamel | FinishReason | DoneReason] => {
                if let Value::Text(reason) = value {
                    self.finish(Finish::of(reason));
                }
            }
            [Done] => {
                self.is(Dialect::Ollama);
                self.answer = true;
                if value == Value::Bool(true) {
                    self.end = true;
                    self.finish(Finish::Complete);
                }
            }
            [PromptEvalCount | EvalCount] => self.usage(path, value),
            _ => {}
        }
        self.answer |= match path {
            [Choices | Candidates | Content] => value == Value::List,
            [Output] => matches!(value, Value::List | Value::Object),
            [Message | PromptFeedback] => value == Value::Object,
            _ => false,
        };
    }

    /// The kind of an event.
    fn kind(&mut self, value: Value<'_>) {
        let Value::Text(kind) = value else { return };
        match kind {
            "error" => self.error = true,
            "message_stop" => {
                self.end = true;
                self.finish(Finish::Complete);
            }
            "message-end" => self.end = true,
            "response.completed" | "response.incomplete" => self.end = true,
            "response.failed" => {
                self.end = true;
                self.error = true;
            }
            _ => {}
        }
        match kind {
            "message"
            | "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop" => {
                self.is(Dialect::Anthropic);
            }
            "message-start" | "content-start" | "content-delta" | "tool-plan-delta"
            | "tool-call-start" | "message-end" => self.is(Dialect::Cohere),
            _ if kind.starts_with("response.") => {
                self.is(Dialect::OpenAiResponses);
                self.response = true;
            }
            _ => {}
        }
    }

    /// Inside `choices`.
    fn choice(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        match path {
            [Item] => self.numbered(value),
            [Item, Index] => self.index(value),
            [Item, FinishReason] => self.stop(value),
            [Item, ErrorKey] => self.error |= value == Value::Object,
            [Item, Text] => self.token |= value.is_text(),
            [Item, Delta | Message, rest @ ..] => self.said(rest, value),
            _ => {}
        }
    }

    /// Inside a chat message, or a piece of one.
    fn said(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        self.token |= match path {
            [Content | Refusal | ReasoningContent | Reasoning | Thinking | ToolPlan]
            | [Content, Text | Thinking]
            | [Content, Item, Text | Thinking]
            | [Content, Item, Thinking, Item, Text] => value.is_text(),
            [FunctionCall | Audio | ToolCalls] | [ToolCalls | Images | ReasoningDetails, Item] => {
                value == Value::Object
            }
            _ => false,
        };
    }

    /// Inside `candidates`.
    fn candidate(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        match path {
            [Item] => self.numbered(value),
            [Item, Index] => self.index(value),
            [Item, FinishReasonCamel] => self.stop(value),
            [Item, Content, Parts, Item, Text] => self.token |= value.is_text(),
            // A function call, an image, code.
            [Item, Content, Parts, Item, _] => self.token |= value == Value::Object,
            _ => {}
        }
    }

    /// Inside one block of content, or of a response's output.
    fn part(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        self.token |= match (path, value) {
            ([Text | Thinking | Refusal], value) => value.is_text(),
            // A block that is neither words nor thoughts is a tool's, and its name says enough.
            ([Type], Value::Text(kind)) => !matches!(
                kind,
                "text" | "thinking" | "output_text" | "summary_text" | "reasoning_text" | "refusal"
            ),
            _ => false,
        };
    }

    /// Inside `delta`: Anthropic's pieces, Cohere's, and the plain string of the responses.
    fn delta(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        match path {
            [] | [Text | Thinking | PartialJson | Content] => self.token |= value.is_text(),
            [StopReason | FinishReason] => self.stop_alone(value),
            [Message, rest @ ..] => self.said(rest, value),
            _ => {}
        }
    }

    /// Inside `output`: the items of a response, or Bedrock's message.
    fn output(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        match (path, value) {
            ([Item, Content | Summary, Item, rest @ ..], _) => self.part(rest, value),
            ([Item, Type], Value::Text(kind)) => {
                self.token |= !matches!(kind, "message" | "reasoning");
            }
            ([Message, Content, Item, Text], _) => self.token |= value.is_text(),
            ([Message, Content, Item, _], _) => self.token |= value == Value::Object,
            _ => {}
        }
    }

    fn status(&mut self, value: Value<'_>) {
        let Value::Text(status) = value else { return };
        match status {
            "in_progress" | "queued" => self.pending = true,
            "failed" => self.status = Some(Finish::failed(crate::Kind::ServerError)),
            // What the details say counts more.
            "incomplete" => self.status = Some(Finish::Length),
            other => self.status = Some(Finish::of(other)),
        }
    }

    fn is(&mut self, dialect: Dialect) {
        self.dialect = self.dialect.or(Some(dialect));
    }

    /// A numbered choice begins or ends.
    fn numbered(&mut self, value: Value<'_>) {
        match value {
            Value::Object => (self.index, self.choice) = (0, None),
            Value::End => {
                let bit = 1 << self.index.min(63);
                self.choices |= bit;
                if let Some(finish) = self.choice {
                    self.finished |= bit;
                    self.worse(finish);
                }
            }
            _ => {}
        }
    }

    fn index(&mut self, value: Value<'_>) {
        if let Some(index) = value.count() {
            self.index = index;
        }
    }

    fn stop(&mut self, value: Value<'_>) {
        if let Value::Text(reason) = value
            && !reason.is_empty()
        {
            self.choice = Some(Finish::of(reason));
        }
    }

    fn stop_alone(&mut self, value: Value<'_>) {
        if let Value::Text(reason) = value {
            self.finish(Finish::of(reason));
        }
    }

    /// The only choice finished.
    fn finish(&mut self, finish: Finish) {
        self.choices |= 1;
        self.finished |= 1;
        self.worse(finish);
    }

    fn worse(&mut self, finish: Finish) {
        self.finish = Some(self.finish.map_or(finish, |earlier| earlier.max(finish)));
    }

    fn usage(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        let Some(count) = value.count() else { return };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let usage = &mut self.usage;
        match path {
            [Tokens, InputTokens]
            | [
                PromptTokens | InputTokens | InputTokensCamel | PromptTokenCount | PromptEvalCount,
            ] => usage.input = Some(count),
            [Tokens, OutputTokens]
            | [
                CompletionTokens | OutputTokens | OutputTokensCamel | CandidatesTokenCount
                | EvalCount,
            ] => usage.output = Some(count),
            [CachedContentTokenCount]
            | [PromptTokensDetails | InputTokensDetails, CachedTokens] => {
                usage.cached = Some(count);
            }
            [
                CompletionTokensDetails | OutputTokensDetails,
                ReasoningTokens,
            ] => {
                usage.reasoning = Some(count);
            }
            [CacheReadInputTokens] => {
                usage.cached = Some(count);
                self.cache = self.cache.saturating_add(count);
            }
            [CacheCreationInputTokens] => self.cache = self.cache.saturating_add(count),
            [ThoughtsTokenCount] => {
                usage.reasoning = Some(count);
                self.thoughts = count;
            }
            _ => {}
        }
    }

    /// Draws the conclusions that need the whole text.
    fn settle(&mut self) {
        if self.response {
            let finish = self.incomplete.or(self.status);
            let ended = (self.end && !self.error).then_some(Finish::Complete);
            if let Some(finish) = finish.or(ended) {
                self.finish(finish);
            }
        } else {
            self.pending = false;
        }
        let usage = &mut self.usage;
        usage.input = usage.input.map(|input| input.saturating_add(self.cache));
        usage.output = usage
            .output
            .map(|output| output.saturating_add(self.thoughts));
    }
}
