use proptest::prelude::*;

use super::*;

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "messages",
    "role",
    "content",
    "user",
    "assistant",
    "tool",
    "system",
    "type",
    "text",
    "image_url",
    "url",
    "data:image/png;base64,AA",
    "tool_calls",
    "tool_call_id",
    "id",
    "function",
    "name",
    "arguments",
    "{}",
    "tools",
    "parameters",
    "response_format",
    "json_schema",
    "schema",
    "stop",
    "choices",
    "delta",
    "message",
    "index",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "error",
    "object",
    "x_groq",
    "thinking",
    "é👋\u{2028}",
    "",
];

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((proptest::sample::select(WORDS), inner), 0..6).prop_map(
                |fields| {
                    let fields = fields
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value));
                    Value::Object(fields.collect())
                }
            ),
        ]
    })
}

/// A chunk that is nearly right.
fn chunk() -> impl Strategy<Value = Value> {
    let call = (0_u64..3, 0_usize..3, json()).prop_map(|(index, id, arguments)| {
        json!({
            "index": index, "id": (["", "a", "b"][id]),
            "function": {"name": (["", "f", "g"][id]), "arguments": arguments},
        })
    });
    let delta = (json(), prop::collection::vec(call, 0..3))
        .prop_map(|(content, calls)| json!({"content": content, "tool_calls": calls}));
    let reason = proptest::sample::select(vec!["", "stop", "tool_calls", "error"]);
    (prop_oneof![delta, json()], reason).prop_map(|(delta, reason)| {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    })
}

/// A request whose messages are nearly right.
fn request() -> impl Strategy<Value = Value> {
    let role = proptest::sample::select(vec!["system", "user", "assistant", "tool"]);
    let part = prop_oneof![
        Just(json!({"type": "text", "text": "x"})),
        Just(json!({"type": "image_url", "image_url": {"url": "https://x"}})),
        json(),
    ];
    let content = prop_oneof![
        Just(json!("x")),
        prop::collection::vec(part, 0..3).prop_map(Value::from),
    ];
    let message = (role, content)
        .prop_map(|(role, content)| json!({"role": role, "content": content, "tool_call_id": "1"}));
    (prop::collection::vec(message, 1..5), json()).prop_map(|(messages, rest)| {
        let mut body = json!({"messages": messages});
        if let (Some(body), Value::Object(mut rest)) = (body.as_object_mut(), rest) {
            rest.remove("messages");
            body.extend(rest);
        }
        body
    })
}

proptest! {
    #[test]
    fn no_request_panics(body in prop_oneof![json(), request()]) {
        let mut lost = Lost::default();
        if let Ok(ask) = read_ask(body.to_string().as_bytes(), &mut lost) {
            let body = write_ask(&ask, &MANNER, &mut lost).unwrap();
            // What was written can be read, and says the same.
            let again = read_ask(&body, &mut Lost::default()).unwrap();
            prop_assert_eq!(write_ask(&again, &MANNER, &mut Lost::default()).unwrap(), body);
        }
    }

    #[test]
    fn no_answer_panics(
        chunks in prop::collection::vec(prop_oneof![chunk(), json()], 0..8),
        done in any::<bool>(),
    ) {
        let mut reader = Reader::default();
        let mut stream = StreamWriter::new("m", 1, true);
        let (mut pieces, mut out) = (Vec::new(), Vec::new());
        for chunk in &chunks {
            let chunk = chunk.to_string();
            let _ = Reader::default().whole(chunk.as_bytes(), &mut |_| {});
            if reader.event(b"", chunk.as_bytes(), &mut |piece| pieces.push(own(piece))).is_err() {
                break;
            }
        }
        if done {
            reader.event(b"", b"[DONE]", &mut |piece| pieces.push(own(piece))).unwrap();
        }
        reader.at_eof(&mut |piece| pieces.push(own(piece)));
        let mut whole = WholeWriter::new("m", 1, true);
        let ended = pieces.contains(&Piece::End);
        for piece in pieces {
            // What a reader says is never out of order.
            stream.piece(piece.clone(), &mut out).unwrap();
            whole.piece(piece);
        }
        prop_assert_eq!(ended, out.ends_with(b"data: [DONE]\n\n"));
        if ended {
            whole.finish().unwrap();
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = read_ask(&bytes, &mut Lost::default());
        let _ = Reader::default().event(b"", &bytes, &mut |_| {});
        let _ = Reader::default().event(b"error", &bytes, &mut |_| {});
        let _ = Reader::default().whole(&bytes, &mut |_| {});
    }
}
