//! An inner service that answers by a list and counts what is left of each call.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};
use tower_service::Service;

use crate::BoxError;

/// A step of a scripted body.
#[derive(Clone, Debug)]
pub enum BodyStep {
    /// A data frame.
    Data(Bytes),
    /// Nothing for so long.
    Wait(Duration),
    /// The body fails with this text; the end.
    Error(&'static str),
    /// Nothing for ever.
    Hang,
}

impl BodyStep {
    /// A data frame.
    pub fn data(bytes: impl Into<Bytes>) -> Self {
        Self::Data(bytes.into())
    }

    /// Nothing for so long.
    #[must_use]
    pub fn wait(time: Duration) -> Self {
        Self::Wait(time)
    }
}

impl From<&'static str> for BodyStep {
    fn from(text: &'static str) -> Self {
        Self::Data(Bytes::from_static(text.as_bytes()))
    }
}

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Respond {
    delay: Duration,
    ending: Ending,
}

#[derive(Clone, Debug)]
enum Ending {
    Response {
        status: StatusCode,
        headers: HeaderMap,
        body: VecDeque<BodyStep>,
    },
    Error(&'static str),
    Hang,
}

impl Respond {
    /// 200 with a body.
    pub fn ok(body: impl IntoIterator<Item = impl Into<BodyStep>>) -> Self {
        Self::status(StatusCode::OK, body)
    }

    /// A status with a body.
    pub fn status(status: StatusCode, body: impl IntoIterator<Item = impl Into<BodyStep>>) -> Self {
        let body = body.into_iter().map(Into::into).collect();
        Self {
            delay: Duration::ZERO,
            ending: Ending::Response {
                status,
                headers: HeaderMap::new(),
                body,
            },
        }
    }

    /// The call fails with this text.
    #[must_use]
    pub fn error(text: &'static str) -> Self {
        Self {
            delay: Duration::ZERO,
            ending: Ending::Error(text),
        }
    }

    /// The call is pending for ever.
    #[must_use]
    pub fn hang() -> Self {
        Self {
            delay: Duration::ZERO,
            ending: Ending::Hang,
        }
    }

    /// The head, or the error, comes so much later.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds a header; only a response has any.
    ///
    /// # Panics
    ///
    /// If this is no response, or `name` or `value` is not fit for a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        let Ending::Response { headers, .. } = &mut self.ending else {
            unreachable!("an error and a hang have no headers");
        };
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        self
    }
}

/// What of a call can be alive, and is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// The future of a call.
    Future,
    /// The body of a response.
    Body,
}

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Respond>,
    requests: Vec<Request<()>>,
    futures: usize,
    bodies: usize,
    drops: Vec<(Live, Instant)>,
}

impl State {
    fn gauge(&mut self, live: Live) -> &mut usize {
        match live {
            Live::Future => &mut self.futures,
            Live::Body => &mut self.bodies,
        }
    }
}

/// A failed assertion in one test thread must not hide the counts.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a [`Scripted`] service saw and what is left of it; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Gauges(Arc<Mutex<State>>);

impl Gauges {
    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        lock(&self.0).requests.len()
    }

    /// The requests so far, without their bodies but with their extensions.
    #[must_use]
    pub fn requests(&self) -> Vec<Request<()>> {
        lock(&self.0).requests.clone()
    }

    /// Response futures that are not dropped yet.
    #[must_use]
    pub fn live_futures(&self) -> usize {
        lock(&self.0).futures
    }

    /// Bodies that are not dropped yet.
    #[must_use]
    pub fn live_bodies(&self) -> usize {
        lock(&self.0).bodies
    }

    /// Futures and bodies that are not dropped yet.
    #[must_use]
    pub fn live(&self) -> usize {
        let state = lock(&self.0);
        state.futures + state.bodies
    }

    /// What was dropped, and when, in order.
    #[must_use]
    pub fn drops(&self) -> Vec<(Live, Instant)> {
        lock(&self.0).drops.clone()
    }
}

