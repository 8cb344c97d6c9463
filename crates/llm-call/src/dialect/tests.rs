use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Event;

fn event<'a>(name: &'a str, data: &'a str) -> Event<'a> {
    Event {
        name: name.as_bytes(),
        data: data.as_bytes(),
        error: false,
    }
}

/// The watch after these events, none committed, and what the last one held.
fn after(events: &[Value]) -> (Watch, Sight) {
    let mut watch = Watch::new(None);
    let mut last = Sight::default();
    for data in events {
        last = watch.event(&event("", &data.to_string()), false);
    }
    (watch, last)
}

fn whole(body: &Value) -> Watch {
    let mut watch = Watch::new(None);
    watch.whole(body.to_string().as_bytes()).unwrap();
    watch
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

#[test]
fn the_path_tells_the_dialect() {
    for (path, dialect) in [
        ("/v1/chat/completions", Some(Dialect::OpenAiChat)),
        (
            "/openai/deployments/gpt:x/chat/completions?api-version=1",
            Some(Dialect::OpenAiChat),
        ),
        ("/v1/completions", Some(Dialect::OpenAiChat)),
        ("/v1/responses", Some(Dialect::OpenAiResponses)),
        ("/v1/messages", Some(Dialect::Anthropic)),
        ("/v1/messages/count_tokens", None),
        (
            "/v1beta/models/gemini-3-flash:streamGenerateContent",
            Some(Dialect::Gemini),
        ),
        ("/v1beta/models/gemini-3-flash:embedContent", None),
        ("/api/chat", Some(Dialect::Ollama)),
        ("/api/generate", Some(Dialect::Ollama)),
        ("/v2/chat", Some(Dialect::Cohere)),
        ("/v1/embeddings", None),
        ("", None),
    ] {
        assert_eq!(Dialect::of_path(path), dialect, "{path}");
    }
}

#[test]
fn what_is_a_token() {
    let tool = json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]);
    for token in [
        delta(&json!({"content": "a"})),
        delta(&json!({"content": [{"type": "text", "text": "a"}]})),
        delta(
            &json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}),
        ),
        delta(&json!({"refusal": "no"})),
        delta(&json!({"content": null, "reasoning_content": "hm"})),
        delta(&json!({"content": "", "reasoning": "hm"})),
        delta(&json!({"content": "", "reasoning_details": [{"type": "reasoning.text"}]})),
        delta(&json!({"tool_calls": tool})),
        delta(&json!({"function_call": {"name": "f"}})),
        delta(&json!({"audio": {"data": "x"}})),
        json!({"choices": [{"index": 0, "text": "a"}]}),
        json!({"type": "response.refusal.delta", "delta": "no"}),
        json!({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f"}}),
        json!({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "a"}}),
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]}),
        json!({"candidates": [{"content": {"parts": [{"inlineData": {"data": "x"}}]}}]}),
        json!({"message": {"content": "", "thinking": "hm"}, "done": false}),
        json!({"message": {"content": "", "tool_calls": [{"function": {"name": "f"}}]}, "done": false}),
        json!({"response": "a", "done": false}),
        json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "a"}}}),
        json!({"type": "tool-call-start", "delta": {"message": {"tool_calls": {"id": "c"}}}}),
    ] {
        let (watch, sight) = after(std::slice::from_ref(&token));
        assert!(sight.token && watch.has_token(), "{token}");
    }
}

#[test]
fn what_is_no_token() {
    for other in [
        delta(&json!({"role": "assistant", "content": "", "refusal": null})),
        delta(&json!({"content": null, "tool_calls": []})),
        delta(&json!({"content": [{"type": "text", "text": ""}], "audio": null})),
        json!({"choices": [], "usage": {"prompt_tokens": 1}}),
        json!({"type": "response.created", "response": {"object": "response", "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "item": {"type": "message", "content": []}}),
        json!({"type": "response.output_text.delta", "delta": "", "obfuscation": "xyz"}),
        json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}}),
        json!({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "x"}}),
        json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": ""}}),
        json!({"type": "ping"}),
        json!({"candidates": [{"content": {"role": "model", "parts": []}}]}),
        json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "x"}]}}]}),
        json!({"message": {"role": "assistant", "content": ""}, "done": false}),
        json!({"type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}}),
        json!({"type": "content-start", "delta": {"message": {"content": {"type": "text", "text": ""}}}}),
    ] {
        let (watch, sight) = after(std::slice::from_ref(&other));
        assert_eq!(sight, Sight::default(), "{other}");
        assert!(!watch.has_token(), "{other}");
    }
}

