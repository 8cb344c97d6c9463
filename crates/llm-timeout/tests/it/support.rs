//! A client that follows a script, and requests to send to it.

use std::{
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::BodyExt;
use llm_call::{Attempt, BoxError, Call, CallSettings, Error, Facts, Kind, Phase, Target};
use llm_chaos::testing::{BodyStep, Gauges, Respond, Scripted, ScriptedBody, Strict, service};

pub(crate) const TOKEN: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n";
pub(crate) const FINISH: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub(crate) const DONE: &str = "data: [DONE]\n\n";
pub(crate) const PING: &str = ": ping\n\n";
pub(crate) const JSON: &str = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) type Peeked = llm_call::Peeked<ScriptedBody>;

pub(crate) use BodyStep::{Hang, Wait};

pub(crate) const fn data(text: &'static str) -> BodyStep {
    BodyStep::Data(Bytes::from_static(text.as_bytes()))
}

pub(crate) const fn fail() -> BodyStep {
    BodyStep::Error("connection reset")
}

pub(crate) fn stream(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "text/event-stream")
}

pub(crate) fn json(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "application/json")
}

pub(crate) fn audio(steps: impl IntoIterator<Item = BodyStep>) -> Respond {
    Respond::ok(steps).header("content-type", "audio/mpeg")
}

/// Answers each request by one script, and insists on the contract of `Service`.
pub(crate) fn serve(respond: Respond) -> (Strict<Scripted>, Gauges) {
    let client = service([respond]);
    let gauges = client.gauges();
    (Strict::new(client), gauges)
}

/// A waker that tells how many timers (or others) hold it.
pub(crate) struct Held(Arc<Woken>, Waker);

struct Woken;

impl Wake for Woken {
    fn wake(self: Arc<Self>) {}
}

impl Held {
    pub(crate) fn new() -> Held {
        let woken = Arc::new(Woken);
        Held(woken.clone(), woken.into())
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context::from_waker(&self.1)
    }

    pub(crate) fn timers(&self) -> usize {
        Arc::strong_count(&self.0) - 2
    }
}

/// A request with the facts that an identifying layer would have written, and its call.
pub(crate) fn ask(streamed: Option<bool>, thinking: bool) -> (Request<()>, Call) {
    ask_by(CallSettings::new(), streamed, thinking)
}

pub(crate) fn ask_by(
    settings: CallSettings,
    streamed: Option<bool>,
    thinking: bool,
) -> (Request<()>, Call) {
    let call = Call::open(settings);
    let mut facts = Facts::default();
    facts.streamed = streamed;
    facts.thinking = thinking;
    facts.model = Some("m".into());
    call.set_facts(facts);
    let mut request = plain();
    request.extensions_mut().insert(call.clone());
    request
        .extensions_mut()
        .insert(Attempt::new(call.number()).with_target(Some("a:m".parse::<Target>().unwrap())));
    (request, call)
}

/// A request of which nothing is known.
pub(crate) fn plain() -> Request<()> {
    Request::post("/v1/chat/completions").body(()).unwrap()
}

/// Reads a body to its end.
pub(crate) async fn read<B>(mut body: B) -> (usize, Option<BoxError>)
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let mut frames = 0;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(_) => frames += 1,
            Err(error) => {
                assert!(body.frame().await.is_none(), "an error is the end");
                assert!(body.is_end_stream());
                return (frames, Some(error));
            }
        }
    }
    (frames, None)
}

#[track_caller]
pub(crate) fn assert_timed_out(error: &BoxError, phase: Phase) {
    assert_eq!(Kind::of(&**error), Kind::TimedOut(phase), "{error}");
}

/// The target that an error names.
pub(crate) fn target(error: &BoxError) -> Option<String> {
    let error = llm_call::find_cause::<Error>(&**error)?;
    error.target().map(ToString::to_string)
}
