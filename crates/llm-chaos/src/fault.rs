//! The names of the faults.

use std::fmt;
use std::str::FromStr;

macro_rules! faults {
    ($($variant:ident $name:literal $summary:literal;)*) => {
        /// One way in which a provider can fail a request.
        ///
        /// The name in scripts, logs and model names (`fault-<name>`) is the snake_case form of the
        /// variant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Fault {
            $(#[doc = $summary] $variant,)*
        }

        impl Fault {
            /// Every fault, in the order of the table in the crate's documentation.
            pub const ALL: &'static [Fault] = &[$(Fault::$variant,)*];

            /// The snake_case name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$variant => $name,)* }
            }

            /// What the caller sees, in one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Fault::$variant => $summary,)* }
            }
        }
    };
}

faults! {
    RateLimit "rate_limit" "429 with `retry-after` (`retry_after`, default 1 s; 0 s leaves the hint out).";
    InsufficientQuota "insufficient_quota" "429 (Anthropic: 400) that says the money is spent; no wait helps.";
    ContextLength "context_length" "400: the prompt is longer than the model's window.";
    ContentFilter "content_filter" "400: the prompt or the answer was blocked by policy.";
    Error400 "error_400" "400: a parameter is wrong.";
    Error401 "error_401" "401: the key is wrong.";
    Error403 "error_403" "403: the key may not use this.";
    Error404 "error_404" "404: no such model.";
    Error408 "error_408" "408: the provider gave up waiting.";
    Error409 "error_409" "409: conflict.";
    Error413 "error_413" "413: the body is too large.";
    Error500 "error_500" "500 with the provider's JSON.";
    Error502 "error_502" "502 with a proxy's HTML page.";
    Error503 "error_503" "503: overloaded.";
    Error504 "error_504" "504: timed out behind the edge.";
    Error529 "error_529" "529: Anthropic's overloaded.";
    Latency "latency" "The head comes `delay` later (default 10 s), then all is well.";
    SlowFirstToken "slow_first_token" "The head comes at once, the first token after `delay` (default 20 s) or `factor` times the usual wait.";
    Stall "stall" "The stream pauses for `delay` (default 30 s) after `after_tokens`, then goes on.";
    SlowDrip "slow_drip" "The body comes `bytes` (default 4) at a time, `gap` (default 20 ms) apart.";
    NoResponse "no_response" "The request is read and nothing is ever answered.";
    NeverRead "never_read" "The connection is accepted and not one byte is read from it.";
    HeadersThenSilence "headers_then_silence" "200 and headers, then nothing for ever.";
    RoleThenSilence "role_then_silence" "The opening event of the stream (no token in it), then nothing for ever.";
    KeepAliveOnly "keep_alive_only" "200, then only comments or pings every `gap` (default 1 s) for ever.";
    EndlessError "endless_error" "500 whose body never ends.";
    BlackHole "black_hole" "The connection takes bytes and returns none from this request on; new connections are healthy.";
    Reset "reset" "RST before the head.";
    Close "close" "The connection is closed in good order before the head.";
    Cut "cut" "The connection is closed after `after_tokens` (default 40).";
    CutReset "cut_reset" "RST after `after_tokens`.";
    HalfChunk "half_chunk" "The connection is closed in the middle of a chunk after `after_tokens`.";
    MissingFinalChunk "missing_final_chunk" "All events and the end marker come, but not the last chunk of HTTP.";
    NoEndMarker "no_end_marker" "All tokens and the finish reason come, but no `[DONE]`, `message_stop` or `response.completed`.";
    SilentEnd "silent_end" "The stream ends in good HTTP order after `after_tokens`, with no finish reason and no end marker.";
    MalformedEvent "malformed_event" "One event after `after_tokens` is not JSON; the rest is well.";
    Garbled "garbled" "From `after_tokens` on every event has bytes that are not UTF-8.";
    SplitEvents "split_events" "The body is cut into pieces of `bytes` (default 7), across events and characters.";
    ErrorEventFirst "error_event_first" "200 whose first event is an error.";
    ErrorEventMid "error_event_mid" "An error event after `after_tokens`, then the end of the body.";
    ErrorThenDone "error_then_done" "An error event after `after_tokens`, then `[DONE]` as if all were well.";
    ContentFilterFinish "content_filter_finish" "200 that stops after `after_tokens` with the finish reason of a content filter.";
    FinishWithoutContent "finish_without_content" "200 with a finish reason and not one token.";
    RefusePrefill "refuse_prefill" "400 if the last message is the assistant's; otherwise healthy.";
    EmptyStream "empty_stream" "200 and a stream that ends without an event.";
    Empty200 "empty_200" "200 with an empty body.";
    Html200 "html_200" "200 with an HTML page.";
    Error200 "error_200" "200 with a JSON error in the body.";
    TruncatedJson "truncated_json" "200 with half of the JSON, whose length is declared as that half.";
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no fault of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no fault is called `{}`; the names are:", self.0)?;
        Fault::ALL
            .iter()
            .try_for_each(|fault| write!(f, " {fault}"))
    }
}

impl std::error::Error for UnknownFault {}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Fault::ALL
            .iter()
            .copied()
            .find(|fault| fault.name() == name);
        found.ok_or_else(|| UnknownFault(name.to_owned()))
    }
}

#[cfg(feature = "server")]
impl serde::Serialize for Fault {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "server")]
impl<'de> serde::Deserialize<'de> for Fault {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(*fault));
        }
        let names: std::collections::HashSet<_> = Fault::ALL.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), Fault::ALL.len());
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "eror_503".parse::<Fault>().unwrap_err().to_string();
        assert!(
            error.contains("`eror_503`") && error.contains(" error_503"),
            "{error}"
        );
    }

    #[test]
    fn the_table_of_the_documentation_has_every_fault() {
        let table = include_str!("../FAULTS.md");
        for fault in Fault::ALL {
            let row = format!("| `{fault}` | {} |", fault.summary());
            assert!(table.contains(&row), "FAULTS.md lacks this row:\n{row}");
        }
    }
}
