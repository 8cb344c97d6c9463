//! Reads a target's answer.

use std::{borrow::Cow, time::SystemTime};

use llm_call::{Classify, Kind, Seen, Standard};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::piece::{Counts, Finish, Garbled, Piece},
    answer_shapes::{
        Block, BlockDelta, BlockStart, BlockStop, Delta, Failure, Kinded, Message, MessageDelta,
        MessageStart, Stop, Usage,
    },
    text::Text,
};

/// The most calls of tools that can be open at a time. They come one after another.
const MOST_OPEN: usize = 128;

/// Reads an answer: the events of a stream, or the whole.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    started: bool,
    finished: bool,
    ended: bool,
    /// Calls so far.
    calls: usize,
    open: Vec<Open>,
    usage: Usage,
}

/// A call of a tool whose block is open.
#[derive(Debug)]
struct Open {
    block: u64,
    call: usize,
    /// What the start of the block had; of no account where fragments come.
    input: Option<Box<RawValue>>,
    has_fragments: bool,
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T, Garbled> {
    serde_json::from_slice(json).map_err(|error| Garbled(format!("{what}: {error}").into()))
}

impl Reader {
    /// Reads one event of a stream. Those that nobody knows are left out.
    pub(crate) fn event(
        &mut self,
        name: &[u8],
        data: &[u8],
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        if self.ended {
            return Ok(());
        }
        match name {
            b"" | b"message" => {
                // Some proxies leave the names of the events out.
                let event: Kinded<'_> = parse(data, "an event")?;
                match &*event.kind.0 {
                    "" if event.error.is_some() => self.fail(data, out),
                    "" | "message" => Ok(()),
                    kind => self.event(kind.as_bytes(), data, out),
                }
            }
            b"content_block_delta" => {
                let BlockDelta { index, delta } = parse(data, "content_block_delta")?;
                self.delta(index, delta, out);
                Ok(())
            }
            b"content_block_start" => {
                let BlockStart {
                    index,
                    content_block,
                } = parse(data, "content_block_start")?;
                self.block(index, content_block, out)
            }
            b"content_block_stop" => {
                let BlockStop { index } = parse(data, "content_block_stop")?;
                if let Some(i) = self.open.iter().position(|open| open.block == index) {
                    close(&self.open.remove(i), out);
                }
                Ok(())
            }
            b"message_start" => {
                let MessageStart { message } = parse(data, "message_start")?;
                self.start(message.id, message.model, out);
                self.count(message.usage, out);
                Ok(())
            }
            b"message_delta" => {
                let MessageDelta { delta, usage } = parse(data, "message_delta")?;
                self.begin(out);
                self.stop(delta, out);
                self.count(usage, out);
                Ok(())
            }
            b"message_stop" => {
                self.begin(out);
                self.end(out);
                Ok(())
            }
            b"ping" => {
                out(Piece::Ping);
                Ok(())
            }
            b"error" => self.fail(data, out),
            _ => Ok(()),
        }
    }

    /// The body of the stream came to its end. An answer that finished lacks nothing but the marker.
    pub(crate) fn at_eof(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        if self.finished && !self.ended {
            self.end(out);
        }
    }

    /// Reads a whole answer.
    pub(crate) fn whole(
        &mut self,
        json: &[u8],
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        let whole: Kinded<'_> = parse(json, "the answer")?;
        if whole.kind.0 == "error" || whole.error.is_some() {
            return self.fail(json, out);
        }
        let message: Message<'_> = parse(json, "the answer")?;
        let content = message
            .content
            .ok_or(Garbled("the answer: it has no content".into()))?;
        self.start(message.id, message.model, out);
        for (index, block) in (0..).zip(content) {
            self.block(index, block, out)?;
            for open in self.open.drain(..) {
                close(&open, out);
            }
        }
        let stop = Stop {
            stop_reason: message.stop_reason,
            stop_sequence: message.stop_sequence,
            stop_details: message.stop_details,
        };
        self.stop(stop, out);
        if !self.finished {
            return Err(Garbled("the answer: it has no stop_reason".into()));
        }
        self.count(message.usage, out);
        self.end(out);
        Ok(())
    }

