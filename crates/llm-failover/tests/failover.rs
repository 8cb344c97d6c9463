//! Failover over a `PeekLayer`, on paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use llm_call::{
    Abilities, Answer, Attempt, BoxError, Call, CallSettings, Error, Facts, Kind, Peek, PeekLayer,
    Phase, Refusal, ResponseExt, Target, find_cause,
};
use llm_failover::{AllFailed, ByTarget, Failover, FailoverLayer, InvalidTargets, Targets};
use tokio::time::Instant;
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};

const ANSWER: &str = "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";

/// What a target says to one attempt.
#[derive(Clone, Copy, Debug)]
enum Say {
    Answer,
    Status(u16),
    /// 429 with a hint in seconds.
    Later(u64),
    Reset,
    Hang,
    Html,
    /// An error event first.
    Event,
    Slow(u64),
    /// A layer below has no words for it.
    Unable,
}

/// Several targets behind one client.
#[derive(Clone, Default)]
struct World {
    says: Arc<Mutex<HashMap<String, VecDeque<Say>>>>,
    /// What was sent: target, number, alternatives.
    log: Arc<Mutex<Vec<(String, u32, u32)>>>,
    live: Arc<AtomicUsize>,
}

struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl World {
    /// A target's last word is repeated for ever.
    fn new<const N: usize>(says: [(&str, &[Say]); N]) -> World {
        let world = World::default();
        for (target, says) in says {
            world.set(target, says);
        }
        world
    }

    fn set(&self, target: &str, says: &[Say]) {
        let says = says.iter().copied().collect();
        self.says.lock().unwrap().insert(target.to_owned(), says);
    }

    fn sent(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().map(|(target, ..)| target.clone()).collect()
    }

    fn client(
        &self,
    ) -> impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = BoxError, Future: Send>
    + Clone
    + use<> {
        let world = self.clone();
        service_fn(move |request: Request<()>| {
            let attempt = request.extensions().get::<Attempt>().unwrap().clone();
            let target = attempt.target.unwrap().to_string();
            let say = {
                let mut says = world.says.lock().unwrap();
                let says = says.get_mut(&target).expect("a known target");
                let say = *says.front().unwrap();
                if says.len() > 1 {
                    says.pop_front();
                }
                say
            };
            let entry = (target, attempt.n, attempt.alternatives);
            world.log.lock().unwrap().push(entry);
            world.live.fetch_add(1, Ordering::SeqCst);
            let live = Live(world.live.clone());
            async move {
                let _live = live;
                let (status, media, body) = match say {
                    Say::Answer => (200, "application/json", ANSWER),
                    Say::Status(status) => (status, "application/json", "{}"),
                    Say::Later(s) => {
                        return Ok(Response::builder()
                            .status(429)
                            .header("retry-after", s)
                            .body(Full::from("{}"))
                            .unwrap());
                    }
                    Say::Reset => {
                        return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
                    }
                    Say::Unable => {
                        let refused = Error::new(Kind::Refused(Refusal::Unable));
                        return Err(refused.with_told("seed is required").into());
                    }
                    Say::Hang => std::future::pending().await,
                    Say::Html => (200, "text/html", "<html>"),
                    Say::Event => (
                        200,
                        "text/event-stream",
                        "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}\n\n",
                    ),
                    Say::Slow(s) => {
                        tokio::time::sleep(seconds(s)).await;
                        (200, "application/json", ANSWER)
                    }
                };
                Ok(Response::builder()
                    .status(status)
                    .header("content-type", media)
                    .body(Full::from(body))
                    .unwrap())
            }
        })
    }

    fn service(
        &self,
        targets: &Targets,
    ) -> Failover<
        Peek<
            impl Service<Request<()>, Response = Response<Full<Bytes>>, Error = BoxError, Future: Send>
            + Clone
            + use<>,
        >,
    > {
        ServiceBuilder::new()
            .layer(FailoverLayer::new(targets.clone()))
            .layer(PeekLayer::new())
            .service(self.client())
    }
}

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn request(timeout: Option<u64>) -> Request<()> {
    let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
    let mut settings = CallSettings::new();
    if let Some(timeout) = timeout {
        settings = settings.timeout(seconds(timeout));
    }
    request.extensions_mut().insert(Call::open(settings));
    request
}

