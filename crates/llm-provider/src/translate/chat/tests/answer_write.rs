use llm_call::Kind;

use super::*;

const CREATED: u64 = 1_796_000_000;

/// The events that these pieces become, and what went wrong.
fn stream(
    wants_usage: bool,
    pieces: impl IntoIterator<Item = Piece<'static>>,
) -> (String, Result<(), Garbled>) {
    let mut writer = StreamWriter::new("asked", CREATED, wants_usage);
    let mut out = Vec::new();
    let result = pieces
        .into_iter()
        .try_for_each(|piece| writer.piece(piece, &mut out));
    (String::from_utf8(out).unwrap(), result)
}

/// The events as JSON; comments and the end marker as text.
fn events(text: &str) -> Vec<Value> {
    let text = text.strip_suffix("\n\n").expect("a whole event at the end");
    text.split("\n\n")
        .map(|event| match event.strip_prefix("data: ") {
            Some("[DONE]") | None => event.into(),
            Some(json) => serde_json::from_str(json).unwrap(),
        })
        .collect()
}

fn whole_of(pieces: impl IntoIterator<Item = Piece<'static>>) -> Result<Value, Garbled> {
    let mut writer = WholeWriter::new("asked", CREATED, false);
    for piece in pieces {
        writer.piece(piece);
    }
    let json = writer.finish()?;
    Ok(serde_json::from_slice(&json).unwrap())
}

fn start() -> Piece<'static> {
    Piece::Start {
        id: "msg_1".into(),
        model: "claude".into(),
    }
}

