use serde_json::{Value, json, value::RawValue};

use super::super::{
    super::{
        ask::{Ask, Format, Manner, Media, Part, Role, Thinking, Tool, ToolChoice, Turn, Unable},
        lost::Lost,
    },
    write_ask,
};

fn manner() -> Manner<'static> {
    Manner {
        model: "claude",
        default_max_tokens: 4096,
        output_limit: Some(8192),
        old_max_tokens: false,
        json_schema: true,
    }
}

fn write_as(ask: &Ask, manner: &Manner<'_>) -> (Value, Vec<String>) {
    let mut lost = Lost::default();
    let body = write_ask(ask, manner, &mut lost).unwrap();
    let lost = lost.iter().map(str::to_owned).collect();
    (serde_json::from_slice(&body).unwrap(), lost)
}

fn write(ask: &Ask) -> (Value, Vec<String>) {
    write_as(ask, &manner())
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn turn(role: Role, parts: Vec<Part>) -> Turn {
    Turn { role, parts }
}

fn called(id: &str, name: &str, json: &str) -> Part {
    Part::ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: raw(json),
    }
}

fn result(id: &str, parts: Vec<Part>) -> Part {
    Part::ToolResult {
        id: id.into(),
        parts,
        is_error: false,
    }
}

fn tool(name: &str, schema: Option<&str>) -> Tool {
    Tool {
        name: name.into(),
        description: None,
        schema: schema.map(raw),
        strict: None,
    }
}

fn hi() -> Ask {
    Ask {
        turns: vec![turn(Role::User, vec![text("hi")])],
        ..Ask::default()
    }
}

