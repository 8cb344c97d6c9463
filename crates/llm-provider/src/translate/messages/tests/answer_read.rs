use llm_call::{Kind, Phase};
use serde_json::json;

use super::{
    super::{
        super::piece::{Counts, Finish, Garbled, Piece},
        Reader,
    },
    arguments, call, owned, start,
};

fn read_events(events: &[(&str, &str)]) -> Result<Vec<Piece<'static>>, Garbled> {
    let mut pieces = Vec::new();
    let mut reader = Reader::default();
    let mut out = |piece: Piece<'_>| pieces.push(owned(piece));
    for (name, data) in events {
        reader.event(name.as_bytes(), data.as_bytes(), &mut out)?;
    }
    reader.at_eof(&mut out);
    Ok(pieces)
}

fn read_whole(json: &str) -> Result<Vec<Piece<'static>>, Garbled> {
    let mut pieces = Vec::new();
    let mut out = |piece: Piece<'_>| pieces.push(owned(piece));
    Reader::default().whole(json.as_bytes(), &mut out)?;
    Ok(pieces)
}

const START: (&str, &str) = (
    "message_start",
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":1}}}"#,
);
const STOP: (&str, &str) = ("message_stop", r#"{"type":"message_stop"}"#);

fn counts(output: u64, reasoning: Option<u64>) -> Piece<'static> {
    Piece::Usage(Counts {
        input: Some(115),
        cache_read: Some(100),
        cache_written: Some(5),
        output: Some(output),
        reasoning,
    })
}

