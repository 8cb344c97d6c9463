//! Nothing that comes in makes it panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{
    super::{ask::Manner, lost::Lost},
    Reader, StreamWriter, WholeWriter, read_ask, write_ask,
};

const NAMES: &[&str] = &[
    "type",
    "role",
    "content",
    "text",
    "source",
    "data",
    "url",
    "media_type",
    "id",
    "name",
    "input",
    "tool_use_id",
    "is_error",
    "system",
    "messages",
    "max_tokens",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "format",
    "schema",
    "effort",
    "stop_sequences",
    "metadata",
    "user_id",
    "index",
    "delta",
    "message",
    "content_block",
    "usage",
    "error",
    "partial_json",
    "stop_reason",
    "citations",
    "input_tokens",
    "model",
    "title",
    "caller",
    "input_schema",
    "budget_tokens",
    "cache_control",
];

const WORDS: &[&str] = &[
    "user",
    "assistant",
    "system",
    "text",
    "image",
    "document",
    "tool_use",
    "tool_result",
    "thinking",
    "base64",
    "url",
    "content",
    "enabled",
    "adaptive",
    "auto",
    "any",
    "tool",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
    "ping",
    "text_delta",
    "input_json_delta",
    "end_turn",
    "{",
    "",
    "é\u{2028}",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u64..4).prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(NAMES), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn block() -> impl Strategy<Value = Value> {
    const KINDS: &[&str] = &[
        "text",
        "image",
        "document",
        "tool_use",
        "tool_result",
        "thinking",
    ];
    (any_json(), prop::sample::select(KINDS)).prop_map(|(fields, kind)| {
        let mut block = json!({"type": kind, "text": "t", "id": "i", "name": "n", "input": {},
            "tool_use_id": "i", "source": {"type": "url", "url": "u"}});
        if let (Value::Object(block), Value::Object(fields)) = (&mut block, fields) {
            block.extend(fields);
            block.insert("type".into(), kind.into());
        }
        block
    })
}

fn request() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(&["user", "assistant", "system"][..]);
    let message = (role, prop::collection::vec(block(), 0..3))
        .prop_map(|(role, content)| json!({"role": role, "content": content}));
    (prop::collection::vec(message, 1..5), any_json()).prop_map(|(messages, fields)| {
        let mut body = json!({});
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
            body.extend(fields);
        }
        body["max_tokens"] = json!(1);
        body["messages"] = json!(messages);
        body
    })
}

fn event() -> impl Strategy<Value = (&'static str, Value)> {
    let shaped = (0_u64..3, any_json(), block()).prop_map(|(index, delta, block)| {
        json!({"index": index, "delta": delta, "content_block": block, "usage": {"output_tokens": 1}})
    });
    (prop::sample::select(WORDS), prop_oneof![any_json(), shaped])
}

proptest! {
    #[test]
    fn requests(body in prop_oneof![any_json(), request()], bytes in ".{0,64}") {
        let mut lost = Lost::default();
        let _ = read_ask(bytes.as_bytes(), &mut lost);
        if let Ok(ask) = read_ask(body.to_string().as_bytes(), &mut lost) {
            let manner = Manner {
                model: "m",
                default_max_tokens: 1,
                output_limit: None,
                old_max_tokens: false,
                json_schema: true,
            };
            if let Ok(written) = write_ask(&ask, &manner, &mut lost) {
                let written: Value = serde_json::from_slice(&written).unwrap();
                let messages = written["messages"].as_array().unwrap();
                // What is sent keeps to the order, whatever came in.
                for (i, message) in messages.iter().enumerate() {
                    let role = if i % 2 == 0 { "user" } else { "assistant" };
                    prop_assert_eq!(&message["role"], role);
                    prop_assert!(!message["content"].as_array().unwrap().is_empty());
                }
                prop_assert_eq!(messages.len() % 2, 1);
                read_ask(written.to_string().as_bytes(), &mut lost).unwrap();
            }
        }
    }

    #[test]
    fn answers(events in prop::collection::vec(event(), 0..12), whole in any_json()) {
        let mut reader = Reader::default();
        let mut stream = StreamWriter::new("m", 1, true);
        let mut all = WholeWriter::new("m", 1, true);
        let mut out = Vec::new();
        let mut give = |piece: super::Piece<'_>| {
            all.piece(piece.clone());
            let _ = stream.piece(piece, &mut out);
        };
        for (name, data) in &events {
            let _ = reader.event(name.as_bytes(), data.to_string().as_bytes(), &mut give);
        }
        reader.at_eof(&mut give);
        let _ = Reader::default().whole(whole.to_string().as_bytes(), &mut give);
        if let Ok(body) = all.finish() {
            serde_json::from_slice::<Value>(&body).unwrap();
        }
    }
}
