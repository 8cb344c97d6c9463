//! Bodies and services that do exactly what a test says.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use llm_call::{Answer, BoxError, Ending, Guard, PeekLayer, Peeked, State};
use tokio::time::Sleep;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

/// One step of a body.
#[derive(Clone, Debug)]
pub enum Do {
    Data(&'static str),
    Bytes(Bytes),
    Trailers(HeaderMap),
    Wait(Duration),
    Fail(std::io::ErrorKind),
    /// Silence for ever.
    Hang,
    Panic,
}

/// A body that follows a script, and says when it is dropped.
#[derive(Debug)]
pub struct Script {
    steps: VecDeque<Do>,
    sleep: Option<Pin<Box<Sleep>>>,
    pub live: Arc<AtomicUsize>,
    /// Whether the end is known before it is polled.
    knows_end: bool,
}

impl Script {
    pub fn new(steps: impl IntoIterator<Item = Do>) -> Script {
        let live = Arc::new(AtomicUsize::new(1));
        Script {
            steps: steps.into_iter().collect(),
            sleep: None,
            live,
            knows_end: false,
        }
    }

    pub fn knowing_its_end(mut self) -> Script {
        self.knows_end = true;
        self
    }

    pub fn live(&self) -> Arc<AtomicUsize> {
        self.live.clone()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.sleep = None;
            }
            return Poll::Ready(match self.steps.pop_front() {
                None => None,
                Some(Do::Data(text)) => Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
                Some(Do::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
                Some(Do::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Some(Do::Fail(kind)) => Some(Err(std::io::Error::from(kind).into())),
                Some(Do::Wait(wait)) => {
                    self.sleep = Some(Box::pin(tokio::time::sleep(wait)));
                    continue;
                }
                Some(Do::Hang) => {
                    self.steps.push_front(Do::Hang);
                    return Poll::Pending;
                }
                Some(Do::Panic) => panic!("as the script says"),
            });
        }
    }

    fn is_end_stream(&self) -> bool {
        self.knows_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let sizes = self.steps.iter().map(|step| match step {
            Do::Data(text) => text.len() as u64,
            Do::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        });
        SizeHint::with_exact(sizes.sum())
    }
}

pub const SSE: &str = "text/event-stream; charset=utf-8";
pub const JSON: &str = "application/json";

pub fn response(status: u16, media: &str, body: Script) -> Response<Script> {
    Response::builder()
        .status(status)
        .header("content-type", media)
        .body(body)
        .unwrap()
}

/// Sends one chat request through a `PeekLayer` to a client that answers so.
pub async fn peek(
    layer: PeekLayer,
    answer: Response<Script>,
) -> Result<Response<Peeked<Script>>, BoxError> {
    peek_request(layer, chat(), answer).await
}

pub fn chat() -> Request<()> {
    Request::post("/v1/chat/completions").body(()).unwrap()
}

pub async fn peek_request(
    layer: PeekLayer,
    request: Request<()>,
    answer: Response<Script>,
) -> Result<Response<Peeked<Script>>, BoxError> {
    let answer = Mutex::new(Some(answer));
    let client = service_fn(move |_: Request<()>| {
        let answer = answer.lock().unwrap().take().unwrap();
        async move { Ok::<_, BoxError>(answer) }
    });
    layer.layer(client).oneshot(request).await
}

/// What a body delivered: its data, trailers, and how it ended.
#[derive(Debug, Default)]
pub struct Read {
    pub text: String,
    pub trailers: Option<HeaderMap>,
    pub error: Option<BoxError>,
}

/// Reads a body to its end, checking that it is fused and honest about its end.
pub async fn read<B: Body<Data = Bytes, Error = BoxError> + Unpin>(body: &mut B) -> Read {
    use http_body_util::BodyExt;
    let mut read = Read::default();
    let mut bytes = Vec::new();
    loop {
        let said_end = body.is_end_stream();
        match body.frame().await {
            Some(Ok(frame)) => {
                assert!(!said_end, "a frame after is_end_stream");
                match frame.into_data() {
                    Ok(data) => bytes.extend_from_slice(&data),
                    Err(frame) => read.trailers = frame.into_trailers().ok(),
                }
            }
            Some(Err(error)) => {
                assert!(!said_end, "an error after is_end_stream");
                assert!(read.error.is_none(), "two errors");
                read.error = Some(error);
            }
            None => break,
        }
    }
    assert!(body.is_end_stream());
    assert!(body.frame().await.is_none(), "not fused");
    read.text = String::from_utf8_lossy(&bytes).into_owned();
    read
}

/// A guard that writes down what it hears.
#[derive(Clone, Debug, Default)]
pub struct Ear(pub Arc<Mutex<Vec<Ending>>>);

impl Ear {
    pub fn heard(&self) -> Vec<Ending> {
        self.0.lock().unwrap().clone()
    }
}

impl Guard for Ear {
    fn ended(&mut self, ending: Ending, _: &State) {
        self.0.lock().unwrap().push(ending);
    }
}

/// Checks at compile time what bodies must be.
pub fn assert_answer<A: Answer + Send + Sync + Unpin>(_: &A) {}
