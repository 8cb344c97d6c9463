//! What the benches and the allocation tests share: one request, one upstream that costs nothing,
//! and a driver that needs no runtime.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

pub mod row;
pub mod table;

use std::{
    cell::RefCell,
    future::{Ready, ready},
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::{Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use llm_call::{Attempt, BoxError, Call, CallSettings, Capability, Dialect, Facts, Target};
use tower::ServiceExt;
use tower_service::Service;

/// The events of a streamed answer: its role, its words, its finish and its end marker.
pub const EVENTS: usize = 100;

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
pub fn request(form: Form) -> Request<Full<Bytes>> {
    static REQUESTS: LazyLock<[Request<Full<Bytes>>; 2]> =
        LazyLock::new(|| [Form::Whole, Form::Streamed].map(build));
    REQUESTS[form as usize].clone()
}

fn build(form: Form) -> Request<Full<Bytes>> {
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
pub fn identified(form: Form) -> Request<Full<Bytes>> {
    static TARGET: LazyLock<Target> = LazyLock::new(|| PRIMARY.parse().expect("a valid target"));
    let mut facts = Facts::default();
    facts.dialect = Some(Dialect::OpenAiChat);
    facts.model = Some(MODEL.into());
    facts.streamed = Some(form == Form::Streamed);
    facts.capability = Some(match form {
        Form::Whole => Capability::Chat,
        Form::Streamed => Capability::Streaming,
    });
    let call = Call::open(CallSettings::new());
    call.set_facts(facts);
    let attempt = Attempt::new(call.number()).with_target(Some(TARGET.clone()));
    let mut request = request(form);
    request.extensions_mut().insert(call);
    request.extensions_mut().insert(attempt);
    request
}

/// The frames of an answer.
fn frames(form: Form) -> Arc<[Bytes]> {
    static FRAMES: LazyLock<[Arc<[Bytes]>; 2]> = LazyLock::new(|| [[JSON.into()].into(), events()]);
    FRAMES[form as usize].clone()
}

/// An answer in one piece.
pub const JSON: &str = r#"{"id":"chatcmpl-9x8y7z","object":"chat.completion","created":1760000000,"model":"gpt-4.1-mini-2025-04-14","choices":[{"index":0,"message":{"role":"assistant","content":"Two vowels and a consonant: that is how the shortest greeting of all is written, and it is said by everybody.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":13,"completion_tokens":26,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":0}},"service_tier":"default","system_fingerprint":"fp_38343a2f8f"}"#;

fn events() -> Arc<[Bytes]> {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-9x8y7z\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"gpt-4.1-mini\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let role = chunk(r#"{"role":"assistant","content":""}"#, "null");
    let word = chunk(r#"{"content":" another word"}"#, "null");
    let finish = chunk("{}", "\"stop\"");
    let texts = std::iter::once(role)
        .chain(std::iter::repeat_n(word, EVENTS - 3))
        .chain([finish, "data: [DONE]\n\n".to_owned()]);
    // One piece of memory, as when it is read from a socket.
    let mut buffer = BytesMut::new();
    let texts: Vec<String> = texts.collect();
    buffer.extend_from_slice(texts.concat().as_bytes());
    texts
        .iter()
        .map(|text| buffer.split_to(text.len()).freeze())
        .collect()
}

/// A body whose frames are all there.
#[derive(Debug)]
pub struct Frames {
    frames: Arc<[Bytes]>,
    next: usize,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = self.frames.get(self.next).cloned();
        self.next += 1;
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.frames.len()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.frames[..] {
            [whole] if self.next == 0 => SizeHint::with_exact(whole.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// A client whose answers are there at once.
///
/// It hands out what [`Upstream::prepare`] has put down on this thread, so that making an answer is
/// no part of what is measured; a call for which nothing was put down panics.
#[derive(Clone, Copy, Debug)]
pub struct Upstream;

thread_local! {
    static ANSWERS: RefCell<Vec<Result<Response<Frames>, BoxError>>> = const { RefCell::new(Vec::new()) };
}

impl Upstream {
    /// Puts down the answer to one call.
    pub fn prepare(form: Form) {
        let frames = frames(form);
        let media = match form {
            Form::Whole => "application/json",
            Form::Streamed => "text/event-stream",
        };
        let answer = Response::builder()
            .header(header::CONTENT_TYPE, media)
            .header("x-request-id", "req_0123456789")
            .body(Frames { frames, next: 0 })
            .expect("a valid answer");
        ANSWERS.with_borrow_mut(|answers| answers.push(Ok(answer)));
    }

    /// Puts down an error.
    fn prepare_failure() {
        ANSWERS.with_borrow_mut(|answers| answers.push(Err("connection reset".into())));
    }

    /// Takes the last thing away that was put down, if nobody has called for it.
    fn take_away() -> bool {
        ANSWERS.with_borrow_mut(Vec::pop).is_some()
    }
}

impl Service<Request<Full<Bytes>>> for Upstream {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Frames>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        drop(request);
        let answer = ANSWERS.with_borrow_mut(Vec::pop);
        ready(answer.expect("an answer was prepared for each call"))
    }
}

/// Makes the service ready and calls it; every step must be there at once.
pub fn answer<S, B>(service: &mut S, request: Request<Full<Bytes>>) -> Response<B>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    match call(service, request) {
        Ok(response) => response,
        Err(error) => panic!("no answer: {}", error.into()),
    }
}

/// The same for a call that must fail.
pub fn refusal<S, B>(service: &mut S, request: Request<Full<Bytes>>) -> S::Error
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
{
    match call(service, request) {
        Ok(_) => panic!("an answer, where none was put down"),
        Err(error) => error,
    }
}

fn call<S, B>(service: &mut S, request: Request<Full<Bytes>>) -> Result<Response<B>, S::Error>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
{
    let at_once = "nothing has to be waited for";
    let service = service.ready().now_or_never().expect(at_once)?;
    service.call(request).now_or_never().expect(at_once)
}

/// Lets calls fail until one no longer reaches the upstream.
pub fn open_circuit<S, B>(service: &mut S, form: Form)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
{
    const ENOUGH: usize = 1000;
    let is_open = (0..ENOUGH).any(|_| {
        Upstream::prepare_failure();
        drop(refusal(service, identified(form)));
        Upstream::take_away()
    });
    assert!(is_open, "{ENOUGH} failures opened no circuit");
}

/// Reads a body to its end; how many frames came.
pub fn read<B>(body: B) -> usize
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let mut count = 0;
    loop {
        match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(None) => return count,
            Poll::Ready(Some(Ok(_))) => count += 1,
            Poll::Ready(Some(Err(error))) => panic!("the body broke: {}", error.into()),
            Poll::Pending => panic!("a frame has to be waited for"),
        }
    }
}
