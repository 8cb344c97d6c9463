//! Failover over targets that rest, refuse and panic, and two copies of one call at a time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::HashMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use llm_call::{
    Attempt, BoxError, Call, CallSettings, Error, Kind, PeekLayer, Peeked, Phase, Refusal,
    ResponseExt, Target, find_cause,
};
use llm_failover::{AllFailed, FailoverLayer, InvalidTargets, Targets};
use tower::{Layer, Service, ServiceExt, service_fn};

const ANSWER: &str =
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";

/// What a target does with an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Say {
    Status(u16),
    /// 429, and when to come back, in seconds.
    Later(u64),
    Reset,
    /// A layer of ours refuses it, after so many seconds.
    Refuse(u64),
    /// A status after so many seconds.
    Slow(u64, u16),
    Panic,
}

use Say::*;

type World = Arc<Mutex<HashMap<String, Say>>>;
type Log = Arc<Mutex<Vec<String>>>;
type Answering = Result<Response<Peeked<Full<Bytes>>>, BoxError>;

fn world<const N: usize>(says: [(&str, Say); N]) -> World {
    let says = says.map(|(target, say)| (target.to_owned(), say));
    Arc::new(Mutex::new(says.into()))
}

/// Failover over a bulkhead that may refuse, over Peek, over the world.
fn service(
    targets: &Targets,
    world: &World,
    log: &Log,
) -> impl Service<Request<()>, Response = Response<Peeked<Full<Bytes>>>, Error = BoxError> + Clone + use<>
{
    let (world, log) = (world.clone(), log.clone());
    let guarded = service_fn(move |request: Request<()>| {
        let target = request
            .extensions()
            .get::<Attempt>()
            .unwrap()
            .target
            .clone();
        let target = target.unwrap();
        let say = world.lock().unwrap()[target.as_str()];
        log.lock().unwrap().push(target.to_string());
        let client = service_fn(move |_: Request<()>| async move {
            let status = match say {
                Slow(wait, status) => {
                    tokio::time::sleep(Duration::from_secs(wait)).await;
                    status
                }
                Status(status) => status,
                Later(_) => 429,
                Panic => panic!("as it was told"),
                Reset | Refuse(_) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
                }
            };
            let mut response = Response::builder().status(status);
            if let Later(wait) = say {
                response = response.header("retry-after", wait);
            }
            let response = response.header("content-type", "application/json");
            Ok::<_, BoxError>(response.body(Full::from(ANSWER)).unwrap())
        });
        async move {
            if let Refuse(wait) = say {
                tokio::time::sleep(Duration::from_secs(wait)).await;
                let refused = Error::new(Kind::Refused(Refusal::BulkheadFull));
                return Err(refused.with_target(Some(target)).into());
            }
            PeekLayer::new().layer(client).oneshot(request).await
        }
    });
    FailoverLayer::new(targets.clone()).layer(guarded)
}

fn request(call: &Call) -> Request<()> {
    let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
    request.extensions_mut().insert(call.clone());
    request
}

fn call() -> Call {
    Call::open(CallSettings::new().max_attempts(100))
}

fn kind(result: Answering) -> Kind {
    match result {
        Ok(answer) => answer.outcome().kind,
        Err(error) => Kind::of(&*error),
    }
}

#[tokio::test(start_paused = true)]
async fn f04_a_guess_is_broken_when_the_last_other_target_fails_in_the_same_call() {
    let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
    let (world, log) = (
        world([("a:m", Status(503)), ("b:m", Status(429))]),
        Log::default(),
    );
    let service = service(&targets, &world, &log);
    let _ = service.clone().oneshot(request(&call())).await;
    assert!(targets.snapshot()[1].rests.is_some());
    world.lock().unwrap().insert("b:m".into(), Status(200));
    log.lock().unwrap().clear();
    assert_eq!(kind(service.oneshot(request(&call())).await), Kind::Success);
    assert_eq!(*log.lock().unwrap(), ["a:m", "b:m"]);
}

