use llm_call::Kind;

use super::*;

fn start(id: &'static str, model: &'static str) -> Piece<'static> {
    Piece::Start {
        id: id.into(),
        model: model.into(),
    }
}

fn text(text: &'static str) -> Piece<'static> {
    Piece::Text(text.into())
}

fn call(call: usize, id: &'static str, name: &'static str) -> Piece<'static> {
    Piece::ToolCall {
        call,
        id: id.into(),
        name: name.into(),
    }
}

fn arguments(call: usize, json: &'static str) -> Piece<'static> {
    Piece::Arguments {
        call,
        json: json.into(),
    }
}

fn failed(kind: Kind, message: &'static str) -> Piece<'static> {
    Piece::Failed {
        kind,
        message: message.into(),
    }
}

fn usage(input: u64, output: u64) -> Piece<'static> {
    Piece::Usage(Counts {
        input: Some(input),
        output: Some(output),
        ..Counts::default()
    })
}

/// A chunk with this delta.
fn delta(delta: &str) -> String {
    format!(r#"{{"id":"c","model":"m","choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

/// A chunk with this reason.
fn stop(reason: &str) -> String {
    format!(
        r#"{{"id":"c","model":"m","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#
    )
}

/// What follows the start of a stream with these deltas and an ordinary end.
fn said(deltas: &[&str], reason: &str) -> Vec<Piece<'static>> {
    let mut events: Vec<_> = deltas.iter().copied().map(delta).collect();
    events.extend([stop(reason), "[DONE]".to_owned()]);
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let mut pieces = streamed(&events).unwrap();
    assert_eq!(pieces.remove(0), start("c", "m"));
    pieces
}

#[test]
fn a_stream_of_openai() {
    let pieces = streamed(&[
        r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.2","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}"#,
        r#"{"id":"chatcmpl-1","model":"gpt-5.2","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}],"usage":null}"#,
        r#"{"id":"chatcmpl-1","model":"gpt-5.2","choices":[{"index":0,"delta":{"content":"lo 👋\n\u2028\ud83d\ude00"},"finish_reason":null}],"usage":null}"#,
        "",
        r#"{"id":"chatcmpl-1","model":"gpt-5.2","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
        r#"{"id":"chatcmpl-1","model":"gpt-5.2","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":2,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":1}}}"#,
        " [DONE] ",
    ]);
    assert_eq!(
        pieces.unwrap(),
        [
            start("chatcmpl-1", "gpt-5.2"),
            text("Hel"),
            text("lo 👋\n\u{2028}😀"),
            Piece::Usage(Counts {
                input: Some(11),
                cache_read: Some(5),
                cache_written: Some(2),
                output: Some(3),
                reasoning: Some(1),
            }),
            Piece::Finish(Finish::Stop),
            Piece::End,
        ]
    );
}

#[test]
fn parallel_calls_may_be_interleaved() {
    let pieces = said(
        &[
            r#"{"tool_calls":[{"index":3,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":3,"function":{"arguments":"{\"x\":"}}]}"#,
            r#"{"tool_calls":[{"index":5,"id":"b","function":{"name":"g","arguments":"{}"}},{"index":3,"function":{"arguments":"1}"}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(
        pieces,
        [
            call(0, "a", "f"),
            arguments(0, "{\"x\":"),
            call(1, "b", "g"),
            arguments(1, "{}"),
            arguments(0, "1}"),
            Piece::Finish(Finish::ToolCalls),
            Piece::End,
        ]
    );
}

#[test]
fn calls_are_told_apart_where_the_server_does_not_number_them() {
    for (deltas, ids) in [
        // All numbered 0 (Ollama, Gemini).
        (
            [
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]}"#,
            ],
            ["a", "b"],
        ),
        // Not numbered.
        (
            [
                r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}},{"id":"b","function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
            ],
            ["a", "b"],
        ),
        (
            [
                r#"{"tool_calls":[{"function":{"name":"f","arguments":{}}}]}"#,
                r#"{"tool_calls":[{"function":{"name":"f","arguments":{}}}]}"#,
            ],
            ["", ""],
        ),
    ] {
        let pieces = said(&deltas, "tool_calls");
        let calls: Vec<_> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::ToolCall { call, id, .. } => Some((*call, &**id)),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [(0, ids[0]), (1, ids[1])], "{pieces:?}");
    }
    // The id and the name of one call, again and again.
    let again = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}"#;
    let pieces = said(&[again, again], "tool_calls");
    assert_eq!(
        pieces[..3],
        [call(0, "a", "f"), arguments(0, "{"), arguments(0, "{")]
    );
    // The name comes late.
    let pieces = said(
        &[
            r#"{"tool_calls":[{"index":0,"id":"a"}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":null}}]}"#,
        ],
        "tool_calls",
    );
    assert_eq!(pieces[0], call(0, "a", "f"));
}

#[test]
fn a_stop_after_calls_is_for_the_calls() {
    let called =
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
    assert!(said(&[called], "stop").contains(&Piece::Finish(Finish::ToolCalls)));
    assert!(said(&[called], "length").contains(&Piece::Finish(Finish::Length)));
}

