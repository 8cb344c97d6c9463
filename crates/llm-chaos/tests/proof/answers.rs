//! What the provider answers, in the words of the chat API.

use std::time::Duration;

use http::StatusCode;
use llm_chaos::testing::{BodyStep, Respond};

pub(crate) const WHOLE: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
pub(crate) const ROLE: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
pub(crate) const TOKEN: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
pub(crate) const STOP: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const ERROR_EVENT: &str = "data: {\"error\":{\"type\":\"server_error\",\"message\":\"x\"}}\n\n";

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An answer in one piece.
pub(crate) fn whole() -> Respond {
    Respond::ok([WHOLE]).header("content-type", "application/json")
}

fn events(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "text/event-stream")
}

/// A streamed answer, which takes its time.
pub(crate) fn stream() -> Respond {
    events([
        ROLE.into(),
        BodyStep::wait(ms(50)),
        TOKEN.into(),
        BodyStep::wait(ms(50)),
        TOKEN.into(),
        STOP.into(),
    ])
}

/// What [`stream`] says.
pub(crate) fn stream_text() -> String {
    [ROLE, TOKEN, TOKEN, STOP].concat()
}

/// A stream whose first token comes so late.
pub(crate) fn late(first_token: Duration) -> Respond {
    events([
        ROLE.into(),
        BodyStep::wait(first_token),
        TOKEN.into(),
        BodyStep::wait(ms(50)),
        STOP.into(),
    ])
}

/// A stream that trickles.
pub(crate) fn slow() -> Respond {
    let tokens = (0..8).flat_map(|_| [TOKEN.into(), BodyStep::wait(ms(3_000))]);
    events(tokens.chain([STOP.into()]))
}

/// A stream that breaks before its first token.
pub(crate) fn cut_early() -> Respond {
    events([ROLE.into(), BodyStep::Error("connection reset")])
}

/// A stream that breaks after its first token.
pub(crate) fn cut() -> Respond {
    events([
        TOKEN.into(),
        BodyStep::wait(ms(20)),
        TOKEN.into(),
        BodyStep::Error("connection reset"),
    ])
}

/// A stream that ends without its end.
pub(crate) fn endless() -> Respond {
    events([TOKEN.into(), BodyStep::wait(ms(20)), TOKEN.into()])
}

/// A stream that falls silent.
pub(crate) fn silent() -> Respond {
    events([TOKEN.into(), BodyStep::Hang])
}

/// A stream that never begins.
pub(crate) fn mute() -> Respond {
    events([ROLE.into(), BodyStep::Hang])
}

/// A 200 that says that it failed, at once.
pub(crate) fn error_event() -> Respond {
    events([ROLE.into(), ERROR_EVENT.into()])
}

/// A 200 that says that it failed, in the middle.
pub(crate) fn late_error_event() -> Respond {
    events([TOKEN.into(), BodyStep::wait(ms(20)), ERROR_EVENT.into()])
}

pub(crate) fn status(code: u16) -> Respond {
    let body = format!("{{\"error\":{{\"message\":\"{code}\"}}}}");
    Respond::status(StatusCode::from_u16(code).unwrap(), [BodyStep::data(body)])
        .header("content-type", "application/json")
}

/// A failure whose body never ends.
pub(crate) fn status_that_hangs(code: u16) -> Respond {
    let steps = [BodyStep::data("{"), BodyStep::Hang];
    Respond::status(StatusCode::from_u16(code).unwrap(), steps)
        .header("content-type", "application/json")
}

/// 429 that says when to come back.
pub(crate) fn hint(millis: &'static str) -> Respond {
    status(429).header("retry-after-ms", millis)
}

pub(crate) fn reset() -> Respond {
    Respond::error("connection reset by peer")
}
