use serde_json::{Value, json, value::RawValue};

use super::super::{
    super::{
        ask::{Ask, Format, Media, Part, Role, Thinking, ToolChoice, Turn, Untranslatable},
        lost::Lost,
    },
    read_ask,
};

fn try_read(body: &Value) -> Result<(Ask, Vec<String>), Untranslatable> {
    let mut lost = Lost::default();
    let ask = read_ask(body.to_string().as_bytes(), &mut lost)?;
    Ok((ask, lost.iter().map(str::to_owned).collect()))
}

fn read(body: &Value) -> (Ask, Vec<String>) {
    try_read(body).unwrap()
}

fn invalid(body: &Value) -> String {
    match try_read(body) {
        Err(Untranslatable::Invalid(invalid)) => invalid.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A request with these messages.
fn with(messages: &Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": messages})
}

/// The parts of the only turn of a user who says this.
fn parts(content: &Value) -> (Vec<Part>, Vec<String>) {
    let (mut ask, lost) = read(&with(&json!([{"role": "user", "content": content}])));
    (ask.turns.remove(0).parts, lost)
}

fn text(text: &str) -> Part {
    Part::Text(text.into())
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

#[test]
fn a_small_request() {
    let (ask, lost) = read(&with(
        &json!([{"role": "user", "content": "hi \u{2028}😀"}]),
    ));
    assert_eq!(lost, [""; 0]);
    assert_eq!(ask.max_tokens, Some(9));
    let hi = Turn {
        role: Role::User,
        parts: vec![text("hi \u{2028}😀")],
    };
    assert_eq!(ask.turns, [hi]);
    assert!(ask.wants_usage && !ask.streamed);
    assert!(ask.tool_choice.is_none() && ask.thinking.is_none());
}

#[test]
fn a_request_of_everything() {
    let (ask, lost) = read(&json!({
        "model": "claude", "max_tokens": 4096, "stream": true,
        "system": [
            {"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": ""},
            {"type": "text", "text": "be brief"},
        ],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "look", "citations": []},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I look", "citations": [{"type": "char_location"}]},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                {"type": "tool_use", "id": "t:1", "name": "f", "input": {"a": [2], "b": 1},
                 "caller": {"type": "direct"}},
                {"type": "tool_use", "id": "t:2", "name": "g", "input": {},
                 "caller": {"type": "code_execution_20260120", "tool_id": "s"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t:1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "t:2", "is_error": true, "content": [
                    {"type": "text", "text": "no"},
                    {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                    {"type": "tool_reference", "tool_name": "h"},
                ]},
                {"type": "text", "text": "go on"},
            ]},
        ],
        "tools": [
            {"name": "f", "description": "does", "input_schema": {"type": "object"}, "strict": true,
             "cache_control": {"type": "ephemeral"}, "input_examples": [{}]},
            {"type": "custom", "name": "g", "input_schema": {"$defs": {"n": {"$ref": "#/$defs/n"}}, "type": "object"}},
            {"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
        ],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "stop_sequences": ["END", ""],
        "temperature": 0.5, "top_p": 0.9, "top_k": 40,
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
        "output_config": {
            "effort": "high",
            "format": {"type": "json_schema", "schema": {"type": "object"}},
            "task_budget": 3,
        },
        "metadata": {"user_id": "u", "trace": 1},
        "cache_control": {"type": "ephemeral"}, "container": "c", "context_management": {},
        "inference_geo": "eu", "mcp_servers": [{}], "service_tier": "auto", "speed": null,
    }));
    assert_eq!(
        lost,
        [
            "cache_control",
            "thinking",
            "citations",
            "server_tool_use",
            "web_search_tool_result",
            "tool_use.caller",
            "tool_reference",
            "tools.input_examples",
            "tools.web_search_20260318",
            "thinking.display",
            "output_config.effort",
            "output_config.task_budget",
            "metadata.trace",
            "container",
            "context_management",
            "inference_geo",
            "mcp_servers",
            "service_tier",
        ]
    );
    assert_eq!(ask.system, ["be kind", "be brief"]);
    let image = Media::Data {
        media_type: "image/png".into(),
        base64: "AAAA".into(),
    };
    let called = |id: &str, name: &str, json| Part::ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: raw(json),
    };
    let resulted = |id: &str, parts, is_error| Part::ToolResult {
        id: id.into(),
        parts,
        is_error,
    };
    let link = Part::Image(Media::Url("https://x/y.png".into()));
    let said = |role, parts| Turn { role, parts };
    assert_eq!(
        ask.turns,
        [
            said(Role::User, vec![text("look"), Part::Image(image)]),
            said(
                Role::Assistant,
                vec![
                    text("I look"),
                    called("t:1", "f", r#"{"a":[2],"b":1}"#),
                    called("t:2", "g", "{}"),
                ]
            ),
            said(
                Role::User,
                vec![
                    resulted("t:1", vec![text("one")], false),
                    resulted("t:2", vec![text("no"), link], true),
                    text("go on"),
                ]
            ),
        ]
    );
    assert_eq!(ask.tools.len(), 2);
    assert_eq!(ask.tools[0].name, "f");
    assert_eq!(ask.tools[0].description.as_deref(), Some("does"));
    assert_eq!(ask.tools[0].strict, Some(true));
    let schema = ask.tools[1].schema.as_ref().unwrap().get();
    assert_eq!(
        schema,
        r##"{"$defs":{"n":{"$ref":"#/$defs/n"}},"type":"object"}"##
    );
    assert_eq!(ask.tool_choice, Some(ToolChoice::Named("f".into())));
    assert_eq!(ask.parallel_tools, Some(false));
    assert_eq!(ask.stop, ["END"]);
    assert_eq!(
        (ask.temperature, ask.top_p, ask.top_k),
        (Some(0.5), Some(0.9), Some(40))
    );
    assert_eq!(ask.thinking, Some(Thinking::Budget(2048)));
    assert!(
        matches!(&ask.format, Format::Schema { name: None, schema, .. }
        if schema.get() == r#"{"type":"object"}"#)
    );
    assert_eq!(ask.user.as_deref(), Some("u"));
    assert!(ask.streamed && ask.wants_usage);
}

#[test]
fn how_much_it_thinks() {
    let mut body = with(&json!([{"role": "user", "content": "x"}]));
    for (thinking, effort, expected, expected_lost) in [
        (
            json!({"type": "disabled"}),
            json!(null),
            Some(Thinking::Off),
            None,
        ),
        (
            json!({"type": "adaptive"}),
            json!(null),
            Some(Thinking::Adaptive),
            None,
        ),
        (
            json!({"type": "adaptive"}),
            json!("low"),
            Some(Thinking::Effort("low".into())),
            None,
        ),
        (
            json!(null),
            json!("max"),
            Some(Thinking::Effort("max".into())),
            None,
        ),
        (
            json!({"type": "disabled"}),
            json!("max"),
            Some(Thinking::Off),
            Some("output_config.effort"),
        ),
        (
            json!({"type": "between_tools"}),
            json!(null),
            None,
            Some("thinking"),
        ),
    ] {
        body["thinking"] = thinking;
        body["output_config"] = json!({"effort": effort});
        let (ask, lost) = read(&body);
        assert_eq!(ask.thinking, expected);
        assert_eq!(lost.first().map(String::as_str), expected_lost);
    }
}

#[test]
fn documents() {
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "AA"});
    let (parts_read, lost) = parts(&json!([
        {"type": "document", "source": pdf, "title": "t", "context": "c", "citations": {"enabled": true}},
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}, "citations": {"enabled": false}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}, "title": "t"},
        {"type": "document", "source": {"type": "content", "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        ]}},
        {"type": "document", "source": {"type": "content", "content": "b"}},
        {"type": "search_result", "source": "https://x", "title": "X", "content": [{"type": "text", "text": "c"}]},
    ]));
    let data = Media::Data {
        media_type: "application/pdf".into(),
        base64: "AA".into(),
    };
    let file = |name: Option<&str>, media| Part::File {
        name: name.map(str::to_owned),
        media,
    };
    assert_eq!(
        parts_read,
        [
            file(Some("t"), data),
            file(None, Media::Url("https://x/a.pdf".into())),
            text("plain"),
            text("a"),
            Part::Image(Media::Url("https://x/y.png".into())),
            text("b"),
            text("X\nhttps://x\n\nc"),
        ]
    );
    assert_eq!(
        lost,
        [
            "citations",
            "document.context",
            "document.title",
            "search_result"
        ]
    );
}

