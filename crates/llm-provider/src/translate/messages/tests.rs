//! What is said in one dialect, and what of it in the other.

mod answer_read;
mod answer_write;
mod ask_read;
mod ask_write;
mod hostile;

use super::super::piece::Piece;

/// A piece that borrows nothing.
fn owned(piece: Piece<'_>) -> Piece<'static> {
    let own = |text: std::borrow::Cow<'_, str>| text.into_owned().into();
    match piece {
        Piece::Start { id, model } => Piece::Start {
            id: own(id),
            model: own(model),
        },
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
        Piece::Failed { kind, message } => Piece::Failed {
            kind,
            message: own(message),
        },
        Piece::Ping => Piece::Ping,
        Piece::ToolEnd { call } => Piece::ToolEnd { call },
        Piece::Finish(finish) => Piece::Finish(finish),
        Piece::Usage(counts) => Piece::Usage(counts),
        Piece::End => Piece::End,
        Piece::Lost(name) => Piece::Lost(name),
    }
}

fn start(id: &'static str, model: &'static str) -> Piece<'static> {
    Piece::Start {
        id: id.into(),
        model: model.into(),
    }
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