    fn start(&mut self, id: Text<'_>, model: Text<'_>, out: &mut impl FnMut(Piece<'_>)) {
        if !self.started {
            self.started = true;
            let (id, model) = (id.0, model.0);
            out(Piece::Start { id, model });
        }
    }

    /// A start for a stream that has none.
    fn begin(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        self.start(Text::default(), Text::default(), out);
    }

    fn block(
        &mut self,
        index: u64,
        raw: &RawValue,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        self.begin(out);
        let json = raw.get().as_bytes();
        let Kinded { kind, .. } = parse(json, "a content block")?;
        match &*kind.0 {
            "text" => {
                let block: Block<'_> = parse(json, "a text block")?;
                if block.citations.is_some_and(|list| list.get() != "[]") {
                    out(Piece::Lost("citations"));
                }
                text(block.text, out);
            }
            "thinking" => {
                let block: Block<'_> = parse(json, "a thinking block")?;
                reasoning(block.thinking, out);
            }
            "tool_use" => {
                let block: Block<'_> = parse(json, "a tool_use block")?;
                if self.open.len() >= MOST_OPEN {
                    return Err(Garbled("too many tool_use blocks are open".into()));
                }
                let call = self.calls;
                self.calls += 1;
                let (id, name) = (block.id.0, block.name.0);
                out(Piece::ToolCall { call, id, name });
                self.open.push(Open {
                    block: index,
                    call,
                    input: block
                        .input
                        .filter(|input| says_much(input))
                        .map(ToOwned::to_owned),
                    has_fragments: false,
                });
            }
            "redacted_thinking" => out(Piece::Lost("redacted_thinking")),
            "server_tool_use" | "mcp_tool_use" => out(Piece::Lost("server_tool_use")),
            "container_upload" => out(Piece::Lost("container_upload")),
            // Results of tools that the provider itself runs, and what is yet to be invented.
            _ => out(Piece::Lost("content")),
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta<'_>, out: &mut impl FnMut(Piece<'_>)) {
        self.begin(out);
        match &*delta.kind.0 {
            "text_delta" => text(delta.text, out),
            "thinking_delta" => reasoning(delta.thinking, out),
            "input_json_delta" if !delta.partial_json.0.is_empty() => {
                // Others are for tools that the provider itself runs.
                if let Some(open) = self.open.iter_mut().find(|open| open.block == index) {
                    open.has_fragments = true;
                    out(Piece::Arguments {
                        call: open.call,
                        json: delta.partial_json.0,
                    });
                }
            }
            "citations_delta" => out(Piece::Lost("citations")),
            _ => {}
        }
    }

    fn stop(&mut self, stop: Stop<'_>, out: &mut impl FnMut(Piece<'_>)) {
        let Some(reason) = stop.stop_reason.filter(|reason| !reason.0.is_empty()) else {
            return;
        };
        for open in self.open.drain(..) {
            close(&open, out);
        }
        let finish = match &*reason.0 {
            "stop_sequence" => {
                let sequence = stop.stop_sequence.map(|sequence| sequence.0.into_owned());
                Finish::StopSequence(sequence)
            }
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "tool_use" => Finish::ToolCalls,
            "pause_turn" => Finish::Pause,
            "refusal" => {
                let words = stop.stop_details.unwrap_or_default().explanation.0;
                if !words.is_empty() {
                    out(Piece::Refusal(words));
                }
                Finish::Filtered
            }
            _ => Finish::Stop,
        };
        self.finished = true;
        out(Piece::Finish(finish));
    }

    /// Later counts replace earlier ones, field by field, before they are added up: the end of a
    /// stream may repeat some of its beginning only.
    fn count(&mut self, usage: Option<Usage>, out: &mut impl FnMut(Piece<'_>)) {
        let Some(new) = usage else { return };
        let old = self.usage;
        let seen = Usage {
            input_tokens: new.input_tokens.or(old.input_tokens),
            cache_creation_input_tokens: new
                .cache_creation_input_tokens
                .or(old.cache_creation_input_tokens),
            cache_read_input_tokens: new.cache_read_input_tokens.or(old.cache_read_input_tokens),
            output_tokens: new.output_tokens.or(old.output_tokens),
            output_tokens_details: new.output_tokens_details.or(old.output_tokens_details),
        };
        self.usage = seen;
        let cached = [
            seen.cache_read_input_tokens,
            seen.cache_creation_input_tokens,
        ];
        let whole = |fresh| {
            let cached = cached.into_iter().flatten();
            cached.fold(fresh, u64::saturating_add)
        };
        out(Piece::Usage(Counts {
            input: seen.input_tokens.map(whole),
            cache_read: seen.cache_read_input_tokens,
            cache_written: seen.cache_creation_input_tokens,
            output: seen.output_tokens,
            reasoning: seen
                .output_tokens_details
                .and_then(|details| details.thinking_tokens),
        }));
    }

    fn end(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        self.ended = true;
        out(Piece::End);
    }

    fn fail(&mut self, json: &[u8], out: &mut impl FnMut(Piece<'_>)) -> Result<(), Garbled> {
        self.ended = true;
        let message = failure(json);
        // The one judge of errors; it asks for the time to read dates in headers, and has none here.
        let seen = Seen::Event {
            headers: None,
            data: json,
        };
        let kind: Kind = Standard::default()
            .classify(&seen, SystemTime::UNIX_EPOCH)
            .kind;
        out(Piece::Failed {
            kind,
            message: message.unwrap_or(Cow::Borrowed("the provider failed and does not say why")),
        });
        Ok(())
    }
}

/// The words of an error, in whichever shape.
fn failure(json: &[u8]) -> Option<Cow<'_, str>> {
    let whole: Kinded<'_> = serde_json::from_slice(json).ok()?;
    let error = whole.error?.get();
    if let Ok(Text(message)) = serde_json::from_str(error) {
        return Some(message);
    }
    let Failure { message, kind } = serde_json::from_str(error).ok()?;
    [message.0, kind.0]
        .into_iter()
        .find(|text| !text.is_empty())
}

fn text(text: Text<'_>, out: &mut impl FnMut(Piece<'_>)) {
    if !text.0.is_empty() {
        out(Piece::Text(text.0));
    }
}

fn reasoning(text: Text<'_>, out: &mut impl FnMut(Piece<'_>)) {
    if !text.0.is_empty() {
        out(Piece::Reasoning(text.0));
    }
}

/// Whether there is anything in an input.
fn says_much(input: &RawValue) -> bool {
    let inside = input.get().trim_matches(['{', '}']);
    input.get() != "null" && !inside.trim().is_empty()
}

fn close(open: &Open, out: &mut impl FnMut(Piece<'_>)) {
    let call = open.call;
    if !open.has_fragments {
        let json = open.input.as_deref().map_or("{}", RawValue::get).into();
        out(Piece::Arguments { call, json });
    }
    out(Piece::ToolEnd { call });
}
