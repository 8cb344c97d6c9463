//! What is held: by an open stream for as long as it is open, and for each target and tenant that
//! was seen.
//!
//! `cargo bench -p benches --bench memory` counts bytes of the heap. It is no part of the other benches
//! since a counting allocator would slow them down.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use std::num::NonZeroU32;

use allocation_counter::measure;
use benches::{
    Form, Req, Upstream, committed,
    ended::AtOnce,
    identified,
    keys::{Keys, resting_tenants},
    ours::{breaker, bulkhead, bulkhead_by_target, hedge, peek, retry, stack, targets},
    read_on, request, run, wire,
};
use http::{Request, Response};
use http_body::Body;
use llm_call::BoxError;
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Layer, Service};

/// Bytes of an open stream: once its first token has come, and while it waits for what comes next.
fn held<S, B>(mut service: S, make: fn(Form) -> Req) -> [i64; 2]
where
    S: Service<Req, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    const BEFORE_THE_PAUSE: NonZeroU32 = NonZeroU32::new(5).unwrap();
    let frames = wire::openai(10);
    let mut commit = || {
        Upstream::prepare_pausing(&frames, BEFORE_THE_PAUSE);
        committed(&mut service, make(Form::Streamed))
    };
    // The first call may fill what later ones use.
    drop(commit());
    let mut body = None;
    let at_commit = measure(|| body = Some(commit())).bytes_current;
    let mut body = body.unwrap();
    let more = measure(|| {
        let (frames, ended) = read_on(body.as_mut());
        assert!(frames == 5 && !ended);
    });
    [at_commit, at_commit + more.bytes_current]
}

/// Bytes for each of the keys, and how many entries the table had room for is a part of it.
fn kept<S, B>(keys: &Keys, mut service: S) -> f64
where
    S: Service<Request<()>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    AtOnce::warm_up();
    let taken = measure(|| keys.call_each(&mut service));
    taken.bytes_current as f64 / keys.len() as f64
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn streams() {
    println!("Bytes of the heap that an open stream holds:\n");
    println!("| layer | after the first token | while it waits | beyond Peek in a call |");
    println!("| --- | ---: | ---: | ---: |");
    let in_a_call = held(peek(), identified);
    let line = |name: &str, [at_commit, waiting]: [i64; 2]| {
        let beyond = waiting - in_a_call[1];
        println!("| {name} | {at_commit} | {waiting} | {beyond} |");
    };
    println!(
        "| no layer | {} | {} |  |",
        held(Upstream, request)[0],
        held(Upstream, request)[1]
    );
    let alone = held(peek(), request);
    println!("| Peek | {} | {} |  |", alone[0], alone[1]);
    line("Peek, in a call", in_a_call);
    line("Breaker", held(breaker().layer(peek()), identified));
    line("Retry", held(retry().layer(peek()), identified));
    line("Bulkhead", held(bulkhead().layer(peek()), identified));
    line("Hedge", held(hedge().layer(peek()), identified));
    line(
        "Timeout",
        held(TimeoutLayer::new().layer(peek()), identified),
    );
    line(
        "Deadline",
        held(DeadlineLayer::default().layer(peek()), identified),
    );
    line(
        "Failover (2 targets)",
        held(targets(2).layer(peek()), identified),
    );
    line("the whole stack", held(stack(), request));
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn tables(count: usize) {
    let (targets, tenants) = (Keys::targets(count), Keys::tenants(count));
    println!("\nBytes of the heap for each of {count} targets or tenants:\n");
    println!("| what | bytes each |");
    println!("| --- | ---: |");
    let line = |name: &str, bytes: f64| println!("| {name} | {bytes:.0} |");
    line(
        "Breaker: a circuit a target",
        kept(&targets, breaker().layer(AtOnce)),
    );
    line(
        "Retry: a share of the budget a target",
        kept(&targets, retry().layer(AtOnce)),
    );
    line(
        "Bulkhead: a pool a target",
        kept(&targets, bulkhead_by_target().layer(AtOnce)),
    );
    line(
        "Bulkhead: a tenant that has no call under way",
        kept(&tenants, bulkhead().layer(AtOnce)),
    );
    line(
        "Hedge: a share of the budget a tenant",
        kept(&tenants, hedge().layer(AtOnce)),
    );
    let mut resting = None;
    let taken = measure(|| resting = Some(resting_tenants(&tenants)));
    line(
        "Failover: a rest a tenant",
        taken.bytes_current as f64 / count as f64,
    );
}

fn main() {
    // Timers want a runtime to be there; none of them has to fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    streams();
    tables(if run::asked().test { 100 } else { 10_000 });
}