#[test]
fn keys_inside_of_content_are_content() {
    let trap = r#"","finish_reason":"stop","error":{"a":1}},{"index":1,"usage":{"#;
    let (watch, sight) = after(&[delta(&json!({"content": trap}))]);
    assert_eq!((sight.error, watch.finish()), (false, None));

    let mut watch = Watch::new(Some(Dialect::OpenAiChat));
    let data = delta(&json!({"content": trap})).to_string();
    let sight = watch.event(&event("", &data), true);
    assert_eq!(
        (sight.token, sight.error, watch.finish()),
        (true, false, None)
    );
}

#[test]
fn azures_failed_filter_is_no_error() {
    let (_, sight) = after(&[json!({"choices": [{
        "index": 0,
        "delta": {"content": "a"},
        "content_filter_result": {"error": {"code": "content_filter_error"}},
    }]})]);
    assert!(sight.token && !sight.error);
}

#[test]
fn done_proves_nothing() {
    let mut watch = Watch::new(None);
    for data in ["[DONE]", " [DONE] ", "[DONE]\n"] {
        let sight = watch.event(&event("", data), false);
        assert!(sight.end && !sight.token, "{data:?}");
    }
    assert_eq!(watch.finish(), None);
}

#[test]
fn an_answer_is_finished_when_each_of_its_choices_is() {
    let part = |index: u64, finish: Value| json!({"choices": [{"finish_reason": finish, "delta": {"content": "a"}, "index": index}]});
    let mut events = vec![
        part(0, Value::Null),
        part(1, Value::Null),
        part(0, json!("stop")),
    ];
    assert_eq!(after(&events).0.finish(), None);
    events.push(part(1, json!("length")));
    assert_eq!(after(&events).0.finish(), Some(Finish::Length));
    // One that failed fails the answer, before the others end.
    let events = [part(0, Value::Null), part(1, json!("error"))];
    assert_eq!(
        after(&events).0.finish(),
        Some(Finish::failed(Kind::ServerError))
    );
    // A choice that shows up after commit counts as well.
    let mut watch = Watch::new(Some(Dialect::OpenAiChat));
    for data in [
        part(0, Value::Null),
        part(1, Value::Null),
        part(0, json!("stop")),
    ] {
        watch.event(&event("", &data.to_string()), true);
    }
    assert_eq!(watch.finish(), None);
}

#[test]
fn a_limit_of_tokens_is_an_end_even_without_content() {
    let body = json!({"choices": [{"message": {"content": ""}, "finish_reason": "length"}]});
    assert_eq!(whole(&body).finish(), Some(Finish::Length));
    let body = json!({"candidates": [{"content": {}, "finishReason": "MAX_TOKENS"}]});
    assert_eq!(whole(&body).finish(), Some(Finish::Length));
}

#[test]
fn gemini_stopping_without_content_is_a_failure() {
    let body = json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]});
    assert_eq!(whole(&body).finish(), Some(Finish::failed(Kind::Empty)));
    let part = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]});
    assert_eq!(after(&[part, body]).0.finish(), Some(Finish::Complete));
}

#[test]
fn a_response_of_tools_alone_is_a_token_at_its_end() {
    let (watch, sight) = after(&[json!({"type": "response.completed", "response": {
        "object": "response", "status": "completed", "error": null,
        "output": [{"type": "function_call", "name": "f", "arguments": "{}"}],
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }})]);
    assert!(sight.token && sight.end && !sight.error);
    assert_eq!(watch.finish(), Some(Finish::Complete));
}

#[test]
fn a_response_that_failed_without_a_reason_failed() {
    let body = json!({"object": "response", "status": "failed", "error": null, "output": []});
    assert_eq!(
        whole(&body).finish(),
        Some(Finish::failed(Kind::ServerError))
    );
    let body = json!({"object": "response", "status": "cancelled", "error": null, "output": []});
    assert_eq!(whole(&body).finish(), Some(Finish::failed(Kind::Cancelled)));
}

#[test]
fn only_chat_answers_can_be_empty() {
    for body in [
        json!({"object": "list", "data": [{"embedding": [0.1]}]}),
        json!({"object": "list", "data": [{"id": "gpt", "object": "model"}]}),
        json!({"embeddings": [[0.1]]}),
        json!({"input_tokens": 12}),
        json!({"text": ""}),
        json!({"message": "pong"}),
        // A background response is read later.
        json!({"object": "response", "status": "queued", "error": null, "output": []}),
    ] {
        assert!(!whole(&body).is_answer_like(), "{body}");
    }
    for body in [
        json!({"choices": []}),
        json!({"type": "message", "content": []}),
        json!({"candidates": []}),
        json!({"object": "response", "status": "completed", "output": []}),
        json!({"message": {"content": ""}, "done": true}),
    ] {
        assert!(whole(&body).is_answer_like(), "{body}");
    }
}

