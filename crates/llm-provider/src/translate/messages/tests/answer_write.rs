use llm_call::{Kind, Phase};
use serde_json::{Value, json};

use super::{
    super::{
        super::piece::{Counts, Finish, Garbled, Piece},
        StreamWriter, WholeWriter,
    },
    arguments, call, start,
};

fn try_stream(pieces: &[Piece<'static>]) -> (Vec<Value>, Result<(), Garbled>) {
    let mut writer = StreamWriter::new("asked", 0x5f, false);
    let mut bytes = Vec::new();
    let done = pieces
        .iter()
        .try_for_each(|piece| writer.piece(piece.clone(), &mut bytes));
    let text = String::from_utf8(bytes).unwrap();
    let events = text.split_terminator("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    (events.collect(), done)
}

fn stream(pieces: &[Piece<'static>]) -> Vec<Value> {
    let (events, done) = try_stream(pieces);
    done.unwrap();
    events
}

fn whole(pieces: &[Piece<'static>]) -> Result<Value, Garbled> {
    let mut writer = WholeWriter::new("asked", 0x5f, false);
    for piece in pieces {
        writer.piece(piece.clone());
    }
    Ok(serde_json::from_slice(&writer.finish()?).unwrap())
}

fn text(text: &'static str) -> Piece<'static> {
    Piece::Text(text.into())
}

fn started(id: &str, model: &str) -> Value {
    json!({"type": "message_start", "message": {
        "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(0, 0, 0, 0),
    }})
}

fn usage(input: u64, written: u64, read: u64, output: u64) -> Value {
    json!({
        "input_tokens": input, "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read, "output_tokens": output,
    })
}

fn opens(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn opens_tool(index: usize, id: &str, name: &str) -> Value {
    opens(
        index,
        &json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
    )
}

fn writes(index: usize, text: &str) -> Value {
    let delta = json!({"type": "text_delta", "text": text});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn argues(index: usize, json: &str) -> Value {
    let delta = json!({"type": "input_json_delta", "partial_json": json});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn closes(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn stops(reason: &str, usage: &Value) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [
        json!({"type": "message_delta", "delta": delta, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn a_stream_of_everything() {
    let counts = |output| Counts {
        input: Some(100),
        cache_read: Some(60),
        cache_written: None,
        output: Some(output),
        reasoning: Some(2),
    };
    let events = stream(&[
        start("chatcmpl-1", "gpt"),
        Piece::Ping,
        Piece::Reasoning("hm".into()),
        Piece::Reasoning("m".into()),
        text(""),
        text("a\u{2028}"),
        text("b😀"),
        Piece::Lost("logprobs"),
        Piece::Usage(counts(1)),
        call(0, "call_1", "f"),
        arguments(0, "{\"a\":"),
        arguments(0, "\"}{\\\"\"}"),
        call(1, "", "g"),
        arguments(1, "{}"),
        Piece::ToolEnd { call: 1 },
        Piece::Finish(Finish::ToolCalls),
        Piece::Usage(counts(9)),
        Piece::End,
        Piece::End,
        text("never"),
    ]);
    let thinks = |text: &str| {
        let delta = json!({"type": "thinking_delta", "thinking": text});
        json!({"type": "content_block_delta", "index": 0, "delta": delta})
    };
    let mut used = usage(40, 0, 60, 9);
    used["output_tokens_details"] = json!({"thinking_tokens": 2});
    let [delta, stop] = stops("tool_use", &used);
    assert_eq!(
        events,
        [
            started("chatcmpl-1", "gpt"),
            json!({"type": "ping"}),
            opens(
                0,
                &json!({"type": "thinking", "thinking": "", "signature": ""})
            ),
            thinks("hm"),
            thinks("m"),
            closes(0),
            opens(1, &json!({"type": "text", "text": ""})),
            writes(1, "a\u{2028}"),
            writes(1, "b😀"),
            closes(1),
            opens_tool(2, "call_1", "f"),
            argues(2, "{\"a\":"),
            argues(2, "\"}{\\\"\"}"),
            closes(2),
            opens_tool(3, "toolu_5f_1", "g"),
            argues(3, "{}"),
            closes(3),
            delta,
            stop,
        ]
    );
}

#[test]
fn calls_that_are_mixed_are_set_in_order() {
    let events = stream(&[
        start("", ""),
        call(0, "a", "f"),
        call(1, "b", "g"),
        arguments(1, "{\"y\":"),
        arguments(0, "{\"x\":{}"),
        call(2, "c", "h"),
        text("so"),
        text(" it is"),
        arguments(1, "2}"),
        // The first is whole, so the second is written, and so on to the text.
        arguments(0, ",\"z\":1}"),
        arguments(1, " "),
        Piece::Finish(Finish::Stop),
        Piece::End,
    ]);
    let [delta, stop] = stops("tool_use", &usage(0, 0, 0, 0));
    assert_eq!(
        events,
        [
            started("msg_5f_0", "asked"),
            opens_tool(0, "a", "f"),
            argues(0, "{\"x\":{}"),
            argues(0, ",\"z\":1}"),
            closes(0),
            opens_tool(1, "b", "g"),
            argues(1, "{\"y\":2}"),
            closes(1),
            opens_tool(2, "c", "h"),
            closes(2),
            opens(3, &json!({"type": "text", "text": ""})),
            writes(3, "so it is"),
            closes(3),
            delta,
            stop,
        ]
    );
}

#[test]
fn what_is_held_has_a_bound() {
    let mut writer = StreamWriter::new("m", 0, true);
    let mut out = Vec::new();
    let mut give = |piece| writer.piece(piece, &mut out);
    give(call(0, "a", "f")).unwrap();
    give(call(1, "b", "g")).unwrap();
    let chunk = "x".repeat(1024 * 1024);
    let argue = |call| Piece::Arguments {
        call,
        json: chunk.as_str().into(),
    };
    // What is written at once does not count.
    for _ in 0..20 {
        give(argue(0)).unwrap();
    }
    for _ in 0..7 {
        give(argue(1)).unwrap();
    }
    give(argue(1)).unwrap_err();
    let mut writer = StreamWriter::new("m", 0, true);
    let many = (0..1_000_000).try_for_each(|i| writer.piece(call(i, "a", "f"), &mut out));
    many.unwrap_err();
}

#[test]
fn failures() {
    for (kind, name) in [
        (Kind::RateLimited, "rate_limit_error"),
        (Kind::QuotaExhausted, "billing_error"),
        (Kind::Overloaded, "overloaded_error"),
        (Kind::ServerError, "api_error"),
        (Kind::TimedOut(Phase::Upstream), "timeout_error"),
        (Kind::InvalidRequest, "invalid_request_error"),
        (Kind::ContentFiltered, "invalid_request_error"),
        (Kind::RequestTooLarge, "request_too_large"),
        (Kind::Authentication, "authentication_error"),
        (Kind::Permission, "permission_error"),
        (Kind::UnknownModel, "not_found_error"),
        (Kind::Interrupted, "api_error"),
    ] {
        let failed = Piece::Failed {
            kind,
            message: "why".into(),
        };
        let error = json!({"type": "error", "error": {"type": name, "message": "why"}});
        // Nothing is written after it: no end of the block, no end of the message.
        let events = stream(&[
            start("m", "c"),
            text("a"),
            failed.clone(),
            Piece::Finish(Finish::Stop),
            Piece::End,
        ]);
        assert_eq!(events.last(), Some(&error));
        assert_eq!(events.len(), 4);
        whole(&[start("m", "c"), failed, Piece::End]).unwrap_err();
    }
    let long = Piece::Failed {
        kind: Kind::ContextTooLong,
        message: "9 > 8".into(),
    };
    let [event] = &stream(&[long])[..] else {
        panic!()
    };
    assert_eq!(event["error"]["message"], "prompt is too long: 9 > 8");
}

#[test]
fn no_end_is_made_up() {
    let begun = [start("m", "c"), text("a")];
    assert_eq!(stream(&begun).last(), Some(&writes(0, "a")));
    whole(&begun).unwrap_err();
    let (events, done) = try_stream(&[start("m", "c"), text("a"), Piece::End]);
    done.unwrap_err();
    assert_eq!(events.last(), Some(&writes(0, "a")));
    whole(&[start("m", "c"), Piece::End]).unwrap_err();
    whole(&[start("m", "c"), Piece::Finish(Finish::Stop)]).unwrap_err();
}

#[test]
fn why_it_stopped() {
    for (finish, reason) in [
        (Finish::Stop, "end_turn"),
        (Finish::Length, "max_tokens"),
        (Finish::ToolCalls, "tool_use"),
        (Finish::Filtered, "refusal"),
        (Finish::Pause, "pause_turn"),
    ] {
        let pieces = [Piece::Finish(finish), Piece::End];
        assert_eq!(whole(&pieces).unwrap()["stop_reason"], reason);
        assert_eq!(stream(&pieces)[1]["delta"]["stop_reason"], reason);
    }
    let finish = Finish::StopSequence(Some("END".into()));
    let message = whole(&[Piece::Finish(finish), Piece::End]).unwrap();
    assert_eq!(message["stop_reason"], "stop_sequence");
    assert_eq!(message["stop_sequence"], "END");
    let refused = [
        Piece::Refusal("no".into()),
        Piece::Finish(Finish::Stop),
        Piece::End,
    ];
    let message = whole(&refused).unwrap();
    assert_eq!(message["stop_reason"], "refusal");
    assert_eq!(message["content"], json!([{"type": "text", "text": "no"}]));
    assert_eq!(stream(&refused)[4]["delta"]["stop_reason"], "refusal");
}

#[test]
fn a_whole_answer() {
    let pieces = [
        start("chatcmpl-1", ""),
        Piece::Reasoning("hm".into()),
        text("a"),
        text("b"),
        call(0, "call_1", "f"),
        call(1, "", "g"),
        arguments(1, " "),
        arguments(0, " {\"x\": 1"),
        arguments(0, "}"),
        Piece::Usage(Counts {
            input: Some(5),
            output: Some(2),
            ..Counts::default()
        }),
        Piece::Finish(Finish::Stop),
        Piece::End,
    ];
    assert_eq!(
        whole(&pieces).unwrap(),
        json!({
            "id": "chatcmpl-1", "type": "message", "role": "assistant", "model": "asked",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "ab"},
                {"type": "tool_use", "id": "call_1", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "toolu_5f_1", "name": "g", "input": {}},
            ],
            "stop_reason": "tool_use", "stop_sequence": null, "usage": usage(5, 0, 0, 2),
        })
    );
    for wrong in ["{", "[]", "\"{}\"", "{} x"] {
        let pieces = [
            call(0, "a", "f"),
            arguments(0, wrong),
            Piece::Finish(Finish::ToolCalls),
            Piece::End,
        ];
        assert!(whole(&pieces).is_err(), "{wrong}");
    }
}

#[test]
fn no_text_breaks_a_line() {
    let mut writer = StreamWriter::new("m", 0, true);
    let mut bytes = Vec::new();
    for piece in [text("a\nb"), Piece::Finish(Finish::Stop), Piece::End] {
        writer.piece(piece, &mut bytes).unwrap();
    }
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    // A name and a line of data for each event.
    assert_eq!(lines.count(), 2 * 6);
}