/// Counts one thing as alive for as long as it lives itself.
struct Tally {
    gauges: Gauges,
    live: Live,
}

impl Tally {
    fn new(gauges: &Gauges, live: Live) -> Self {
        *lock(&gauges.0).gauge(live) += 1;
        Self {
            gauges: gauges.clone(),
            live,
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let mut state = lock(&self.gauges.0);
        *state.gauge(self.live) -= 1;
        state.drops.push((self.live, Instant::now()));
    }
}

/// A service that gives the listed answers in order, the last one again and again.
///
/// # Panics
///
/// If there are no answers.
#[must_use]
pub fn service(answers: impl IntoIterator<Item = Respond>) -> Scripted {
    let answers: VecDeque<_> = answers.into_iter().collect();
    assert!(
        !answers.is_empty(),
        "a scripted service needs at least one answer"
    );
    let gauges = Gauges::default();
    lock(&gauges.0).answers = answers;
    Scripted { gauges }
}

/// An inner service for `http::Request<B>` that answers by a list; see [`service`].
///
/// # Clone and shared state
///
/// Clones share the list and the gauges. It is always ready: wrap it in [`Strict`](super::Strict).
#[derive(Clone, Debug)]
pub struct Scripted {
    gauges: Gauges,
}

impl Scripted {
    /// The handle that counts.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.gauges.clone()
    }
}

impl<B> Service<Request<B>> for Scripted {
    type Response = Response<ScriptedBody>;
    type Error = BoxError;
    type Future = ScriptedFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = {
            let mut state = lock(&self.gauges.0);
            state.requests.push(request.map(drop));
            let again = if state.answers.len() == 1 {
                state.answers.front().cloned()
            } else {
                None
            };
            again.or_else(|| state.answers.pop_front())
        };
        ScriptedFuture {
            // `service` lets no list be empty, and the last answer is never taken off it.
            ending: answer
                .as_ref()
                .map_or(Ending::Hang, |answer| answer.ending.clone()),
            sleep: answer
                .filter(|answer| !answer.delay.is_zero())
                .map(|answer| Box::pin(sleep(answer.delay))),
            tally: Tally::new(&self.gauges, Live::Future),
        }
    }
}

/// The response future of [`Scripted`].
pub struct ScriptedFuture {
    ending: Ending,
    sleep: Option<Pin<Box<Sleep>>>,
    tally: Tally,
}

impl Future for ScriptedFuture {
    type Output = Result<Response<ScriptedBody>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
        match &mut self.ending {
            Ending::Hang => Poll::Pending,
            Ending::Error(text) => Poll::Ready(Err((*text).into())),
            Ending::Response {
                status,
                headers,
                body,
            } => {
                let (status, headers) = (*status, std::mem::take(headers));
                let steps = std::mem::take(body);
                let tally = Tally::new(&self.tally.gauges, Live::Body);
                let mut response = Response::new(ScriptedBody {
                    steps,
                    sleep: None,
                    _tally: tally,
                });
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                Poll::Ready(Ok(response))
            }
        }
    }
}

impl fmt::Debug for ScriptedFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedFuture")
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

/// The body of a scripted response.
pub struct ScriptedBody {
    steps: VecDeque<BodyStep>,
    sleep: Option<Pin<Box<Sleep>>>,
    _tally: Tally,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.steps.front() {
                None => return Poll::Ready(None),
                Some(BodyStep::Hang) => return Poll::Pending,
                Some(_) => {}
            }
            match self.steps.pop_front() {
                Some(BodyStep::Data(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(BodyStep::Wait(time)) => self.sleep = Some(Box::pin(sleep(time))),
                Some(BodyStep::Error(text)) => {
                    self.steps.clear();
                    return Poll::Ready(Some(Err(text.into())));
                }
                Some(BodyStep::Hang) | None => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.sleep.is_none()
    }
}

impl fmt::Debug for ScriptedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedBody")
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
