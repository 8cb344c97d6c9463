//! An answer of Gemini. An event of its stream has the same form as a whole answer.

use std::borrow::Cow;

use llm_call::{Kind, Phase};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::translate::piece::{Counts, Finish, Garbled, Piece};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(default)]
    usage_metadata: Option<Usage>,
    #[serde(borrow, default)]
    model_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    response_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<Failure<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    finish_message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    citation_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    grounding_metadata: Option<&'a RawValue>,
    #[serde(default)]
    index: u32,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<Item<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow, default)]
    function_call: Option<Call<'a>>,
    #[serde(borrow, default)]
    inline_data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    executable_code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    code_execution_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    #[serde(default)]
    prompt_token_count: Option<u64>,
    #[serde(default)]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(default)]
    cached_content_token_count: Option<u64>,
    #[serde(default)]
    candidates_token_count: Option<u64>,
    #[serde(default)]
    thoughts_token_count: Option<u64>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
    #[serde(default)]
    code: Option<u16>,
}

/// Reads the answer to one request.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    started: bool,
    /// What the answer is called, so that ids made here are unlike those of another answer.
    id: String,
    calls: usize,
    finished: bool,
    ended: bool,
}

impl Reader {
    /// One event of a stream.
    pub(crate) fn event(
        &mut self,
        _name: &[u8],
        data: &[u8],
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        if data.trim_ascii().is_empty() {
            return Ok(());
        }
        let answer: Answer<'_> = serde_json::from_slice(data)
            .map_err(|_| Garbled("an event is no answer of Gemini".into()))?;
        self.answer(answer, out)
    }

    /// A whole answer.
    pub(crate) fn whole(
        &mut self,
        json: &[u8],
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        self.event(b"", json, out)?;
        self.at_eof(out);
        Ok(())
    }

    /// The stream ended well. There is no end marker: whoever gave a reason has finished.
    pub(crate) fn at_eof(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        if self.finished && !self.ended {
            self.ended = true;
            out(Piece::End);
        }
    }

    fn answer(
        &mut self,
        answer: Answer<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Result<(), Garbled> {
        if let Some(failure) = answer.error {
            self.ended = true;
            out(Piece::Failed {
                kind: failed(&failure),
                message: failure.message.unwrap_or_default(),
            });
            return Ok(());
        }
        if !self.started {
            self.started = true;
            self.id = answer.response_id.as_deref().unwrap_or_default().to_owned();
            out(Piece::Start {
                id: answer.response_id.unwrap_or_default(),
                model: answer.model_version.unwrap_or_default(),
            });
        }
        if let Some(usage) = answer.usage_metadata {
            out(Piece::Usage(counts(&usage)));
        }
        if let Some(Feedback {
            block_reason: Some(_),
        }) = answer.prompt_feedback
        {
            self.finish(Finish::Filtered, out);
        }
        for candidate in answer.candidates {
            // Nobody asked for more than one.
            if candidate.index == 0 {
                self.candidate(candidate, out);
            }
        }
        Ok(())
    }

    fn candidate(&mut self, candidate: Candidate<'_>, out: &mut impl FnMut(Piece<'_>)) {
        for part in candidate
            .content
            .into_iter()
            .flat_map(|content| content.parts)
        {
            self.part(part, out);
        }
        if candidate.citation_metadata.is_some() || candidate.grounding_metadata.is_some() {
            out(Piece::Lost("citations"));
        }
        let Some(reason) = candidate.finish_reason else {
            return;
        };
        let message = candidate.finish_message.unwrap_or_default();
        let mut fail = |kind| {
            self.ended = true;
            let message = match &*message {
                "" => reason.clone(),
                said => Cow::Borrowed(said),
            };
            out(Piece::Failed { kind, message });
        };
        match &*reason {
            "MAX_TOKENS" => self.finish(Finish::Length, out),
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "ESCALATION"
            | "MODEL_ARMOR" => self.finish(Finish::Filtered, out),
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => fail(Kind::Malformed),
            "MISSING_THOUGHT_SIGNATURE" => fail(Kind::InvalidRequest),
            "FINISH_REASON_UNSPECIFIED" => {}
            _ if self.calls > 0 => self.finish(Finish::ToolCalls, out),
            _ => self.finish(Finish::Stop, out),
        }
    }

    fn part(&mut self, part: Item<'_>, out: &mut impl FnMut(Piece<'_>)) {
        if let Some(text) = part.text.filter(|text| !text.is_empty()) {
            out(if part.thought {
                Piece::Reasoning(text)
            } else {
                Piece::Text(text)
            });
        }
        if let Some(Call { id, name, args }) = part.function_call {
            let call = self.calls;
            self.calls += 1;
            let id = id
                .filter(|id| !id.is_empty())
                .unwrap_or_else(|| Cow::Owned(format!("call_{}_{call}", self.id)));
            out(Piece::ToolCall { call, id, name });
            let json = Cow::Borrowed(args.map_or("{}", RawValue::get));
            out(Piece::Arguments { call, json });
            out(Piece::ToolEnd { call });
        }
        if part.inline_data.is_some() {
            out(Piece::Lost("images"));
        }
        if part.executable_code.is_some() || part.code_execution_result.is_some() {
            out(Piece::Lost("code_execution"));
        }
    }

    fn finish(&mut self, finish: Finish, out: &mut impl FnMut(Piece<'_>)) {
        if !std::mem::replace(&mut self.finished, true) {
            out(Piece::Finish(finish));
        }
    }
}

fn counts(usage: &Usage) -> Counts {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
    };
    Counts {
        input: sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
        cache_read: usage.cached_content_token_count,
        cache_written: None,
        output: sum(usage.candidates_token_count, usage.thoughts_token_count),
        reasoning: usage.thoughts_token_count,
    }
}

fn failed(failure: &Failure<'_>) -> Kind {
    match failure.status.as_deref() {
        Some("INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE") => Kind::InvalidRequest,
        Some("UNAUTHENTICATED") => Kind::Authentication,
        Some("PERMISSION_DENIED") => Kind::Permission,
        Some("NOT_FOUND") => Kind::UnknownModel,
        Some("RESOURCE_EXHAUSTED") => Kind::RateLimited,
        Some("UNAVAILABLE") => Kind::Overloaded,
        Some("DEADLINE_EXCEEDED") => Kind::TimedOut(Phase::Upstream),
        Some("CANCELLED") => Kind::Cancelled,
        Some(_) => Kind::ServerError,
        None => match failure.code {
            Some(429) => Kind::RateLimited,
            Some(503) => Kind::Overloaded,
            Some(504) => Kind::TimedOut(Phase::Upstream),
            _ => Kind::ServerError,
        },
    }
}
