//! The JSON of an answer, as it is written.

use serde::Serialize;

use crate::translate::piece::Counts;

#[derive(Serialize)]
pub(super) struct Chunk<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: &'a [Choice<'a>],
    /// Null but in the last chunk; absent where the caller did not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Option<Usage>>,
}

#[derive(Serialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u32,
    pub(super) delta: &'a Delta<'a>,
    /// Nobody can ask for them.
    pub(super) logprobs: (),
    pub(super) finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[CallDelta<'a>; 1]>,
}

impl<'a> Delta<'a> {
    pub(super) fn of_call(call: CallDelta<'a>) -> Delta<'a> {
        Delta {
            tool_calls: Some([call]),
            ..Delta::default()
        }
    }
}

#[derive(Serialize)]
pub(super) struct CallDelta<'a> {
    pub(super) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#type: Option<&'static str>,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

#[derive(Serialize)]
pub(super) struct Whole<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: [WholeChoice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
}

#[derive(Serialize)]
pub(super) struct WholeChoice<'a> {
    pub(super) index: u32,
    pub(super) message: Message<'a>,
    pub(super) logprobs: (),
    pub(super) finish_reason: &'static str,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'static str,
    pub(super) content: Option<&'a String>,
    pub(super) refusal: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<WholeCall<'a>>,
}

#[derive(Serialize)]
pub(super) struct WholeCall<'a> {
    pub(super) id: &'a str,
    pub(super) r#type: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Serialize)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: u64,
}

impl Usage {
    pub(super) fn of(counts: Counts) -> Usage {
        let (input, output) = (
            counts.input.unwrap_or_default(),
            counts.output.unwrap_or_default(),
        );
        let has_cache = counts.cache_read.is_some() || counts.cache_written.is_some();
        Usage {
            prompt_tokens: input,
            completion_tokens: output,
            total_tokens: input.saturating_add(output),
            prompt_tokens_details: has_cache.then_some(PromptDetails {
                cached_tokens: counts.cache_read.unwrap_or_default(),
                cache_write_tokens: counts.cache_written,
            }),
            completion_tokens_details: counts
                .reasoning
                .map(|reasoning_tokens| CompletionDetails { reasoning_tokens }),
        }
    }
}
