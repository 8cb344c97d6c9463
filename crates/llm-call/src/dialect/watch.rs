//! [`Watch`]: what was seen of one answer so far.

use std::{error::Error as StdError, fmt};

use super::{
    Dialect, Finish, Sight, Usage, glance,
    read::{Notes, read},
};
use crate::{Event, Kind};

/// What was seen of one answer so far, event by event.
///
/// It knows the shapes of all [`Dialect`]s; a dialect given at the start only saves it from
/// finding out.
///
/// # Example
///
/// ```
/// use llm_call::{Finish, Framing, Scanner, Watch};
///
/// let mut watch = Watch::new(None);
/// let mut tokens = 0;
/// let body = concat!(
///     "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
///     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n",
///     "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
/// );
/// Scanner::new(Framing::Sse).feed(body.as_bytes(), |event| {
///     tokens += usize::from(watch.event(&event, tokens > 0).token);
/// })?;
/// assert_eq!(tokens, 1);
/// assert_eq!(watch.finish(), Some(Finish::Complete));
/// # Ok::<(), llm_call::EventTooLarge>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Watch {
    dialect: Option<Dialect>,
    usage: Usage,
    choices: u64,
    finished: u64,
    finish: Option<Finish>,
    token: bool,
    answer: bool,
    malformed: bool,
}

impl Watch {
    /// A watch on an answer of which nothing was seen. Without a dialect, the first events tell.
    pub fn new(dialect: Option<Dialect>) -> Watch {
        Watch {
            dialect,
            ..Watch::default()
        }
    }

    /// Takes the next event of a stream.
    ///
    /// Before commit each event is read and checked as JSON. After commit, an event that is
    /// plainly one more token is only glanced at; any other is still read.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>, committed: bool) -> Sight {
        if committed
            && let Some(dialect) = self.dialect
            && let Some(sight) = glance::glance(dialect, event)
        {
            self.token |= sight.token;
            if dialect == Dialect::OpenAiChat {
                // A glance is at the first choice alone.
                self.choices |= u64::from(sight.token);
            }
            return sight;
        }
        self.read_event(event)
    }

    /// Takes a body that is not streamed, as a whole.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is not JSON from its first byte to its last. Blank lines around it are
    /// no matter: some servers send them to keep the connection alive.
    pub fn whole(&mut self, body: &[u8]) -> Result<Sight, Malformed> {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        match read(body) {
            Ok(notes) => {
                self.answer |= notes.answer && !notes.pending;
                Ok(Sight {
                    end: true,
                    ..self.take(&notes)
                })
            }
            Err(error) => {
                self.malformed = true;
                Err(Malformed(error))
            }
        }
    }

    /// The dialect, once it is known.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// The tokens used, as far as the answer has said.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Whether any content came: text, a tool call, a refusal, reasoning.
    pub fn has_token(&self) -> bool {
        self.token
    }

    /// Why the model stopped, once every choice of the answer has: the content is complete then,
    /// whether or not the end marker comes. A choice that failed fails the answer at once.
    ///
    /// Gemini ends answers without any content with an ordinary reason when something went wrong;
    /// this is [`Kind::Empty`] here.
    pub fn finish(&self) -> Option<Finish> {
        match self.finish? {
            failed @ Finish::Failed { .. } => Some(failed),
            _ if self.finished != self.choices => None,
            Finish::Complete if self.dialect == Some(Dialect::Gemini) && !self.token => {
                Some(Finish::failed(Kind::Empty))
            }
            finish => Some(finish),
        }
    }

    /// Whether what came has the shape of a chat answer at all. Embeddings and lists of models
    /// have not, and are not empty for having no content.
    pub fn is_answer_like(&self) -> bool {
        self.answer
    }

    /// Whether anything came that is not JSON where JSON was due.
    pub fn malformed(&self) -> bool {
        self.malformed
    }

    fn read_event(&mut self, event: &Event<'_>) -> Sight {
        let data = event.data.trim_ascii();
        if data.is_empty() {
            return Sight::default();
        }
        if data.starts_with(b"[DONE]") {
            return Sight {
                end: true,
                ..Sight::default()
            };
        }
        let named_error = event.error || event.name == b"error";
        match read(data) {
            Ok(notes) => {
                self.answer |= notes.answer;
                let sight = self.take(&notes);
                Sight {
                    error: sight.error || named_error,
                    ..sight
                }
            }
            Err(_) => {
                self.malformed = true;
                Sight {
                    error: named_error,
                    ..Sight::default()
                }
            }
        }
    }

    fn take(&mut self, notes: &Notes) -> Sight {
        self.dialect = self.dialect.or(notes.dialect);
        self.usage = notes.usage.or(self.usage);
        self.token |= notes.token;
        self.choices |= notes.choices;
        self.finished |= notes.finished;
        if let Some(finish) = notes.finish {
            self.finish = Some(self.finish.map_or(finish, |earlier| earlier.max(finish)));
        }
        Sight {
            token: notes.token,
            error: notes.error,
            end: notes.end,
        }
    }
}

/// A body that is not JSON from its first byte to its last.
#[derive(Debug)]
pub struct Malformed(serde_json::Error);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is not valid JSON")
    }
}

impl StdError for Malformed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}
