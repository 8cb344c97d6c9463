use crate::{Capability, Dialect};

/// What was read from the request itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The dialect of the request's path.
    pub dialect: Option<Dialect>,
    /// The model that the caller asked for.
    pub model: Option<Box<str>>,
    /// What is asked for.
    pub capability: Option<Capability>,
    /// Whether the answer is asked for event by event; `None` where the request does not tell.
    pub streamed: Option<bool>,
    /// Whether the model is asked to think first, so that its first token comes late.
    pub thinking: bool,
    /// Estimated input size in tokens (a quarter of the bytes of the body).
    pub input_tokens: u64,
    /// The most output tokens that the caller wants, if it says so.
    pub max_tokens: Option<u64>,
    /// Whether the request defines tools.
    pub tools: bool,
    /// Whether the answer must be JSON.
    pub json: bool,
    /// Whether the answer must keep to a JSON schema.
    pub json_schema: bool,
    /// Whether the request holds images.
    pub images: bool,
    /// How often the caller's own client has already retried (`x-stainless-retry-count`).
    pub caller_retries: u32,
}
