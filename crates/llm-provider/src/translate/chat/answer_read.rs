//! A target's chat completion, streamed or whole, as OpenAI and those that copy it send it.

mod wire;

use std::{borrow::Cow, time::SystemTime};

use llm_call::{Classify, Kind, Seen, Standard};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::wire::{CallSaid, Choice, Chunk, Part, Said, Text, Usage, parse};
use crate::translate::piece::{Counts, Finish, Garbled, Piece};

/// The most calls of tools in one answer.
const MOST_CALLS: usize = 1024;

/// The longest id of a call that is compared with later ones.
const LONGEST_ID: usize = 1024;

/// What is known of an answer so far.
#[derive(Default, Debug)]
pub(crate) struct Reader {
    started: bool,
    calls: Vec<Call>,
    announced: usize,
    /// Handed on at the end: some servers say it more than once, or before the last words.
    finish: Option<Finish>,
    /// The end, or a failure, was handed on; or the end marker came without a finish.
    over: bool,
}

/// A call of a tool, as the server counts them.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    /// Its number for the caller, once its name is known.
    number: Option<usize>,
}

impl Reader {
    /// Takes one event of a stream.
    pub(crate) fn event(
        &mut self,
        name: &[u8],
        data: &[u8],
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        let data = data.trim_ascii();
        if self.over || data.is_empty() {
            return Ok(());
        }
        if data.starts_with(b"[DONE]") {
            self.at_eof(out);
            self.over = true;
            return Ok(());
        }
        self.read(data, name == b"error", out)
    }

    /// The stream ended. That is its end if the model has finished: not every server sends `[DONE]`.
    pub(crate) fn at_eof(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        if self.over {
            return;
        }
        if let Some(finish) = self.finish.take() {
            let finish = match finish {
                // A call that the caller demanded, or a server that knows one reason only.
                Finish::Stop if self.announced > 0 => Finish::ToolCalls,
                finish => finish,
            };
            self.over = true;
            out(Piece::Finish(finish));
            out(Piece::End);
        }
    }

    /// Takes a whole answer.
    pub(crate) fn whole(
        &mut self,
        json: &[u8],
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
        self.read(json.trim_ascii(), false, out)?;
        if self.over {
            return Ok(());
        }
        if self.finish.is_none() {
            return Err(Garbled("the answer has no finish_reason".into()));
        }
        for call in 0..self.announced {
            out(Piece::ToolEnd { call });
        }
        self.at_eof(out);
        Ok(())
    }

    fn read(
        &mut self,
        data: &[u8],
        is_error: bool,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        let text = || std::str::from_utf8(data).unwrap_or_default();
        if is_error {
            return self.fail(data, message_in(text()), out);
        }
        // Google wraps its errors in a list.
        if data.starts_with(b"[")
            && let Some(message) = message_in(text())
        {
            return self.fail(data, Some(message), out);
        }
        let chunk: Chunk<'_> = parse(data)?;
        let failed = chunk
            .choices
            .iter()
            .flatten()
            .find_map(|choice| choice.error.filter(|error| is_said(error)));
        if let Some(error) = failed
            .or_else(|| chunk.error.filter(|error| is_said(error)))
            .or_else(|| chunk.x_groq.as_ref()?.error.filter(|error| is_said(error)))
        {
            return self.fail(data, message_in(error.get()), out);
        }
        let is_flat = chunk.object.is_some_and(|object| object.0 == "error");
        let is_bare = chunk.choices.is_none() && chunk.message.is_some_and(is_said_alone);
        if is_flat || is_bare {
            return self.fail(data, message_in(text()), out);
        }
        let choices = chunk.choices.unwrap_or_default();
        let inner = choices.iter().find_map(|choice| choice.usage.as_ref());
        let usage = chunk
            .usage
            .as_ref()
            .or(chunk.x_groq.as_ref().and_then(|groq| groq.usage.as_ref()))
            .or(inner)
            .map(Usage::counts)
            .filter(|counts| *counts != Counts::default());
        // A chunk without choices is not the first of the answer: some servers send one before it.
        if !self.started && (!choices.is_empty() || usage.is_some()) {
            self.started = true;
            out(Piece::Start {
                id: chunk.id.unwrap_or_default().0,
                model: chunk.model.unwrap_or_default().0,
            });
        }
        // There is one choice, since one was asked for.
        for choice in choices {
            if choice.index.is_none_or(|index| index == 0) {
                self.choice(choice, out)?;
            }
        }
        if let Some(counts) = usage
            && !self.over
        {
            out(Piece::Usage(counts));
        }
        Ok(())
    }