#[test]
fn usage_is_counted_alike_in_every_dialect() {
    let usage = |body: Value| {
        let usage = whole(&body).usage();
        (usage.input, usage.output, usage.cached, usage.reasoning)
    };
    let all = (Some(10), Some(5), Some(4), Some(2));
    assert_eq!(
        usage(json!({"usage": {
            "prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2},
        }})),
        all
    );
    assert_eq!(
        usage(json!({"usage": {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2},
        }})),
        all
    );
    assert_eq!(
        usage(json!({"usageMetadata": {
            "promptTokenCount": 10, "cachedContentTokenCount": 4,
            "candidatesTokenCount": 3, "thoughtsTokenCount": 2,
        }})),
        all
    );
    // Anthropic counts what came from the cache, and what went into it, beside the rest.
    assert_eq!(
        usage(json!({"usage": {
            "input_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 1,
            "output_tokens": 5,
        }})),
        (Some(10), Some(5), Some(4), None)
    );
    let plain = (Some(10), Some(5), None, None);
    assert_eq!(
        usage(json!({"prompt_eval_count": 10, "eval_count": 5})),
        plain
    );
    assert_eq!(
        usage(json!({"usage": {"inputTokens": 10, "outputTokens": 5}})),
        plain
    );
    assert_eq!(
        usage(json!({"usage": {
            "billed_units": {"input_tokens": 1, "output_tokens": 1},
            "tokens": {"input_tokens": 10, "output_tokens": 5},
        }})),
        plain
    );
    assert_eq!(
        usage(json!({"x_groq": {"usage": {"prompt_tokens": 10, "completion_tokens": 5}}})),
        plain
    );
    // Later counts win, and silence changes nothing.
    let (watch, _) = after(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "message_delta", "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]);
    assert_eq!(
        (watch.usage().input, watch.usage().output),
        (Some(10), Some(5))
    );
}

#[test]
fn what_is_not_json_is_remembered() {
    let mut watch = Watch::new(None);
    assert_eq!(watch.event(&event("", "hello"), false), Sight::default());
    assert!(watch.malformed());
    assert!(Watch::new(None).whole(b"{\"choices\":[").is_err());
    assert!(Watch::new(None).whole(b"\xEF\xBB\xBF\n\n{}\n").is_ok());
    // An error event stays one.
    assert!(watch.event(&event("error", "oops"), false).error);
}

/// A chunk of a stream, in all the shapes that differ between servers.
fn chunk() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just(String::new()),
        Just("\",\"finish_reason\":\"stop\",\"error\":{".to_owned()),
        ".{1,8}",
    ];
    let said = (text, 0..6_u8).prop_map(|(text, shape)| match shape {
        0 => json!({ "content": text }),
        1 => json!({"content": text, "role": "assistant"}),
        2 => json!({"content": null, "reasoning_content": text}),
        3 => json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
        4 => json!({}),
        _ => json!({"reasoning_content": text}),
    });
    let finish = prop_oneof![
        Just("null"),
        Just(" null"),
        Just("\"stop\""),
        Just(" \"length\""),
        Just("\"error\"")
    ];
    let extra = prop_oneof![
        Just(""),
        Just(",\"usage\":null"),
        Just(",\"usage\":{\"prompt_tokens\":3}"),
        Just(",\"error\":{\"code\":500}"),
        Just(",\"error\":null"),
    ];
    (said, finish, extra, 0..3_u8, any::<bool>()).prop_map(
        |(said, finish, extra, index, index_last)| {
            let index = format!("\"index\":{index}");
            let rest = format!("\"delta\":{said},\"finish_reason\":{finish}");
            let (first, second) = if index_last {
                (rest, index)
            } else {
                (index, rest)
            };
            format!("{{\"id\":\"x\",\"choices\":[{{{first},{second}}}]{extra}}}")
        },
    )
}

proptest! {
    /// A glance is a shortcut: it never says anything else than a reading.
    #[test]
    fn a_glance_is_as_good_as_a_reading(chunks in prop::collection::vec(chunk(), 1..6)) {
        let start = delta(&json!({"role": "assistant"})).to_string();
        let mut glancing = Watch::new(Some(Dialect::OpenAiChat));
        let mut reading = glancing.clone();
        for data in std::iter::once(&start).chain(&chunks) {
            let glance = glancing.event(&event("", data), true);
            prop_assert_eq!(glance, reading.event(&event("", data), false), "{}", data);
        }
        prop_assert_eq!(glancing.finish(), reading.finish());
        prop_assert_eq!(glancing.usage(), reading.usage());
        prop_assert_eq!(glancing.has_token(), reading.has_token());
    }

    #[test]
    fn garbage_never_panics(name in ".{0,8}", data in ".{0,64}", committed: bool) {
        for dialect in [None, Some(Dialect::OpenAiChat), Some(Dialect::Anthropic), Some(Dialect::Ollama)] {
            Watch::new(dialect).event(&event(&name, &data), committed);
            let _ = Watch::new(dialect).whole(data.as_bytes());
        }
    }
}
