use serde_json::{Value, json};

use super::*;
use crate::translate::{
    ask::{Ask, Format, Manner, Media, Part, Role, Thinking, ToolChoice, Turn, Untranslatable},
    lost::Lost,
    piece::{Counts, Finish, Garbled, Piece},
};

mod answer_read;
mod answer_write;
mod ask_read;
mod ask_write;
mod random;

const MANNER: Manner<'static> = Manner {
    model: "gpt-5.2",
    default_max_tokens: 4096,
    output_limit: None,
    old_max_tokens: false,
    json_schema: true,
};

fn read(body: &Value) -> (Ask, Vec<String>) {
    let mut lost = Lost::default();
    let ask = read_ask(body.to_string().as_bytes(), &mut lost).unwrap();
    (ask, names(&lost))
}

fn names(lost: &Lost) -> Vec<String> {
    lost.iter().map(str::to_owned).collect()
}

fn write(ask: &Ask, manner: &Manner<'_>) -> (Value, Vec<String>) {
    let mut lost = Lost::default();
    let body = write_ask(ask, manner, &mut lost).unwrap();
    (serde_json::from_slice(&body).unwrap(), names(&lost))
}

fn own(piece: Piece<'_>) -> Piece<'static> {
    fn own(text: std::borrow::Cow<'_, str>) -> std::borrow::Cow<'static, str> {
        text.into_owned().into()
    }
    match piece {
        Piece::Start { id, model } => Piece::Start {
            id: own(id),
            model: own(model),
        },
        Piece::Ping => Piece::Ping,
        Piece::Text(text) => Piece::Text(own(text)),
        Piece::Reasoning(text) => Piece::Reasoning(own(text)),
        Piece::Refusal(text) => Piece::Refusal(own(text)),
        Piece::ToolCall { call, id, name } => Piece::ToolCall {
            call,
            id: own(id),
            name: own(name),
        },
        Piece::Arguments { call, json } => Piece::Arguments {
            call,
            json: own(json),
        },
        Piece::ToolEnd { call } => Piece::ToolEnd { call },
        Piece::Finish(finish) => Piece::Finish(finish),
        Piece::Usage(counts) => Piece::Usage(counts),
        Piece::Failed { kind, message } => Piece::Failed {
            kind,
            message: own(message),
        },
        Piece::End => Piece::End,
        Piece::Lost(name) => Piece::Lost(name),
    }
}

/// What a whole answer is read as.
fn whole(json: &str) -> Result<Vec<Piece<'static>>, Garbled> {
    let mut pieces = Vec::new();
    Reader::default().whole(json.as_bytes(), &mut |piece| pieces.push(own(piece)))?;
    Ok(pieces)
}

/// What the events of a stream are read as, and then its end.
fn streamed(events: &[&str]) -> Result<Vec<Piece<'static>>, Garbled> {
    let (mut reader, mut pieces) = (Reader::default(), Vec::new());
    for event in events {
        let (name, data) = match event.strip_prefix("event: ") {
            Some(event) => event.split_once('\n').unwrap(),
            None => ("", *event),
        };
        reader.event(name.as_bytes(), data.as_bytes(), &mut |piece| {
            pieces.push(own(piece));
        })?;
    }
    reader.at_eof(&mut |piece| pieces.push(own(piece)));
    Ok(pieces)
}