    fn choice(
        &mut self,
        choice: Choice<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        // Some streams repeat the whole message in each chunk.
        let is_whole = choice.delta.is_none();
        if let Some(said) = choice.delta.or(choice.message) {
            self.said(said, is_whole, out)?;
        }
        let Some(reason) = choice.finish_reason.filter(|reason| !reason.0.is_empty()) else {
            return Ok(());
        };
        let kind = match &*reason.0 {
            "error" => Kind::ServerError,
            "insufficient_system_resource" => Kind::Overloaded,
            "cancelled" | "abort" => Kind::Cancelled,
            reason => {
                self.finish = Some(finish(reason));
                return Ok(());
            }
        };
        self.over = true;
        out(Piece::Failed {
            kind,
            message: format!("the answer broke off (finish_reason {})", reason.0).into(),
        });
        Ok(())
    }

    fn said(
        &mut self,
        said: Said<'_>,
        is_whole: bool,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        // Where both stand, they are the same.
        let reasoning = [said.reasoning_content, said.reasoning];
        if let Some(text) = reasoning
            .into_iter()
            .flatten()
            .find(|text| !text.0.is_empty())
        {
            out(Piece::Reasoning(text.0));
        }
        if let Some(content) = said.content {
            read_content(content, out)?;
        }
        if let Some(refusal) = said.refusal.filter(|text| !text.0.is_empty()) {
            out(Piece::Refusal(refusal.0));
        }
        for (name, list) in [("annotations", said.annotations), ("images", said.images)] {
            if list.is_some_and(|list| list.get() != "[]") {
                out(Piece::Lost(name));
            }
        }
        for (place, call) in said.tool_calls.into_iter().flatten().enumerate() {
            let index = if is_whole {
                u64::try_from(place).ok()
            } else {
                call.index
            };
            self.call(index, call, out)?;
        }
        Ok(())
    }

    fn call(
        &mut self,
        index: Option<u64>,
        said: CallSaid<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        let id = said.id.unwrap_or_default().0;
        let function = said.function.unwrap_or_default();
        let name = function.name.unwrap_or_default().0;
        let known = match index {
            Some(_) => self.calls.iter_mut().rfind(|call| call.index == index),
            None => self.calls.last_mut(),
        };
        // Some servers number all calls 0, or none; then the name, and another id, begin a new one.
        let is_next = |call: &Call| {
            call.number.is_some()
                && !name.is_empty()
                && if id.is_empty() {
                    index.is_none()
                } else {
                    call.id != id
                }
        };
        let call = match known {
            Some(call) if !is_next(call) => call,
            _ => {
                if self.calls.len() == MOST_CALLS {
                    return Err(Garbled("the answer has too many tool calls".into()));
                }
                self.calls.push(Call {
                    index,
                    id: String::new(),
                    number: None,
                });
                let Some(call) = self.calls.last_mut() else {
                    return Ok(());
                };
                call
            }
        };
        if call.id.is_empty() && !id.is_empty() {
            if id.len() > LONGEST_ID {
                return Err(Garbled("the id of a tool call is too long".into()));
            }
            call.id = id.into_owned();
        }
        if call.number.is_none() && !name.is_empty() {
            call.number = Some(self.announced);
            out(Piece::ToolCall {
                call: self.announced,
                id: call.id.as_str().into(),
                name,
            });
            self.announced += 1;
        }
        let Some(arguments) = function.arguments else {
            return Ok(());
        };
        // An object where a string with one is due (some copies of the API).
        let json = match arguments.get().as_bytes().first() {
            Some(b'"') => parse::<Text<'_>>(arguments.get().as_bytes())?.0,
            _ => arguments.get().into(),
        };
        if json.is_empty() {
            return Ok(());
        }
        match call.number {
            Some(call) => {
                out(Piece::Arguments { call, json });
                Ok(())
            }
            None => Err(Garbled("a tool call has no name".into())),
        }
    }