fn ab() -> Targets {
    Targets::ordered(["a:m", "b:m"]).unwrap()
}

fn kind(error: &BoxError) -> Kind {
    Kind::of(&**error)
}

#[tokio::test(start_paused = true)]
async fn f02_goes_to_the_next_target_where_the_matrix_says_so() {
    for (say, moves) in [
        (Say::Status(500), true),
        (Say::Status(503), true),
        (Say::Status(529), true),
        (Say::Status(429), true),
        (Say::Status(401), true),
        (Say::Status(404), true),
        (Say::Status(400), false),
        (Say::Status(422), false),
        (Say::Reset, true),
        (Say::Html, true),
        (Say::Event, true),
        (Say::Hang, true),
    ] {
        let world = World::new([("a:m", &[say]), ("b:m", &[Say::Answer])]);
        let answer = world
            .service(&ab())
            .oneshot(request(Some(25)))
            .await
            .unwrap();
        let served = answer.body().state().target().unwrap().to_string();
        if moves {
            assert_eq!(served, "b:m", "{say:?}");
            assert!(answer.outcome().is_success());
            assert_eq!(
                *world.log.lock().unwrap(),
                [("a:m".into(), 1, 1), ("b:m".into(), 2, 0)]
            );
        } else {
            assert_eq!(served, "a:m", "{say:?}");
            assert_eq!(world.sent(), ["a:m"]);
        }
        assert_eq!(world.live.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn t01_a_hang_gets_its_share_and_no_more() {
    let targets = Targets::ordered(["a:m", "b:m", "c:m"]).unwrap();
    let world = World::new([
        ("a:m", &[Say::Hang]),
        ("b:m", &[Say::Hang]),
        ("c:m", &[Say::Slow(9)]),
    ]);
    let start = Instant::now();
    let request = request(Some(30));
    let call = request.extensions().get::<Call>().unwrap().clone();
    let answer = world.service(&targets).oneshot(request).await.unwrap();
    // 30 s over three targets, what is left over two, and the rest for the last.
    assert_eq!(start.elapsed(), seconds(10 + 10 + 9));
    assert!(answer.outcome().is_success());
    let kinds: Vec<_> = call
        .ledger()
        .entries
        .iter()
        .map(|e| e.kind.unwrap())
        .collect();
    let share = Kind::TimedOut(Phase::Share);
    assert_eq!(kinds, [share, share, Kind::Success]);
}

#[tokio::test(start_paused = true)]
async fn t01_each_copy_knows_when_its_share_ends() {
    let targets = Targets::ordered(["a:m", "b:m"]).unwrap();
    let copies = Arc::new(Mutex::new(Vec::new()));
    let log = copies.clone();
    let client = service_fn(move |request: Request<()>| {
        log.lock()
            .unwrap()
            .push(request.extensions().get::<Attempt>().unwrap().share_ends);
        async { Err::<Response<Full<Bytes>>, BoxError>("broken".into()) }
    });
    let start = Instant::now();
    let layers = (FailoverLayer::new(targets), PeekLayer::new());
    let service = ServiceBuilder::new().layer(layers).service(client);
    let _ = service.oneshot(request(Some(30))).await;
    assert_eq!(*copies.lock().unwrap(), [Some(start + seconds(15)), None]);
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_there_is_no_share() {
    let world = World::new([("a:m", &[Say::Slow(1000)]), ("b:m", &[Say::Answer])]);
    let answer = world.service(&ab()).oneshot(request(None)).await.unwrap();
    assert_eq!(answer.body().state().target().unwrap().as_str(), "a:m");
}

#[tokio::test(start_paused = true)]
async fn f03_all_down_passes_the_last_real_answer_on() {
    let targets = Targets::ordered(["a:m", "b:m", "c:m"]).unwrap();
    let world = World::new([
        ("a:m", &[Say::Status(500)]),
        ("b:m", &[Say::Status(503)]),
        ("c:m", &[Say::Reset]),
    ]);
    let answer = world
        .service(&targets)
        .oneshot(request(None))
        .await
        .unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "{}");
    assert_eq!(world.sent(), ["a:m", "b:m", "c:m"]);
}

#[tokio::test(start_paused = true)]
async fn f03_all_down_without_an_answer_is_one_error_that_lists_each_attempt() {
    let world = World::new([("a:m", &[Say::Reset]), ("b:m", &[Say::Html])]);
    let error = world
        .service(&ab())
        .oneshot(request(None))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(&error), Kind::Malformed);
    let all = find_cause::<AllFailed>(&*error).unwrap();
    let kinds: Vec<_> = all.attempts().iter().map(|a| a.kind).collect();
    assert_eq!(kinds, [Kind::ConnectionLost, Kind::Malformed]);
    let text = all.to_string();
    assert!(
        text.contains(
            "a:m connection_lost after 0 ms (connection reset), b:m malformed after 0 ms"
        ),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn r17_one_target_s_own_error_is_returned_as_it_is() {
    let targets = Targets::ordered(["a:m"]).unwrap();
    let world = World::new([("a:m", &[Say::Reset])]);
    let error = world
        .service(&targets)
        .oneshot(request(None))
        .await
        .map(drop)
        .unwrap_err();
    assert!(find_cause::<AllFailed>(&*error).is_none());
    assert!(find_cause::<io::Error>(&*error).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_target_rests_until_its_reset_and_is_skipped() {
    let targets = ab();
    let world = World::new([
        ("a:m", &[Say::Later(30), Say::Answer]),
        ("b:m", &[Say::Answer]),
    ]);
    let service = world.service(&targets);
    for (after, expected) in [(0, "b:m"), (29, "b:m"), (1, "a:m")] {
        tokio::time::advance(seconds(after)).await;
        let answer = service.clone().oneshot(request(None)).await.unwrap();
        let served = answer.body().state().target().unwrap().to_string();
        assert_eq!(served, expected, "after {after}");
    }
    assert_eq!(world.sent(), ["a:m", "b:m", "b:m", "a:m"]);
    assert_eq!(targets.snapshot()[0].rests, None);
}

#[tokio::test(start_paused = true)]
async fn f05_a_rest_without_a_hint_doubles_and_begins_anew_after_a_success() {
    let targets = ab();
    let world = World::new([("a:m", &[Say::Status(429)]), ("b:m", &[Say::Answer])]);
    let service = world.service(&targets);
    for expected in [10, 20, 40, 60, 60] {
        service.clone().oneshot(request(None)).await.unwrap();
        let rests = targets.snapshot()[0].rests.unwrap();
        assert_eq!(rests, seconds(expected));
        tokio::time::advance(rests).await;
    }
    // A success begins anew.
    world.set("a:m", &[Say::Answer, Say::Status(429)]);
    for _ in 0..2 {
        service.clone().oneshot(request(None)).await.unwrap();
    }
    assert_eq!(targets.snapshot()[0].rests, Some(seconds(10)));
    // When the other target fails, the guess is broken in the same call.
    world.set("b:m", &[Say::Status(503)]);
    world.set("a:m", &[Say::Answer]);
    world.log.lock().unwrap().clear();
    let answer = service.clone().oneshot(request(Some(25))).await.unwrap();
    assert!(answer.outcome().is_success());
    assert_eq!(
        *world.log.lock().unwrap(),
        [("b:m".into(), 1, 1), ("a:m".into(), 2, 0)]
    );
}

#[tokio::test(start_paused = true)]
async fn one_tenants_limit_is_not_everybodys() {
    let targets = ab().rests_per_tenant();
    let world = World::new([
        ("a:m", &[Say::Later(30), Say::Answer]),
        ("b:m", &[Say::Answer]),
    ]);
    let service = world.service(&targets);
    let by = |tenant: &'static str| {
        let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
        let call = Call::open(CallSettings::new().tenant(tenant));
        request.extensions_mut().insert(call);
        request
    };
    for (tenant, expected) in [("x", "b:m"), ("x", "b:m"), ("y", "a:m"), ("x", "b:m")] {
        let answer = service.clone().oneshot(by(tenant)).await.unwrap();
        assert_eq!(answer.body().state().target().unwrap().as_str(), expected);
    }
    assert_eq!(targets.snapshot()[0].resting_tenants, 1);
    assert_eq!(targets.snapshot()[0].rests, None);
    assert!(targets.wake(&"a:m".parse().unwrap()));
    let answer = service.clone().oneshot(by("x")).await.unwrap();
    assert_eq!(answer.body().state().target().unwrap().as_str(), "a:m");
}

#[tokio::test(start_paused = true)]
async fn f03_a_call_out_of_means_passes_on_what_came_before() {
    // Another layer of the call uses up its attempts meanwhile.
    let world = World::new([("a:m", &[Say::Status(503)]), ("b:m", &[Say::Answer])]);
    let call = Call::open(CallSettings::new().max_attempts(2));
    let spend = {
        let call = call.clone();
        let client = world.client();
        service_fn(move |request: Request<()>| {
            let (call, client) = (call.clone(), client.clone());
            async move {
                let answer = client.oneshot(request).await;
                let mut other = Request::get("/v1/models").body(()).unwrap();
                other.extensions_mut().insert(call);
                let models = service_fn(|_: Request<()>| async {
                    Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("{}")))
                });
                let peek = PeekLayer::new();
                let _ = tower::Layer::layer(&peek, models).oneshot(other).await;
                answer
            }
        })
    };
    let service = ServiceBuilder::new()
        .layer(FailoverLayer::new(ab()))
        .layer(PeekLayer::new())
        .service(spend);
    let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
    request.extensions_mut().insert(call.clone());
    let answer = service.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(call.sent(), 2);
    // Out of attempts before the first: said so.
    let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
    request.extensions_mut().insert(call);
    let error = world
        .service(&ab())
        .oneshot(request)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::AttemptsSpent));
}

#[tokio::test(start_paused = true)]
async fn the_matrix_of_a_call_is_heard() {
    // A share that is used up ends the call, by this caller's wish.
    let share = Kind::TimedOut(Phase::Share);
    let stay = llm_call::Matrix::default()[share].fail_over(false);
    let matrix = llm_call::Matrix::default().set(share, stay);
    let settings = CallSettings::new().timeout(seconds(20)).matrix(matrix);
    let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
    request.extensions_mut().insert(Call::open(settings));
    let world = World::new([("a:m", &[Say::Hang]), ("b:m", &[Say::Answer])]);
    let error = world
        .service(&ab())
        .oneshot(request)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(&error), share);
    assert_eq!(world.sent(), ["a:m"]);
}

