//! The pieces of an event stream: one line's meaning, and the end of a bare JSON text.

use memchr::memchr;

/// What one line means.
pub(super) enum Field<'a> {
    Name(&'a [u8]),
    Data(&'a [u8]),
    Error(&'a [u8]),
    /// A comment, or a field that says nothing about the answer.
    None,
}

impl Field<'_> {
    #[inline]
    pub(super) fn of(line: &[u8]) -> Field<'_> {
        if let Some(value) = line.strip_prefix(b"data:") {
            return Field::Data(value.strip_prefix(b" ").unwrap_or(value));
        }
        let (name, value) = match memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => Field::Data(value),
            b"event" => Field::Name(value),
            b"error" => Field::Error(value),
            _ => Field::None,
        }
    }
}

/// How deep in brackets a bare JSON text is.
#[derive(Default)]
pub(super) struct Nesting {
    depth: u32,
    string: bool,
    escape: bool,
}

impl Nesting {
    /// Takes one byte; whether it is the last of the text.
    pub(super) fn closes(&mut self, byte: u8) -> bool {
        if self.string {
            match byte {
                _ if self.escape => self.escape = false,
                b'\\' => self.escape = true,
                b'"' => self.string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }
}
