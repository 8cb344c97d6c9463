use serde_json::{Value, json, value::RawValue};

use super::*;
use crate::translate::{
    ask::{Ask, Format, Manner, Media, Part, Role, Thinking, Tool, ToolChoice, Turn},
    lost::Lost,
    piece::{Counts, Finish, Garbled, Piece},
};
use llm_call::Kind;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn manner() -> Manner<'static> {
    Manner {
        model: "gemini-2.5-flash",
        default_max_tokens: 4_096,
        output_limit: Some(8_192),
        old_max_tokens: false,
        json_schema: true,
    }
}

fn written(ask: &Ask) -> (Value, Vec<String>) {
    let mut lost = Lost::default();
    let body = write_ask(ask, &manner(), &mut lost).unwrap();
    let lost = lost.iter().map(str::to_owned).collect();
    (serde_json::from_slice(&body).unwrap(), lost)
}

fn turn(role: Role, parts: Vec<Part>) -> Turn {
    Turn { role, parts }
}

fn said(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[test]
fn a_request_that_says_everything() {
    let call = |id: &str, name: &str, arguments: &str| Part::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: raw(arguments),
    };
    let ask = Ask {
        system: vec!["Be brief.".to_owned(), "Be kind.".to_owned()],
        turns: vec![
            turn(
                Role::User,
                vec![
                    said("What is this? 🦀\u{2028}"),
                    Part::Image(Media::Data {
                        media_type: "image/png".to_owned(),
                        base64: "aGk=".to_owned(),
                    }),
                    Part::Image(Media::Url("https://h/a.JPG?x=.png".to_owned())),
                ],
            ),
            turn(
                Role::Assistant,
                vec![
                    said("Let me see."),
                    call("c1", "look", r#"{"at": 1e400}"#),
                    call("c2", "ask", "{}"),
                ],
            ),
            turn(
                Role::User,
                vec![
                    Part::ToolResult {
                        id: "c1".to_owned(),
                        parts: vec![said(r#"{"seen":"a crab"}"#)],
                        is_error: false,
                    },
                    Part::ToolResult {
                        id: "c2".to_owned(),
                        parts: vec![said("nobody answers")],
                        is_error: true,
                    },
                ],
            ),
            turn(Role::System, vec![said("Now in French.")]),
            turn(Role::User, vec![said("Go on.")]),
        ],
        tools: vec![
            Tool {
                name: "look".to_owned(),
                description: Some("Looks.".to_owned()),
                schema: Some(raw(
                    r##"{"type":"object","properties":{"at":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}"##,
                )),
                strict: Some(true),
            },
            Tool {
                name: "ask".to_owned(),
                description: None,
                schema: None,
                strict: None,
            },
        ],
        tool_choice: Some(ToolChoice::Named("look".to_owned())),
        parallel_tools: Some(false),
        max_tokens: Some(100_000),
        stop: vec!["END".to_owned()],
        temperature: Some(0.7),
        top_p: Some(0.9),
        top_k: Some(40),
        seed: Some(7),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(-0.5),
        format: Format::Schema {
            name: Some("fish".to_owned()),
            schema: raw(r#"{"type":"object"}"#),
            strict: Some(true),
        },
        thinking: Some(Thinking::Effort("low".to_owned())),
        user: Some("u".to_owned()),
        streamed: true,
        wants_usage: true,
    };
    let mut lost = Lost::default();
    let body = write_ask(&ask, &manner(), &mut lost).unwrap();
    // A number that no float holds is passed on as it was written.
    let text = String::from_utf8(body).unwrap().replace("1e400", "1");
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        body,
        json!({
            "contents": [
                { "role": "user", "parts": [
                    { "text": "What is this? 🦀\u{2028}" },
                    { "inlineData": { "mimeType": "image/png", "data": "aGk=" } },
                    { "fileData": { "fileUri": "https://h/a.JPG?x=.png", "mimeType": "image/jpeg" } },
                ] },
                { "role": "model", "parts": [
                    { "text": "Let me see." },
                    {
                        "functionCall": { "id": "c1", "name": "look", "args": { "at": 1 } },
                        "thoughtSignature": "skip_thought_signature_validator",
                    },
                    { "functionCall": { "id": "c2", "name": "ask", "args": {} } },
                ] },
                { "role": "user", "parts": [
                    { "functionResponse": { "id": "c1", "name": "look", "response": { "seen": "a crab" } } },
                    { "functionResponse": { "id": "c2", "name": "ask", "response": { "error": "nobody answers" } } },
                    { "text": "Now in French." },
                    { "text": "Go on." },
                ] },
            ],
            "systemInstruction": { "parts": [{ "text": "Be brief." }, { "text": "Be kind." }] },
            "tools": [{ "functionDeclarations": [
                {
                    "name": "look", "description": "Looks.",
                    "parametersJsonSchema": {
                        "type": "object",
                        "properties": { "at": { "$ref": "#/$defs/n" } },
                        "$defs": { "n": { "type": "number" } },
                    },
                },
                { "name": "ask" },
            ] }],
            "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["look"] } },
            "generationConfig": {
                "maxOutputTokens": 8192, "temperature": 0.7, "topP": 0.9, "topK": 40, "seed": 7,
                "presencePenalty": 0.5, "frequencyPenalty": -0.5, "stopSequences": ["END"],
                "responseMimeType": "application/json", "responseJsonSchema": { "type": "object" },
                "thinkingConfig": { "thinkingBudget": 1024 },
            },
        })
    );
    let lost: Vec<&str> = lost.iter().collect();
    assert_eq!(
        lost,
        [
            "messages.system",
            "tools.strict",
            "parallel_tool_calls",
            "user"
        ]
    );
}

#[test]
fn small_requests_say_no_more_than_they_must() {
    let ask = Ask {
        turns: vec![turn(Role::User, vec![said("Hi")])],
        ..Ask::default()
    };
    let (body, lost) = written(&ask);
    let contents = json!([{ "role": "user", "parts": [{ "text": "Hi" }] }]);
    assert_eq!(
        body,
        json!({ "contents": contents, "generationConfig": {} })
    );
    assert!(lost.is_empty());
    for (thinking, config) in [
        (Thinking::Off, json!({ "thinkingBudget": 0 })),
        (
            Thinking::Adaptive,
            json!({ "thinkingBudget": -1, "includeThoughts": true }),
        ),
        (
            Thinking::Budget(2_000),
            json!({ "thinkingBudget": 2000, "includeThoughts": true }),
        ),
        (
            Thinking::Effort("xhigh".to_owned()),
            json!({ "thinkingBudget": 24576 }),
        ),
    ] {
        let ask = Ask {
            thinking: Some(thinking),
            ..ask.clone()
        };
        assert_eq!(
            written(&ask).0["generationConfig"]["thinkingConfig"],
            config
        );
    }
    assert!(write_ask(&Ask::default(), &manner(), &mut Lost::default()).is_err());
}

/// What a reader makes of events, as text.
fn read(events: &[&str]) -> Result<Vec<String>, Garbled> {
    let mut reader = Reader::default();
    let mut pieces = Vec::new();
    for event in events {
        reader.event(b"", event.as_bytes(), &mut |piece| {
            pieces.push(format!("{piece:?}"));
        })?;
    }
    reader.at_eof(&mut |piece| pieces.push(format!("{piece:?}")));
    Ok(pieces)
}

fn shown(pieces: &[Piece<'_>]) -> Vec<String> {
    pieces.iter().map(|piece| format!("{piece:?}")).collect()
}

#[test]
fn a_stream_is_read_piece_by_piece() {
    let pieces = read(&[
        r#"{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9},"modelVersion":"gemini-2.5-flash","responseId":"r1"}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"Hello","thoughtSignature":"c2ln"},{"functionCall":{"name":"look","args":{"at":1}}}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"x","name":"ask"}},{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":2}}"#,
    ]);
    let count = |n| Some(n);
    let expected = shown(&[
        Piece::Start {
            id: "r1".into(),
            model: "gemini-2.5-flash".into(),
        },
        Piece::Usage(Counts {
            input: count(9),
            ..Counts::default()
        }),
        Piece::Reasoning("Hm.".into()),
        Piece::Text("Hello".into()),
        Piece::ToolCall {
            call: 0,
            id: "call_r1_0".into(),
            name: "look".into(),
        },
        Piece::Arguments {
            call: 0,
            json: r#"{"at":1}"#.into(),
        },
        Piece::ToolEnd { call: 0 },
        Piece::Usage(Counts {
            input: count(9),
            cache_read: count(4),
            cache_written: None,
            output: count(7),
            reasoning: count(2),
        }),
        Piece::ToolCall {
            call: 1,
            id: "x".into(),
            name: "ask".into(),
        },
        Piece::Arguments {
            call: 1,
            json: "{}".into(),
        },
        Piece::ToolEnd { call: 1 },
        Piece::Finish(Finish::ToolCalls),
        Piece::End,
    ]);
    assert_eq!(pieces.unwrap(), expected);
}

#[test]
fn no_end_is_made_up() {
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}"#;
    let pieces = read(&[text]).unwrap();
    assert_eq!(pieces.last().unwrap(), "Text(\"Hi\")");
    for (event, kind) in [
        (
            r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}"#,
            Kind::RateLimited,
        ),
        (r#"{"error":{"code":503,"message":"m"}}"#, Kind::Overloaded),
        (
            r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"m"}]}"#,
            Kind::Malformed,
        ),
    ] {
        let pieces = read(&[text, event]).unwrap();
        let message = "m".into();
        let failed = format!("{:?}", Piece::Failed { kind, message });
        assert_eq!(pieces.last(), Some(&failed));
    }
    assert!(read(&["{"]).is_err());
    assert!(read(&[r#"{"candidates":{}}"#]).is_err());
}

#[test]
fn reasons_to_stop() {
    for (reason, finish) in [
        ("STOP", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("SAFETY", Finish::Filtered),
        ("OTHER", Finish::Stop),
    ] {
        let event = format!(r#"{{"candidates":[{{"finishReason":"{reason}"}}]}}"#);
        let pieces = read(&[&event]).unwrap();
        assert!(pieces.contains(&format!("{:?}", Piece::Finish(finish))));
    }
    let blocked = read(&[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]).unwrap();
    assert_eq!(
        blocked[1..],
        shown(&[Piece::Finish(Finish::Filtered), Piece::End])
    );
}

proptest::proptest! {
    #[test]
    fn nothing_panics(json in "[{}\\[\\]\",:a-z0-9]{0,40}") {
        let _ = read(&[&json]);
    }
}