#[tokio::test(start_paused = true)]
async fn f03_a_server_s_word_is_kept_even_when_all_rest() {
    let targets = ab();
    let world = World::new([("a:m", &[Say::Later(30)]), ("b:m", &[Say::Later(20)])]);
    let service = world.service(&targets);
    let answer = service.clone().oneshot(request(None)).await.unwrap();
    assert_eq!(answer.status(), 429, "the last real answer");
    tokio::time::advance(seconds(5)).await;
    let error = service
        .clone()
        .oneshot(request(None))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::NoTarget));
    let hint = find_cause::<Error>(&*error).unwrap().outcome().retry_after;
    assert_eq!(hint, Some(seconds(15)), "the earliest to come back");
    assert_eq!(world.sent(), ["a:m", "b:m"], "nothing was sent meanwhile");
    // By hand.
    assert!(targets.wake(&"a:m".parse().unwrap()));
    service.clone().oneshot(request(None)).await.unwrap();
    assert_eq!(world.sent().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_drained_target_is_left_out() {
    let targets = ab();
    let world = World::new([("a:m", &[Say::Answer]), ("b:m", &[Say::Answer])]);
    let service = world.service(&targets);
    let a = "a:m".parse().unwrap();
    assert!(targets.drain(&a));
    service.clone().oneshot(request(None)).await.unwrap();
    assert!(targets.restore(&a));
    service.clone().oneshot(request(None)).await.unwrap();
    assert_eq!(world.sent(), ["b:m", "a:m"]);
    assert!(!targets.drain(&"c".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn weights_share_the_calls_and_still_fail_over() {
    fastrand::seed(7);
    let targets = Targets::weighted([("a:m", 3), ("b:m", 1), ("c:m", 0)]).unwrap();
    let world = World::new([
        ("a:m", &[Say::Answer]),
        ("b:m", &[Say::Answer]),
        ("c:m", &[Say::Answer]),
    ]);
    let service = world.service(&targets);
    for _ in 0..2000 {
        service.clone().oneshot(request(None)).await.unwrap();
    }
    let sent = world.sent();
    let share = |target: &str| sent.iter().filter(|t| *t == target).count();
    assert!((1400..1600).contains(&share("a:m")), "{}", share("a:m"));
    assert_eq!(share("c:m"), 0);
    // Each is tried once.
    for target in ["a:m", "b:m", "c:m"] {
        world.set(target, &[Say::Reset]);
    }
    world.log.lock().unwrap().clear();
    service
        .clone()
        .oneshot(request(None))
        .await
        .map(drop)
        .unwrap_err();
    let tried: HashSet<_> = world.sent().into_iter().collect();
    assert_eq!((world.sent().len(), tried.len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn f07_a_provider_that_cannot_be_reached_is_left_for_another_at_once() {
    let targets = Targets::ordered(["a:m", "a:n", "b:m"]).unwrap();
    for (say, expected) in [
        (Say::Reset, vec!["a:m", "b:m", "a:n"]),
        (Say::Hang, vec!["a:m", "b:m", "a:n"]),
        // A failure of the model: the order as given.
        (Say::Status(500), vec!["a:m", "a:n", "b:m"]),
    ] {
        let world = World::new([("a:m", &[say]), ("a:n", &[say]), ("b:m", &[say])]);
        let asked = world.service(&targets).oneshot(request(Some(25)));
        // The last target has all of the time that is left; here nobody ends it.
        let _ = tokio::time::timeout(seconds(60), asked).await;
        assert_eq!(world.sent(), expected, "{say:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn f10_calls_of_one_affinity_begin_at_one_target_and_few_move_on_failure() {
    let names = ["a", "b", "c", "d"];
    let targets = Targets::weighted(names.map(|name| (name, 1))).unwrap();
    let world = World::new(names.map(|name| (name, &[Say::Answer][..])));
    let service = world.service(&targets);
    let ask = async |key: u32| {
        let mut request = Request::post("/v1/chat/completions").body(()).unwrap();
        let call = Call::open(CallSettings::new().affinity(key));
        request.extensions_mut().insert(call);
        let answer = service.clone().oneshot(request).await.unwrap();
        answer.body().state().target().unwrap().to_string()
    };
    let mut at = Vec::new();
    for key in 0..200 {
        at.push(ask(key).await);
        assert_eq!(ask(key).await, at[key as usize]);
    }
    for name in names {
        let share = at.iter().filter(|served| *served == name).count();
        assert!((25..75).contains(&share), "{name} {share}");
    }
    // Those of the failed target go elsewhere, and nobody else does.
    world.set("a", &[Say::Status(503)]);
    for key in 0..200 {
        let now = ask(key).await;
        let before = &at[key as usize];
        assert_eq!(now != *before, before == "a", "{key}: {before} -> {now}");
        assert_ne!(now, "a");
    }
}

#[tokio::test(start_paused = true)]
async fn c04_the_cap_on_attempts_holds() {
    let names = ["a", "b", "c", "d"];
    let targets = Targets::ordered(names).unwrap();
    let world = World::new(names.map(|name| (name, &[Say::Reset][..])));
    let mut request = request(None);
    let call = Call::open(CallSettings::new().max_attempts(2));
    request.extensions_mut().insert(call.clone());
    let error = world
        .service(&targets)
        .oneshot(request)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(world.sent(), ["a", "b"]);
    assert_eq!(
        kind(&error),
        Kind::ConnectionLost,
        "the last error, not the cap"
    );
    assert_eq!(call.sent(), 2);
}

#[tokio::test(start_paused = true)]
async fn f02_a_target_that_another_copy_has_taken_is_left_to_it() {
    let world = World::new([("a:m", &[Say::Answer]), ("b:m", &[Say::Answer])]);
    let request = request(None);
    let call = request.extensions().get::<Call>().unwrap().clone();
    let lease = call.lease(&"a:m".parse().unwrap()).unwrap();
    world.service(&ab()).oneshot(request).await.unwrap();
    assert_eq!(world.sent(), ["b:m"]);
    drop(lease);
    assert!(!call.is_free(&"a:m".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_refused_target_is_given_back_and_noted() {
    let refuse = service_fn(|request: Request<()>| {
        let attempt = request.extensions().get::<Attempt>().unwrap().clone();
        async move {
            let target = attempt.target;
            Err::<Response<llm_call::Peeked<Full<Bytes>>>, BoxError>(
                Error::new(Kind::Refused(Refusal::CircuitOpen))
                    .with_target(target)
                    .into(),
            )
        }
    });
    let service = FailoverLayer::new(ab());
    let service = tower::Layer::layer(&service, refuse);
    let request = request(None);
    let call = request.extensions().get::<Call>().unwrap().clone();
    let error = service.oneshot(request).await.map(drop).unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::CircuitOpen));
    assert!(call.is_free(&"a:m".parse().unwrap()) && call.is_free(&"b:m".parse().unwrap()));
    let ledger = call.ledger();
    assert_eq!(ledger.entries.len(), 2);
    assert_eq!(ledger.sent().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn t07_nothing_is_sent_once_the_deadline_has_passed() {
    let world = World::new([("a:m", &[Say::Answer]), ("b:m", &[Say::Answer])]);
    let request = request(Some(1));
    tokio::time::advance(seconds(1)).await;
    let error = world
        .service(&ab())
        .oneshot(request)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(kind(&error), Kind::TimedOut(Phase::Deadline));
    assert!(world.sent().is_empty());
}

#[tokio::test(start_paused = true)]
async fn r18_one_permit_is_enough() {
    let world = World::new([
        ("a:m", &[Say::Status(503)]),
        ("b:m", &[Say::Reset]),
        ("c:m", &[Say::Answer]),
    ]);
    let targets = Targets::ordered(["a:m", "b:m", "c:m"]).unwrap();
    let service = ServiceBuilder::new()
        .layer(FailoverLayer::new(targets))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(PeekLayer::new())
        .service(world.client());
    for _ in 0..3 {
        let answer = service.clone().oneshot(request(Some(25))).await.unwrap();
        assert!(answer.outcome().is_success());
    }
}

#[tokio::test(start_paused = true)]
async fn c03_a_dropped_future_leaves_nothing() {
    let world = World::new([("a:m", &[Say::Slow(1), Say::Hang]), ("b:m", &[Say::Hang])]);
    let targets = ab();
    for polls in 0..4 {
        let mut call = Box::pin(world.service(&targets).oneshot(request(Some(4))));
        for _ in 0..polls {
            let polled = tokio::time::timeout(seconds(1), &mut call).await;
            if polled.is_ok() {
                break;
            }
        }
        drop(call);
        assert_eq!(world.live.load(Ordering::SeqCst), 0, "after {polls} polls");
    }
}

#[tokio::test]
async fn by_target_picks_the_client() {
    let client = |name: &'static str| {
        service_fn(move |_: Request<()>| async move { Ok::<_, BoxError>(name) }).boxed_clone()
    };
    let addressed = |target: &str| {
        let mut request = Request::new(());
        let target = Some(target.parse().unwrap());
        request
            .extensions_mut()
            .insert(Attempt::new(1).with_target(target));
        request
    };
    let service = ByTarget::new(client("default")).with("eu", client("eu"));
    assert_eq!(
        service.clone().oneshot(addressed("eu:m")).await.unwrap(),
        "eu"
    );
    assert_eq!(
        service.clone().oneshot(addressed("us:m")).await.unwrap(),
        "default"
    );
    assert_eq!(service.oneshot(Request::new(())).await.unwrap(), "default");
    let strict = ByTarget::strict().with("eu", client("eu"));
    let error = strict.oneshot(addressed("us:m")).await.unwrap_err();
    assert_eq!(kind(&error), Kind::NotFound);
}

#[test]
fn targets_that_cannot_work_are_refused() {
    let none: [&str; 0] = [];
    assert_eq!(Targets::ordered(none).unwrap_err(), InvalidTargets::Empty);
    let many: Vec<_> = (0..65).map(|i| format!("p{i}")).collect();
    assert_eq!(
        Targets::ordered(&many).unwrap_err(),
        InvalidTargets::TooMany
    );
    assert!(Targets::ordered(&many[..64]).is_ok());
    assert!(matches!(
        Targets::ordered(["a:m", "a:m"]).unwrap_err(),
        InvalidTargets::Twice(_)
    ));
    assert_eq!(
        Targets::weighted([("a", 0)]).unwrap_err(),
        InvalidTargets::NoWeight
    );
    assert!(matches!(
        Targets::ordered(["a\n"]).unwrap_err(),
        InvalidTargets::Target(_)
    ));
}

/// A request that has been read: what it asks for.
fn asking(facts: Facts) -> (Request<()>, Call) {
    let request = request(Some(25));
    let call = request.extensions().get::<Call>().unwrap().clone();
    call.set_facts(facts);
    (request, call)
}

fn needs(set: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = Facts::default();
    set(&mut facts);
    facts
}

#[tokio::test(start_paused = true)]
async fn f09_a_target_that_cannot_serve_a_request_is_passed_over_and_that_is_said() {
    let able = |target: &Target| match target.provider() {
        "a" => Some(Abilities::new().tools(false).context_window(100)),
        "b" => Some(Abilities::new().images(false)),
        _ => None,
    };
    for targets in [
        ab().abilities(able),
        Targets::weighted([("a:m", 1), ("b:m", 0)])
            .unwrap()
            .abilities(able),
    ] {
        let says: [(&str, &[Say]); 2] = [("a:m", &[Say::Status(503)]), ("b:m", &[Say::Answer])];
        // Nothing is asked for that one of them lacks.
        let world = World::new(says);
        let (plain, call) = asking(Facts::default());
        world.service(&targets).oneshot(plain).await.unwrap();
        assert_eq!(world.sent(), ["a:m", "b:m"]);
        assert!(call.ledger().entries.iter().all(|entry| entry.n > 0));

        // Tools: only `b` has them.
        let world = World::new(says);
        let (tools, call) = asking(needs(|facts| facts.tools = true));
        world.service(&targets).oneshot(tools).await.unwrap();
        assert_eq!(*world.log.lock().unwrap(), [("b:m".into(), 1, 0)]);
        let passed = &call.ledger().entries[0];
        assert_eq!(passed.kind, Some(Kind::Refused(Refusal::Unable)));
        assert_eq!(passed.target.as_ref().unwrap().provider(), "a");

        // Both: nobody has them.
        let world = World::new(says);
        let both = needs(|facts| (facts.tools, facts.images) = (true, true));
        let (both, _) = asking(both);
        let error = world.service(&targets).oneshot(both).await.unwrap_err();
        assert_eq!(kind(&error), Kind::Refused(Refusal::Unable));
        assert!(error.to_string().contains("it needs tools"), "{error}");
        assert!(world.sent().is_empty());

        // Its window looks too small: it is asked last, and after a failure it is asked.
        let world = World::new([("a:m", &[Say::Answer]), ("b:m", &[Say::Status(503)])]);
        let (long, _) = asking(needs(|facts| facts.input_tokens = 101));
        world.service(&targets).oneshot(long).await.unwrap();
        assert_eq!(
            *world.log.lock().unwrap(),
            [("b:m".into(), 1, 1), ("a:m".into(), 2, 0)]
        );
    }
    // The only one there is is asked, whatever the estimate says.
    let targets = Targets::weighted([("a:m", 1)]).unwrap().abilities(able);
    let world = World::new([("a:m", &[Say::Answer])]);
    let (long, _) = asking(needs(|facts| facts.input_tokens = 101));
    world.service(&targets).oneshot(long).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f09_a_target_that_refuses_as_unable_is_left_and_hides_no_failure() {
    let world = World::new([("a:m", &[Say::Unable]), ("b:m", &[Say::Answer])]);
    world.service(&ab()).oneshot(request(None)).await.unwrap();

    // Nobody is able: the caller is told of what.
    let world = World::new([("a:m", &[Say::Unable]), ("b:m", &[Say::Unable])]);
    let (asked, call) = asking(Facts::default());
    let error = world.service(&ab()).oneshot(asked).await.unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::Unable));
    let told = find_cause::<Error>(&*error).unwrap().told();
    assert_eq!(told, Some("seed is required"));
    let unable = Some(Kind::Refused(Refusal::Unable));
    let noted = |entry: &llm_call::Entry| !entry.sent && entry.kind == unable;
    assert_eq!(call.ledger().entries.iter().filter(|e| noted(e)).count(), 2);

    for says in [[Say::Reset, Say::Unable], [Say::Unable, Say::Reset]] {
        let world = World::new([("a:m", &says[..1]), ("b:m", &says[1..])]);
        let error = world.service(&ab()).oneshot(request(None)).await;
        assert_eq!(kind(&error.unwrap_err()), Kind::ConnectionLost);
    }
}
