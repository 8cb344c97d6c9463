//! What providers send.

use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};

use crate::{Form, MODEL};

/// The events of a streamed answer: its role, its words, its finish and its end marker.
pub const EVENTS: usize = 100;

/// An answer in one piece.
pub const JSON: &str = r#"{"id":"chatcmpl-9x8y7z","object":"chat.completion","created":1760000000,"model":"gpt-4.1-mini-2025-04-14","choices":[{"index":0,"message":{"role":"assistant","content":"Two vowels and a consonant: that is how the shortest greeting of all is written, and it is said by everybody.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":13,"completion_tokens":26,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":0}},"service_tier":"default","system_fingerprint":"fp_38343a2f8f"}"#;

/// The frames of an answer.
pub fn frames(form: Form) -> Arc<[Bytes]> {
    static FRAMES: LazyLock<[Arc<[Bytes]>; 2]> =
        LazyLock::new(|| [[JSON.into()].into(), openai(EVENTS)]);
    FRAMES[form as usize].clone()
}

/// A stream of OpenAI's with so many events of about 200 bytes.
pub fn openai(events: usize) -> Arc<[Bytes]> {
    let word = openai_event(r#"{"content":" another word"}"#, "null");
    let texts = std::iter::once(openai_role())
        .chain(std::iter::repeat_n(word, events - 3))
        .chain([
            openai_event("{}", "\"stop\""),
            "data: [DONE]\n\n".to_owned(),
        ]);
    in_frames(&texts.collect::<Vec<_>>())
}

/// What a provider says to a caller who asks too often.
pub fn rate_limit() -> Arc<[Bytes]> {
    const SAID: &str = r#"{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    [SAID.into()].into()
}

/// A stream that is an error.
pub fn error_event() -> Arc<[Bytes]> {
    let event = r#"{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#;
    in_frames(&[format!("data: {event}\n\n")])
}

/// How a stream of OpenAI's begins, up to its first token.
pub fn openai_beginning() -> Arc<[Bytes]> {
    in_frames(&[openai_role(), openai_event(r#"{"content":"A"}"#, "null")])
}

fn openai_role() -> String {
    openai_event(r#"{"role":"assistant","content":""}"#, "null")
}

fn openai_event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-9x8y7z\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"{MODEL}\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// A stream of Anthropic's with so many events.
pub fn anthropic(events: usize) -> Arc<[Bytes]> {
    let word = anthropic_event(
        "content_block_delta",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" another word"}}"#,
    );
    let begin = anthropic_start();
    let end = [
        anthropic_event(
            "content_block_stop",
            r#"{"type":"content_block_stop","index":0}"#,
        ),
        anthropic_event(
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":99}}"#,
        ),
        anthropic_event("message_stop", r#"{"type":"message_stop"}"#),
    ];
    let words = std::iter::repeat_n(word, events - begin.len() - end.len());
    in_frames(
        &begin
            .into_iter()
            .chain(words)
            .chain(end)
            .collect::<Vec<_>>(),
    )
}

/// A stream of Gemini's with so many events.
pub fn gemini(events: usize) -> Arc<[Bytes]> {
    let event = |finish: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\" another word\"}}],\"role\":\"model\"}},\"index\":0{finish}}}],\"usageMetadata\":{{\"promptTokenCount\":13,\"candidatesTokenCount\":26,\"totalTokenCount\":39}},\"modelVersion\":\"gemini-2.5-flash\",\"responseId\":\"x8Yz\"}}\n\n"
        )
    };
    let words = std::iter::repeat_n(event(""), events - 1);
    let end = event(",\"finishReason\":\"STOP\"");
    in_frames(&words.chain([end]).collect::<Vec<_>>())
}

/// How a stream of Anthropic's begins, up to its first token.
pub fn anthropic_beginning() -> Arc<[Bytes]> {
    let [message, block] = anthropic_start();
    let hello =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#;
    in_frames(&[
        message,
        block,
        anthropic_event("ping", r#"{"type": "ping"}"#),
        anthropic_event("content_block_delta", hello),
    ])
}

/// What comes before the first token.
fn anthropic_start() -> [String; 2] {
    [
        anthropic_event(
            "message_start",
            r#"{"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}"#,
        ),
        anthropic_event(
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
    ]
}

fn anthropic_event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// One frame for each text, in one piece of memory, as when it is read from a socket.
pub fn in_frames(texts: &[String]) -> Arc<[Bytes]> {
    let mut buffer = BytesMut::new();
    buffer.extend_from_slice(texts.concat().as_bytes());
    texts
        .iter()
        .map(|text| buffer.split_to(text.len()).freeze())
        .collect()
}