#[test]
fn reasons() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("length", Finish::Length),
        ("model_length", Finish::Length),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("content_filter", Finish::Filtered),
    ] {
        assert_eq!(
            said(&[], reason),
            [Piece::Finish(finish), Piece::End],
            "{reason}"
        );
    }
    for (reason, kind) in [
        ("error", Kind::ServerError),
        ("insufficient_system_resource", Kind::Overloaded),
    ] {
        let pieces = said(&[r#"{"content":"The"}"#], reason);
        let [said, Piece::Failed { kind: found, .. }] = &pieces[..] else {
            panic!("{pieces:?}");
        };
        assert_eq!((said, *found), (&text("The"), kind));
    }
}

#[test]
fn reasoning_and_refusals_have_several_names() {
    let reasoning = |text: &'static str| Piece::Reasoning(text.into());
    let pieces = said(
        &[
            r#"{"reasoning_content":"a","content":null}"#,
            r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
            r#"{"reasoning":"c","reasoning_content":"c"}"#,
            r#"{"reasoning":"d","reasoning_content":"","content":""}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"e"}]},{"type":"text","text":"f"},{"type":"text","text":""},{"type":"reference","reference_ids":[1]}]}"#,
            r#"{"content":[{"type":"thinking","thinking":"g"}]}"#,
            r#"{"refusal":"No."}"#,
            r#"{"annotations":[],"images":null}"#,
            r#"{"annotations":[{"type":"url_citation"}],"images":[{}]}"#,
        ],
        "stop",
    );
    assert_eq!(
        pieces[..11],
        [
            reasoning("a"),
            reasoning("b"),
            reasoning("c"),
            reasoning("d"),
            reasoning("e"),
            text("f"),
            Piece::Lost("content"),
            reasoning("g"),
            Piece::Refusal("No.".into()),
            Piece::Lost("annotations"),
            Piece::Lost("images"),
        ]
    );
}

#[test]
fn half_a_surrogate_pair_is_no_error() {
    let pieces = said(
        &[r#"{"content":"a\ud83d"}"#, r#"{"content":"\ude00b"}"#],
        "stop",
    );
    assert_eq!(pieces[..2], [text("a\u{FFFD}"), text("\u{FFFD}b")]);
}

#[test]
fn the_start_is_the_first_chunk_that_says_something() {
    for first in [
        // Azure.
        r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}"#,
        // OpenRouter.
        r#"{"id":"gen-x","model":"a/b","object":"chat.completion.chunk","choices":[],"debug":{"echo_upstream_body":{}}}"#,
    ] {
        let hi = delta(r#"{"content":"Hi"}"#);
        let pieces = streamed(&[
            first,
            &hi,
            r#"{"id":"","model":"","choices":[{"index":0,"content_filter_offsets":{},"content_filter_results":{"error":{"code":"content_filter_error","message":"m"}},"finish_reason":null}]}"#,
            &stop("stop"),
            "[DONE]",
        ]);
        assert_eq!(
            pieces.unwrap(),
            [
                start("c", "m"),
                text("Hi"),
                Piece::Finish(Finish::Stop),
                Piece::End
            ]
        );
    }
}

#[test]
fn usage_stands_in_several_places() {
    for (chunk, counts) in [
        (
            r#"{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":8,"completion_tokens":2}}}"#,
            usage(8, 2),
        ),
        (
            r#"{"choices":[{"index":0,"delta":{},"usage":{"prompt_tokens":8,"completion_tokens":2}}]}"#,
            usage(8, 2),
        ),
        (
            r#"{"choices":[],"usage":{"prompt_tokens":8,"prompt_cache_hit_tokens":3,"prompt_tokens_details":null}}"#,
            Piece::Usage(Counts {
                input: Some(8),
                cache_read: Some(3),
                ..Counts::default()
            }),
        ),
    ] {
        let pieces = streamed(&[chunk]).unwrap();
        assert_eq!(pieces, [start("", ""), counts]);
    }
    assert_eq!(streamed(&[r#"{"choices":[],"usage":{}}"#]).unwrap(), []);
}

#[test]
fn no_end_is_made_up() {
    let hi = delta(r#"{"content":"Hi"}"#);
    // The marker alone proves nothing.
    let cut = [start("c", "m"), text("Hi")];
    assert_eq!(streamed(&[&hi]).unwrap(), cut);
    assert_eq!(streamed(&[&hi, "[DONE]"]).unwrap(), cut);
    assert_eq!(streamed(&["[DONE]"]).unwrap(), []);
    assert_eq!(streamed(&[&hi, "[DONE]", &stop("stop")]).unwrap(), cut);
    // Nor does its absence.
    let pieces = streamed(&[&hi, &stop("stop")]).unwrap();
    assert_eq!(pieces[2..], [Piece::Finish(Finish::Stop), Piece::End]);
    // A server that says it twice has ended once, after its last word.
    let pieces = streamed(&[&stop("stop"), &hi, &stop("length"), "[DONE]", "[DONE]"]).unwrap();
    assert_eq!(
        pieces[1..],
        [text("Hi"), Piece::Finish(Finish::Length), Piece::End]
    );
}

#[test]
fn errors_have_many_shapes() {
    for (event, kind, message) in [
        (
            r#"{"error":{"message":"Rate limit reached.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
            Kind::RateLimited,
            "Rate limit reached.",
        ),
        (
            "event: error\n{\"error\":{\"message\":\"Upstream failed\",\"type\":\"server_error\"}}",
            Kind::ServerError,
            "Upstream failed",
        ),
        // The field `error:` of older llama.cpp.
        (
            "event: error\n{\"code\":500,\"message\":\"m\",\"type\":\"server_error\"}",
            Kind::ServerError,
            "m",
        ),
        (
            "event: error\nnot even JSON",
            Kind::ServerError,
            "the provider failed",
        ),
        (
            r#"{"id":"gen-abc","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":"server_error","message":"Provider disconnected unexpectedly"}}"#,
            Kind::ServerError,
            "Provider disconnected unexpectedly",
        ),
        (
            r#"{"choices":[{"message":{"content":"partial"},"finish_reason":"error","error":{"code":502,"message":"Provider disconnected mid-stream"}}]}"#,
            Kind::ServerError,
            "Provider disconnected mid-stream",
        ),
        (
            r#"{"id":"c","choices":[],"x_groq":{"id":"r","error":"over capacity"}}"#,
            Kind::ServerError,
            "over capacity",
        ),
        (
            r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#,
            Kind::Overloaded,
            "The model is overloaded.",
        ),
        (
            r#"{"object":"error","message":"m","type":"InternalServerError","code":500}"#,
            Kind::ServerError,
            "m",
        ),
        (
            r#"{"error":"half \ud83d"}"#,
            Kind::ServerError,
            "half \u{FFFD}",
        ),
    ] {
        let hi = delta(r#"{"content":"Hi"}"#);
        // Nothing counts after it, whatever vLLM sends.
        let pieces = streamed(&[&hi, event, &hi, &stop("stop"), "[DONE]"]).unwrap();
        assert_eq!(
            pieces,
            [start("c", "m"), text("Hi"), failed(kind, message)],
            "{event}"
        );
    }
    // An error that says nothing is none.
    let chunk = r#"{"error":"","choices":[{"index":0,"delta":{"content":"Hi"},"error":null}]}"#;
    assert_eq!(streamed(&[chunk]).unwrap(), [start("", ""), text("Hi")]);
}

#[test]
fn what_is_no_chunk_is_garbled() {
    for event in [
        "{",
        "hello",
        "[]",
        "1",
        r#"{"choices":1}"#,
        r#"{"choices":[{"delta":{"content":{}}}]}"#,
        r#"{"choices":[{"delta":{"content":"secret"}}],"id":7}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}}]}"#,
        r#"{"usage":{"prompt_tokens":-1}}"#,
    ] {
        let garbled = streamed(&[event]).unwrap_err();
        assert!(!garbled.0.contains("secret"), "{garbled:?}");
    }
    let many = r#"{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}"#;
    let many: Vec<_> = (0..1025).map(|_| delta(many)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert!(streamed(&many[..1024]).is_ok());
    assert_eq!(
        streamed(&many).unwrap_err().0,
        "the answer has too many tool calls"
    );
}

#[test]
fn a_whole_answer_is_the_same_pieces() {
    // DeepSeek's blank lines before it keep the connection alive.
    let pieces = whole(
        r#"

{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":
 {"role":"assistant","content":"Hi","refusal":null,"reasoning_content":"hm","annotations":[],
  "tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
                {"id":"a","type":"function","function":{"name":"f","arguments":""}}]},
 "logprobs":null,"finish_reason":"tool_calls"}],
 "usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11},"service_tier":"default"}
"#,
    );
    assert_eq!(
        pieces.unwrap(),
        [
            start("c", "m"),
            Piece::Reasoning("hm".into()),
            text("Hi"),
            call(0, "a", "f"),
            arguments(0, "{\"x\":1}"),
            call(1, "a", "f"),
            usage(8, 3),
            Piece::ToolEnd { call: 0 },
            Piece::ToolEnd { call: 1 },
            Piece::Finish(Finish::ToolCalls),
            Piece::End,
        ]
    );
}

#[test]
fn a_whole_answer_can_be_a_failure_or_garbled() {
    let pieces = whole(
        r#"{"error":{"code":429,"message":"Rate limit exceeded","metadata":{"error_type":"rate_limit_exceeded"}}}"#,
    );
    assert_eq!(
        pieces.unwrap(),
        [failed(Kind::RateLimited, "Rate limit exceeded")]
    );
    for json in [
        "",
        "{}",
        "<html>",
        r#"{"choices":[]}"#,
        r#"{"choices":[{"message":{"content":"Hi"}}]}"#,
        r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":""}]}"#,
        r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]"#,
        r#"{"message":{"content":"Hi"},"done":true}"#,
    ] {
        assert!(whole(json).is_err(), "{json}");
    }
}
