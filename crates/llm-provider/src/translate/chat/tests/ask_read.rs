use super::*;

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn wrong(body: &Value) -> String {
    match read_ask(body.to_string().as_bytes(), &mut Lost::default()) {
        Err(Untranslatable::Invalid(invalid)) => invalid.to_string(),
        other => panic!("{other:?}"),
    }
}

fn unable(body: &Value) -> &'static str {
    match read_ask(body.to_string().as_bytes(), &mut Lost::default()) {
        Err(Untranslatable::Unable(unable)) => unable.0,
        other => panic!("{other:?}"),
    }
}

/// A request with one message and these fields.
fn with(fields: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let Value::Object(fields) = fields else {
        panic!("no object");
    };
    body.as_object_mut().unwrap().extend(fields);
    body
}

/// A request with these messages.
fn of(messages: &Value) -> Value {
    json!({"model": "m", "messages": messages})
}

#[test]
fn every_field_is_read() {
    let schema = r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}"##;
    let schema: Value = serde_json::from_str(schema).unwrap();
    let (ask, lost) = read(&with(json!({
        "max_tokens": 5, "max_completion_tokens": 9, "stop": ["a", "", "b"], "temperature": 1.5,
        "top_p": 0.5, "seed": -3, "presence_penalty": -1, "frequency_penalty": 0.25, "n": 1,
        "parallel_tool_calls": false, "user": "u", "stream": true, "reasoning_effort": "low",
        "stream_options": {"include_usage": true}, "modalities": ["text"],
        "tools": [{"type": "function", "function": {
            "name": "f", "description": "d", "parameters": schema, "strict": true,
        }}, {"type": "function", "function": {"name": "g"}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "s", "schema": schema, "strict": true,
        }},
    })));
    assert_eq!(lost, [""; 0]);
    assert_eq!(ask.max_tokens, Some(9));
    assert_eq!(ask.stop, ["a", "b"]);
    assert_eq!((ask.temperature, ask.top_p), (Some(1.5), Some(0.5)));
    assert_eq!(ask.seed, Some(-3));
    assert_eq!(ask.presence_penalty, Some(-1.0));
    assert_eq!(ask.frequency_penalty, Some(0.25));
    assert_eq!(ask.parallel_tools, Some(false));
    assert_eq!(ask.user.as_deref(), Some("u"));
    assert!(ask.streamed && ask.wants_usage);
    assert_eq!(ask.thinking, Some(Thinking::Effort("low".to_owned())));
    assert_eq!(ask.tool_choice, Some(ToolChoice::Named("f".to_owned())));
    let [f, g] = &ask.tools[..] else {
        panic!("{ask:?}");
    };
    assert_eq!((f.name.as_str(), f.strict), ("f", Some(true)));
    assert_eq!(f.description.as_deref(), Some("d"));
    assert_eq!(f.schema.as_ref().unwrap().get(), schema.to_string());
    assert!(g.schema.is_none() && g.strict.is_none() && g.description.is_none());
    let Format::Schema {
        name,
        schema: of_answer,
        strict,
    } = &ask.format
    else {
        panic!("{ask:?}");
    };
    assert_eq!((name.as_deref(), *strict), (Some("s"), Some(true)));
    assert_eq!(of_answer.get(), schema.to_string());
}