fn text(text: &'static str) -> Piece<'static> {
    Piece::Text(text.into())
}

fn call(call: usize, id: &'static str) -> Piece<'static> {
    Piece::ToolCall {
        call,
        id: id.into(),
        name: "f".into(),
    }
}

fn arguments(call: usize, json: &'static str) -> Piece<'static> {
    Piece::Arguments {
        call,
        json: json.into(),
    }
}

fn chunk(delta: &Value, finish: &Value) -> Value {
    json!({
        "id": "msg_1", "object": "chat.completion.chunk", "created": CREATED, "model": "claude",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
    })
}

fn delta(delta: &Value) -> Value {
    chunk(delta, &Value::Null)
}

const COUNTS: Counts = Counts {
    input: Some(30),
    cache_read: Some(20),
    cache_written: Some(5),
    output: Some(7),
    reasoning: Some(2),
};

fn usage() -> Value {
    json!({
        "prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37,
        "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 2},
    })
}

#[test]
fn a_stream_of_words() {
    let (text, result) = stream(
        false,
        [
            Piece::Ping,
            start(),
            Piece::Reasoning("hm".into()),
            text(""),
            text("Hi 👋\n\u{2028}"),
            Piece::Refusal("No.".into()),
            Piece::Lost("citations"),
            Piece::Usage(COUNTS),
            Piece::Finish(Finish::Stop),
            Piece::End,
            // Nothing follows.
            Piece::Ping,
            text("more"),
            Piece::End,
        ],
    );
    result.unwrap();
    assert_eq!(
        events(&text),
        [
            json!(": ping"),
            delta(&json!({"role": "assistant", "content": ""})),
            delta(&json!({"reasoning_content": "hm"})),
            delta(&json!({"content": "Hi 👋\n\u{2028}"})),
            delta(&json!({"refusal": "No."})),
            chunk(&json!({}), &json!("stop")),
            json!("data: [DONE]"),
        ]
    );
}

#[test]
fn usage_ends_a_stream_whose_caller_wants_it() {
    let (text, result) = stream(
        true,
        [
            start(),
            Piece::Usage(Counts {
                output: None,
                ..COUNTS
            }),
            Piece::Finish(Finish::Length),
            Piece::Usage(Counts {
                output: Some(7),
                ..Counts::default()
            }),
            Piece::End,
        ],
    );
    result.unwrap();
    let with_null = |mut chunk: Value| {
        chunk["usage"] = Value::Null;
        chunk
    };
    let mut last = delta(&json!({}));
    last["choices"] = json!([]);
    last["usage"] = usage();
    assert_eq!(
        events(&text),
        [
            with_null(delta(&json!({"role": "assistant", "content": ""}))),
            with_null(chunk(&json!({}), &json!("length"))),
            last,
            json!("data: [DONE]"),
        ]
    );
    // None was said: none is made up.
    let (text, result) = stream(true, [start(), Piece::Finish(Finish::Stop), Piece::End]);
    result.unwrap();
    assert_eq!(events(&text).len(), 3);
}

#[test]
fn calls_of_a_stream() {
    let (text, result) = stream(
        false,
        [
            start(),
            call(0, "toolu/1"),
            arguments(0, ""),
            call(1, ""),
            arguments(0, "{\"a\":"),
            arguments(1, "no JSON"),
            arguments(0, "1}"),
            Piece::ToolEnd { call: 0 },
            call(2, "3"),
            Piece::ToolEnd { call: 2 },
            Piece::ToolEnd { call: 2 },
            call(3, "4"),
            Piece::Finish(Finish::ToolCalls),
            Piece::End,
        ],
    );
    result.unwrap();
    let begin = |index: usize, id: &str| {
        delta(&json!({"tool_calls": [{
            "index": index, "id": id, "type": "function",
            "function": {"name": "f", "arguments": ""},
        }]}))
    };
    let go_on = |index: usize, json: &str| {
        delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": json}}]}))
    };
    assert_eq!(
        events(&text)[1..],
        [
            begin(0, "toolu/1"),
            begin(1, "call_1796000000_1"),
            go_on(0, "{\"a\":"),
            go_on(1, "no JSON"),
            go_on(0, "1}"),
            begin(2, "3"),
            go_on(2, "{}"),
            begin(3, "4"),
            go_on(3, "{}"),
            chunk(&json!({}), &json!("tool_calls")),
            json!("data: [DONE]"),
        ]
    );
}

#[test]
fn reasons() {
    for (finish, reason) in [
        (Finish::Stop, "stop"),
        (Finish::StopSequence(Some("x".to_owned())), "stop"),
        (Finish::Pause, "stop"),
        (Finish::Length, "length"),
        (Finish::ToolCalls, "tool_calls"),
        (Finish::Filtered, "content_filter"),
    ] {
        let pieces = [start(), Piece::Finish(finish), Piece::End];
        let (text, _) = stream(false, pieces.clone());
        assert_eq!(events(&text)[1], chunk(&json!({}), &json!(reason)));
        let whole = whole_of(pieces).unwrap();
        assert_eq!(whole["choices"][0]["finish_reason"], reason);
    }
}

#[test]
fn what_the_target_does_not_say_is_made_up_here() {
    let nothing = Piece::Start {
        id: "".into(),
        model: "".into(),
    };
    for first in [Some(nothing), None] {
        let pieces = first.into_iter().chain([text("Hi")]);
        let events = events(&stream(false, pieces).0);
        assert_eq!(events.len(), 2);
        for event in events {
            assert_eq!(event["id"], "chatcmpl-1796000000");
            assert_eq!(event["model"], "asked");
        }
    }
}

#[test]
fn a_failure_is_the_last_event() {
    for (kind, kind_of_error, code) in [
        (Kind::Overloaded, "server_error", "server_is_overloaded"),
        (Kind::RateLimited, "requests", "rate_limit_exceeded"),
        (
            Kind::QuotaExhausted,
            "insufficient_quota",
            "insufficient_quota",
        ),
        (Kind::ServerError, "server_error", "server_error"),
        (Kind::Interrupted, "server_error", "interrupted"),
        (
            Kind::ContextTooLong,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (Kind::Permission, "invalid_request_error", "permission"),
    ] {
        let failed = Piece::Failed {
            kind,
            message: "It \"broke\"\n.".into(),
        };
        let error = json!({"error": {
            "message": "It \"broke\"\n.", "type": kind_of_error, "param": null, "code": code,
        }});
        let pieces = [
            start(),
            text("Hi"),
            failed,
            text("more"),
            Piece::Finish(Finish::Stop),
            Piece::End,
        ];
        let (text, result) = stream(true, pieces.clone());
        result.unwrap();
        assert_eq!(events(&text)[2..], *std::slice::from_ref(&error));
        assert!(whole_of(pieces).is_err());
    }
}

#[test]
fn no_end_is_made_up() {
    let (text_, result) = stream(true, [start(), text("Hi"), Piece::Usage(COUNTS)]);
    result.unwrap();
    assert!(!text_.contains("[DONE]") && !text_.contains("\"stop\""));
    let (_, result) = stream(true, [start(), text("Hi"), Piece::End]);
    assert_eq!(
        result,
        Err(Garbled("the answer ends without a finish".into()))
    );
    for pieces in [
        vec![start(), text("Hi"), Piece::End],
        vec![start(), text("Hi"), Piece::Finish(Finish::Stop)],
        vec![],
    ] {
        assert!(whole_of(pieces).is_err());
    }
}

#[test]
fn pieces_out_of_order_are_garbled() {
    for pieces in [
        vec![start(), start()],
        vec![start(), Piece::Finish(Finish::Stop), text("Hi")],
        vec![
            start(),
            Piece::Finish(Finish::Stop),
            Piece::Finish(Finish::Stop),
        ],
        vec![start(), call(1, "x")],
        vec![start(), arguments(0, "{}")],
        vec![start(), Piece::ToolEnd { call: 0 }],
        (0..1025).map(|i| call(i, "x")).collect(),
    ] {
        assert!(stream(false, pieces).1.is_err());
    }
    for piece in [call(1, "x"), arguments(0, "{}")] {
        let pieces = [start(), piece, Piece::Finish(Finish::Stop), Piece::End];
        assert!(whole_of(pieces).is_err());
    }
}

#[test]
fn a_whole_answer() {
    let whole = whole_of([
        start(),
        Piece::Reasoning("h".into()),
        Piece::Reasoning("m".into()),
        text("H"),
        text("i"),
        call(0, "toolu_1"),
        call(1, ""),
        arguments(0, "{\"a\":"),
        arguments(0, " 1}"),
        Piece::ToolEnd { call: 0 },
        Piece::Usage(COUNTS),
        Piece::Finish(Finish::ToolCalls),
        Piece::End,
    ]);
    assert_eq!(
        whole.unwrap(),
        json!({
            "id": "msg_1", "object": "chat.completion", "created": CREATED, "model": "claude",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "Hi", "refusal": null,
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {"id": "toolu_1", "type": "function",
                         "function": {"name": "f", "arguments": "{\"a\": 1}"}},
                        {"id": "call_1796000000_1", "type": "function",
                         "function": {"name": "f", "arguments": "{}"}},
                    ],
                },
                "logprobs": null,
                "finish_reason": "tool_calls",
            }],
            "usage": usage(),
        })
    );
}

