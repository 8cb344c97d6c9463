//! Every case of `data/catalog.json` as a response that comes through a `PeekLayer`, in frames cut
//! at every point: what is held, what comes out, and what it is worth.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test fail the test"
)]

mod cases;

use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt::Write as _,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::SystemTime,
};

use bytes::Bytes;
use cases::{Case, differences};
use http::{Request, Response};
use http_body::{Body, Frame};
use llm_call::{
    Answer, Classify, Dialect, Ending, Kind, Outcome, PeekLayer, ResponseExt, Seen, Standard,
};
use tower::{Layer, Service, service_fn};

/// The standard rules at the time that a case names.
#[derive(Clone)]
struct At(SystemTime);

impl Classify for At {
    fn classify(&self, seen: &Seen<'_>, _now: SystemTime) -> Outcome {
        Standard::default().classify(seen, self.0)
    }
}

/// A body of these frames.
struct Frames {
    frames: VecDeque<Bytes>,
    knows_end: bool,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frames.pop_front().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.knows_end && self.frames.is_empty()
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
struct Became {
    /// What the answer, or the error in its place, was worth in the end.
    outcome: Outcome,
    /// Whether there was an answer to hand on.
    answered: bool,
    /// Bytes that were read before the answer was handed on.
    held: u64,
    /// Whether a token was seen by then.
    token: bool,
    /// Whether the body broke off.
    broke: bool,
}

/// Sends a case through Peek in these frames.
fn peek<'b>(
    case: &Case,
    path: &str,
    frames: impl IntoIterator<Item = &'b [u8]>,
    knows_end: bool,
) -> Became {
    let mut frames = Some(Frames {
        frames: frames.into_iter().map(Bytes::copy_from_slice).collect(),
        knows_end,
    });
    let client = service_fn(move |_: Request<()>| {
        let mut response = Response::new(frames.take().unwrap());
        *response.status_mut() = case.status;
        *response.headers_mut() = case.headers.clone();
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut service = PeekLayer::new().classify(At(case.now)).layer(client);
    let mut future = Box::pin(service.call(Request::post(path).body(()).unwrap()));
    // Nothing here is waited for.
    let Poll::Ready(result) = future.as_mut().poll(&mut context) else {
        panic!("{} hangs", case.id)
    };
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => {
            return Became {
                outcome: Outcome::of_error(&*error),
                answered: false,
                held: 0,
                token: false,
                broke: false,
            };
        }
    };
    assert_eq!(answer.status(), case.status);
    let early = answer.outcome();
    let mut body = answer.into_body();
    let (held, token) = (body.state().bytes(), body.state().first_token().is_some());
    let (mut bytes, mut broke) = (Vec::new(), false);
    loop {
        let said_end = body.is_end_stream();
        match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => {
                assert!(!said_end && !broke, "{}", case.id);
                bytes.extend_from_slice(frame.data_ref().unwrap());
            }
            Poll::Ready(Some(Err(error))) => {
                assert!(!said_end && !broke, "{}", case.id);
                let ending = body.state().ending().unwrap();
                assert_eq!(ending, Ending::Failed(Outcome::of_error(&*error)));
                broke = true;
            }
            Poll::Ready(None) => break,
            Poll::Pending => panic!("{} hangs", case.id),
        }
    }
    assert!(body.is_end_stream());
    assert_eq!(bytes, case.body, "{}: the original bytes", case.id);
    let late = match body.state().ending() {
        Some(Ending::Complete) => Outcome::of(Kind::Success),
        Some(Ending::Failed(outcome)) => outcome,
        other => panic!("{}: {other:?}", case.id),
    };
    if !early.is_success() {
        assert_eq!(early, late, "{}", case.id);
    }
    Became {
        outcome: late,
        answered: true,
        held,
        token,
        broke,
    }
}

