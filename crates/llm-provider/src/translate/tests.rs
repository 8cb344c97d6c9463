//! Requests there and back: what both dialects can say survives.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ask::Manner, chat, lost::Lost, messages};

const MANNER: Manner<'static> = Manner {
    model: "m",
    default_max_tokens: 4_096,
    output_limit: None,
    old_max_tokens: false,
    json_schema: true,
};

fn there(chat: &Value) -> (Value, Vec<String>) {
    let mut lost = Lost::default();
    let ask = chat::read_ask(chat.to_string().as_bytes(), &mut lost).unwrap();
    let body = messages::write_ask(&ask, &MANNER, &mut lost).unwrap();
    let lost = lost.iter().map(str::to_owned).collect();
    (serde_json::from_slice(&body).unwrap(), lost)
}

fn back(messages: &Value) -> (Value, Vec<String>) {
    let mut lost = Lost::default();
    let ask = messages::read_ask(messages.to_string().as_bytes(), &mut lost).unwrap();
    let body = chat::write_ask(&ask, &MANNER, &mut lost).unwrap();
    let lost = lost.iter().map(str::to_owned).collect();
    (serde_json::from_slice(&body).unwrap(), lost)
}

/// Text as people write it: never only whitespace.
fn text() -> impl Strategy<Value = String> {
    "[a-zé🦀\u{2028}\"\\\\\n<]{0,12}[a-z]"
}

/// A user's turn, or a call of tools with its results and what the assistant says to them.
fn turns() -> impl Strategy<Value = Vec<Value>> {
    let said = text().prop_map(|text| vec![json!({ "role": "user", "content": text })]);
    let seen = (text(), "[A-Za-z0-9+/]{4}").prop_map(|(text, data)| {
        vec![json!({ "role": "user", "content": [
            { "type": "text", "text": text },
            { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}") } },
            { "type": "image_url", "image_url": { "url": "https://h/a.png" } },
        ] })]
    });
    let called = prop::collection::vec((text(), any::<i32>()), 1..4).prop_map(|calls| {
        let id = |i: usize| format!("call_{i}");
        let tool_calls = calls.iter().enumerate().map(|(i, (text, n))| {
            let arguments = json!({ "text": text, "n": n, "empty": {} }).to_string();
            json!({ "id": id(i), "type": "function", "function": { "name": "look", "arguments": arguments } })
        });
        let mut turns = vec![json!({
            "role": "assistant", "content": null, "tool_calls": tool_calls.collect::<Vec<_>>(),
        })];
        turns.extend(calls.iter().enumerate().map(|(i, (text, _))| {
            json!({ "role": "tool", "tool_call_id": id(i), "content": text })
        }));
        turns
    });
    let one = prop_oneof![said, seen, called];
    prop::collection::vec((one, text()), 1..5).prop_map(|rounds| {
        let mut turns = vec![json!({ "role": "user", "content": "Begin." })];
        for (round, answer) in rounds {
            if round[0]["role"] == "user" {
                turns.push(json!({ "role": "assistant", "content": answer }));
            }
            turns.extend(round);
        }
        turns
    })
}

/// Contents as lists of parts, since a string and a list of one text say the same.
fn even(mut chat: Value) -> Value {
    for message in chat["messages"].as_array_mut().unwrap() {
        if let Value::String(text) = &message["content"] {
            message["content"] = json!([{ "type": "text", "text": text }]);
        }
        if let Some(calls) = message["tool_calls"].as_array_mut() {
            for call in calls {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                call["function"]["arguments"] = serde_json::from_str(arguments).unwrap();
            }
        }
        if message["content"].is_null() {
            message.as_object_mut().unwrap().remove("content");
        }
    }
    chat
}

proptest! {
    #[test]
    fn f09_what_both_dialects_can_say_survives_there_and_back(
        turns in turns(),
        system in prop::option::of(text()),
        temperature in prop::option::of(0..100u32),
        streamed in any::<bool>(),
        choice in prop::option::of(0..4usize),
        parallel in prop::option::of(Just(false)),
        stop in prop::collection::vec("[a-z]{1,5}", 0..4),
    ) {
        let mut messages = Vec::new();
        messages.extend(system.map(|text| json!({ "role": "system", "content": text })));
        messages.extend(turns);
        let mut chat = json!({
            "model": "m",
            "messages": messages,
            "max_completion_tokens": 77,
            "tools": [{ "type": "function", "function": {
                "name": "look",
                "description": "Looks.",
                "parameters": { "type": "object", "properties": { "n": { "$ref": "#/$defs/n" } }, "$defs": { "n": { "type": "integer" } } },
            } }],
        });
        if let Some(hundredths) = temperature {
            chat["temperature"] = json!(f64::from(hundredths) / 100.0);
        }
        if streamed {
            chat["stream"] = json!(true);
            chat["stream_options"] = json!({ "include_usage": true });
        }
        if let Some(i) = choice {
            let named = json!({ "type": "function", "function": { "name": "look" } });
            chat["tool_choice"] = [json!("auto"), json!("none"), json!("required"), named][i].clone();
        }
        if parallel.is_some() && choice != Some(1) {
            chat["parallel_tool_calls"] = json!(false);
            // Anthropic says it within the choice, so there is one.
            chat["tool_choice"] = chat["tool_choice"].as_null().map_or(chat["tool_choice"].clone(), |()| json!("auto"));
        }
        if !stop.is_empty() {
            chat["stop"] = json!(stop);
        }
        let (translated, lost) = there(&chat);
        prop_assert!(lost.is_empty(), "{lost:?}");
        let (again, lost) = back(&translated);
        prop_assert!(lost.is_empty(), "{lost:?}");
        prop_assert_eq!(even(again), even(chat));
    }
}
