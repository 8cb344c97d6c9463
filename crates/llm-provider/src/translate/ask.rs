//! A request in no dialect: what all of them can say.

use serde_json::value::RawValue;

/// A request. Texts are never empty, turns have at least one part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    /// Instructions before the first turn.
    pub(crate) system: Vec<String>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) parallel_tools: Option<bool>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<u64>,
    pub(crate) seed: Option<i64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) format: Format,
    pub(crate) thinking: Option<Thinking>,
    /// Whom the caller serves: `user`, `metadata.user_id`.
    pub(crate) user: Option<String>,
    pub(crate) streamed: bool,
    /// Whether a stream ends with a chunk of usage (`stream_options.include_usage`); always where the
    /// caller's dialect has no such choice.
    pub(crate) wants_usage: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An instruction in the middle of a conversation; all its parts are text.
    System,
    /// What the caller's side says, results of tools included.
    User,
    Assistant,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Image(Media),
    /// A document, PDF mostly.
    File {
        name: Option<String>,
        media: Media,
    },
    /// A call of the assistant. The arguments are a JSON object, as it was written.
    ToolCall {
        id: String,
        name: String,
        arguments: Box<RawValue>,
    },
    /// What became of it. The parts are texts, images and files.
    ToolResult {
        id: String,
        parts: Vec<Part>,
        is_error: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    /// Base64, with its media type (`image/png`).
    Data {
        media_type: String,
        base64: String,
    },
    Url(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// A JSON schema of type object, as it was written; `None` where none was given.
    pub(crate) schema: Option<Box<RawValue>>,
    pub(crate) strict: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    Auto,
    Nothing,
    /// Any of them, but one.
    Required,
    Named(String),
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Format {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    Schema {
        name: Option<String>,
        schema: Box<RawValue>,
        strict: Option<bool>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    Off,
    /// `minimal`, `low`, `medium`, `high` and whatever else the caller wrote.
    Effort(String),
    /// As many tokens.
    Budget(u64),
    /// As much as the model likes.
    Adaptive,
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        match (self, other) {
            (Part::Text(a), Part::Text(b)) => a == b,
            (Part::Image(a), Part::Image(b)) => a == b,
            (
                Part::File { name, media },
                Part::File {
                    name: other,
                    media: others,
                },
            ) => (name, media) == (other, others),
            (
                Part::ToolCall {
                    id,
                    name,
                    arguments,
                },
                Part::ToolCall {
                    id: other_id,
                    name: other_name,
                    arguments: other,
                },
            ) => (id, name, arguments.get()) == (other_id, other_name, other.get()),
            (
                Part::ToolResult {
                    id,
                    parts,
                    is_error,
                },
                Part::ToolResult {
                    id: other_id,
                    parts: others,
                    is_error: other,
                },
            ) => (id, parts, is_error) == (other_id, others, other),
            _ => false,
        }
    }
}

/// How a target wants its requests, beyond its dialect.
#[derive(Clone, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) model: &'a str,
    /// Where the caller sets no limit and the dialect needs one (Anthropic).
    pub(crate) default_max_tokens: u64,
    /// The most the model can write, if known: more is asked for as that.
    pub(crate) output_limit: Option<u64>,
    /// `max_tokens` instead of `max_completion_tokens`, for servers that copy OpenAI's older API.
    pub(crate) old_max_tokens: bool,
    /// Whether a schema for the whole answer can be given (`output_config.format`,
    /// `response_format`); else it becomes an instruction.
    pub(crate) json_schema: bool,
}

/// This target cannot be asked this; one that speaks the caller's dialect may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unable(pub(crate) &'static str);

/// Why there is no translated request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Untranslatable {
    /// The request is wrong, whoever is asked.
    Invalid(super::fields::Invalid),
    Unable(Unable),
}

impl From<super::fields::Invalid> for Untranslatable {
    fn from(invalid: super::fields::Invalid) -> Self {
        Untranslatable::Invalid(invalid)
    }
}

impl From<Unable> for Untranslatable {
    fn from(unable: Unable) -> Self {
        Untranslatable::Unable(unable)
    }
}