#[test]
fn what_has_no_place_is_lost_by_name() {
    let (_, lost) = read(&json!({
        "model": "m",
        "messages": [
            {"role": "user", "name": "ada", "content": [
                {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "high"}},
            ]},
            {"role": "assistant", "content": "no", "refusal": "I will not", "annotations": [{}],
             "reasoning_content": "hm", "reasoning_details": []},
            {"role": "user", "content": "Why?"},
        ],
        "stream_options": {"include_obfuscation": false},
        "tools": [{"type": "function", "function": {"name": "f", "since": 1}}],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "s", "description": "d", "schema": {},
        }},
        "logprobs": true, "top_logprobs": 2, "logit_bias": {"1": 2}, "store": true,
        "metadata": {"a": "b"}, "service_tier": "flex", "prediction": {"type": "content"},
        "verbosity": "low", "web_search_options": {"a": 1}, "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "explicit"},
        "safety_identifier": "s", "moderation": {"model": "m"}, "made_up": 1,
    }));
    assert_eq!(
        lost,
        [
            "cache_control",
            "image_url.detail",
            "messages.name",
            "reasoning",
            "annotations",
            "refusal",
            "tools.since",
            "response_format.description",
            "stream_options.include_obfuscation",
            "logprobs",
            "store",
            "top_logprobs",
            "logit_bias",
            "metadata",
            "moderation",
            "prediction",
            "prompt_cache_options",
            "web_search_options",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "service_tier",
            "verbosity",
            "made_up",
        ]
    );
}

#[test]
fn what_says_the_default_or_nothing_is_no_loss() {
    let (ask, lost) = read(&with(json!({
        "n": 1, "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "store": false,
        "metadata": {}, "service_tier": "auto", "audio": null, "functions": null, "user": "",
        "stop": null, "temperature": null, "tools": null, "made_up": null, "stream": false,
        "response_format": {"type": "text"}, "tool_choice": null,
    })));
    assert_eq!(lost, [""; 0]);
    assert!(!ask.streamed && !ask.wants_usage && ask.user.is_none());
    let (_, lost) = read(&of(&json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho", "refusal": null, "annotations": [], "audio": null,
         "function_call": null, "tool_calls": null},
        {"role": "user", "content": [{"type": "image_url", "image_url": {
            "url": "https://x", "detail": "auto"}}]},
    ])));
    assert_eq!(lost, [""; 0]);
}

#[test]
fn words_become_choices() {
    for (word, choice) in [
        ("auto", ToolChoice::Auto),
        ("none", ToolChoice::Nothing),
        ("required", ToolChoice::Required),
    ] {
        let (ask, _) = read(&with(json!({"tool_choice": word})));
        assert_eq!(ask.tool_choice, Some(choice));
    }
    let (ask, _) = read(&with(json!({"reasoning_effort": "none", "stop": "x"})));
    assert_eq!(ask.thinking, Some(Thinking::Off));
    assert_eq!(ask.stop, ["x"]);
    let (ask, _) = read(&with(json!({"response_format": {"type": "json_object"}})));
    assert!(matches!(ask.format, Format::Json));
    let (ask, _) = read(&with(json!({"max_tokens": 7})));
    assert_eq!(ask.max_tokens, Some(7));
}

#[test]
fn instructions_stand_before_the_first_turn_or_where_they_stood() {
    let (ask, lost) = read(&of(&json!([
        {"role": "system", "content": "one"},
        {"role": "developer", "content": [{"type": "text", "text": "two"},
                                          {"type": "text", "text": ""},
                                          {"type": "text", "text": "three"}]},
        {"role": "system", "content": ""},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "four"},
        {"role": "assistant", "content": "{\"a\":"},
    ])));
    assert_eq!(lost, [""; 0]);
    assert_eq!(ask.system, ["one", "two", "three"]);
    let turns = [
        (Role::User, "Hi"),
        (Role::System, "four"),
        // The last turn may be the assistant's, to be gone on with.
        (Role::Assistant, "{\"a\":"),
    ]
    .map(|(role, said)| Turn {
        role,
        parts: vec![text(said)],
    });
    assert_eq!(ask.turns, turns);
}