/// The path at which such an answer is given.
fn path(case: &Case) -> &'static str {
    match case.dialect() {
        Some(Dialect::OpenAiChat) => "/v1/chat/completions",
        Some(Dialect::OpenAiResponses) => "/v1/responses",
        Some(Dialect::Anthropic) => "/v1/messages",
        Some(Dialect::Gemini) => "/v1beta/models/m:streamGenerateContent",
        Some(Dialect::Ollama) => "/api/chat",
        Some(Dialect::Cohere) => "/v2/chat",
        _ => "/model/m/converse",
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let all = Case::all().into_iter();
    all.filter(|case| case.deviation().is_none())
}

#[test]
fn every_case_is_worth_what_the_catalogue_says() {
    let mut wrong = String::new();
    let mut judged = 0;
    for case in cases() {
        judged += 1;
        for path in [path(&case), "/somewhere"] {
            for knows_end in [false, true] {
                let whole = peek(&case, path, [&case.body[..]], knows_end);
                let found = differences(&case, whole.outcome);
                if !found.is_empty() {
                    writeln!(wrong, "{} at {path}, whole:{found}", case.id).unwrap();
                }
                let bytes = peek(&case, path, case.body.chunks(1), knows_end);
                let found = differences(&case, bytes.outcome);
                if !found.is_empty() {
                    writeln!(wrong, "{} at {path}, byte by byte:{found}", case.id).unwrap();
                }
                // What was delivered cannot be taken back, and the outcome knows.
                if case.committed && bytes.answered && bytes.outcome != bytes.outcome.committed() {
                    writeln!(wrong, "{} at {path}: not committed", case.id).unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(judged, 304);
}

#[test]
fn a_stream_is_handed_on_at_its_first_token_and_not_before() {
    for case in cases().filter(Case::is_scanned) {
        let whole = peek(&case, path(&case), case.body.chunks(1), false);
        let token = case.committed || case.kind() == Kind::Success;
        assert_eq!(whole.token, token, "{}", case.id);
        if !token {
            continue;
        }
        let held = &case.body[..whole.held as usize];
        assert!(
            held.ends_with(b"\n") || held.ends_with(b"\r"),
            "{}: an event ends",
            case.id
        );
        let before = peek(&case, path(&case), [&held[..held.len() - 1]], false);
        assert!(!before.answered, "{}: it was not seen before", case.id);
        if let Some(words) = case.json["first_token_substr"].as_str() {
            let held = String::from_utf8_lossy(held);
            assert!(held.contains(words), "{}: {held}", case.id);
        }
    }
}

#[test]
fn a_stream_is_the_same_however_its_frames_are_cut() {
    let mut cuts = 0;
    for case in cases().filter(Case::is_scanned) {
        let (path, body) = (path(&case), &case.body[..]);
        let bytes = peek(&case, path, body.chunks(1), false);
        let mut check = |ends: &[usize]| {
            cuts += 1;
            let length = body.len();
            let starts = std::iter::once(&0).chain(ends);
            let frames = starts.zip(ends.iter().chain([&length]));
            let frames = frames.map(|(start, end)| &body[*start..*end]);
            let cut = peek(&case, path, frames, cuts % 2 == 0);
            let id = &case.id;
            // What fails in the frame of its first token, or before the next one is read, fails
            // before anything was delivered: the same kind, and it may still be replaced.
            let early = bytes.token && !cut.broke && !cut.outcome.is_success();
            let outcome = match early {
                true => cut.outcome.committed(),
                false => cut.outcome,
            };
            assert_eq!(outcome, bytes.outcome, "{id} cut at {ends:?}");
            if early && !cut.answered {
                return;
            }
            assert_eq!(cut.answered, bytes.answered, "{id} cut at {ends:?}");
            assert_eq!(cut.broke, bytes.broke, "{id} cut at {ends:?}");
            if bytes.answered {
                // Handed on with the frame in which the deciding byte stands.
                let decided = bytes.held as usize;
                let frame_end = ends.iter().find(|end| **end >= decided);
                let held = *frame_end.unwrap_or(&body.len());
                assert_eq!(cut.held as usize, held, "{id} cut at {ends:?}");
            }
        };
        for first in 1..body.len() {
            check(&[first]);
            if body.len() <= 240 {
                for second in first + 1..body.len() {
                    check(&[first, second]);
                }
            }
        }
    }
    assert!(cuts > 10_000, "{cuts}");
}
