//! The JSON of an answer, as far as it is read.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::value::RawValue;

use crate::translate::piece::{Counts, Garbled};

/// Errors name the place alone: what stands there is nobody's business.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Garbled> {
    serde_json::from_slice(json).map_err(|error| {
        let what = if error.is_data() {
            "is no chat completion"
        } else {
            "is no JSON"
        };
        let at = error.column();
        Garbled(format!("what the provider sent {what} (at column {at})").into())
    })
}

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Option<Usage>,
    #[serde(borrow)]
    pub(super) x_groq: Option<Groq<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Said<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Said<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// Moonshot.
    pub(super) usage: Option<Usage>,
    /// OpenRouter.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// A message, or a piece of one.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallSaid<'a>>>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) images: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct CallSaid<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionSaid<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct FunctionSaid<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Groq<'a> {
    pub(super) usage: Option<Usage>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek.
    pub(super) prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot.
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

impl Usage {
    pub(super) fn counts(&self) -> Counts {
        let prompt = self.prompt_tokens_details.as_ref();
        let completion = self.completion_tokens_details.as_ref();
        Counts {
            input: self.prompt_tokens,
            cache_read: prompt
                .and_then(|details| details.cached_tokens)
                .or(self.prompt_cache_hit_tokens)
                .or(self.cached_tokens),
            cache_written: prompt.and_then(|details| details.cache_write_tokens),
            output: self.completion_tokens,
            reasoning: completion.and_then(|details| details.reasoning_tokens),
        }
    }
}

/// A string in which half of a surrogate pair is no error, but U+FFFD: a server that streams UTF-16
/// may cut a pair in two.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Bytes<'a> {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Text<'a>, E> {
                match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Text(text.into())),
                    Err(_) => self.visit_bytes(bytes),
                }
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text<'a>, E> {
                let text = String::from_utf8(bytes.to_vec())
                    .or_else(|error| String::from_utf8(with_whole_surrogates(error.into_bytes())))
                    .map_err(|_| E::custom("a string is not UTF-8"))?;
                Ok(Text(text.into()))
            }
        }
        deserializer.deserialize_bytes(Bytes(PhantomData))
    }
}

/// Puts U+FFFD in the place of surrogates, which the parser wrote as if they were characters.
pub(super) fn with_whole_surrogates(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut rest = bytes.as_mut_slice();
    while let [first, after @ ..] = rest {
        if *first == 0xED
            && let [second @ 0xA0..=0xBF, third, ..] = after
        {
            (*first, *second, *third) = (0xEF, 0xBF, 0xBD);
        }
        rest = after;
    }
    bytes
}