#[tokio::test(start_paused = true)]
async fn f02_a_target_whose_rest_ends_during_the_call_is_tried() {
    let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
    let (world, log) = (
        world([("a:m", Later(2)), ("b:m", Slow(5, 503))]),
        Log::default(),
    );
    let service = service(&targets, &world, &log);
    let _ = service.clone().oneshot(request(&call())).await;
    assert_eq!(targets.snapshot()[0].rests, None);
    // Now it rests when the call begins.
    let _ = service.clone().oneshot(request(&call())).await;
    world.lock().unwrap().insert("a:m".into(), Later(2));
    let _ = tokio::time::timeout(Duration::ZERO, service.clone().oneshot(request(&call()))).await;
    assert!(targets.snapshot()[0].rests.is_some());
    world.lock().unwrap().insert("a:m".into(), Status(200));
    log.lock().unwrap().clear();
    assert_eq!(kind(service.oneshot(request(&call())).await), Kind::Success);
    assert_eq!(*log.lock().unwrap(), ["b:m", "a:m"]);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_another_copy_gives_back_is_tried() {
    let targets = Targets::ordered(["a:m", "b:m", "c:m"]).unwrap();
    let says = [("a:m", Reset), ("b:m", Status(200)), ("c:m", Slow(3, 503))];
    let (world, log, call) = (world(says), Log::default(), call());
    let lease = call.lease(&"b:m".parse().unwrap()).unwrap();
    let mut sending = Box::pin(service(&targets, &world, &log).oneshot(request(&call)));
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut sending).await;
    assert!(waited.is_err());
    lease.give_back();
    assert_eq!(kind(sending.await), Kind::Success);
    assert_eq!(*log.lock().unwrap(), ["a:m", "c:m", "b:m"]);
}

#[tokio::test(start_paused = true)]
async fn t01_a_target_that_another_copy_has_taken_claims_no_share() {
    let targets = Targets::ordered(["a:m", "b:m", "c"]).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let inner = service_fn(move |request: Request<()>| {
        let attempt = request.extensions().get::<Attempt>().unwrap();
        log.lock().unwrap().push(attempt.alternatives);
        std::future::ready::<Answering>(Err(Error::new(Kind::ConnectFailed).into()))
    });
    let call = call();
    let lease = call.lease(&"a:m".parse().unwrap()).unwrap();
    let service = FailoverLayer::new(targets).layer(inner);
    let _ = service.oneshot(request(&call)).await;
    assert_eq!(*seen.lock().unwrap(), [1, 0]);
    drop(lease);
}

