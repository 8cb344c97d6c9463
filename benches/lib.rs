//! What the benches and the allocation tests share: one request, one upstream that costs nothing,
//! and a driver that needs no runtime.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

pub mod calls;
pub mod ended;
pub mod keys;
pub mod ours;
pub mod row;
pub mod run;
pub mod samples;
pub mod table;
pub mod theirs;
pub mod upstream;
pub mod wire;

use std::{
    pin::{Pin, pin},
    sync::LazyLock,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::Full;
use llm_call::{Attempt, BoxError, Call, CallSettings, Capability, Dialect, Facts, Target};
use tower::ServiceExt;
use tower_service::Service;

pub use upstream::Upstream;
pub use wire::{EVENTS, JSON};

/// A request as the layers see it.
pub type Req = Request<Full<Bytes>>;

/// The model that is asked for.
pub const MODEL: &str = "gpt-4.1-mini";

/// The target of every request.
pub const PRIMARY: &str = "primary:gpt-4.1-mini";

/// Where a request fails over to.
pub const SECOND: &str = "second:gpt-4.1-mini";

/// Whether the answer comes in one piece or event by event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON in one frame.
    Whole,
    /// SSE, one event a frame.
    Streamed,
}

/// A request as a caller sends it: six headers and a small body.
pub fn request(form: Form) -> Req {
    static REQUESTS: LazyLock<[Req; 2]> =
        LazyLock::new(|| [Form::Whole, Form::Streamed].map(build));
    REQUESTS[form as usize].clone()
}

fn build(form: Form) -> Req {
    let stream = form == Form::Streamed;
    let body = format!(
        r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"Say it in one word."}}],"stream":{stream}}}"#
    );
    Request::post("http://gateway.local/v1/chat/completions")
        .header(header::HOST, "gateway.local")
        .header(header::AUTHORIZATION, "Bearer sk-0123456789abcdef")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_LENGTH, body.len())
        .header(header::ACCEPT, "*/*")
        .header(header::USER_AGENT, "bench/1.0")
        .body(Full::from(body))
        .expect("a valid request")
}

/// The same request as an `IdentifyLayer` leaves it: with its own call and attempt.
pub fn identified(form: Form) -> Req {
    static TARGET: LazyLock<Target> = LazyLock::new(|| PRIMARY.parse().expect("a valid target"));
    let mut request = request(form);
    identify(&mut request, form, &TARGET, CallSettings::new());
    request
}

/// Gives a request a call and an attempt, as an `IdentifyLayer` does.
pub fn identify<B>(request: &mut Request<B>, form: Form, target: &Target, settings: CallSettings) {
    let mut facts = Facts::default();
    facts.dialect = Some(Dialect::OpenAiChat);
    facts.model = Some(MODEL.into());
    facts.streamed = Some(form == Form::Streamed);
    facts.capability = Some(match form {
        Form::Whole => Capability::Chat,
        Form::Streamed => Capability::Streaming,
    });
    let call = Call::open(settings);
    call.set_facts(facts);
    let attempt = Attempt::new(call.number()).with_target(Some(target.clone()));
    request.extensions_mut().insert(call);
    request.extensions_mut().insert(attempt);
}

/// Makes the service ready and calls it; every step must be there at once.
pub fn answer<S, R, B>(service: &mut S, request: R) -> Response<B>
where
    S: Service<R, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    match call(service, request) {
        Ok(response) => response,
        Err(error) => panic!("no answer: {}", error.into()),
    }
}

/// The same for a call that must fail.
pub fn refusal<S, R, B>(service: &mut S, request: R) -> S::Error
where
    S: Service<R, Response = Response<B>>,
{
    match call(service, request) {
        Ok(_) => panic!("an answer, where none was put down"),
        Err(error) => error,
    }
}

fn call<S, R>(service: &mut S, request: R) -> Result<S::Response, S::Error>
where
    S: Service<R>,
{
    let at_once = "nothing has to be waited for";
    let service = service.ready().now_or_never().expect(at_once)?;
    service.call(request).now_or_never().expect(at_once)
}

/// Lets calls fail until one no longer reaches the upstream.
pub fn open_circuit<S, B>(service: &mut S, form: Form)
where
    S: Service<Req, Response = Response<B>>,
{
    const ENOUGH: usize = 1000;
    let is_open = (0..ENOUGH).any(|_| {
        Upstream::prepare_failure();
        drop(refusal(service, identified(form)));
        Upstream::take_away()
    });
    assert!(is_open, "{ENOUGH} failures opened no circuit");
}

/// Calls, and takes the body of an answer whose first token has come.
pub fn committed<S, R, B>(service: &mut S, request: R) -> Pin<Box<B>>
where
    S: Service<R, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    Box::pin(answer(service, request).into_body())
}

/// Reads a body to its end; how many frames came.
pub fn read<B>(body: B) -> usize
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut body = pin!(body);
    let mut count = 0;
    loop {
        let (frames, ended) = read_on(body.as_mut());
        count += frames;
        if ended {
            return count;
        }
    }
}

/// Reads what is there of a body; how many frames that was, and whether it has ended.
pub fn read_on<B>(mut body: Pin<&mut B>) -> (usize, bool)
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut context = Context::from_waker(Waker::noop());
    let mut count = 0;
    loop {
        match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(None) => return (count, true),
            Poll::Ready(Some(Ok(_))) => count += 1,
            Poll::Ready(Some(Err(error))) => panic!("the body broke: {}", error.into()),
            Poll::Pending => return (count, false),
        }
    }
}
