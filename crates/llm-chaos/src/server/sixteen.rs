//! The sixteen faults of a public benchmark of LLM gateways.

use std::time::Duration;

use super::{Count, Phase, Script};
use crate::Fault;

/// Sixteen scripts, by name, for a provider `primary` with a healthy provider `fallback` beside it.
///
/// Play `script.for_target("primary")` and `script.for_target("fallback")`, or start the two
/// providers with these names. Answers must be of 60 tokens, the default pace.
#[must_use]
pub fn sixteen_faults() -> Vec<(&'static str, Script)> {
    let primary = |fault| Phase {
        target: Some("primary".to_owned()),
        ..Phase::new(fault)
    };
    let fallback = |fault| Phase {
        target: Some("fallback".to_owned()),
        ..Phase::new(fault)
    };
    let cut = Phase {
        after_tokens: Some(Count::Constant(40)),
        ..primary(Fault::Cut)
    };
    let script = |phase| Script::default().with(phase);
    vec![
        (
            "429 with a hint once",
            script(Phase {
                times: Some(1),
                ..primary(Fault::RateLimit)
            }),
        ),
        ("429 for ever", script(primary(Fault::RateLimit))),
        (
            "500 once",
            script(Phase {
                times: Some(1),
                ..primary(Fault::Error500)
            }),
        ),
        ("503 for ever", script(primary(Fault::Error503))),
        ("reset before headers", script(primary(Fault::Reset))),
        ("no response at all", script(primary(Fault::NoResponse))),
        (
            "first token after 20 s",
            script(primary(Fault::SlowFirstToken)),
        ),
        ("stream cut after 40 of 60 tokens", script(cut.clone())),
        ("stream stalls 30 s", script(primary(Fault::Stall))),
        (
            "one malformed event mid-stream",
            script(primary(Fault::MalformedEvent)),
        ),
        ("no end marker", script(primary(Fault::NoEndMarker))),
        (
            "context length exceeded",
            script(primary(Fault::ContextLength)),
        ),
        ("content filter", script(primary(Fault::ContentFilter))),
        (
            "cut, and the fallback refuses prefill",
            script(cut).with(fallback(Fault::RefusePrefill)),
        ),
        (
            "primary down 60 s, then healthy",
            script(Phase {
                to: Some(Duration::from_secs(60)),
                ..primary(Fault::Error503)
            }),
        ),
        (
            "accounting names the model that answered",
            script(primary(Fault::Error503)),
        ),
    ]
}