#[test]
fn instructions_in_the_middle_and_at_the_start() {
    let (ask, lost) = read(&with(&json!([
        {"role": "system", "content": "first"},
        {"role": "user", "content": [{"type": "text", "text": "a"}], "id": "x"},
        {"role": "system", "content": [{"type": "text", "text": "later"}]},
    ])));
    assert_eq!(ask.system, ["first"]);
    assert_eq!(ask.turns.len(), 2);
    assert_eq!(ask.turns[1].role, Role::System);
    assert_eq!(lost, ["messages.id"]);
}

#[test]
fn turns_of_nothing_are_none() {
    let (ask, lost) = read(&with(&json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "s"}]},
        {"role": "user", "content": [{"type": "text", "text": ""}]},
    ])));
    assert_eq!(ask.turns.len(), 1);
    assert_eq!(lost, ["thinking"]);
    let empty = with(&json!([{"role": "user", "content": ""}]));
    assert_eq!(invalid(&empty), "messages: there is nothing in them");
}

#[test]
fn an_answer_that_is_begun_is_noted() {
    let (ask, lost) = read(&with(&json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "{"},
    ])));
    assert_eq!(ask.turns.len(), 2);
    assert_eq!(lost, ["messages.prefill"]);
}

#[test]
fn what_only_its_provider_can_serve() {
    let unable = |body: &Value| matches!(try_read(body), Err(Untranslatable::Unable(_)));
    let hi = json!([{"role": "user", "content": "x"}]);
    assert!(unable(&json!({"max_tokens": 0, "messages": hi})));
    let file = json!({"type": "file", "file_id": "f"});
    for kind in ["image", "document"] {
        let block = json!({"type": kind, "source": file});
        assert!(unable(&with(
            &json!([{"role": "user", "content": [block]}])
        )));
    }
    let search = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    let forced = json!({"type": "tool", "name": "web_search"});
    for choice in [forced, json!({"type": "any"})] {
        let body = json!({"max_tokens": 1, "messages": hi, "tools": search, "tool_choice": choice});
        assert!(unable(&body));
    }
}

