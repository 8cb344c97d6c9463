//! Writes the events of a stream, one at a time.

use std::io::Write as _;

use serde::Serialize;

use super::{
    super::piece::Garbled,
    stream_write::What,
    wire::{Stop, Usage},
};

fn event(out: &mut Vec<u8>, name: &str, data: &impl Serialize) -> Result<(), Garbled> {
    let _infallible = write!(out, "event: {name}\ndata: ");
    serde_json::to_writer(&mut *out, data).map_err(|error| Garbled(error.to_string().into()))?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}

pub(super) fn write_start(index: usize, what: &What, out: &mut Vec<u8>) -> Result<(), Garbled> {
    let block = match what {
        What::Text => serde_json::json!({"type": "text", "text": ""}),
        What::Thinking => {
            serde_json::json!({"type": "thinking", "thinking": "", "signature": ""})
        }
        What::Tool { id, name, .. } => {
            serde_json::json!({"type": "tool_use", "id": id, "name": name, "input": {}})
        }
    };
    let start = serde_json::json!({
        "type": "content_block_start", "index": index, "content_block": block,
    });
    event(out, "content_block_start", &start)
}

pub(super) fn write_delta(
    index: usize,
    what: &What,
    fragment: &str,
    out: &mut Vec<u8>,
) -> Result<(), Garbled> {
    #[derive(Serialize)]
    struct BlockDelta<'a> {
        r#type: &'static str,
        index: usize,
        delta: Delta<'a>,
    }
    #[derive(Serialize)]
    #[serde(tag = "type")]
    enum Delta<'a> {
        #[serde(rename = "text_delta")]
        Text { text: &'a str },
        #[serde(rename = "thinking_delta")]
        Thinking { thinking: &'a str },
        #[serde(rename = "input_json_delta")]
        InputJson { partial_json: &'a str },
    }
    let delta = match what {
        What::Text => Delta::Text { text: fragment },
        What::Thinking => Delta::Thinking { thinking: fragment },
        What::Tool { .. } => Delta::InputJson {
            partial_json: fragment,
        },
    };
    let delta = BlockDelta {
        r#type: "content_block_delta",
        index,
        delta,
    };
    event(out, "content_block_delta", &delta)
}

pub(super) fn write_stop(index: usize, out: &mut Vec<u8>) -> Result<(), Garbled> {
    let stop = serde_json::json!({"type": "content_block_stop", "index": index});
    event(out, "content_block_stop", &stop)
}

pub(super) fn write_message_start(
    id: &str,
    model: &str,
    usage: &Usage,
    out: &mut Vec<u8>,
) -> Result<(), Garbled> {
    let start = serde_json::json!({
        "type": "message_start",
        "message": {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        },
    });
    event(out, "message_start", &start)
}

pub(super) fn write_message_delta(
    delta: Stop<'_>,
    usage: Usage,
    out: &mut Vec<u8>,
) -> Result<(), Garbled> {
    #[derive(Serialize)]
    struct MessageDelta<'a> {
        r#type: &'static str,
        delta: Stop<'a>,
        usage: Usage,
    }
    let delta = MessageDelta {
        r#type: "message_delta",
        delta,
        usage,
    };
    event(out, "message_delta", &delta)
}

/// An event that says nothing but what it is.
pub(super) fn write_bare(name: &str, out: &mut Vec<u8>) -> Result<(), Garbled> {
    event(out, name, &serde_json::json!({"type": name}))
}
