//! The contract of a tower service, and what dropping does.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use http_body_util::BodyExt;
use llm_bulkhead::{BulkheadLayer, Pool};
use llm_call::{Kind, PeekLayer, Refusal, detach};
use llm_chaos::testing::{BodyStep, Fuzzed, Respond, Strict, drop_fuzz, drop_fuzz_body, service};
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn k12_an_idle_clone_that_is_ready_holds_nothing() {
    let world = over(Pool::new(1), good());
    let mut clones: Vec<Stack> = (0..10).map(|_| world.stack.clone()).collect();
    for clone in &mut clones {
        let mut cx = Context::from_waker(Waker::noop());
        let ready = Service::<http::Request<String>>::poll_ready(clone, &mut cx);
        assert!(matches!(ready, Poll::Ready(Ok(()))));
    }
    assert_eq!(world.counts(), (0, 0));
    // `Strict` is below: each call goes to a service that was made ready.
    for clone in &mut clones {
        let _ = clone.call(request()).await.unwrap();
    }
    assert_eq!(world.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn k01_never_more_than_the_limit_and_all_are_served() {
    let world = over(Pool::new(3).queue(50).wait(s(100)), good().after(s(1)));
    let began = Instant::now();
    let calls = (0..30).map(|_| world.call(request()));
    let (results, most) = tokio::join!(futures_util::future::join_all(calls), async {
        let mut most = 0;
        for _ in 0..100 {
            tokio::time::sleep(s(1) / 10).await;
            assert_eq!(world.gauges.live(), world.counts().0);
            most = most.max(world.gauges.live());
        }
        most
    });
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(most, 3);
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(world.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_permit_below_is_enough_for_call_after_call() {
    let bulkhead = shared(Pool::new(5).queue(50).wait(s(100)));
    let stack = ServiceBuilder::new()
        .layer(BulkheadLayer::new(bulkhead.clone()))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Strict::new(service([good().after(s(1))])));
    let calls = (0..20).map(|_| async {
        let response = stack.clone().oneshot(request()).await?;
        response.into_body().collect().await
    });
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(bulkhead.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn k02_a_future_that_is_dropped_at_any_poll_leaves_nothing() {
    let world = over(Pool::new(1).wait(s(3)), good().after(s(1)));
    let check = |k| {
        assert_eq!(world.gauges.live(), 0, "{k}");
        assert_eq!(world.counts(), (0, 0), "{k}");
    };
    let ended = drop_fuzz(|| world.call(request()), check).await;
    assert!(matches!(ended, Fuzzed::Finished(_)));
    // Behind one that is under way for two seconds more.
    let held = world.begin(request());
    let check = |k| assert_eq!(world.counts(), (1, 0), "{k}");
    let ended = drop_fuzz(|| world.call(request()), check).await;
    assert!(matches!(ended, Fuzzed::Finished(_)));
    drop(held);
    check_idle(&world);
}

fn check_idle(world: &World) {
    assert_eq!(world.counts(), (0, 0));
    assert!(world.pool("default").tenants.is_empty());
}

#[tokio::test(start_paused = true)]
async fn k01_a_body_that_is_dropped_at_any_frame_gives_its_permit_back() {
    let steps = ["a", "b", "c"].map(BodyStep::from);
    let world = over(Pool::new(1), Respond::ok(steps));
    let make = || async {
        let response = world.stack.clone().oneshot(by("t")).await.unwrap();
        assert_eq!(world.counts(), (1, 0));
        response.into_body()
    };
    let ended = drop_fuzz_body(make, |k| {
        assert_eq!(world.gauges.live(), 0, "{k}");
        check_idle(&world);
    })
    .await;
    assert!(matches!(ended, Fuzzed::Finished(_)));
}

#[tokio::test(start_paused = true)]
async fn k02_a_permit_that_was_given_to_a_waiter_that_leaves_goes_to_the_next() {
    let world = over(Pool::new(1), Respond::hang());
    let first = world.begin(request());
    let second = world.begin(request());
    drop(first);
    // It is granted and has not looked.
    assert_eq!(world.counts(), (1, 0));
    let mut third = world.begin(request());
    assert_eq!(world.counts(), (1, 1));
    drop(second);
    assert_eq!(world.counts(), (1, 0));
    assert!(poll(&mut third).is_pending());
    assert_eq!(world.gauges.live_futures(), 1);
    drop(third);
    check_idle(&world);
}

#[tokio::test(start_paused = true)]
async fn k07_a_freed_permit_wakes_one() {
    use futures_util::task::{ArcWake, waker};
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    struct Count(AtomicUsize);
    impl ArcWake for Count {
        fn wake_by_ref(this: &Arc<Count>) {
            this.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let world = over(Pool::new(1).queue(100), Respond::hang());
    let first = world.begin(request());
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = waker(count.clone());
    let mut waiting: Vec<Sent> = (0..50).map(|_| world.begin(request())).collect();
    for sent in &mut waiting {
        assert!(
            sent.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    drop(first);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
}

/// Wakers run code of others when they are cloned and dropped too: a task that ends with its last
/// waker drops the calls that it holds.
#[test]
fn c06_no_waker_is_touched_under_the_lock() {
    use futures_util::task::{ArcWake, waker};
    use std::sync::{Arc, Mutex, mpsc};
    struct Task(Mutex<Option<Sent>>, mpsc::Sender<()>);
    impl Drop for Task {
        fn drop(&mut self) {
            drop(self.0.lock().unwrap().take());
            self.1.send(()).unwrap();
        }
    }
    impl ArcWake for Task {
        fn wake_by_ref(_: &Arc<Task>) {}
    }
    let (done, dropped) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let world = over(Pool::new(1).queue(9), Respond::hang());
            let _first = world.begin(request());
            let task = || {
                let held = Mutex::new(Some(world.begin(request())));
                waker(Arc::new(Task(held, done.clone())))
            };
            let poll_as_task = |sent: &mut Sent| {
                let pending = sent.as_mut().poll(&mut Context::from_waker(&task()));
                assert!(pending.is_pending());
            };
            // Another waker takes its place.
            let mut sent = world.begin(request());
            poll_as_task(&mut sent);
            assert!(poll(&mut sent).is_pending());
            // It leaves.
            poll_as_task(&mut sent);
            drop(sent);
            // Its time is over.
            let mut sent = world.begin(request());
            poll_as_task(&mut sent);
            tokio::time::advance(s(3)).await;
            assert!(poll(&mut sent).is_ready());
            assert_eq!(world.counts(), (1, 0));
        });
    });
    for _ in 0..3 {
        dropped.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn k02_a_panic_of_the_inner_service_gives_the_permit_back() {
    let bulkhead = shared(Pool::new(1));
    let stack = tower::Layer::layer(
        &BulkheadLayer::new(bulkhead.clone()),
        tower::service_fn(async |_: http::Request<String>| {
            if bulkhead_is_on_fire() {
                panic!("inner");
            }
            Ok::<_, std::io::Error>(http::Response::new(String::new()))
        }),
    );
    let sent = std::panic::AssertUnwindSafe(stack.oneshot(request()));
    assert!(futures_util::FutureExt::catch_unwind(sent).await.is_err());
    assert_eq!(bulkhead.snapshot().in_flight, 0);
}

fn bulkhead_is_on_fire() -> bool {
    true
}

#[tokio::test(start_paused = true)]
async fn k03_a_wait_of_zero_never_parks() {
    let world = over(Pool::new(1).wait(s(0)), Respond::hang());
    let _held = world.begin(request());
    let mut refused: Sent = Box::pin(world.stack.clone().oneshot(request()));
    let Poll::Ready(Err(error)) = poll(&mut refused) else {
        panic!("it waits");
    };
    assert_eq!(kind(&error), Kind::Refused(Refusal::BulkheadFull));
    assert_eq!(world.pool("default").rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn k03_a_call_waits_no_longer_than_it_may_and_not_beyond_its_deadline() {
    let world = over(Pool::new(1), Respond::hang());
    let _held = world.begin(request());
    for (deadline, expected) in [(None, 2_000), (Some(s(9)), 2_000), (Some(s(1)), 1_000)] {
        let settings = llm_call::CallSettings::new();
        let settings = match deadline {
            Some(deadline) => settings.timeout(deadline),
            None => settings,
        };
        let began = Instant::now();
        let error = world.call(of(settings)).await.unwrap_err();
        assert_eq!(full(&error).in_flight, 1);
        assert_eq!(began.elapsed().as_millis(), expected);
        // With no time left nobody is told to come back, or sent elsewhere.
        let kind = llm_call::Kind::of(&*error);
        let is_late = kind == llm_call::Kind::TimedOut(llm_call::Phase::Deadline);
        assert_eq!(is_late, expected < 2_000, "{kind}");
    }
    assert_eq!(world.counts(), (1, 0));
    assert_eq!(world.gauges.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn k07_who_waited_too_long_and_never_looked_takes_no_place() {
    let world = over(Pool::new(1).queue(1), Respond::hang());
    let _held = world.begin(request());
    for tenant in ["a", "b", "b"] {
        let _unpolled = world.begin(by(tenant));
        tokio::time::advance(s(3)).await;
        let next = world.begin(by("b"));
        assert_eq!(world.counts(), (1, 1));
        drop(next);
    }
    assert_eq!(world.pool("default").rejected, 3);
    assert_eq!(world.pool("default").tenants.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k03_who_looks_after_readers_while_it_waits_waits_all_its_time() {
    let pool = Pool::new(1).queue(9).wait(s(40)).abandon_after(s(120));
    let world = over(pool, Respond::hang());
    let _held = world.begin(request());
    let waits = async |after: u64| {
        tokio::time::sleep(s(after)).await;
        let began = Instant::now();
        world.call(request()).await.unwrap_err();
        assert_eq!(began.elapsed(), s(40));
    };
    tokio::join!(waits(0), waits(0), waits(7), waits(16));
}

#[tokio::test(start_paused = true)]
async fn k03_a_wait_without_end_does_not_overflow() {
    let world = over(
        Pool::new(1).wait(std::time::Duration::MAX),
        good().after(s(60)),
    );
    let (a, b) = tokio::join!(world.call(request()), world.call(request()));
    assert!(a.is_ok() && b.is_ok());
    let _held = world.begin(request());
    assert!(timeout(s(10), world.call(request())).await.is_err());
}

#[test]
fn it_is_send_and_sync_where_the_inner_service_is() {
    fn check<T: Send + Sync + Clone + std::fmt::Debug>(_: &T) {}
    let world = over(Pool::new(1), good());
    check(&world.stack);
    check(&world.bulkhead);
    check(&BulkheadLayer::new(world.bulkhead.clone()));
    let text = format!("{:?}", world.stack);
    assert!(
        text.contains("default") && text.contains("BodyEnd"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn k01_a_failed_answer_that_is_kept_holds_no_permit() {
    let failed = Respond::status(http::StatusCode::SERVICE_UNAVAILABLE, ["{\"error\":{}}"])
        .header("content-type", "application/json");
    let bulkhead = shared(Pool::new(1));
    let stack = ServiceBuilder::new()
        .layer(BulkheadLayer::new(bulkhead.clone()))
        .layer(PeekLayer::new())
        .service(Strict::new(service([failed])));
    let answer = stack.oneshot(request()).await.unwrap();
    assert_eq!(bulkhead.snapshot().in_flight, 1);
    let kept = detach(answer).unwrap();
    assert_eq!(bulkhead.snapshot().in_flight, 0);
    let body = kept.into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "{\"error\":{}}");
}