#[test]
fn what_is_wrong_is_named() {
    let hi = json!([{"role": "user", "content": "x"}]);
    let user = |block: Value| with(&json!([{"role": "user", "content": [block]}]));
    let assistant = |block: Value| with(&json!([{"role": "assistant", "content": [block]}]));
    let also = |name: &str, value: Value| {
        let mut body = with(&hi);
        body[name] = value;
        body
    };
    for (body, expected) in [
        (json!([]), "the body: expected an object"),
        (json!({"messages": hi}), "max_tokens: it is missing"),
        (
            json!({"max_tokens": 1.5, "messages": hi}),
            "max_tokens: expected a whole number of at least 0",
        ),
        (json!({"max_tokens": 1}), "messages: it is missing"),
        (with(&json!({})), "messages: expected a list"),
        (with(&json!([])), "messages: there is nothing in them"),
        (
            with(&json!([{"role": "tool", "content": "x"}])),
            "messages[0].role: expected user, assistant or system",
        ),
        (
            with(&json!([{"role": "user", "content": 1}])),
            "messages[0].content: expected a string or a list",
        ),
        (
            user(json!({"type": "audio"})),
            "messages[0].content[0].type: no content block has this type",
        ),
        (
            user(json!({"type": "text"})),
            "messages[0].content[0].text: it is missing",
        ),
        (
            user(json!({"type": "tool_use", "id": "i", "name": "n", "input": {}})),
            "messages[0].content[0].type: such a block cannot stand here",
        ),
        (
            assistant(json!({"type": "tool_use", "id": "i", "name": "n", "input": "{}"})),
            "messages[0].content[0].input: expected an object",
        ),
        (
            user(
                json!({"type": "tool_result", "tool_use_id": "i", "content": [
                {"type": "tool_result", "tool_use_id": "i"}]}),
            ),
            "messages[0].content[0].content[0].type: such a block cannot stand here",
        ),
        (
            user(json!({"type": "image", "source": {"type": "gs"}})),
            "messages[0].content[0].source.type: expected base64, url or file",
        ),
        (also("model", json!(1)), "model: expected a string"),
        (
            also("temperature", json!("1")),
            "temperature: expected a number",
        ),
        (also("stream", json!(1)), "stream: expected true or false"),
        (
            also("stop_sequences", json!([1])),
            "stop_sequences[0]: expected a string",
        ),
        (
            also("system", json!(1)),
            "system: expected a string or a list",
        ),
        (
            also("tools", json!([{"name": "f"}])),
            "tools[0].input_schema: it is missing",
        ),
        (
            also("tools", json!([{"name": "f", "input_schema": true}])),
            "tools[0].input_schema: expected an object",
        ),
        (
            also("tool_choice", json!({"type": "tool", "name": "f"})),
            "tool_choice.name: there is no tool of this name",
        ),
        (
            also("tool_choice", json!({"type": "required"})),
            "tool_choice.type: expected auto, any, tool or none",
        ),
        (
            also("thinking", json!({"type": "enabled"})),
            "thinking.budget_tokens: it is missing",
        ),
        (
            also("output_config", json!({"format": {"type": "xml"}})),
            "output_config.format.type: expected json_schema",
        ),
        (
            also("metadata", json!({"user_id": 1})),
            "metadata.user_id: expected a string",
        ),
    ] {
        assert_eq!(invalid(&body), expected, "{body}");
    }
    // Half a surrogate is no text, here as at the provider.
    let half = br#"{"max_tokens":1,"messages":[{"role":"user","content":"\ud83d"}]}"#;
    let Err(Untranslatable::Invalid(error)) = read_ask(half, &mut Lost::default()) else {
        panic!("it was read");
    };
    assert_eq!(error.to_string(), "messages[0].content: expected a string");
}
