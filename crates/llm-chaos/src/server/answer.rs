//! Healthy answers in the three APIs, as JSON and as events.

use serde_json::{Value, json};

use super::ask::{Ask, token_text};
use crate::Api;

/// Seconds since 1970 in every answer: answers are the same on every run.
const CREATED: u64 = 1_796_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
    ContentFilter,
}

/// An answer of tokens `first..first + count`.
#[derive(Clone, Debug)]
pub(super) struct Answer<'a> {
    pub(super) ask: &'a Ask,
    pub(super) server: &'a str,
    pub(super) n: u64,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) finish: Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Before the first token.
    Open,
    Token,
    /// The finish reason, usage, and what surrounds them.
    Finish,
    /// The marker without which a stream is not complete.
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) part: Part,
    pub(super) text: String,
}

impl Answer<'_> {
    pub(super) fn id(&self) -> String {
        let prefix = match self.ask.api {
            Api::Chat => "chatcmpl-",
            Api::Responses => "resp_",
            Api::Messages => "msg_",
        };
        format!("{prefix}{}_{}", self.server, self.n)
    }

    fn text(&self) -> String {
        (self.first..self.first + self.count)
            .map(token_text)
            .collect()
    }

    fn usage(&self) -> Value {
        let (input, output) = (self.ask.prompt_tokens, self.count);
        match self.ask.api {
            Api::Chat => json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output)
            }),
            Api::Responses => json!({
                "input_tokens": input, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": input.saturating_add(output)
            }),
            Api::Messages => json!({ "input_tokens": input, "output_tokens": output }),
        }
    }

    fn finish_name(&self) -> &'static str {
        match (self.ask.api, self.finish) {
            (Api::Messages, Finish::Stop) => "end_turn",
            (Api::Messages, Finish::Length) => "max_tokens",
            (Api::Messages, Finish::ContentFilter) => "refusal",
            (_, Finish::Stop) => "stop",
            (Api::Chat, Finish::Length) => "length",
            (Api::Responses, Finish::Length) => "max_output_tokens",
            (_, Finish::ContentFilter) => "content_filter",
        }
    }

    /// The body of a plain answer.
    pub(super) fn json(&self) -> String {
        let (model, text) = (&self.ask.model, self.text());
        let body = match self.ask.api {
            Api::Chat => {
                let content = (self.count > 0).then_some(text);
                json!({
                    "id": self.id(), "object": "chat.completion", "created": CREATED, "model": model,
                    "system_fingerprint": self.server,
                    "choices": [{
                        "index": 0,
                        "message": { "role": "assistant", "content": content, "refusal": null },
                        "logprobs": null,
                        "finish_reason": self.finish_name(),
                    }],
                    "usage": self.usage(),
                })
            }
            Api::Responses => self.response(true),
            Api::Messages => {
                let content = if self.count > 0 {
                    json!([{ "type": "text", "text": text }])
                } else {
                    json!([])
                };
                json!({
                    "id": self.id(), "type": "message", "role": "assistant", "model": model,
                    "content": content, "stop_reason": self.finish_name(), "stop_sequence": null,
                    "usage": self.usage(),
                })
            }
        };
        body.to_string()
    }

    /// The response object of the responses API, at its start or at its end.
    fn response(&self, done: bool) -> Value {
        let status = match (done, self.finish) {
            (false, _) => "in_progress",
            (true, Finish::Stop) => "completed",
            (true, _) => "incomplete",
        };
        let incomplete = (status == "incomplete").then(|| json!({ "reason": self.finish_name() }));
        let output = if done && self.count > 0 {
            json!([self.message("completed")])
        } else {
            json!([])
        };
        json!({
            "id": self.id(), "object": "response", "created_at": CREATED, "model": self.ask.model,
            "status": status, "error": null, "incomplete_details": incomplete, "output": output,
            "instructions": null, "metadata": { "server": self.server }, "parallel_tool_calls": true,
            "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "usage": if done { self.usage() } else { Value::Null },
        })
    }

    fn message(&self, status: &str) -> Value {
        let content = if status == "completed" {
            json!([{ "type": "output_text", "text": self.text(), "annotations": [], "logprobs": [] }])
        } else {
            json!([])
        };
        let id = format!("msg_{}_{}", self.server, self.n);
        json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content })
    }

    /// The events of a streamed answer, in order.
    pub(super) fn events(&self) -> Vec<Event> {
        match self.ask.api {
            Api::Chat => self.chat_events(),
            Api::Responses => self.response_events(),
            Api::Messages => self.message_events(),
        }
    }

    fn tokens(&self) -> impl Iterator<Item = String> {
        (self.first..self.first + self.count).map(token_text)
    }

    fn chat_events(&self) -> Vec<Event> {
        let chunk = |part, choices: Value, usage: Value| {
            let mut body = json!({
                "id": self.id(), "object": "chat.completion.chunk", "created": CREATED,
                "model": self.ask.model, "system_fingerprint": self.server, "choices": choices,
            });
            // With `include_usage` every chunk has the field, null until the last.
            if self.ask.include_usage {
                body["usage"] = usage;
            }
            Event {
                part,
                text: format!("data: {body}\n\n"),
            }
        };
        let choice = |delta: Value, finish: Value| json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        let role = json!({ "role": "assistant", "content": "", "refusal": null });
        let mut events = vec![chunk(Part::Open, choice(role, Value::Null), Value::Null)];
        events.extend(self.tokens().map(|text| {
            chunk(
                Part::Token,
                choice(json!({ "content": text }), Value::Null),
                Value::Null,
            )
        }));
        events.push(chunk(
            Part::Finish,
            choice(json!({}), self.finish_name().into()),
            Value::Null,
        ));
        if self.ask.include_usage {
            events.push(chunk(Part::Finish, json!([]), self.usage()));
        }
        events.push(Event {
            part: Part::End,
            text: "data: [DONE]\n\n".to_owned(),
        });
        events
    }

    fn response_events(&self) -> Vec<Event> {
        let item = format!("msg_{}_{}", self.server, self.n);
        let mut parts = vec![
            (
                Part::Open,
                "response.created",
                json!({ "response": self.response(false) }),
            ),
            (
                Part::Open,
                "response.in_progress",
                json!({ "response": self.response(false) }),
            ),
        ];
        if self.count > 0 {
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            let message = self.message("in_progress");
            parts.push((
                Part::Open,
                "response.output_item.added",
                json!({ "output_index": 0, "item": message }),
            ));
            parts.push((
                Part::Open,
                "response.content_part.added",
                json!({ "item_id": item, "output_index": 0, "content_index": 0, "part": part }),
            ));
            parts.extend(self.tokens().map(|text| {
                let delta = json!({ "item_id": item, "output_index": 0, "content_index": 0, "delta": text });
                (Part::Token, "response.output_text.delta", delta)
            }));
            let text = json!({ "item_id": item, "output_index": 0, "content_index": 0, "text": self.text() });
            parts.push((Part::Finish, "response.output_text.done", text));
            let message = self.message("completed");
            parts.push((
                Part::Finish,
                "response.output_item.done",
                json!({ "output_index": 0, "item": message }),
            ));
        }
        let end = if self.finish == Finish::Stop {
            "response.completed"
        } else {
            "response.incomplete"
        };
        parts.push((Part::End, end, json!({ "response": self.response(true) })));
        let numbered = parts.into_iter().enumerate();
        numbered
            .map(|(sequence, (part, name, mut body))| {
                body["type"] = name.into();
                body["sequence_number"] = sequence.into();
                named_event(part, name, &body)
            })
            .collect()
    }

    fn message_events(&self) -> Vec<Event> {
        let event =
            |part, body: Value| named_event(part, body["type"].as_str().unwrap_or(""), &body);
        let start = json!({
            "type": "message_start",
            "message": {
                "id": self.id(), "type": "message", "role": "assistant", "model": self.ask.model,
                "content": [], "stop_reason": null, "stop_sequence": null,
                "usage": { "input_tokens": self.ask.prompt_tokens, "output_tokens": 1 },
            },
        });
        let mut events = vec![event(Part::Open, start)];
        if self.count > 0 {
            let block = json!({ "type": "text", "text": "" });
            events.push(event(
                Part::Open,
                json!({ "type": "content_block_start", "index": 0, "content_block": block }),
            ));
            events.push(event(Part::Open, json!({ "type": "ping" })));
            events.extend(self.tokens().map(|text| {
                let delta = json!({ "type": "text_delta", "text": text });
                event(
                    Part::Token,
                    json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
                )
            }));
            events.push(event(
                Part::Finish,
                json!({ "type": "content_block_stop", "index": 0 }),
            ));
        }
        let delta = json!({ "stop_reason": self.finish_name(), "stop_sequence": null });
        let usage = json!({ "output_tokens": self.count });
        events.push(event(
            Part::Finish,
            json!({ "type": "message_delta", "delta": delta, "usage": usage }),
        ));
        events.push(event(Part::End, json!({ "type": "message_stop" })));
        events
    }
}

fn named_event(part: Part, name: &str, body: &Value) -> Event {
    Event {
        part,
        text: format!("event: {name}\ndata: {body}\n\n"),
    }
}
