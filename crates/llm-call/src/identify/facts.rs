//! What a request says about itself: one pure function.

use http::{HeaderMap, HeaderName};

use crate::{
    Capability, Dialect, Facts,
    json::{Step, Value, walk},
};

/// A model's name is kept as a key of shared state; what is longer is no name.
const MAX_MODEL: usize = 256;

/// How often the caller's own client has sent the request again.
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");

/// Reads a request. A body that is not JSON, or not to its end, adds nothing: the provider answers
/// it with the error it deserves.
pub(crate) fn facts(path: &str, headers: &HeaderMap, body: &[u8]) -> Facts {
    let path = path.trim_end_matches('/');
    let dialect = Dialect::of_path(path);
    let mut notes = Notes::default();
    let readable = walk(body, |path, value| notes.note(path, value)).is_ok();
    if !readable {
        notes = Notes::default();
    }
    let streamed = match dialect {
        Some(Dialect::Gemini) => Some(path.ends_with(":streamGenerateContent")),
        // The one that streams unless it is told not to.
        Some(Dialect::Ollama) if readable => Some(notes.stream.unwrap_or(true)),
        Some(_) if readable => Some(notes.stream.unwrap_or(false)),
        _ => notes.stream,
    };
    let fixed = dialect.is_none().then(|| fixed_capability(path)).flatten();
    Facts {
        dialect,
        model: notes.model.or_else(|| model_of_path(path)),
        capability: match (fixed, streamed) {
            (Some(fixed), _) => Some(fixed),
            (None, Some(true)) => Some(Capability::Streaming),
            (None, Some(false)) => dialect.map(|_| Capability::Chat),
            (None, None) => None,
        },
        streamed: match fixed {
            Some(Capability::Embeddings | Capability::Moderation) => Some(false),
            _ => streamed,
        },
        thinking: notes.thinking,
        input_tokens: body.len() as u64 / 4,
        max_tokens: notes.max_tokens,
        tools: notes.tools,
        json: notes.json,
        json_schema: notes.json_schema,
        images: notes.images,
        caller_retries: headers
            .get(RETRY_COUNT)
            .and_then(|count| count.to_str().ok()?.trim().parse().ok())
            .unwrap_or(0),
    }
}

/// What is asked for at paths where it is never a chat.
fn fixed_capability(path: &str) -> Option<Capability> {
    let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
    let method = last.rsplit_once(':').map_or(last, |(_, method)| method);
    match method {
        "embeddings" | "embed" | "embedContent" | "batchEmbedContents" => {
            Some(Capability::Embeddings)
        }
        "moderations" => Some(Capability::Moderation),
        "generations" | "edits" | "variations" if before.ends_with("/images") => {
            Some(Capability::Images)
        }
        "speech" | "transcriptions" | "translations" if before.ends_with("/audio") => {
            Some(Capability::Audio)
        }
        _ => None,
    }
}

/// The model where it stands in the path: `models/{model}:{method}`, `deployments/{model}/…`.
fn model_of_path(path: &str) -> Option<Box<str>> {
    let last = path.rsplit_once('/').map_or(path, |(_, last)| last);
    let model = match last.rsplit_once(':') {
        Some((model, _)) => model,
        None => path.split_once("/deployments/")?.1.split('/').next()?,
    };
    (1..=MAX_MODEL)
        .contains(&model.len())
        .then(|| Box::from(model))
}

/// What the body says.
#[derive(Default)]
struct Notes {
    model: Option<Box<str>>,
    stream: Option<bool>,
    thinking: bool,
    max_tokens: Option<u64>,
    tools: bool,
    json: bool,
    json_schema: bool,
    images: bool,
}

impl Notes {
    /// One table for all dialects: no path means two things in two of them.
    fn note(&mut self, path: &[Step], value: Value<'_>) {
        use Step::*;
        match (path, value) {
            ([Model], Value::Text(model)) if (1..=MAX_MODEL).contains(&model.len()) => {
                self.model = Some(Box::from(model));
            }
            ([Stream], Value::Bool(stream)) => self.stream = Some(stream),

            (
                [MaxTokens | MaxCompletionTokens | MaxOutputTokens]
                | [GenerationConfig, MaxOutputTokensCamel]
                | [Options, NumPredict],
                Value::Number(tokens),
            ) if tokens > 0 => self.max_tokens = value.count(),

            ([ReasoningEffort] | [Reasoning, Effort], Value::Text(effort)) => {
                self.thinking |= !matches!(effort, "none" | "minimal" | "");
            }
            ([Think], Value::Text(level)) => self.thinking |= !level.is_empty(),
            ([Thinking, Type], Value::Text(kind)) => {
                self.thinking |= matches!(kind, "enabled" | "adaptive");
            }
            ([GenerationConfig, ThinkingConfig, ThinkingLevel], Value::Text(level)) => {
                self.thinking |= !level.eq_ignore_ascii_case("minimal");
            }
            (
                [Think]
                | [Reasoning, Enabled]
                | [GenerationConfig, ThinkingConfig, IncludeThoughts],
                Value::Bool(on),
            ) => self.thinking |= on,
            ([Thinking, BudgetTokens] | [Reasoning, MaxTokens], Value::Number(budget)) => {
                self.thinking |= budget > 0;
            }
            // -1 is as much as the model likes.
            ([GenerationConfig, ThinkingConfig, ThinkingBudget], Value::Number(budget)) => {
                self.thinking |= budget != 0;
            }

            ([Tools | Functions, Item], _) => self.tools = true,

            (
                [ResponseFormat | OutputFormat, Type] | [Text | OutputConfig, Format, Type],
                Value::Text(kind),
            ) => {
                self.json |= kind.starts_with("json");
                self.json_schema |= kind == "json_schema";
            }
            ([GenerationConfig, ResponseMimeType], Value::Text(media)) => {
                self.json |= media.ends_with("json");
            }
            ([Format], Value::Text("json")) => self.json = true,
            ([Format], Value::Object) => (self.json, self.json_schema) = (true, true),

            ([Messages, Item, Images, Item] | [Images, Item], _) => self.images = true,
            (
                [Messages | Input, Item, Content, Item, rest @ ..] | [Input, Item, rest @ ..],
                Value::Text(kind),
            ) if matches!(rest, [Type] | [Content, Item, Type]) => {
                self.images |= matches!(kind, "image_url" | "image" | "input_image");
            }
            (
                [Contents, Item, Parts, Item, InlineData | FileData, MimeType],
                Value::Text(media),
            ) => self.images |= media.starts_with("image/"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
