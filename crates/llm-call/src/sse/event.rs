//! What the scanner gives, and what it is told.

use std::{error::Error as StdError, fmt};

/// How events are told apart in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// `text/event-stream`: fields, and a blank line after each event.
    Sse,
    /// One JSON text a line.
    Ndjson,
}

/// One whole event, borrowed from the chunk or from the scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of the last `event:` field; empty without one, and always in NDJSON.
    pub name: &'a [u8],
    /// The values of the `data:` fields, joined by line feeds; the line itself in NDJSON.
    pub data: &'a [u8],
    /// The data came in an `error:` field, or as bare JSON where a field was due. Both are errors
    /// that a parser by the letter of the specification throws away.
    pub error: bool,
}

/// An event is larger than the scanner may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventTooLarge {
    /// The limit that was passed, in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an event of the stream is larger than {} bytes; raise the limit with Scanner::max_event",
            self.limit
        )
    }
}

impl StdError for EventTooLarge {}