fn text(text: &'static str) -> Piece<'static> {
    Piece::Text(text.into())
}

#[test]
fn a_stream_of_everything() {
    let pieces = read_events(&[
        START,
        ("ping", r#"{"type": "ping"}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a \"b\" \ud83d\ude00"}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{}}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":3}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#),
        ("content_block_delta", r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":4}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}"#),
        ("content_block_stop", r#"{"type":"content_block_stop","index":5}"#),
        ("content_block_start", r#"{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"t3","name":"h","input":{"z":2}}}"#),
        ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":30,"output_tokens_details":{"thinking_tokens":7}}}"#),
        ("invented", r#"no JSON"#),
        STOP,
        STOP,
    ])
    .unwrap();
    assert_eq!(
        pieces,
        [
            start("msg_1", "claude"),
            counts(1, None),
            Piece::Ping,
            Piece::Reasoning("hm".into()),
            text("a \"b\" 😀"),
            Piece::Lost("citations"),
            Piece::Lost("server_tool_use"),
            Piece::Lost("content"),
            call(0, "t1", "f"),
            arguments(0, "{\"a\":"),
            arguments(0, "1}"),
            Piece::ToolEnd { call: 0 },
            call(1, "t2", "g"),
            arguments(1, "{}"),
            Piece::ToolEnd { call: 1 },
            call(2, "t3", "h"),
            arguments(2, r#"{"z":2}"#),
            Piece::ToolEnd { call: 2 },
            Piece::Finish(Finish::ToolCalls),
            counts(30, Some(7)),
            Piece::End,
        ]
    );
}

#[test]
fn why_it_stopped() {
    for (reason, expected) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::StopSequence(Some("END".into()))),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("tool_use", Finish::ToolCalls),
        ("pause_turn", Finish::Pause),
        ("refusal", Finish::Filtered),
        ("invented", Finish::Stop),
    ] {
        let sequence = (reason == "stop_sequence").then_some("END");
        let message = json!({
            "id": "m", "type": "message", "model": "c", "content": [],
            "stop_reason": reason, "stop_sequence": sequence,
        });
        let pieces = read_whole(&message.to_string()).unwrap();
        assert_eq!(pieces[1], Piece::Finish(expected));
    }
    let refusal = r#"{"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":null,"explanation":"no"}}"#;
    let pieces = read_whole(refusal).unwrap();
    assert_eq!(pieces[1], Piece::Refusal("no".into()));
}

#[test]
fn a_whole_answer_is_the_same_pieces() {
    let pieces = read_whole(
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[
            {"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"redacted_thinking","data":"x"},
            {"type":"text","text":"a\u2028","citations":null},
            {"type":"text","text":"b","citations":[{"type":"char_location"}]},
            {"type":"tool_use","id":"t1","name":"f","input":{"b":1, "a":"\ud83d"}},
            {"type":"tool_use","id":"t2","name":"g","input":{ }},
            {"type":"invented","text":7}
        ],"stop_reason":"tool_use","stop_sequence":null,
        "usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":30}}"#,
    )
    .unwrap();
    assert_eq!(
        pieces,
        [
            start("msg_1", "claude"),
            Piece::Reasoning("hm".into()),
            Piece::Lost("redacted_thinking"),
            text("a\u{2028}"),
            Piece::Lost("citations"),
            text("b"),
            call(0, "t1", "f"),
            arguments(0, r#"{"b":1, "a":"\ud83d"}"#),
            Piece::ToolEnd { call: 0 },
            call(1, "t2", "g"),
            arguments(1, "{}"),
            Piece::ToolEnd { call: 1 },
            Piece::Lost("content"),
            Piece::Finish(Finish::ToolCalls),
            counts(30, None),
            Piece::End,
        ]
    );
}

#[test]
fn failures() {
    for (kind, message, expected) in [
        ("rate_limit_error", "slow", Kind::RateLimited),
        ("overloaded_error", "Overloaded", Kind::Overloaded),
        ("api_error", "x", Kind::ServerError),
        ("timeout_error", "x", Kind::TimedOut(Phase::Upstream)),
        ("invalid_request_error", "x", Kind::InvalidRequest),
        (
            "invalid_request_error",
            "prompt is too long: 9 tokens > 8 maximum",
            Kind::ContextTooLong,
        ),
        (
            "invalid_request_error",
            "Your credit balance is too low",
            Kind::QuotaExhausted,
        ),
        ("authentication_error", "x", Kind::Authentication),
        ("permission_error", "x", Kind::Permission),
        ("not_found_error", "x", Kind::NotFound),
        ("not_found_error", "model: claude", Kind::UnknownModel),
        ("request_too_large", "x", Kind::RequestTooLarge),
        ("billing_error", "x", Kind::QuotaExhausted),
        ("invented", "x", Kind::ServerError),
    ] {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        let failed = Piece::Failed {
            kind: expected,
            message: message.to_owned().into(),
        };
        // In the middle of a stream, where nothing counts after it; and instead of an answer.
        let pieces = read_events(&[START, ("error", &error.to_string()), STOP]).unwrap();
        assert_eq!(pieces[2..], std::slice::from_ref(&failed)[..]);
        assert_eq!(read_whole(&error.to_string()).unwrap(), [failed]);
    }
    // In other shapes.
    for (data, expected) in [
        (r#"{"error":"x"}"#, "x"),
        (r#"{"error":{"type":"api_error"}}"#, "api_error"),
        (
            r#"{"type":"error"}"#,
            "the provider failed and does not say why",
        ),
    ] {
        let pieces = read_events(&[("", data)]).unwrap();
        let is_it = matches!(&pieces[..], [Piece::Failed { message, .. }] if message == expected);
        assert!(is_it, "{pieces:?}");
    }
}

#[test]
fn fragments_replace_what_the_start_had() {
    let pieces = read_events(&[
        ("content_block_start", r#"{"index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"z":2}}}"#),
        ("content_block_delta", r#"{"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"z\":2}"}}"#),
        ("content_block_stop", r#"{"index":0}"#),
    ])
    .unwrap();
    assert_eq!(
        pieces[1..],
        [
            call(0, "t", "f"),
            arguments(0, r#"{"z":2}"#),
            Piece::ToolEnd { call: 0 },
        ]
    );
}

#[test]
fn no_end_is_made_up() {
    let delta = (
        "content_block_delta",
        r#"{"index":0,"delta":{"type":"text_delta","text":"a"}}"#,
    );
    let pieces = read_events(&[START, delta]).unwrap();
    assert_eq!(pieces.last(), Some(&text("a")));
    // But for the marker after a reason to stop.
    let finish = (
        "message_delta",
        r#"{"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
    );
    let pieces = read_events(&[START, delta, finish]).unwrap();
    assert_eq!(
        pieces[3..],
        [Piece::Finish(Finish::Stop), counts(3, None), Piece::End]
    );
    let only_usage = (
        "message_delta",
        r#"{"delta":{},"usage":{"output_tokens":3}}"#,
    );
    let pieces = read_events(&[START, delta, only_usage]).unwrap();
    assert_eq!(pieces.last(), Some(&counts(3, None)));
}

#[test]
fn events_without_names_and_without_a_start() {
    let pieces = read_events(&[
        ("", r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud83d"}}"#),
        ("message", r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00x"}}"#),
        ("", r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#),
        ("", r#"{"type":"message_stop"}"#),
    ])
    .unwrap();
    assert_eq!(
        pieces,
        [
            start("", ""),
            text("\u{fffd}"),
            text("\u{fffd}x"),
            Piece::Finish(Finish::Stop),
            Piece::End,
        ]
    );
}

#[test]
fn what_is_garbled() {
    for (name, data) in [
        ("content_block_delta", "{"),
        ("content_block_delta", r#"{"delta":{}}"#),
        (
            "content_block_delta",
            r#"{"index":0,"delta":{"type":"text_delta","text":1}}"#,
        ),
        ("content_block_start", r#"{"index":0}"#),
        ("message_start", "{}"),
        ("message_delta", r#"{"usage":{"output_tokens":"3"}}"#),
        ("", "[DONE]"),
    ] {
        assert!(read_events(&[(name, data)]).is_err(), "{name} {data}");
    }
    for whole in [
        "",
        "[]",
        "<html>",
        "{}",
        r#"{"content":[]}"#,
        r#"{"content":"x","stop_reason":"end_turn"}"#,
    ] {
        assert!(read_whole(whole).is_err(), "{whole}");
    }
    // Blocks that never end.
    let starts: Vec<String> = (0..200)
        .map(|i| json!({"index": i, "content_block": {"type": "tool_use"}}).to_string())
        .collect();
    let events: Vec<_> = starts
        .iter()
        .map(|data| ("content_block_start", data.as_str()))
        .collect();
    assert!(read_events(&events).is_err());
}
