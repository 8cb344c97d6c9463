//! Words and shapes that streams and whole answers have in common.

use serde::Serialize;

use super::super::piece::{Counts, Finish};

/// The words for why the model stopped.
#[derive(Serialize)]
pub(super) struct Stop<'a> {
    pub(super) stop_reason: &'static str,
    pub(super) stop_sequence: Option<&'a str>,
}

impl<'a> Stop<'a> {
    /// `calls`: whether the answer has calls of tools. `refused`: whether it has words of refusal.
    pub(super) fn of(finish: &'a Finish, calls: bool, refused: bool) -> Stop<'a> {
        let stop_reason = match finish {
            Finish::Stop if refused => "refusal",
            // Some servers stop simply after calls that the caller had asked for; a caller here would
            // not run the tools then.
            Finish::Stop if calls => "tool_use",
            Finish::Stop => "end_turn",
            Finish::StopSequence(_) => "stop_sequence",
            Finish::Length => "max_tokens",
            Finish::ToolCalls => "tool_use",
            Finish::Filtered => "refusal",
            Finish::Pause => "pause_turn",
        };
        let stop_sequence = match finish {
            Finish::StopSequence(sequence) => sequence.as_deref(),
            _ => None,
        };
        Stop {
            stop_reason,
            stop_sequence,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Usage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<Details>,
}

#[derive(Serialize)]
struct Details {
    thinking_tokens: u64,
}

impl Usage {
    pub(super) fn of(counts: Counts) -> Usage {
        let read = counts.cache_read.unwrap_or(0);
        let written = counts.cache_written.unwrap_or(0);
        let input = counts.input.unwrap_or(0);
        Usage {
            // Here the cached part of the prompt does not count.
            input_tokens: input.saturating_sub(read).saturating_sub(written),
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
            output_tokens: counts.output.unwrap_or(0),
            output_tokens_details: counts
                .reasoning
                .map(|thinking_tokens| Details { thinking_tokens }),
        }
    }
}
