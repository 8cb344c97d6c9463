use serde_json::value::RawValue;

use super::*;
use crate::translate::ask::Tool;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn user(parts: Vec<Part>) -> Turn {
    Turn {
        role: Role::User,
        parts,
    }
}

fn hi() -> Ask {
    Ask {
        turns: vec![user(vec![text("Hi")])],
        ..Ask::default()
    }
}

fn png() -> Media {
    Media::Data {
        media_type: "image/png".to_owned(),
        base64: "AAAA".to_owned(),
    }
}

fn result(id: &str, parts: Vec<Part>, is_error: bool) -> Part {
    Part::ToolResult {
        id: id.to_owned(),
        parts,
        is_error,
    }
}

#[test]
fn a_question_alone_is_nothing_more() {
    let (body, lost) = write(&hi(), &MANNER);
    assert_eq!(
        body,
        json!({"model": "gpt-5.2", "messages": [{"role": "user", "content": "Hi"}]})
    );
    assert_eq!(lost, [""; 0]);
}

#[test]
fn every_field_is_written() {
    let schema = r##"{"type":"object", "properties":{"a":{"$ref":"#/$defs/a"}}}"##;
    let ask = Ask {
        tools: vec![
            Tool {
                name: "f".to_owned(),
                description: Some("d".to_owned()),
                schema: Some(raw(schema)),
                strict: Some(true),
            },
            Tool {
                name: "g".to_owned(),
                description: None,
                schema: None,
                strict: None,
            },
        ],
        tool_choice: Some(ToolChoice::Named("f".to_owned())),
        parallel_tools: Some(false),
        max_tokens: Some(100),
        stop: ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec(),
        temperature: Some(0.5),
        top_p: Some(0.25),
        top_k: Some(40),
        seed: Some(-1),
        presence_penalty: Some(1.0),
        frequency_penalty: Some(2.0),
        format: Format::Schema {
            name: None,
            schema: raw(schema),
            strict: Some(true),
        },
        thinking: Some(Thinking::Effort("xhigh".to_owned())),
        user: Some("u".to_owned()),
        streamed: true,
        ..hi()
    };
    let (body, lost) = write(&ask, &MANNER);
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "gpt-5.2",
            "messages": [{"role": "user", "content": "Hi"}],
            "max_completion_tokens": 100,
            "stop": ["a", "b", "c", "d"],
            "temperature": 0.5, "top_p": 0.25, "seed": -1,
            "presence_penalty": 1.0, "frequency_penalty": 2.0,
            "tools": [
                {"type": "function", "function": {
                    "name": "f", "description": "d", "parameters": schema, "strict": true}},
                {"type": "function", "function": {"name": "g"}},
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": false,
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "answer", "schema": schema, "strict": true}},
            "reasoning_effort": "xhigh",
            "user": "u",
            "stream": true,
            // Whether the caller wants it or not.
            "stream_options": {"include_usage": true},
        })
    );
    assert_eq!(lost, ["top_k", "stop_sequences"]);
}

#[test]
fn schemas_and_arguments_stay_as_they_were_written() {
    let schema = r#"{"b": 1e400,  "a":[ "\ud83d" ]}"#;
    let ask = Ask {
        tools: vec![Tool {
            name: "f".to_owned(),
            description: None,
            schema: Some(raw(schema)),
            strict: None,
        }],
        turns: vec![Turn {
            role: Role::Assistant,
            parts: vec![Part::ToolCall {
                id: "1".to_owned(),
                name: "f".to_owned(),
                arguments: raw(schema),
            }],
        }],
        ..Ask::default()
    };
    let body = write_ask(&ask, &MANNER, &mut Lost::default()).unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains(&format!("\"parameters\":{schema}")), "{body}");
    let quoted = serde_json::to_string(schema).unwrap();
    assert!(body.contains(&format!("\"arguments\":{quoted}")), "{body}");
}

#[test]
fn the_limit_is_written_as_the_target_wants_it() {
    let ask = Ask {
        max_tokens: Some(100_000),
        ..hi()
    };
    let manner = Manner {
        output_limit: Some(8192),
        old_max_tokens: true,
        ..MANNER
    };
    let (body, _) = write(&ask, &manner);
    assert_eq!(body["max_tokens"], 8192);
    assert_eq!(body.get("max_completion_tokens"), None);
    let (body, _) = write(&hi(), &manner);
    assert_eq!(body.get("max_tokens"), None);
}

#[test]
fn thinking_becomes_an_effort() {
    for (thinking, effort) in [
        (Thinking::Off, "none"),
        (Thinking::Effort("minimal".to_owned()), "minimal"),
        (Thinking::Budget(1024), "low"),
        (Thinking::Budget(2047), "low"),
        (Thinking::Budget(2048), "medium"),
        (Thinking::Budget(16383), "medium"),
        (Thinking::Budget(16384), "high"),
    ] {
        let ask = Ask {
            thinking: Some(thinking),
            ..hi()
        };
        let (body, lost) = write(&ask, &MANNER);
        assert_eq!(body["reasoning_effort"], effort);
        assert_eq!(lost, [""; 0]);
    }
    let ask = Ask {
        thinking: Some(Thinking::Adaptive),
        ..hi()
    };
    let (body, lost) = write(&ask, &MANNER);
    assert_eq!(body.get("reasoning_effort"), None);
    assert_eq!(lost, ["thinking"]);
}