#[test]
fn results_of_tools_become_one_turn() {
    let (ask, lost) = read(&of(&json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"index": 0, "id": "call/ö 1", "type": "function",
             "function": {"name": "w", "arguments": "{\"city\": \"Rome\",\"u\":\"\\ud83d\"}"}},
            {"id": "2", "type": "function", "function": {"name": "w", "arguments": ""}},
            {"id": "3", "function": {"name": "w", "arguments": " { } "}},
        ]},
        {"role": "tool", "tool_call_id": "call/ö 1", "name": "w", "content": "sunny"},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "rain"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"role": "tool", "tool_call_id": "3", "content": ""},
        {"role": "user", "content": "And now?"},
        {"role": "tool", "tool_call_id": "4", "content": "late"},
    ])));
    assert_eq!(lost, [""; 0]);
    let result = |id: &str, parts| Part::ToolResult {
        id: id.to_owned(),
        parts,
        is_error: false,
    };
    let image = Part::Image(Media::Data {
        media_type: "image/png".to_owned(),
        base64: "AAAA".to_owned(),
    });
    assert_eq!(ask.turns.len(), 5);
    assert_eq!(
        ask.turns[2].parts,
        [
            result("call/ö 1", vec![text("sunny")]),
            result("2", vec![text("rain"), image]),
            result("3", vec![]),
        ]
    );
    assert_eq!(ask.turns[2].role, Role::User);
    assert_eq!(ask.turns[3].parts, [text("And now?")]);
    assert_eq!(ask.turns[4].parts, [result("4", vec![text("late")])]);
    let arguments: Vec<_> = ask.turns[1]
        .parts
        .iter()
        .map(|part| match part {
            Part::ToolCall { arguments, .. } => arguments.get(),
            other => panic!("{other:?}"),
        })
        .collect();
    // As they were written, half a surrogate pair included.
    assert_eq!(
        arguments,
        ["{\"city\": \"Rome\",\"u\":\"\\ud83d\"}", "{}", "{ }"]
    );
}

