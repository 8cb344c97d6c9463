//! A client that follows a script, and counts what of it is still alive.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use llm_call::{Attempt, BoxError, Call, CallSettings, Error, Facts, Kind, Phase, Target};
use tokio::time::Sleep;
use tower::Service;

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

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Wait(Duration),
    Data(&'static str),
    Fail,
    Hang,
}

pub(crate) use Step::{Data, Fail, Hang, Wait};

/// What a client does with each request: steps until the headers, then those of the body.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    head: Vec<Step>,
    body: Vec<Step>,
    media: &'static str,
    pub(crate) sent: Arc<AtomicUsize>,
    pub(crate) alive: Arc<AtomicUsize>,
    ready: bool,
}

impl Client {
    pub(crate) fn streaming(head: &[Step], body: &[Step]) -> Client {
        Client {
            head: head.to_vec(),
            body: body.to_vec(),
            media: "text/event-stream",
            sent: Arc::default(),
            alive: Arc::default(),
            ready: false,
        }
    }

    pub(crate) fn json(head: &[Step], body: &[Step]) -> Client {
        Client {
            media: "application/json",
            ..Client::streaming(head, body)
        }
    }

    pub(crate) fn media(self, media: &'static str) -> Client {
        Client { media, ..self }
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Futures and bodies that have not been dropped.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    fn steps(&self, steps: &[Step]) -> Steps {
        self.alive.fetch_add(1, Ordering::SeqCst);
        Steps {
            steps: steps.iter().copied().collect(),
            sleep: None,
            alive: self.alive.clone(),
        }
    }
}

impl<B> Service<Request<B>> for Client {
    type Response = Response<Steps>;
    type Error = io::Error;
    type Future = Sending;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Sending {
        assert!(std::mem::take(&mut self.ready), "called without readiness");
        self.sent.fetch_add(1, Ordering::SeqCst);
        Sending {
            head: self.steps(&self.head),
            body: Some(self.steps(&self.body)),
            media: self.media,
        }
    }
}

pub(crate) struct Sending {
    head: Steps,
    body: Option<Steps>,
    media: &'static str,
}

impl Future for Sending {
    type Output = io::Result<Response<Steps>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(Err(error)) = ready!(self.head.poll_step(cx)) {
            return Poll::Ready(Err(error));
        }
        let response = Response::builder()
            .header("content-type", self.media)
            .body(self.body.take().unwrap());
        Poll::Ready(Ok(response.unwrap()))
    }
}

pub(crate) struct Steps {
    steps: VecDeque<Step>,
    sleep: Option<Pin<Box<Sleep>>>,
    alive: Arc<AtomicUsize>,
}

impl Steps {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.steps.front().copied() {
                None => return Poll::Ready(None),
                Some(Hang) => return Poll::Pending,
                Some(Wait(time)) => {
                    let sleep = self
                        .sleep
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                    ready!(sleep.as_mut().poll(cx));
                    self.sleep = None;
                    self.steps.pop_front();
                }
                Some(Data(data)) => {
                    self.steps.pop_front();
                    return Poll::Ready(Some(Ok(Bytes::from_static(data.as_bytes()))));
                }
                Some(Fail) => {
                    self.steps.clear();
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
                }
            }
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Body for Steps {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_step(cx)
            .map(|step| step.map(|data| data.map(Frame::data)))
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
