//! The orders in which threads can run:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p llm-bulkhead --test shuttle`.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{convert::Infallible, pin::pin, task::Poll, time::Duration};

use http::{Request, Response};
use http_body_util::Full;
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool, Settings};
use llm_call::{Call, CallSettings};
use shuttle::{
    future::block_on,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use tower::{Layer, Service};

/// Runs `test` in many orders. Time stands still: a lost wake-up is a deadlock.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _context = runtime.enter();
    shuttle::check_random(test, 5_000);
}

fn request(tenant: &'static str) -> Request<()> {
    let mut request = Request::new(());
    let settings = CallSettings::new().tenant(tenant);
    request.extensions_mut().insert(Call::open(settings));
    request
}

/// One call, which gives up after so many polls that found nothing.
fn call(bulkhead: &Bulkhead, live: &AtomicUsize, most: usize, tenant: &'static str, polls: usize) {
    let client = tower::service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::from("body")))
    });
    let mut service = BulkheadLayer::new(bulkhead.clone()).layer(client);
    let mut sent = pin!(service.call(request(tenant)));
    let mut left = polls;
    let answer = block_on(std::future::poll_fn(|cx| match sent.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    }));
    if let Some(answer) = answer {
        let body = answer.unwrap().into_body();
        assert!(live.fetch_add(1, Ordering::SeqCst) < most);
        thread::yield_now();
        live.fetch_sub(1, Ordering::SeqCst);
        drop(body);
    }
}

fn is_empty(bulkhead: &Bulkhead) {
    let snapshot = bulkhead.snapshot();
    assert_eq!(snapshot.in_flight, 0);
    for pool in snapshot.pools {
        assert_eq!((pool.in_flight, pool.queued), (0, 0));
        assert!(pool.tenants.is_empty());
    }
}

fn race(settings: Settings, most: usize, calls: [(&'static str, usize); 3]) {
    let bulkhead = settings.build().unwrap();
    let live = Arc::new(AtomicUsize::new(0));
    let threads = calls.map(|(tenant, polls)| {
        let (bulkhead, live) = (bulkhead.clone(), live.clone());
        thread::spawn(move || call(&bulkhead, &live, most, tenant, polls))
    });
    for thread in threads {
        thread.join().unwrap();
    }
    is_empty(&bulkhead);
}

fn patient(limit: usize) -> Pool {
    Pool::new(limit).queue(9).wait(Duration::MAX)
}

const NEVER: usize = usize::MAX;

#[test]
fn k01_k02_three_calls_for_one_permit_are_all_served() {
    check(|| {
        race(
            Settings::new(patient(1)),
            1,
            [("a", NEVER), ("b", NEVER), ("a", NEVER)],
        );
    });
}

#[test]
fn k02_one_that_leaves_while_it_is_served_passes_its_permit_on() {
    check(|| {
        race(
            Settings::new(patient(1)),
            1,
            [("a", NEVER), ("b", 0), ("c", NEVER)],
        );
    });
}

#[test]
fn k01_k02_under_a_limit_over_all_pools_and_one_for_each_tenant() {
    check(|| {
        let pool = patient(3).tenant_limit(1);
        race(
            Settings::new(pool).total_limit(2),
            2,
            [("a", NEVER), ("a", 0), ("b", NEVER)],
        );
    });
}