fn says(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn messages(turns: Vec<Turn>) -> (Value, Vec<String>) {
    let ask = Ask {
        turns,
        ..Ask::default()
    };
    let (mut body, lost) = write(&ask);
    (body["messages"].take(), lost)
}

#[test]
fn a_small_request() {
    let (body, lost) = write(&hi());
    assert_eq!(
        body,
        json!({
            "model": "claude", "max_tokens": 4096,
            "messages": [{"role": "user", "content": [says("hi")]}],
        })
    );
    assert_eq!(lost, [""; 0]);
}

#[test]
fn a_request_of_everything() {
    let schema = r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"items":{"$ref":"#/$defs/n"}}}}"##;
    let ask = Ask {
        system: vec!["be kind".into(), "be brief".into()],
        turns: vec![
            turn(
                Role::User,
                vec![
                    text("look \u{2028}😀"),
                    Part::Image(Media::Data {
                        media_type: "image/jpg".into(),
                        base64: "AAAA".into(),
                    }),
                    Part::Image(Media::Url("https://x/y.png".into())),
                    Part::File {
                        name: Some("a.pdf".into()),
                        media: Media::Data {
                            media_type: "application/pdf".into(),
                            base64: "BB".into(),
                        },
                    },
                ],
            ),
            turn(
                Role::Assistant,
                vec![
                    text("I look"),
                    called("call_1", "f", r#"{ "b": 1e400 }"#),
                    called("call:2/é", "g", "{}"),
                ],
            ),
            turn(Role::User, vec![result("call_1", vec![text("one")])]),
            turn(
                Role::User,
                vec![Part::ToolResult {
                    id: "call:2/é".into(),
                    parts: vec![
                        text("no"),
                        Part::Image(Media::Url("https://x/z.png".into())),
                    ],
                    is_error: true,
                }],
            ),
            turn(Role::User, vec![text("go on")]),
        ],
        tools: vec![
            Tool {
                name: "f".into(),
                description: Some("does".into()),
                schema: Some(raw(schema)),
                strict: Some(true),
            },
            tool("g", None),
        ],
        tool_choice: Some(ToolChoice::Named("f".into())),
        parallel_tools: Some(false),
        max_tokens: Some(100_000),
        stop: vec!["END".into(), "\n".into()],
        temperature: Some(1.5),
        top_p: Some(0.9),
        top_k: Some(40),
        seed: Some(1),
        presence_penalty: Some(0.1),
        frequency_penalty: Some(0.1),
        format: Format::Schema {
            name: Some("out".into()),
            schema: raw(r#"{"type":"object"}"#),
            strict: Some(true),
        },
        thinking: Some(Thinking::Effort("minimal".into())),
        user: Some("u".into()),
        streamed: true,
        wants_usage: true,
    };
    let mut lost = Lost::default();
    let body = write_ask(&ask, &manner(), &mut lost).unwrap();
    // Arguments and schemas stay as they were written, byte for byte.
    let bytes = String::from_utf8(body).unwrap();
    assert!(bytes.contains(r#""input":{ "b": 1e400 }"#), "{bytes}");
    assert!(bytes.contains(schema), "{bytes}");
    let bytes = bytes.replace("1e400", "1");
    let body: Value = serde_json::from_str(&bytes).unwrap();
    let odd = "call_3a_2_2f__e9_";
    assert_eq!(
        body,
        json!({
            "model": "claude", "max_tokens": 8192, "system": "be kind\n\nbe brief",
            "messages": [
                {"role": "user", "content": [
                    says("look \u{2028}😀"),
                    {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}},
                    {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                    {"type": "document", "title": "a.pdf",
                     "source": {"type": "base64", "media_type": "application/pdf", "data": "BB"}},
                ]},
                {"role": "assistant", "content": [
                    says("I look"),
                    {"type": "tool_use", "id": "call_1", "name": "f", "input": {"b": 1}},
                    {"type": "tool_use", "id": odd, "name": "g", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [says("one")]},
                    {"type": "tool_result", "tool_use_id": odd, "is_error": true, "content": [
                        says("no"), {"type": "image", "source": {"type": "url", "url": "https://x/z.png"}},
                    ]},
                    says("go on"),
                ]},
            ],
            "tools": [
                {"name": "f", "description": "does", "strict": true,
                 "input_schema": serde_json::from_str::<Value>(schema).unwrap()},
                {"name": "g", "input_schema": {"type": "object", "properties": {}}},
            ],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
            "stop_sequences": ["END"], "temperature": 1.0, "top_k": 40,
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"type": "object"}},
            },
            "metadata": {"user_id": "u"}, "stream": true,
        })
    );
    assert_eq!(
        lost.iter().collect::<Vec<_>>(),
        [
            "reasoning_effort",
            "temperature",
            "top_p",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "stop",
        ]
    );
}

