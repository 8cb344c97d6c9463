//! A stream, event by event: the bytes of the target in, the bytes of the caller out.

use std::{borrow::Cow, fmt};

use llm_call::{Dialect, Framing, Scanner};

use super::{
    Answering, chat, gemini, messages,
    piece::{Garbled, Piece},
};

enum Reader {
    Chat(chat::Reader),
    Messages(messages::Reader),
    Gemini(gemini::Reader),
}

enum Writer {
    Chat(chat::StreamWriter),
    Messages(messages::StreamWriter),
}

/// A translation that has come so far.
pub(crate) struct Stream {
    scanner: Scanner,
    reader: Reader,
    writer: Writer,
    /// An end marker or an error was written: nothing follows.
    over: bool,
}

impl Stream {
    pub(super) fn new(answering: &Answering) -> Stream {
        let Answering {
            caller,
            target,
            model,
            created,
            wants_usage,
        } = answering;
        Stream {
            scanner: Scanner::new(Framing::Sse),
            reader: match target {
                Dialect::Anthropic => Reader::Messages(messages::Reader::default()),
                Dialect::Gemini => Reader::Gemini(gemini::Reader::default()),
                _ => Reader::Chat(chat::Reader::default()),
            },
            writer: match caller {
                Dialect::Anthropic => {
                    Writer::Messages(messages::StreamWriter::new(model, *created, *wants_usage))
                }
                _ => Writer::Chat(chat::StreamWriter::new(model, *created, *wants_usage)),
            },
            over: false,
        }
    }

    /// Whether the end, or an error, has been written.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Translates the events that a chunk completes.
    pub(crate) fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), Garbled> {
        let Stream {
            scanner,
            reader,
            writer,
            over,
        } = self;
        let mut done = Ok(());
        let fed = scanner.feed(chunk, |event| {
            if done.is_err() || *over {
                return;
            }
            let mut write = |piece: Piece<'_>| written(writer, over, &mut done, piece, out);
            let read = match reader {
                Reader::Chat(reader) => reader.event(event.name, event.data, &mut write),
                Reader::Messages(reader) => reader.event(event.name, event.data, &mut write),
                Reader::Gemini(reader) => reader.event(event.name, event.data, &mut write),
            };
            if done.is_ok() {
                done = read;
            }
        });
        if fed.is_err() {
            return Err(Garbled(Cow::Borrowed("an event is too large")));
        }
        done
    }

    /// The target's stream ended well: writes an end that it did not mark itself.
    pub(crate) fn at_eof(&mut self, out: &mut Vec<u8>) -> Result<(), Garbled> {
        let Stream {
            reader,
            writer,
            over,
            ..
        } = self;
        let mut done = Ok(());
        let mut write = |piece: Piece<'_>| written(writer, over, &mut done, piece, out);
        match reader {
            Reader::Chat(reader) => reader.at_eof(&mut write),
            Reader::Messages(reader) => reader.at_eof(&mut write),
            Reader::Gemini(reader) => reader.at_eof(&mut write),
        }
        done
    }
}

fn written(
    writer: &mut Writer,
    over: &mut bool,
    done: &mut Result<(), Garbled>,
    piece: Piece<'_>,
    out: &mut Vec<u8>,
) {
    if done.is_err() || *over {
        return;
    }
    let ends = matches!(piece, Piece::End | Piece::Failed { .. });
    let wrote = match writer {
        Writer::Chat(writer) => writer.piece(piece, out),
        Writer::Messages(writer) => writer.piece(piece, out),
    };
    match wrote {
        Ok(()) => *over |= ends,
        Err(garbled) => *done = Err(garbled),
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}