    fn fail(
        &mut self,
        data: &[u8],
        message: Option<Cow<'_, str>>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        // Without headers there are no dates to compare with.
        let seen = Seen::Event {
            headers: None,
            data,
        };
        let outcome = Standard::default().classify(&seen, SystemTime::UNIX_EPOCH);
        self.over = true;
        out(Piece::Failed {
            kind: outcome.kind,
            message: message.unwrap_or("the provider failed".into()),
        });
        Ok(())
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => {
            Finish::Length
        }
        "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
        "content_filter" | "content_filtered" | "refusal" | "SAFETY" => Finish::Filtered,
        "stop_sequence" => Finish::StopSequence(None),
        _ => Finish::Stop,
    }
}

/// A text, or a list of parts of which some are text (Mistral).
fn read_content(content: &RawValue, out: &mut impl FnMut(Piece<'_>)) -> Result<(), Garbled> {
    let json = content.get().as_bytes();
    if !json.starts_with(b"[") {
        let text: Text<'_> = parse(json)?;
        if !text.0.is_empty() {
            out(Piece::Text(text.0));
        }
        return Ok(());
    }
    for part in parse::<Vec<Part<'_>>>(json)? {
        if let Some(text) = part.text.filter(|text| !text.0.is_empty()) {
            out(Piece::Text(text.0));
        } else if let Some(thinking) = part.thinking {
            let json = thinking.get().as_bytes();
            if !json.starts_with(b"[") {
                let text = parse::<Text<'_>>(json)?.0;
                if !text.is_empty() {
                    out(Piece::Reasoning(text));
                }
                continue;
            }
            for text in parse::<Vec<Part<'_>>>(json)? {
                if let Some(text) = text.text.filter(|text| !text.0.is_empty()) {
                    out(Piece::Reasoning(text.0));
                }
            }
        } else if part.r#type.is_none_or(|kind| kind.0 != "text") {
            out(Piece::Lost("content"));
        }
    }
    Ok(())
}

/// Whether it is a text, and no object: the message of an error that stands alone.
fn is_said_alone(message: &RawValue) -> bool {
    message.get().starts_with('"')
}

/// Whether it is an error that says something.
fn is_said(error: &RawValue) -> bool {
    match error.get().as_bytes() {
        [b'{', ..] => true,
        text => text.len() > 2 && text.starts_with(b"\""),
    }
}

/// The message of an error: a text, an object, or one of these inside of a list or of `error`.
fn message_in(error: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Fault<'a> {
        #[serde(borrow)]
        message: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let mut error = error;
    // Deep enough for all that is known; no answer makes it go on.
    for _ in 0..3 {
        match error.as_bytes().first()? {
            b'"' => return Some(serde_json::from_str::<Text<'_>>(error).ok()?.0),
            b'[' => {
                let list: Vec<&RawValue> = serde_json::from_str(error).ok()?;
                error = list.first()?.get();
            }
            b'{' => {
                let fault: Fault<'_> = serde_json::from_str(error).ok()?;
                error = fault.message.or(fault.error)?.get();
            }
            _ => return None,
        }
    }
    Some(serde_json::from_str::<Text<'_>>(error).ok()?.0)
}
