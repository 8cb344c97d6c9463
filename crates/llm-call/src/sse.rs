//! The event scanner: chunks of bytes in, whole events out, for server-sent events and for
//! newline-delimited JSON.

mod event;
mod field;

pub use event::{Event, EventTooLarge, Framing};

use std::{fmt, mem};

use memchr::{memchr, memchr2};

use field::{Field, Nesting};

/// Finds the events in a body that comes in chunks of any size.
///
/// It works on bytes, so that a chunk may end inside a line end or inside a character. Lines end
/// with LF, CRLF or CR, and with nothing else. A byte order mark, comments and unknown fields are
/// skipped. An event counts once its blank line came: what the body ends in the middle of was
/// never received.
///
/// An event that lies whole in one chunk is borrowed from it. Only the beginning of an event whose
/// end has not come yet is copied.
///
/// # Example
///
/// ```
/// use llm_call::{Framing, Scanner};
///
/// let mut scanner = Scanner::new(Framing::Sse);
/// let mut seen = Vec::new();
/// for chunk in ["data: {\"a\"", ":1}\r", "\n\r\n: keep-alive\n\n"] {
///     scanner.feed(chunk.as_bytes(), |event| seen.push(event.data.to_vec()))?;
/// }
/// assert_eq!(seen, [b"{\"a\":1}".to_vec()]);
/// assert!(scanner.is_between_events());
/// # Ok::<(), llm_call::EventTooLarge>(())
/// ```
///
/// # Errors
///
/// [`Scanner::feed`] fails with [`EventTooLarge`] when a line, or the lines of one event together,
/// pass the limit (8 MiB by default). A scanner that failed fails for ever.
pub struct Scanner {
    framing: Framing,
    max_event: usize,
    /// How many bytes of a byte order mark were seen at the start of the body.
    mark: u8,
    /// The last chunk ended in CR: an LF at the start of the next belongs to it.
    after_cr: bool,
    failed: bool,
    /// The unfinished line of the earlier chunks.
    line: Vec<u8>,
    /// The fields of the unfinished event.
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    error: bool,
    /// Inside a JSON text that stands where a field was due.
    bare: Option<Nesting>,
}

/// A byte order mark in UTF-8.
const MARK: [u8; 3] = *b"\xEF\xBB\xBF";

/// The default limit of one event: far above any token, well below what hurts.
const MAX_EVENT: usize = 8 * 1024 * 1024;

impl Scanner {
    /// A scanner at the start of a body, with a limit of 8 MiB an event.
    pub fn new(framing: Framing) -> Scanner {
        Scanner {
            framing,
            max_event: MAX_EVENT,
            mark: 0,
            after_cr: false,
            failed: false,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            error: false,
            bare: None,
        }
    }

    /// The same scanner with another limit, in bytes, for the lines of one event.
    #[must_use]
    pub fn max_event(mut self, bytes: usize) -> Scanner {
        self.max_event = bytes;
        self
    }