#[test]
fn turns_are_set_in_order() {
    // An instruction between calls and results does not part them.
    let (written, lost) = messages(vec![
        turn(Role::Assistant, vec![text("welcome")]),
        turn(Role::Assistant, vec![called("a", "f", "{}")]),
        turn(Role::System, vec![text("be quick")]),
        turn(Role::User, vec![text("so?"), result("a", vec![])]),
    ]);
    assert_eq!(
        written,
        json!([
            {"role": "user", "content": [says(".")]},
            {"role": "assistant", "content": [
                says("welcome"), {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a"}, says("be quick"), says("so?"),
            ]},
        ])
    );
    assert_eq!(lost, ["messages.system"]);
}

#[test]
fn an_assistants_turn_is_never_the_last() {
    let (written, lost) = messages(vec![
        turn(Role::User, vec![text("a")]),
        turn(Role::Assistant, vec![text("b")]),
    ]);
    assert_eq!(
        written[2],
        json!({"role": "user", "content": [says("Continue.")]})
    );
    assert_eq!(lost, ["messages.prefill"]);
}

#[test]
fn texts_of_spaces_are_left_out() {
    let (written, _) = messages(vec![
        turn(Role::User, vec![text(" \n"), text("a")]),
        turn(Role::Assistant, vec![text(" ")]),
        turn(Role::User, vec![text("b")]),
    ]);
    let expected = json!([{"role": "user", "content": [says("a"), says("b")]}]);
    assert_eq!(written, expected);
    let (written, _) = messages(vec![]);
    assert_eq!(written, json!([{"role": "user", "content": [says(".")]}]));
}

#[test]
fn limits_of_tokens() {
    let most = |wish, default, limit| {
        let ask = Ask {
            max_tokens: wish,
            ..hi()
        };
        let manner = Manner {
            default_max_tokens: default,
            output_limit: limit,
            ..manner()
        };
        write_as(&ask, &manner).0["max_tokens"].clone()
    };
    assert_eq!(most(Some(5), 7, Some(9)), 5);
    assert_eq!(most(Some(50), 7, Some(9)), 9);
    assert_eq!(most(None, 7, None), 7);
    assert_eq!(most(None, 70, Some(9)), 9);
    assert_eq!(most(Some(0), 7, None), 7);
    assert_eq!(most(None, 0, None), 1);
}

#[test]
fn choices_of_tools() {
    let choice = |tool_choice, parallel_tools| {
        let ask = Ask {
            tools: vec![tool("f", None)],
            tool_choice,
            parallel_tools,
            ..hi()
        };
        write(&ask).0.get("tool_choice").cloned()
    };
    assert_eq!(choice(None, None), None);
    assert_eq!(choice(None, Some(true)), None);
    let alone = json!({"type": "auto", "disable_parallel_tool_use": true});
    assert_eq!(choice(None, Some(false)), Some(alone));
    assert_eq!(
        choice(Some(ToolChoice::Auto), None),
        Some(json!({"type": "auto"}))
    );
    assert_eq!(
        choice(Some(ToolChoice::Required), None),
        Some(json!({"type": "any"}))
    );
    // There is nothing to be parallel.
    let none = json!({"type": "none"});
    assert_eq!(choice(Some(ToolChoice::Nothing), Some(false)), Some(none));
    let (body, _) = write(&Ask {
        tool_choice: Some(ToolChoice::Auto),
        parallel_tools: Some(false),
        ..hi()
    });
    assert_eq!(body.get("tool_choice"), None);
}

#[test]
fn tools_of_the_past_are_declared() {
    let (body, _) = write(&Ask {
        turns: vec![
            turn(Role::User, vec![text("x")]),
            turn(
                Role::Assistant,
                vec![called("a", "f", "{}"), called("b", "f", "{}")],
            ),
            turn(Role::User, vec![result("a", vec![]), result("b", vec![])]),
        ],
        ..Ask::default()
    });
    let declared = json!([{"name": "f", "input_schema": {"type": "object", "properties": {}}}]);
    assert_eq!(body["tools"], declared);
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn schemas_get_their_type() {
    let schema = |schema| {
        let ask = Ask {
            tools: vec![tool("f", Some(schema))],
            ..hi()
        };
        write(&ask).0["tools"][0]["input_schema"].clone()
    };
    assert_eq!(schema("{ }"), json!({"type": "object", "properties": {}}));
    assert_eq!(
        schema(r#" {"properties":{"a":{}}}"#),
        json!({"type": "object", "properties": {"a": {}}})
    );
    let many = Ask {
        tools: (0..100)
            .map(|i| tool(&format!("f{i}"), Some(r#"{"type":"object"}"#)))
            .collect(),
        ..hi()
    };
    assert_eq!(write(&many).0["tools"].as_array().unwrap().len(), 100);
}

#[test]
fn formats() {
    let plain = Manner {
        json_schema: false,
        ..manner()
    };
    let schema = Ask {
        system: vec!["be kind".into()],
        format: Format::Schema {
            name: None,
            schema: raw(r#"{"type":"object"}"#),
            strict: None,
        },
        tools: vec![Tool {
            strict: Some(true),
            ..tool("f", None)
        }],
        ..hi()
    };
    let (body, lost) = write_as(&schema, &plain);
    let system = body["system"].as_str().unwrap();
    assert!(system.starts_with("be kind\n\nAnswer with"), "{system}");
    assert!(system.ends_with(r#"{"type":"object"}"#), "{system}");
    assert_eq!(body.get("output_config"), None);
    assert_eq!(body["tools"][0].get("strict"), None);
    assert_eq!(lost, ["tools.strict", "response_format"]);
    let json = Ask {
        format: Format::Json,
        ..hi()
    };
    let (body, lost) = write(&json);
    assert!(body["system"].as_str().unwrap().contains("JSON object"));
    assert_eq!(lost, ["response_format.json_object"]);
}

#[test]
fn how_much_it_thinks() {
    let with = |thinking| Ask {
        thinking: Some(thinking),
        ..hi()
    };
    for (wish, expected, is_lost) in [
        ("low", Some("low"), false),
        ("xhigh", Some("xhigh"), false),
        ("max", Some("max"), false),
        ("minimal", Some("low"), true),
        ("ludicrous", None, true),
    ] {
        let (body, lost) = write(&with(Thinking::Effort(wish.into())));
        assert_eq!(body["output_config"]["effort"].as_str(), expected);
        assert_eq!(lost.contains(&"reasoning_effort".to_owned()), is_lost);
    }
    for off in [Thinking::Off, Thinking::Effort("none".into())] {
        let (body, lost) = write(&with(off));
        assert_eq!(body["thinking"], json!({"type": "disabled"}));
        assert_eq!(lost, [""; 0]);
    }
    let (body, _) = write(&with(Thinking::Adaptive));
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    for (wish, expected, expected_lost) in [
        (2000, 2000, None),
        (5, 1024, Some("thinking.budget_tokens")),
        (9000, 4095, Some("thinking.budget_tokens")),
    ] {
        let (body, lost) = write(&with(Thinking::Budget(wish)));
        let enabled = json!({"type": "enabled", "budget_tokens": expected});
        assert_eq!(body["thinking"], enabled);
        assert_eq!(lost.first().map(String::as_str), expected_lost);
    }
    let (body, lost) = write(&Ask {
        max_tokens: Some(1024),
        ..with(Thinking::Budget(2000))
    });
    assert_eq!(body.get("thinking"), None);
    assert_eq!(lost, ["thinking"]);
}

#[test]
fn a_model_that_thinks_is_not_told_how() {
    let ask = Ask {
        thinking: Some(Thinking::Budget(2000)),
        tools: vec![tool("f", None)],
        tool_choice: Some(ToolChoice::Required),
        temperature: Some(0.2),
        top_p: Some(0.5),
        top_k: Some(3),
        ..hi()
    };
    let (body, lost) = write(&ask);
    assert_eq!(body["tool_choice"], json!({"type": "auto"}));
    for name in ["temperature", "top_p", "top_k"] {
        assert_eq!(body.get(name), None);
    }
    assert_eq!(lost, ["tool_choice", "temperature", "top_p", "top_k"]);
    // Between calls and the next word, the thoughts that led there are missing.
    let (body, lost) = write(&Ask {
        turns: vec![
            turn(Role::User, vec![text("x")]),
            turn(Role::Assistant, vec![called("a", "f", "{}")]),
            turn(Role::User, vec![result("a", vec![])]),
        ],
        thinking: Some(Thinking::Budget(2000)),
        ..Ask::default()
    });
    assert_eq!(body.get("thinking"), None);
    assert_eq!(lost, ["thinking"]);
}

#[test]
fn what_it_cannot_be_shown() {
    let unable = |part| {
        let ask = Ask {
            turns: vec![turn(Role::User, vec![part])],
            ..Ask::default()
        };
        write_ask(&ask, &manner(), &mut Lost::default()).is_err_and(|Unable(why)| !why.is_empty())
    };
    let data = |media_type: &str| Media::Data {
        media_type: media_type.into(),
        base64: "AA".into(),
    };
    assert!(unable(Part::Image(data("image/svg+xml"))));
    assert!(unable(Part::File {
        name: None,
        media: data("text/csv"),
    }));
    assert!(unable(result("a", vec![Part::Image(data("image/heic"))])));
    assert!(!unable(Part::Image(data("image/webp"))));
}
