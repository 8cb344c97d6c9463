//! Peek: what is held, what is an answer, how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use std::{sync::atomic::Ordering, time::Duration};

use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;
use llm_call::{
    Answer, Call, CallSettings, Cause, Commit, Ending, Guarded, Kind, PeekLayer, Phase,
    ResponseExt, detach,
};
use std::pin::Pin;
use support::{
    Do, Ear, JSON, SSE, Script, assert_answer, chat, peek, peek_request, read, response,
};
use tokio::time::Instant;

const ROLE: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const HEL: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n";
const LO: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":null}]}\n\n";
const STOP: &str = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const ERROR: &str = "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n";
const WHOLE: &str = "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3,\"total_tokens\":14}}";

fn second() -> Duration {
    Duration::from_secs(1)
}

async fn ended(steps: Vec<Do>) -> (support::Read, Vec<Ending>) {
    let answer = peek(PeekLayer::new(), response(200, SSE, Script::new(steps)))
        .await
        .unwrap();
    assert!(answer.outcome().is_success());
    let ear = Ear::default();
    let mut body = Guarded::new(answer.into_body(), ear.clone());
    let read = read(&mut body).await;
    drop(body);
    (read, ear.heard())
}

fn kind(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Kind {
    Kind::of(error)
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_committed_at_its_first_token() {
    let start = Instant::now();
    let body = Script::new([
        Do::Data(ROLE),
        Do::Wait(second()),
        Do::Data(": ping\n\n"),
        Do::Wait(second()),
        Do::Data(HEL),
        Do::Wait(second()),
        Do::Data(LO),
        Do::Data(STOP),
        Do::Data(DONE),
    ]);
    let live = body.live();
    let answer = peek(PeekLayer::new(), response(200, SSE, body))
        .await
        .unwrap();
    assert_eq!(start.elapsed(), second() * 2);
    assert_answer(answer.body());
    let state = answer.body().state();
    assert!(state.is_streamed() && !state.is_capped() && state.ending().is_none());
    assert_eq!(state.first_token(), Some(start + second() * 2));
    assert_eq!(live.load(Ordering::SeqCst), 1);
    let mut body = answer.into_body();
    let read = read(&mut body).await;
    assert_eq!(
        read.text,
        [ROLE, ": ping\n\n", HEL, LO, STOP, DONE].concat()
    );
    assert!(read.error.is_none());
    assert_eq!(body.state().ending(), Some(Ending::Complete));
    assert_eq!(body.state().token_events(), 2);
    assert_eq!(live.load(Ordering::SeqCst), 0, "dropped at its end");
}

#[tokio::test]
async fn json_is_held_whole_and_read() {
    let (a, b) = WHOLE.split_at(60);
    let body = Script::new([Do::Data(a), Do::Data(b)]);
    let answer = peek(PeekLayer::new(), response(200, JSON, body))
        .await
        .unwrap();
    let state = answer.body().state();
    assert_eq!(state.ending(), Some(Ending::Complete));
    assert_eq!(state.usage().output, Some(3));
    assert!(!state.is_streamed());
    assert_eq!(answer.body().size_hint().exact(), Some(WHOLE.len() as u64));
    assert_eq!(read(&mut answer.into_body()).await.text, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn no_usable_answer_is_an_error() {
    use std::io::ErrorKind::ConnectionReset;
    for (media, steps, expected) in [
        (SSE, vec![], Kind::Empty),
        (SSE, vec![Do::Data(": ping\n\n")], Kind::Interrupted),
        (SSE, vec![Do::Data(ROLE)], Kind::Interrupted),
        (
            SSE,
            vec![Do::Data(ROLE), Do::Fail(ConnectionReset)],
            Kind::Interrupted,
        ),
        (SSE, vec![Do::Fail(ConnectionReset)], Kind::Interrupted),
        (
            SSE,
            vec![Do::Data(ROLE), Do::Data(STOP), Do::Data(DONE)],
            Kind::Empty,
        ),
        (SSE, vec![Do::Data(ROLE), Do::Data(STOP)], Kind::Empty),
        (SSE, vec![Do::Data(DONE)], Kind::Interrupted),
        (SSE, vec![Do::Data("<html></html>")], Kind::Malformed),
        (JSON, vec![], Kind::Empty),
        (JSON, vec![Do::Data("\n \n")], Kind::Empty),
        (
            JSON,
            vec![Do::Data("{\"id\":\"chatcmpl\",\"choices\":[{")],
            Kind::Malformed,
        ),
        (
            JSON,
            vec![Do::Data("{\"id\":"), Do::Fail(ConnectionReset)],
            Kind::Interrupted,
        ),
        (
            JSON,
            vec![Do::Data("{\"object\":\"chat.completion\",\"choices\":[]}")],
            Kind::Empty,
        ),
        (
            "text/html",
            vec![Do::Data("<html></html>")],
            Kind::Malformed,
        ),
        ("text/html", vec![Do::Hang], Kind::Malformed),
        ("text/plain", vec![Do::Data("hello")], Kind::Malformed),
    ] {
        for knows_end in [false, true] {
            let mut body = Script::new(steps.clone());
            if knows_end {
                body = body.knowing_its_end();
            }
            let live = body.live();
            let error = peek(PeekLayer::new(), response(200, media, body))
                .await
                .map(|answer| answer.outcome())
                .expect_err(&format!("{media} {steps:?}"));
            assert_eq!(kind(&*error), expected, "{media} {steps:?} {knows_end}");
            assert_eq!(live.load(Ordering::SeqCst), 0, "the transport is dropped");
        }
    }
}

#[tokio::test]
async fn an_answer_of_the_provider_stays_one_and_is_classified() {
    const FILTERED: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null},\"finish_reason\":\"content_filter\"}]}";
    const OBJECT: &str = "{\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}";
    for (status, media, steps, expected) in [
        (503, JSON, vec![OBJECT], Kind::Overloaded),
        (400, JSON, vec![OBJECT], Kind::InvalidRequest),
        (200, JSON, vec![OBJECT], Kind::ServerError),
        (200, SSE, vec![ERROR, DONE], Kind::ServerError),
        (200, SSE, vec![ROLE, ERROR], Kind::ServerError),
        (200, JSON, vec![FILTERED], Kind::ContentFiltered),
    ] {
        let body = Script::new(steps.iter().map(|step| Do::Data(step)));
        let answer = peek(PeekLayer::new(), response(status, media, body))
            .await
            .unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.outcome().kind, expected, "{steps:?}");
        let ending = answer.body().state().ending();
        assert_eq!(ending.map(Ending::kind), Some(expected));
        let read = read(&mut answer.into_body()).await;
        assert_eq!(read.text, steps.concat());
        assert!(read.error.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_body_that_never_ends_does_not_hang_the_call() {
    let start = Instant::now();
    let body = Script::new([Do::Data("{\"error\":{\"mess"), Do::Hang]);
    let live = body.live();
    let mut given = response(503, JSON, body);
    given.headers_mut().insert("content-length", 500.into());
    let answer = peek(PeekLayer::new(), given).await.unwrap();
    assert_eq!(start.elapsed(), second());
    assert_eq!(answer.outcome().kind, Kind::Overloaded);
    assert_eq!(live.load(Ordering::SeqCst), 0);
    assert!(!answer.headers().contains_key("content-length"));
    assert_eq!(
        read(&mut answer.into_body()).await.text,
        "{\"error\":{\"mess"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_is_kept_if_all_of_it_is_here() {
    let page = || Do::Bytes("x".repeat(40_000).into());
    for (status, media, steps, kept) in [
        (503, JSON, vec![Do::Data("{\"error\":{}}")], true),
        (503, JSON, vec![Do::Data("{\"err"), Do::Hang], true),
        (200, SSE, vec![Do::Data(ERROR), Do::Hang], false),
        (500, "text/html", vec![page(), page(), page()], false),
        (200, SSE, vec![Do::Data(HEL)], false),
    ] {
        let body = Script::new(steps);
        let live = body.live();
        let answer = peek(PeekLayer::new(), response(status, media, body))
            .await
            .unwrap();
        let ending = answer.body().state().ending();
        let expected = answer.body().state().bytes();
        let answer = detach(answer).ok();
        assert_eq!(answer.is_some(), kept, "{status} {media}");
        assert_eq!(live.load(Ordering::SeqCst), 0);
        if let Some(answer) = answer {
            let mut body = answer.into_body();
            assert_eq!(body.state().ending(), ending);
            assert_eq!(read(&mut body).await.text.len() as u64, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_error_body_is_handed_on_whole() {
    let page = "x".repeat(40_000);
    let steps = (0..5).map(|_| Do::Bytes(page.clone().into()));
    let answer = peek(
        PeekLayer::new(),
        response(500, "text/html", Script::new(steps)),
    )
    .await
    .unwrap();
    assert_eq!(answer.outcome().kind, Kind::ServerError);
    assert_eq!(read(&mut answer.into_body()).await.text.len(), 200_000);
}

#[tokio::test]
async fn bounds_commit_as_it_is_and_say_so() {
    let pings = ": a comment that says nothing at all\n\n".repeat(100);
    let steps = [
        Do::Bytes(pings.clone().into()),
        Do::Data(HEL),
        Do::Data(STOP),
    ];
    let layer = PeekLayer::new().max_held(1000);
    let answer = peek(layer, response(200, SSE, Script::new(steps)))
        .await
        .unwrap();
    assert!(answer.body().state().is_capped());
    let mut body = answer.into_body();
    assert_eq!(read(&mut body).await.text, [&pings, HEL, STOP].concat());
    assert_eq!(body.state().ending(), Some(Ending::Complete));

    let layer = PeekLayer::new().max_whole(64);
    let (a, b) = WHOLE.split_at(100);
    let answer = peek(
        layer,
        response(200, JSON, Script::new([Do::Data(a), Do::Data(b)])),
    )
    .await
    .unwrap();
    assert!(answer.body().state().is_capped());
    assert_eq!(answer.body().state().ending(), None);
    let mut body = answer.into_body();
    assert_eq!(read(&mut body).await.text, WHOLE);
    assert_eq!(body.state().ending(), Some(Ending::Complete));
}

#[tokio::test(start_paused = true)]
async fn commit_policies() {
    let stream = || {
        Script::new([
            Do::Data(ROLE),
            Do::Wait(second() * 3),
            Do::Data(HEL),
            Do::Wait(second() * 3),
            Do::Data(STOP),
            Do::Data(DONE),
        ])
    };
    for (commit, after, capped) in [
        (Commit::Headers, 0, false),
        (Commit::FirstToken, 3, false),
        (Commit::Window(second() * 2), 2, true),
        (Commit::Window(second() * 5), 3, false),
        (Commit::Whole, 6, false),
    ] {
        let start = Instant::now();
        let layer = PeekLayer::new().commit(commit);
        let answer = peek(layer, response(200, SSE, stream())).await.unwrap();
        assert_eq!(start.elapsed(), second() * after, "{commit:?}");
        assert_eq!(answer.body().state().is_capped(), capped, "{commit:?}");
        let mut body = answer.into_body();
        let read = read(&mut body).await;
        assert_eq!(read.text, [ROLE, HEL, STOP, DONE].concat());
        assert_eq!(body.state().ending(), Some(Ending::Complete), "{commit:?}");
    }
    // Held whole, a late cut is still no answer.
    let cut = Script::new([Do::Data(ROLE), Do::Data(HEL)]);
    let layer = PeekLayer::new().commit(Commit::Whole);
    let error = peek(layer, response(200, SSE, cut))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(&*error), Kind::Interrupted);
    // A window over JSON hands it on unread.
    let layer = PeekLayer::new().commit(Commit::Window(second()));
    let slow = Script::new([Do::Data("{"), Do::Wait(second() * 2), Do::Data("}")]);
    let answer = peek(layer, response(200, JSON, slow)).await.unwrap();
    assert!(answer.body().state().is_capped());
}

#[tokio::test]
async fn what_is_not_to_be_looked_at_is_left_alone() {
    for (request, status, media) in [
        (
            http::Request::head("/v1/models").body(()).unwrap(),
            200,
            JSON,
        ),
        (chat(), 204, JSON),
        (chat(), 304, JSON),
        (chat(), 101, SSE),
        (chat(), 200, "audio/mpeg"),
        (chat(), 200, "application/octet-stream"),
    ] {
        let answer = response(status, media, Script::new([Do::Hang]));
        let answer = peek_request(PeekLayer::new(), request, answer)
            .await
            .unwrap();
        assert!(answer.outcome().is_success());
    }
    let mut zipped = response(200, SSE, Script::new([Do::Data("\u{1f}x")]));
    zipped
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    let answer = peek(PeekLayer::new(), zipped).await.unwrap();
    let mut body = answer.into_body();
    assert_eq!(read(&mut body).await.text, "\u{1f}x");
    assert_eq!(body.state().ending(), Some(Ending::Complete));
}

#[tokio::test]
async fn mislabelled_streams_are_streams() {
    for media in [JSON, "text/plain"] {
        let body = Script::new([Do::Data(HEL), Do::Hang]);
        let answer = peek(PeekLayer::new(), response(200, media, body))
            .await
            .unwrap();
        assert!(answer.body().state().is_streamed());
    }
    const LINE: &str = "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":false}\n";
    let (a, b) = LINE.split_at(30);
    let body = Script::new([Do::Data(a), Do::Data(b), Do::Hang]);
    let request = http::Request::post("/api/chat").body(()).unwrap();
    let answer = peek_request(PeekLayer::new(), request, response(200, JSON, body))
        .await
        .unwrap();
    assert!(answer.body().state().is_streamed());
}

#[tokio::test]
async fn trailers_pass() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "1".parse().unwrap());
    for media in [SSE, JSON] {
        let data = if media == SSE {
            [HEL, STOP]
        } else {
            [WHOLE, "\n"]
        };
        let steps = data
            .map(Do::Data)
            .into_iter()
            .chain([Do::Trailers(trailers.clone())]);
        let answer = peek(PeekLayer::new(), response(200, media, Script::new(steps)))
            .await
            .unwrap();
        let read = read(&mut answer.into_body()).await;
        assert_eq!(read.trailers.as_ref(), Some(&trailers), "{media}");
        assert_eq!(read.text, data.concat());
    }
}

#[tokio::test]
async fn a_guard_hears_one_ending_by_what_came() {
    use std::io::ErrorKind::ConnectionReset;
    // At the end marker, before EOF.
    let (read, heard) = ended(vec![Do::Data(HEL), Do::Data(STOP), Do::Data(DONE)]).await;
    assert!(read.error.is_none());
    assert_eq!(heard, [Ending::Complete]);
    // Finished without the marker, then EOF or a reset: complete.
    for last in [vec![], vec![Do::Fail(ConnectionReset)]] {
        let steps = [vec![Do::Data(HEL), Do::Data(STOP)], last].concat();
        let (read, heard) = ended(steps).await;
        assert!(read.error.is_none());
        assert_eq!(heard, [Ending::Complete]);
    }
    // Cut: an error, never a clean end.
    for last in [
        vec![],
        vec![Do::Fail(ConnectionReset)],
        vec![Do::Data(DONE)],
    ] {
        let steps = [vec![Do::Data(HEL), Do::Data(LO)], last.clone()].concat();
        let (read, heard) = ended(steps).await;
        let error = read.error.unwrap_or_else(|| panic!("{last:?}"));
        assert_eq!(kind(&*error), Kind::Interrupted);
        let [Ending::Failed(outcome)] = heard[..] else {
            panic!("{heard:?}")
        };
        assert_eq!(outcome.kind, Kind::Interrupted);
        assert!(!outcome.verdict.fail_over, "content was delivered");
    }
    // An error event: its bytes, then a clean end.
    let (read, heard) = ended(vec![Do::Data(HEL), Do::Data(ERROR), Do::Data(DONE)]).await;
    assert!(read.error.is_none());
    assert!(read.text.ends_with(DONE));
    let [Ending::Failed(outcome)] = heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!(outcome.kind, Kind::ServerError);
}

#[tokio::test]
async fn a_guard_hears_of_the_end_marker_at_once() {
    let steps = [Do::Data(HEL), Do::Data(STOP), Do::Data(DONE), Do::Hang];
    let answer = peek(PeekLayer::new(), response(200, SSE, Script::new(steps)))
        .await
        .unwrap();
    let ear = Ear::default();
    let mut body = Guarded::new(answer.into_body(), ear.clone());
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
        assert!(ear.heard().is_empty());
    }
    body.frame().await.unwrap().unwrap();
    assert_eq!(ear.heard(), [Ending::Complete]);
    drop(body);
    assert_eq!(ear.heard(), [Ending::Complete]);
}

#[tokio::test]
async fn a_guard_hears_of_drops_and_cuts() {
    for polls in 0..2 {
        for cut in [false, true] {
            let body = Script::new([Do::Data(HEL), Do::Data(LO), Do::Hang]);
            let live = body.live();
            let answer = peek(PeekLayer::new(), response(200, SSE, body))
                .await
                .unwrap();
            let (inner, outer) = (Ear::default(), Ear::default());
            let body = Guarded::new(answer.into_body(), inner.clone());
            let mut body = Guarded::new(body, outer.clone());
            for _ in 0..polls {
                body.frame().await.unwrap().unwrap();
            }
            let expected = if cut {
                let ending = Ending::Cut(Cause::TimedOut(Phase::Idle));
                Pin::new(&mut body).cut(ending);
                assert_eq!(live.load(Ordering::SeqCst), 0, "the transport goes at once");
                assert_eq!(outer.heard(), [ending]);
                Pin::new(&mut body).cut(Ending::Dropped);
                assert!(body.frame().await.is_none());
                assert!(body.is_end_stream());
                ending
            } else {
                Ending::Dropped
            };
            drop(body);
            assert_eq!(inner.heard(), [expected]);
            assert_eq!(outer.heard(), [expected]);
        }
    }
    // All content had come: neither a cut nor a drop makes it less.
    for cut in [false, true] {
        let body = Script::new([Do::Data(HEL), Do::Data(STOP), Do::Hang]);
        let answer = peek(PeekLayer::new(), response(200, SSE, body))
            .await
            .unwrap();
        let ear = Ear::default();
        let mut body = Guarded::new(answer.into_body(), ear.clone());
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
        }
        if cut {
            Pin::new(&mut body).cut(Ending::Cut(Cause::TimedOut(Phase::Idle)));
        }
        drop(body);
        assert_eq!(ear.heard(), [Ending::Complete]);
    }
}

#[tokio::test]
async fn a_guard_hears_of_a_panic_that_unwinds() {
    let body = Script::new([Do::Data(HEL), Do::Panic]);
    let answer = peek(PeekLayer::new(), response(200, SSE, body))
        .await
        .unwrap();
    let ear = Ear::default();
    let mut body = Guarded::new(answer.into_body(), ear.clone());
    body.frame().await.unwrap().unwrap();
    let panicked = tokio::task::LocalSet::new()
        .run_until(async {
            tokio::task::spawn_local(async move { drop(body.frame().await) }).await
        })
        .await;
    assert!(panicked.is_err());
    assert_eq!(ear.heard(), [Ending::Dropped]);
}

#[tokio::test]
async fn a_guard_of_a_whole_answer_hears_at_once() {
    let body = Script::new([Do::Data(WHOLE)]);
    let answer = peek(PeekLayer::new(), response(200, JSON, body))
        .await
        .unwrap();
    let ear = Ear::default();
    let body = Guarded::new(answer.into_body(), ear.clone());
    assert_eq!(ear.heard(), [Ending::Complete]);
    drop(body);
    assert_eq!(ear.heard(), [Ending::Complete]);
}

fn with_call(call: &Call) -> http::Request<()> {
    let mut request = chat();
    request.extensions_mut().insert(call.clone());
    request
}

#[tokio::test(start_paused = true)]
async fn the_ledger_gets_one_record_an_attempt() {
    let call = Call::open(CallSettings::new());
    // Complete.
    let body = Script::new([
        Do::Wait(second()),
        Do::Data(HEL),
        Do::Data(STOP),
        Do::Data(DONE),
    ]);
    let answer = peek_request(PeekLayer::new(), with_call(&call), response(200, SSE, body))
        .await
        .unwrap();
    read(&mut answer.into_body()).await;
    // No answer.
    let body = Script::new([]);
    peek_request(PeekLayer::new(), with_call(&call), response(200, SSE, body))
        .await
        .map(drop)
        .unwrap_err();
    // An error status.
    let body = Script::new([Do::Data("{}")]);
    let answer = peek_request(
        PeekLayer::new(),
        with_call(&call),
        response(503, JSON, body),
    )
    .await
    .unwrap();
    drop(answer);
    // Dropped in the body.
    let body = Script::new([Do::Data(HEL), Do::Hang]);
    let answer = peek_request(PeekLayer::new(), with_call(&call), response(200, SSE, body))
        .await
        .unwrap();
    drop(answer);
    // Dropped while it is held, with and without a cause.
    for cause in [None, Some(Cause::TimedOut(Phase::FirstToken))] {
        let body = Script::new([Do::Data(ROLE), Do::Hang]);
        let pending = peek_request(PeekLayer::new(), with_call(&call), response(200, SSE, body));
        let mut pending = Box::pin(pending);
        assert!(futures_now(&mut pending).is_none());
        if let Some(cause) = cause {
            call.set_cause(0, cause);
        }
        drop(pending);
    }
    let ledger = call.ledger();
    let kinds: Vec<_> = ledger
        .entries
        .iter()
        .map(|entry| entry.kind.unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            Kind::Success,
            Kind::Empty,
            Kind::Overloaded,
            Kind::Cancelled,
            Kind::Cancelled,
            Kind::TimedOut(Phase::FirstToken),
        ]
    );
    assert_eq!(ledger.entries[0].first_token, Some(second()));
    assert_eq!(call.sent(), 6);
    // The cap holds at the last gate.
    let body = Script::new([Do::Data(WHOLE)]);
    let error = peek_request(
        PeekLayer::new(),
        with_call(&call),
        response(200, JSON, body),
    )
    .await
    .map(drop)
    .unwrap_err();
    assert_eq!(
        kind(&*error),
        Kind::Refused(llm_call::Refusal::AttemptsSpent)
    );
    assert_eq!(call.sent(), 6);
}

#[tokio::test]
async fn c01_two_peeks_count_an_attempt_once() {
    let call = Call::open(CallSettings::new().max_attempts(1));
    let client = tower::service_fn(|_: http::Request<()>| async {
        Ok::<_, llm_call::BoxError>(response(200, JSON, Script::new([Do::Data(WHOLE)])))
    });
    let service = tower::ServiceBuilder::new()
        .layer(PeekLayer::new())
        .layer(PeekLayer::new())
        .service(client);
    let answer = tower::ServiceExt::oneshot(service, with_call(&call)).await;
    assert!(answer.unwrap().outcome().is_success());
    let ledger = call.ledger();
    assert_eq!(ledger.entries.len(), 1);
    assert_eq!(ledger.entries[0].kind, Some(Kind::Success));
}

#[tokio::test]
async fn r16_what_is_sent_again_between_two_peeks_is_counted() {
    let call = Call::open(CallSettings::new().max_attempts(3));
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = sent.clone();
    let client = tower::service_fn(move |_: http::Request<()>| {
        seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async { Ok::<_, llm_call::BoxError>(response(503, JSON, Script::new([Do::Data("{}")]))) }
    });
    let lower = tower::Layer::layer(&PeekLayer::new(), client);
    let five_times = tower::service_fn(move |request: http::Request<()>| {
        let lower = lower.clone();
        async move {
            let again = request.clone();
            let mut answer = tower::ServiceExt::oneshot(lower.clone(), request).await;
            for _ in 0..4 {
                answer = tower::ServiceExt::oneshot(lower.clone(), again.clone()).await;
            }
            answer
        }
    });
    let upper = tower::Layer::layer(&PeekLayer::new(), five_times);
    let error = tower::ServiceExt::oneshot(upper, with_call(&call)).await;
    let error = error.map(drop).unwrap_err();
    assert_eq!(
        kind(&*error),
        Kind::Refused(llm_call::Refusal::AttemptsSpent)
    );
    assert_eq!(sent.load(std::sync::atomic::Ordering::Relaxed), 3);
    assert_eq!(call.sent(), 3);
}

#[tokio::test(start_paused = true)]
async fn t07_nothing_is_sent_after_the_deadline() {
    let call = Call::open(CallSettings::new().timeout(second()));
    tokio::time::advance(second()).await;
    let body = Script::new([Do::Data(WHOLE)]);
    let error = peek_request(
        PeekLayer::new(),
        with_call(&call),
        response(200, JSON, body),
    )
    .await
    .map(drop)
    .unwrap_err();
    assert_eq!(kind(&*error), Kind::TimedOut(Phase::Deadline));
    assert_eq!(call.sent(), 0);
}

/// Polls once.
fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}