    /// Calls `on` with each event that this chunk completes, in order.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut on: impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        if self.failed {
            return Err(self.too_large());
        }
        let rest = if usize::from(self.mark) < MARK.len() {
            self.skip_mark(chunk)
        } else {
            chunk
        };
        let done = match self.framing {
            Framing::Sse => self.feed_sse(rest, &mut on),
            Framing::Ndjson => self.feed_ndjson(rest, &mut on),
        };
        if done.is_err() {
            self.failed = true;
            (self.line, self.name, self.data) = (Vec::new(), Vec::new(), Vec::new());
        }
        done
    }

    /// Whether no part of an event is held: the body could end here without losing any.
    pub fn is_between_events(&self) -> bool {
        self.line.is_empty() && self.name.is_empty() && !self.has_data && self.bare.is_none()
    }

    fn too_large(&self) -> EventTooLarge {
        EventTooLarge {
            limit: self.max_event,
        }
    }

    /// Skips the byte order mark, or finds that there is none.
    fn skip_mark<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        let mut rest = chunk;
        while let Some((&byte, after)) = rest.split_first() {
            let at = usize::from(self.mark);
            if at == MARK.len() {
                break;
            }
            if byte != MARK[at] {
                // What looked like a mark is the start of a line.
                self.line.extend_from_slice(&MARK[..at]);
                self.mark = MARK.len() as u8;
                break;
            }
            self.mark += 1;
            rest = after;
        }
        rest
    }

    fn feed_ndjson(
        &mut self,
        chunk: &[u8],
        on: &mut impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let piece = &rest[..end];
            rest = &rest[end + 1..];
            if self.line.len() + piece.len() > self.max_event {
                return Err(self.too_large());
            }
            if self.line.is_empty() {
                json_line(piece, on);
            } else {
                self.line.extend_from_slice(piece);
                json_line(&self.line, on);
                self.line.clear();
            }
        }
        self.hold(rest)
    }

    fn feed_sse(
        &mut self,
        chunk: &[u8],
        on: &mut impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        let mut rest = chunk;
        if mem::take(&mut self.after_cr) {
            match rest.first() {
                Some(b'\n') => rest = &rest[1..],
                Some(_) => {}
                None => self.after_cr = true,
            }
        }
        let mut fields = Fields::default();
        loop {
            if self.bare.is_some() {
                rest = self.bare_json(rest, on)?;
            }
            let Some(&first) = rest.first() else { break };
            if self.line.is_empty() && matches!(first, b'{' | b'[') {
                self.keep(&fields);
                fields = Fields::default();
                if !self.has_data {
                    self.bare = Some(Nesting::default());
                    continue;
                }
            }
            let Some(end) = line_end(rest, first) else {
                break;
            };
            let line = &rest[..end];
            rest = self.after_line(&rest[end..]);
            let held = self.line.len() + self.data.len() + fields.data.map_or(0, <[u8]>::len);
            if held + line.len() > self.max_event {
                return Err(self.too_large());
            }
            if !self.line.is_empty() {
                self.keep(&fields);
                fields = Fields::default();
                let mut whole = mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.held_field(&whole);
                whole.clear();
                self.line = whole;
            } else if line.is_empty() {
                self.dispatch(&fields, on);
                fields = Fields::default();
            } else {
                self.field(&mut fields, line);
            }
        }
        self.keep(&fields);
        self.hold(rest)
    }

    /// Keeps the start of a line until its end comes.
    fn hold(&mut self, rest: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + rest.len() > self.max_event {
            return Err(self.too_large());
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// What follows a line end, which may be one byte or two.
    fn after_line<'c>(&mut self, rest: &'c [u8]) -> &'c [u8] {
        match rest {
            [b'\r', b'\n', rest @ ..] => rest,
            [b'\r'] => {
                self.after_cr = true;
                &[]
            }
            [_, rest @ ..] => rest,
            [] => &[],
        }
    }

    /// Notes a field that is borrowed from the chunk.
    #[inline]
    fn field<'c>(&mut self, fields: &mut Fields<'c>, line: &'c [u8]) {
        match Field::of(line) {
            Field::Name(name) => {
                self.name.clear();
                fields.name = name;
            }
            Field::Data(value) => self.value(fields, value),
            Field::Error(value) => {
                self.error = true;
                self.value(fields, value);
            }
            Field::None => {}
        }
    }

    /// Notes a value; a second one of the same event ends the borrowing.
    #[inline]
    fn value<'c>(&mut self, fields: &mut Fields<'c>, value: &'c [u8]) {
        if self.has_data || fields.data.is_some() {
            self.keep(fields);
            *fields = Fields::default();
            self.push(value);
        } else {
            fields.data = Some(value);
        }
    }

    /// Notes a field whose line came in more than one chunk.
    fn held_field(&mut self, line: &[u8]) {
        match Field::of(line) {
            Field::Name(name) => {
                self.name.clear();
                self.name.extend_from_slice(name);
            }
            Field::Data(value) => self.push(value),
            Field::Error(value) => {
                self.error = true;
                self.push(value);
            }
            Field::None => {}
        }
    }

    fn push(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
    }

    /// Copies borrowed fields, since the chunk ends or another line is joined to them.
    fn keep(&mut self, fields: &Fields<'_>) {
        if !fields.name.is_empty() {
            self.name.clear();
            self.name.extend_from_slice(fields.name);
        }
        if let Some(value) = fields.data {
            self.push(value);
        }
    }

    /// A blank line: the event is whole.
    #[inline]
    fn dispatch(&mut self, fields: &Fields<'_>, on: &mut impl FnMut(Event<'_>)) {
        let data = match fields.data {
            Some(data) => data,
            None if self.has_data => &self.data,
            None => {
                self.name.clear();
                return;
            }
        };
        on(Event {
            name: if fields.name.is_empty() {
                &self.name
            } else {
                fields.name
            },
            data,
            error: self.error,
        });
        self.reset();
    }

    #[inline]
    fn reset(&mut self) {
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        self.error = false;
    }

    /// Collects a bare JSON text up to its last bracket, and gives back what follows.
    fn bare_json<'c>(
        &mut self,
        chunk: &'c [u8],
        on: &mut impl FnMut(Event<'_>),
    ) -> Result<&'c [u8], EventTooLarge> {
        let Some(nesting) = &mut self.bare else {
            return Ok(chunk);
        };
        let end = chunk.iter().position(|byte| nesting.closes(*byte));
        let (text, rest) = chunk.split_at(end.map_or(chunk.len(), |at| at + 1));
        if self.data.len() + text.len() > self.max_event {
            return Err(self.too_large());
        }
        self.data.extend_from_slice(text);
        if end.is_some() {
            self.bare = None;
            on(Event {
                name: &self.name,
                data: &self.data,
                error: true,
            });
            self.reset();
        }
        Ok(rest)
    }
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("framing", &self.framing)
            .field("max_event", &self.max_event)
            .field("failed", &self.failed)
            .field(
                "held",
                &(self.line.len() + self.name.len() + self.data.len()),
            )
            .finish()
    }
}

/// The fields of an event so far, as long as they can be borrowed from the chunk.
#[derive(Default)]
struct Fields<'c> {
    name: &'c [u8],
    data: Option<&'c [u8]>,
}

/// Where the line at the start of `rest` ends. Blank lines are half of all lines, and cost no
/// search.
#[inline]
fn line_end(rest: &[u8], first: u8) -> Option<usize> {
    if matches!(first, b'\n' | b'\r') {
        return Some(0);
    }
    memchr2(b'\n', b'\r', rest)
}

fn json_line(line: &[u8], on: &mut impl FnMut(Event<'_>)) {
    let data = line.trim_ascii();
    if !data.is_empty() {
        on(Event {
            name: &[],
            data,
            error: false,
        });
    }
}

#[cfg(test)]
mod tests;
