//! What the events of each provider mean: which one is a token, the finish, the end, an error,
//! and what was used.

mod glance;
mod read;
mod watch;

pub use watch::{Malformed, Watch};

use crate::{Kind, Phase};

/// The language of an answer on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI's chat completions, and all that copy them (Azure, Mistral, Groq, DeepSeek,
    /// OpenRouter, vLLM, llama.cpp).
    OpenAiChat,
    /// OpenAI's responses.
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's generateContent and streamGenerateContent.
    Gemini,
    /// Ollama's own chat and generate.
    Ollama,
    /// Cohere's v2 chat.
    Cohere,
}

impl Dialect {
    /// The dialect spoken at a path, as far as the path tells.
    ///
    /// ```
    /// use llm_call::Dialect;
    ///
    /// assert_eq!(Dialect::of_path("/v1/messages"), Some(Dialect::Anthropic));
    /// assert_eq!(Dialect::of_path("/v1/embeddings"), None);
    /// ```
    pub fn of_path(path: &str) -> Option<Dialect> {
        let path = path.split('?').next().unwrap_or(path);
        let path = path.trim_end_matches('/');
        if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
            return Some(Dialect::Gemini);
        }
        let (before, last) = path.rsplit_once('/')?;
        match last {
            "completions" => Some(Dialect::OpenAiChat),
            "responses" => Some(Dialect::OpenAiResponses),
            "messages" => Some(Dialect::Anthropic),
            "chat" | "generate" if before.ends_with("/api") => Some(Dialect::Ollama),
            "chat" if before.ends_with("/v2") => Some(Dialect::Cohere),
            _ => None,
        }
    }

    /// The name used in metrics: `openai_chat`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::OpenAiChat => "openai_chat",
            Dialect::OpenAiResponses => "openai_responses",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Ollama => "ollama",
            Dialect::Cohere => "cohere",
        }
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The tokens that an answer says it used. `None` where it has not said.
// Small, since it travels inline in every answer: four billion tokens are enough for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub input: Option<u32>,
    /// Tokens of the answer, reasoning included.
    pub output: Option<u32>,
    /// Tokens of the prompt that came from a cache.
    pub cached: Option<u32>,
    /// Tokens of the answer that were reasoning.
    pub reasoning: Option<u32>,
}

impl Usage {
    /// These counts, and the earlier ones where these say nothing.
    pub(crate) fn or(self, earlier: Usage) -> Usage {
        Usage {
            input: self.input.or(earlier.input),
            output: self.output.or(earlier.output),
            cached: self.cached.or(earlier.cached),
            reasoning: self.reasoning.or(earlier.reasoning),
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// It said all it had to say.
    Complete,
    /// It reached a limit of tokens. A complete answer, even when all of it was hidden reasoning.
    Length,
    /// The reason is a failure: a content filter, an error of the provider.
    Failed {
        /// What happened.
        kind: Kind,
        /// The model produced something unusable by chance (a malformed tool call): another try
        /// may do better, and the target's health has nothing to do with it.
        random: bool,
    },
}

impl Finish {
    const fn failed(kind: Kind) -> Finish {
        Finish::Failed {
            kind,
            random: false,
        }
    }

    /// What a finish reason means, in whichever dialect. No word means two things in two of them,
    /// and an unknown one is an end like any other.
    pub(crate) fn of(reason: &str) -> Finish {
        match reason {
            "length"
            | "max_tokens"
            | "MAX_TOKENS"
            | "max_output_tokens"
            | "model_length"
            | "model_context_window_exceeded" => Finish::Length,
            "content_filter"
            | "content_filtered"
            | "refusal"
            | "guardrail_intervened"
            | "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "ESCALATION"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "ERROR_TOXIC" => Finish::failed(Kind::ContentFiltered),
            "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "malformed_model_output"
            | "malformed_tool_use" => Finish::Failed {
                kind: Kind::Malformed,
                random: true,
            },
            "MISSING_THOUGHT_SIGNATURE" => Finish::failed(Kind::InvalidRequest),
            "error" | "ERROR" => Finish::failed(Kind::ServerError),
            "TIMEOUT" => Finish::failed(Kind::TimedOut(Phase::Upstream)),
            "insufficient_system_resource" => Finish::failed(Kind::Overloaded),
            "cancelled" => Finish::failed(Kind::Cancelled),
            _ => Finish::Complete,
        }
    }

    /// The graver of two: an answer of several choices failed if one of them did.
    pub(crate) fn max(self, other: Finish) -> Finish {
        match (self, other) {
            (failed @ Finish::Failed { .. }, _) | (_, failed @ Finish::Failed { .. }) => failed,
            (Finish::Length, _) | (_, Finish::Length) => Finish::Length,
            _ => Finish::Complete,
        }
    }
}

/// What one event held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sight {
    /// Content: text, a tool call, a refusal, reasoning. Never a role, a ping or an empty string.
    pub token: bool,
    /// An error of the provider.
    pub error: bool,
    /// The end marker: `[DONE]`, `message_stop`, `response.completed` and the like. It says that
    /// nothing follows, not that all went well.
    pub end: bool,
}

#[cfg(test)]
mod tests;