#[test]
fn images_and_files_come_as_data_or_links() {
    let data = |media_type: &str, base64: &str| Media::Data {
        media_type: media_type.to_owned(),
        base64: base64.to_owned(),
    };
    let (ask, lost) = read(&of(&json!([{"role": "user", "content": [
        {"type": "text", "text": ""},
        {"type": "text", "text": "👋\u{2028}"},
        {"type": "image_url", "image_url": {"url": "data:image/JPEG;charset=x;base64,/9j/,"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="}},
        {"type": "file", "file": {"file_data": "JVBERi0="}},
        {"type": "file", "file": {"file_data": "https://x/y.pdf"}},
    ]}])));
    assert_eq!(lost, [""; 0]);
    let file = |name: Option<&str>, media| Part::File {
        name: name.map(str::to_owned),
        media,
    };
    assert_eq!(
        ask.turns[0].parts,
        [
            text("👋\u{2028}"),
            Part::Image(data("image/jpeg", "/9j/,")),
            Part::Image(Media::Url("https://x/y.png".to_owned())),
            file(Some("a.txt"), data("text/plain", "YQ==")),
            file(None, data("application/pdf", "JVBERi0=")),
            file(None, Media::Url("https://x/y.pdf".to_owned())),
        ]
    );
}

#[test]
fn what_nobody_else_can_serve_is_said() {
    for (fields, word) in [
        (json!({"n": 2}), "`n`"),
        (json!({"audio": {"voice": "x"}}), "`audio`"),
        (json!({"modalities": ["text", "audio"]}), "`modalities`"),
        (json!({"functions": []}), "`functions`"),
        (json!({"function_call": "auto"}), "`function_call`"),
        (
            json!({"tools": [{"type": "custom", "custom": {}}]}),
            "`custom`",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools"}}),
            "`allowed_tools`",
        ),
        (
            json!({"messages": [{"role": "function", "name": "f", "content": "x"}]}),
            "`function`",
        ),
        (
            json!({"messages": [{"role": "assistant", "audio": {"id": "x"}}]}),
            "`audio`",
        ),
        (
            json!({"messages": [{"role": "assistant", "function_call": {"name": "f"}}]}),
            "`function_call`",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
            "`input_audio`",
        ),
        (
            json!({"messages": [{"role": "user", "content": [
                {"type": "file", "file": {"file_id": "file-1"}}]}]}),
            "`file_id`",
        ),
    ] {
        let reason = unable(&with(fields));
        assert!(reason.contains(word), "{reason}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (fields, error) in [
        (json!({"messages": null}), "messages: it is missing"),
        (
            json!({"messages": []}),
            "messages: expected a message that says something",
        ),
        (
            json!({"messages": [{"role": "user", "content": ""}]}),
            "messages: expected a message that says something",
        ),
        (json!({"messages": {}}), "messages: expected a list"),
        (json!({"messages": [1]}), "messages[0]: expected an object"),
        (
            json!({"messages": [{"role": "user"}]}),
            "messages[0].content: it is missing",
        ),
        (
            json!({"messages": [{"role": "user", "content": 1}]}),
            "messages[0].content: expected a string or a list",
        ),
        (
            json!({"messages": [{"role": "king", "content": "x"}]}),
            "messages[0].role: expected system, developer, user, assistant or tool",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "video"}]}]}),
            "messages[0].content[0].type: expected text, image_url, file or refusal",
        ),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "messages[0].tool_call_id: it is missing",
        ),
        (
            json!({"messages": [{"role": "system", "content": [
                {"type": "image_url", "image_url": {"url": "https://x"}}]}]}),
            "messages[0]: only a user can show an image or a file",
        ),
        (
            json!({"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png,xx"}}]}]}),
            "messages[0].content[0].image_url.url: expected base64 in the data URL",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [
                {"id": "1", "function": {"name": "f", "arguments": "[]"}}]}]}),
            "messages[0].tool_calls[0].function.arguments: expected a JSON object in a string",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [
                {"id": "1", "function": {"name": "f", "arguments": "{} {}"}}]}]}),
            "messages[0].tool_calls[0].function.arguments: expected a JSON object in a string",
        ),
        (
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
            "tools[0].function.parameters: expected a JSON schema of type object",
        ),
        (
            json!({"tools": [{"type": "mcp"}]}),
            "tools[0].type: expected function",
        ),
        (
            json!({"tools": [{"function": {"name": ""}}]}),
            "tools[0].function.name: expected a name",
        ),
        (
            json!({"tool_choice": "any"}),
            "tool_choice: expected none, auto, required or a function",
        ),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type: expected text, json_object or json_schema",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {}}}),
            "response_format.json_schema.schema: it is missing",
        ),
        (json!({"model": 1}), "model: expected a string"),
        (json!({"n": 0}), "n: expected at least 1"),
        (json!({"max_tokens": 0}), "max_tokens: expected at least 1"),
        (
            json!({"temperature": "1"}),
            "temperature: expected a number",
        ),
        (json!({"seed": 1.5}), "seed: expected a whole number"),
        (json!({"stop": [1]}), "stop[0]: expected a string"),
        (
            json!({"stop": 1}),
            "stop: expected a string or a list of strings",
        ),
        (json!({"stream": "yes"}), "stream: expected true or false"),
        (json!({"logit_bias": []}), "logit_bias: expected an object"),
        (
            json!({"service_tier": 1}),
            "service_tier: expected a string",
        ),
        (
            json!({"stream_options": {"include_usage": 1}}),
            "stream_options.include_usage: expected true or false",
        ),
    ] {
        assert_eq!(wrong(&with(fields)), error);
    }
}

#[test]
fn many_tools_and_deep_schemas_are_no_trouble() {
    let deep = format!(
        "{{\"type\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let tool =
        |i| format!(r#"{{"type":"function","function":{{"name":"f{i}","parameters":{deep}}}}}"#);
    let tools: Vec<_> = (0..100).map(tool).collect();
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"Hi"}}],"tools":[{}]}}"#,
        tools.join(",")
    );
    let ask = read_ask(body.as_bytes(), &mut Lost::default()).unwrap();
    assert_eq!(ask.tools.len(), 100);
    assert_eq!(ask.tools[99].schema.as_ref().unwrap().get(), deep);
}