#[test]
fn choices_of_tools_become_words() {
    let tools = vec![Tool {
        name: "f".to_owned(),
        description: None,
        schema: None,
        strict: None,
    }];
    for (choice, word, without_tools) in [
        (ToolChoice::Auto, "auto", json!(null)),
        (ToolChoice::Nothing, "none", json!(null)),
        (ToolChoice::Required, "required", json!("required")),
    ] {
        let mut ask = Ask {
            tools: tools.clone(),
            tool_choice: Some(choice),
            parallel_tools: Some(true),
            ..hi()
        };
        let (body, _) = write(&ask, &MANNER);
        assert_eq!(body["tool_choice"], word);
        assert_eq!(body["parallel_tool_calls"], true);
        ask.tools.clear();
        let (body, _) = write(&ask, &MANNER);
        assert_eq!(body["tool_choice"], without_tools);
        assert_eq!(body.get("parallel_tool_calls"), None);
    }
}

#[test]
fn a_schema_becomes_an_instruction_where_it_must() {
    let ask = Ask {
        system: vec!["Be brief.".to_owned()],
        format: Format::Schema {
            name: Some("s".to_owned()),
            schema: raw(r#"{"type":"object"}"#),
            strict: None,
        },
        ..hi()
    };
    let manner = Manner {
        json_schema: false,
        ..MANNER
    };
    let (body, lost) = write(&ask, &manner);
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert_eq!(
        body["messages"][0]["content"],
        "Be brief.\n\nAnswer with one JSON object and nothing else. \
         It must fit this JSON schema:\n{\"type\":\"object\"}"
    );
    assert_eq!(lost, ["output_config.format"]);
    let (body, lost) = write(&ask, &MANNER);
    assert_eq!(
        body["response_format"]["json_schema"],
        json!({"name": "s", "schema": {"type": "object"}})
    );
    assert_eq!(lost, [""; 0]);
    let ask = Ask {
        format: Format::Json,
        ..hi()
    };
    let (body, lost) = write(&ask, &manner);
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    assert_eq!(lost, [""; 0]);
}

#[test]
fn a_conversation_keeps_its_order() {
    let call = |id: &str| Part::ToolCall {
        id: id.to_owned(),
        name: "w".to_owned(),
        arguments: raw(r#"{"a":"👋"}"#),
    };
    let ask = Ask {
        system: vec!["one".to_owned(), "two".to_owned()],
        turns: vec![
            user(vec![text("Look:"), Part::Image(png())]),
            Turn {
                role: Role::Assistant,
                parts: vec![text("I "), text("look."), call("1"), call("2")],
            },
            user(vec![
                text("Well?"),
                result("1", vec![text("a"), Part::Image(png()), text("b")], false),
                result("2", vec![text("no such city")], true),
                Part::File {
                    name: None,
                    media: Media::Data {
                        media_type: "application/pdf".to_owned(),
                        base64: "JVBERi0=".to_owned(),
                    },
                },
            ]),
            Turn {
                role: Role::System,
                parts: vec![text("three"), text("four")],
            },
            Turn {
                role: Role::Assistant,
                parts: vec![call("3")],
            },
            user(vec![result("3", vec![], true), text("Go on.")]),
            // To be gone on with.
            Turn {
                role: Role::Assistant,
                parts: vec![text("{")],
            },
        ],
        ..Ask::default()
    };
    let (body, lost) = write(&ask, &MANNER);
    let called = |id: &str| {
        json!({"id": id, "type": "function",
               "function": {"name": "w", "arguments": "{\"a\":\"👋\"}"}})
    };
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "one\n\ntwo"},
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
            {"role": "assistant", "content": "I look.", "tool_calls": [called("1"), called("2")]},
            {"role": "tool", "tool_call_id": "1", "content": "a\n\nb"},
            {"role": "tool", "tool_call_id": "2", "content": "Error: no such city"},
            {"role": "user", "content": [
                image,
                {"type": "text", "text": "Well?"},
                {"type": "file", "file": {
                    "filename": "document.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0="}},
            ]},
            {"role": "system", "content": "three\n\nfour"},
            {"role": "assistant", "content": null, "tool_calls": [called("3")]},
            {"role": "tool", "tool_call_id": "3", "content": "Error: "},
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": "{"},
        ])
    );
    assert_eq!(lost, ["is_error", "tool_result.content"]);
}

#[test]
fn links_to_images_stay_links_and_links_to_documents_cannot_be_said() {
    let link = || Media::Url("https://x/y".to_owned());
    let ask = Ask {
        turns: vec![user(vec![Part::Image(link())])],
        ..Ask::default()
    };
    let (body, _) = write(&ask, &MANNER);
    assert_eq!(
        body["messages"][0]["content"],
        json!([{"type": "image_url", "image_url": {"url": "https://x/y"}}])
    );
    let ask = Ask {
        turns: vec![user(vec![Part::File {
            name: None,
            media: link(),
        }])],
        ..Ask::default()
    };
    let unable = write_ask(&ask, &MANNER, &mut Lost::default()).unwrap_err();
    assert_eq!(unable.0, "a document by its URL");
}

/// What is read is written as it was, but for what the list of losses says.
#[test]
fn there_and_back_again() {
    let body = json!({
        "model": "gpt-5.2",
        "messages": [
            {"role": "system", "content": "one"},
            {"role": "user", "content": [
                {"type": "text", "text": "Hi"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ],
        "max_completion_tokens": 5,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "tool_choice": "required",
        "response_format": {"type": "json_object"},
        "reasoning_effort": "none",
        "stop": ["x"],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let (ask, lost) = read(&body);
    assert_eq!(lost, [""; 0]);
    assert_eq!(write(&ask, &MANNER), (body, vec![]));
}