#[test]
fn the_content_is_null_where_something_else_was_said() {
    let message = |pieces: Vec<Piece<'static>>| {
        let end = [Piece::Finish(Finish::Stop), Piece::End];
        let whole = whole_of(pieces.into_iter().chain(end)).unwrap();
        assert_eq!(whole.get("usage"), None);
        whole["choices"][0]["message"].clone()
    };
    assert_eq!(message(vec![start()])["content"], "");
    assert_eq!(message(vec![start(), call(0, "x")])["content"], Value::Null);
    assert_eq!(
        message(vec![start(), Piece::Refusal("No.".into())]),
        json!({"role": "assistant", "content": null, "refusal": "No."})
    );
}

/// What was read from a stream is written as the same stream.
#[test]
fn there_and_back_again() {
    let (text, _) = stream(
        true,
        [
            start(),
            Piece::Reasoning("hm".into()),
            text("Hi"),
            call(0, "a"),
            arguments(0, "{}"),
            Piece::Usage(COUNTS),
            Piece::Finish(Finish::ToolCalls),
            Piece::End,
        ],
    );
    let data: Vec<_> = text
        .trim_end()
        .split("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap())
        .collect();
    let pieces = streamed(&data).unwrap();
    assert_eq!(stream(true, pieces).0, text);
}