#[tokio::test(start_paused = true)]
async fn r17_a_cap_that_another_copy_used_up_hides_no_failure() {
    for (first, expected) in [
        (Status(503), Kind::Overloaded),
        (Reset, Kind::ConnectionLost),
    ] {
        let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
        let call = Call::open(CallSettings::new().max_attempts(2));
        // Another copy of the call sends while this one is on its way.
        let other = {
            let call = call.clone();
            service_fn(move |request: Request<()>| {
                let target = request
                    .extensions()
                    .get::<Attempt>()
                    .unwrap()
                    .target
                    .clone();
                let is_b = target.unwrap().as_str() == "b:m";
                let client = service_fn(move |_: Request<()>| async move {
                    match first {
                        Status(status) => Ok(Response::builder()
                            .status(status)
                            .body(Full::<Bytes>::from("{}"))
                            .unwrap()),
                        _ => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                    }
                });
                let (copy, peek) = (self::request(&call), PeekLayer::new().layer(client));
                async move {
                    if is_b {
                        let _ = peek.clone().oneshot(copy).await;
                    }
                    peek.oneshot(request).await
                }
            })
        };
        let result = FailoverLayer::new(targets)
            .layer(other)
            .oneshot(request(&call))
            .await;
        assert_eq!(result.is_ok(), matches!(first, Status(_)));
        assert_eq!(kind(result), expected);
        assert_eq!(call.sent(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn two_copies_of_one_call_never_meet_at_a_target() {
    let names = ["a:m", "b:m", "c:m"];
    let says = [Slow(2, 200), Slow(1, 503), Reset, Refuse(0), Refuse(2)];
    for first in says {
        for second in says {
            for third in says {
                for late in [0, 1] {
                    let targets = Targets::ordered(names).unwrap();
                    let what = [("a:m", first), ("b:m", second), ("c:m", third)];
                    let (world, log, call) = (world(what), Log::default(), call());
                    let service = service(&targets, &world, &log);
                    let one = service.clone().oneshot(request(&call));
                    let two = async {
                        tokio::time::sleep(Duration::from_secs(late)).await;
                        service.clone().oneshot(request(&call)).await
                    };
                    let both = async { tokio::join!(one, two) };
                    let both = tokio::time::timeout(Duration::from_secs(60), both).await;
                    let (one, two) = both.unwrap_or_else(|_| panic!("{what:?} hangs"));
                    let kinds = [kind(one), kind(two)];
                    let log = log.lock().unwrap().clone();
                    for (target, say) in what {
                        let tries = log.iter().filter(|sent| *sent == target).count();
                        let most = if matches!(say, Refuse(_)) { 2 } else { 1 };
                        assert!(tries <= most, "{what:?}: {log:?}");
                        let is_free = call.is_free(&target.parse().unwrap());
                        assert!(
                            tries == 0 || is_free == matches!(say, Refuse(_)),
                            "{what:?}"
                        );
                    }
                    // Whatever could answer did.
                    if what.iter().any(|(_, say)| *say == Slow(2, 200)) {
                        assert!(
                            kinds.contains(&Kind::Success),
                            "{what:?}: {kinds:?} {log:?}"
                        );
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_time() {
    let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
    let world = world([("a:m", Reset), ("b:m", Status(200))]);
    for timeout in [
        Duration::MAX,
        Duration::from_secs(u64::MAX >> 2),
        Duration::from_secs(1 << 40),
    ] {
        let log = Log::default();
        let call = Call::open(CallSettings::new().timeout(timeout));
        let answer = service(&targets, &world, &log)
            .oneshot(request(&call))
            .await;
        assert_eq!(kind(answer), Kind::Success, "{timeout:?}");
    }
    // A hang with so much time is given its share, and no panic.
    world
        .lock()
        .unwrap()
        .insert("a:m".into(), Slow(1 << 32, 200));
    let call = Call::open(CallSettings::new().timeout(Duration::from_secs(1 << 40)));
    let sending = service(&targets, &world, &Log::default()).oneshot(request(&call));
    let waited = tokio::time::timeout(Duration::from_secs(9), sending).await;
    assert!(waited.is_err());
    for timeout in [Duration::ZERO, Duration::from_nanos(1)] {
        let log = Log::default();
        let call = Call::open(CallSettings::new().timeout(timeout));
        tokio::time::advance(Duration::from_millis(1)).await;
        let result = service(&targets, &world, &log)
            .oneshot(request(&call))
            .await;
        assert_eq!(kind(result), Kind::TimedOut(Phase::Deadline));
        assert!(log.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn c04_a_cap_of_one_sends_once() {
    let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
    for (say, expected) in [
        (Reset, Kind::ConnectionLost),
        (Status(503), Kind::Overloaded),
    ] {
        let (world, log) = (world([("a:m", say), ("b:m", Status(200))]), Log::default());
        let call = Call::open(CallSettings::new().max_attempts(1));
        let result = service(&targets, &world, &log)
            .oneshot(request(&call))
            .await;
        assert_eq!(kind(result), expected);
        assert_eq!(*log.lock().unwrap(), ["a:m"]);
    }
    // A target that refused was not sent to.
    let world = world([("a:m", Refuse(0)), ("b:m", Status(200))]);
    let call = Call::open(CallSettings::new().max_attempts(1));
    let result = service(&targets, &world, &Log::default())
        .oneshot(request(&call))
        .await;
    assert_eq!(kind(result), Kind::Success);
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_the_targets_usable() {
    let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
    let (world, log) = (
        world([("a:m", Panic), ("b:m", Status(200))]),
        Log::default(),
    );
    let service = service(&targets, &world, &log);
    let mut first = Box::pin(service.clone().oneshot(request(&call())));
    let mut context = Context::from_waker(Waker::noop());
    let polled = catch_unwind(AssertUnwindSafe(|| {
        first.as_mut().poll(&mut context).is_ready()
    }));
    assert!(polled.is_err());
    drop(first);
    world.lock().unwrap().insert("a:m".into(), Status(200));
    assert_eq!(kind(service.oneshot(request(&call())).await), Kind::Success);
    assert_eq!(targets.snapshot().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_that_never_gets_ready_is_one_more_failure() {
    /// Ready once; its clones fail.
    struct Once(bool);
    impl Clone for Once {
        fn clone(&self) -> Self {
            Once(false)
        }
    }
    impl Service<Request<()>> for Once {
        type Response = Response<Peeked<Full<Bytes>>>;
        type Error = BoxError;
        type Future = std::future::Ready<Answering>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(if self.0 { Ok(()) } else { Err("closed".into()) })
        }
        fn call(&mut self, _: Request<()>) -> Self::Future {
            std::future::ready(Err(Error::new(Kind::ConnectFailed).into()))
        }
    }
    let targets = Targets::ordered(["a:m", "b:m", "c:m"]).unwrap();
    let mut service = FailoverLayer::new(targets).layer(Once(true));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(
        service.poll_ready(&mut context),
        Poll::Ready(Ok(()))
    ));
    let Poll::Ready(result) = pin!(service.call(request(&call()))).poll(&mut context) else {
        panic!("it waits")
    };
    let error = result.map(drop).unwrap_err();
    assert_eq!(Kind::of(&*error), Kind::Unknown);
    let all = find_cause::<AllFailed>(&*error).unwrap();
    let kinds: Vec<_> = all.attempts().iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [Kind::ConnectFailed, Kind::Unknown, Kind::Unknown]);
}

#[tokio::test(start_paused = true)]
async fn sixty_four_targets_are_tried_once_each() {
    let names: Vec<String> = (0..64).map(|i| format!("p{i}:m")).collect();
    let says = names.iter().map(|name| (name.clone(), Reset)).collect();
    let world: World = Arc::new(Mutex::new(says));
    let spread = names
        .iter()
        .enumerate()
        .map(|(i, name)| (name, i as u32 * 67_108_863));
    for targets in [
        Targets::ordered(&names).unwrap(),
        Targets::weighted(spread).unwrap(),
    ] {
        let log = Log::default();
        let call = Call::open(
            CallSettings::new()
                .max_attempts(100)
                .timeout(Duration::from_secs(9)),
        );
        let result = service(&targets, &world, &log)
            .oneshot(request(&call))
            .await;
        assert_eq!(kind(result), Kind::ConnectionLost);
        let mut sent = log.lock().unwrap().clone();
        assert_eq!(sent.len(), 64);
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), 64);
        assert_eq!(call.sent(), 64);
    }
    let more = (0..65).map(|i| format!("p{i}"));
    assert_eq!(Targets::ordered(more).unwrap_err(), InvalidTargets::TooMany);
}

#[tokio::test(start_paused = true)]
async fn drained_resting_and_weightless_targets_are_told_apart() {
    let names = ["a:m", "b:m", "c:m", "d:m"];
    for states in 0..4_u32.pow(4) {
        // Each: well, drained, resting by the server's word, resting by a guess.
        let state = |i: usize| states / 4_u32.pow(i as u32) % 4;
        for weighted in [false, true] {
            let targets = if weighted {
                Targets::weighted([("a:m", 1), ("b:m", 0), ("c:m", u32::MAX), ("d:m", 0)]).unwrap()
            } else {
                Targets::ordered(names).unwrap()
            };
            let world = world(names.map(|name| (name, Reset)));
            let log = Log::default();
            let service = service(&targets, &world, &log);
            for (i, name) in names.into_iter().enumerate() {
                let say = match state(i) {
                    2 => Later(60),
                    3 => Status(429),
                    _ => continue,
                };
                world.lock().unwrap().insert(name.into(), say);
            }
            let _ = service.clone().oneshot(request(&call())).await;
            for (i, name) in names.into_iter().enumerate() {
                let target: Target = name.parse().unwrap();
                if state(i) == 1 {
                    assert!(targets.drain(&target));
                } else {
                    assert!(targets.restore(&target));
                }
            }
            log.lock().unwrap().clear();
            let result = service.oneshot(request(&call())).await;
            let log = log.lock().unwrap();
            let of = |which: u32| (0..4).filter(|i| state(*i) == which).count();
            // All that are well first, then the guesses; never the others.
            assert_eq!(log.len(), of(0) + of(3), "{states}: {log:?}");
            for (at, name) in log.iter().enumerate() {
                let i = names.iter().position(|other| other == name).unwrap();
                assert_eq!(
                    state(i),
                    if at < of(0) { 0 } else { 3 },
                    "{states}: {log:?}"
                );
            }
            if log.is_empty() {
                assert_eq!(kind(result), Kind::Refused(Refusal::NoTarget));
            }
        }
    }
}
