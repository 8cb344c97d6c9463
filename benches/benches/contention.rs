//! What tasks on two threads cost each other when they share a layer.
//!
//! `cargo bench -p benches --bench contention` prints ns of wall time a call, over the calls of all
//! tasks. Each task calls a clone of one service, again and again, and never waits. The upstream
//! does next to nothing, so the layer is all that the tasks meet in: this is its worst case.
//!
//! Two threads that take turns on one CPU hardly disturb each other, so each has a CPU of its own,
//! and what was measured while somebody else used one of them is thrown away.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use std::{
    collections::HashMap,
    hint::black_box,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use benches::{
    PRIMARY,
    ended::{AtOnce, Ended},
    ours::{ROOM, breaker as ours, bulkhead, bulkhead_by_target},
    run::{self, Patience},
    samples::median,
    theirs::seatbelt_breaker,
};
use futures_util::future::join_all;
use http::Request;
use llm_call::{Attempt, BoxError, Target};
use seatbelt::breaker;
use tokio::runtime::Runtime;
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimitLayer};
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::CircuitBreakerLayer;

const TASKS: [usize; 3] = [1, 2, 16];

/// Calls of all tasks in one measurement: a few ms, so that waking a thread hardly counts.
const CALLS: usize = 1 << 13;
const ROUNDS: usize = 101;

/// How often a free moment is looked for, and how long to wait for the next one.
const TRIES: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(5);

type Req = Request<()>;

/// A layer under so many tasks.
struct Row {
    name: &'static str,
    /// ns of wall time for each of the calls.
    run: Box<dyn Fn(&Runtime, usize, usize) -> f64>,
}

/// Who is called for.
#[derive(Clone, Copy)]
enum Targets {
    One,
    OneForEachTask,
}

impl Row {
    fn new<S>(name: &'static str, targets: Targets, service: S) -> Row
    where
        S: Service<Req, Response: Send> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
    {
        let run = move |runtime: &Runtime, tasks: usize, calls: usize| {
            let shared: Target = PRIMARY.parse().unwrap();
            let spawned = (0..tasks).map(|task| {
                let target = match targets {
                    Targets::One => shared.clone(),
                    Targets::OneForEachTask => format!("{PRIMARY}-{task}").parse().unwrap(),
                };
                runtime.spawn(run_task(service.clone(), target, calls / tasks))
            });
            let spans = runtime.block_on(join_all(spawned.collect::<Vec<_>>()));
            let (starts, ends): (Vec<_>, Vec<_>) = spans.into_iter().map(Result::unwrap).unzip();
            let wall = *ends.iter().max().unwrap() - *starts.iter().min().unwrap();
            wall.as_nanos() as f64 / calls as f64
        };
        Row {
            name,
            run: Box::new(run),
        }
    }
}

/// Makes calls; from when to when.
async fn run_task<S>(mut service: S, target: Target, calls: usize) -> (Instant, Instant)
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
{
    let fresh = || {
        let mut request = Request::new(());
        let attempt = Attempt::new(1).with_target(Some(target.clone()));
        request.extensions_mut().insert(attempt);
        request
    };
    // Those of the task before this one may have had another target.
    while AtOnce::spare().is_some() {}
    let start = now();
    for _ in 0..calls {
        let request = AtOnce::spare().unwrap_or_else(fresh);
        let service = service.ready().await.map_err(Into::into).unwrap();
        let response = service.call(request).await.map_err(Into::into).unwrap();
        drop(black_box(response));
    }
    (start, now())
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn rows() -> Vec<Row> {
    let resilience = CircuitBreakerLayer::builder().build().unwrap();
    let by_id = seatbelt_breaker::<Req, Ended>().breaker_id(|_| breaker::BreakerId::from(PRIMARY));
    let permits = BulkheadLayer::builder().max_concurrent_calls(ROOM);
    let permits = permits.build().unwrap();
    let limit = ConcurrencyLimitLayer::new(ROOM);
    vec![
        Row::new("no layer", Targets::One, AtOnce),
        Row::new("Breaker, one target", Targets::One, ours().layer(AtOnce)),
        Row::new(
            "Breaker, a target for each task",
            Targets::OneForEachTask,
            ours().layer(AtOnce),
        ),
        Row::new(
            "tower-resilience Breaker",
            Targets::One,
            resilience.layer(AtOnce),
        ),
        Row::new("seatbelt Breaker, by id", Targets::One, by_id.layer(AtOnce)),
        Row::new("Bulkhead, one pool", Targets::One, bulkhead().layer(AtOnce)),
        Row::new(
            "Bulkhead, a pool for each task",
            Targets::OneForEachTask,
            bulkhead_by_target().layer(AtOnce),
        ),
        Row::new("tower ConcurrencyLimit", Targets::One, limit.layer(AtOnce)),
        Row::new(
            "tower-resilience Bulkhead",
            Targets::One,
            permits.layer(AtOnce),
        ),
    ]
}

/// All rows take turns, as in the table of `overhead`. By row and number of tasks.
fn measure(
    runtime: &Runtime,
    rows: &[Row],
    patience: Patience,
) -> HashMap<(&'static str, usize), Vec<f64>> {
    let probe = Row::new("no layer", Targets::One, AtOnce);
    let is_free = || {
        let [one, two] = [1, 2].map(|tasks| (probe.run)(runtime, tasks, CALLS));
        one / two > 1.8
    };
    let free = |row: &Row, tasks| {
        for _ in 0..TRIES {
            if is_free() {
                let wall = (row.run)(runtime, tasks, CALLS);
                if is_free() {
                    return wall;
                }
            }
            pause();
        }
        panic!("two CPUs are never free at the same time");
    };
    let mut samples: HashMap<_, Vec<f64>> = HashMap::new();
    for _ in 0..patience.rounds(ROUNDS) {
        for row in rows {
            for tasks in TASKS {
                let wall = free(row, tasks);
                samples.entry((row.name, tasks)).or_default().push(wall);
            }
        }
    }
    samples
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing else is to run meanwhile"
)]
fn pause() {
    thread::sleep(PAUSE);
}

/// Two worker threads on two CPUs.
fn two_threads() -> Runtime {
    let cpus = Mutex::new(core_affinity::get_core_ids().unwrap_or_default());
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(move || {
            if let Some(cpu) = cpus.lock().unwrap().pop() {
                core_affinity::set_for_current(cpu);
            }
        })
        .enable_time()
        .build()
        .unwrap()
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn main() {
    let runtime = two_threads();
    let _entered = runtime.enter();
    AtOnce::warm_up();
    let rows = rows();
    let asked = run::asked();
    if asked.test {
        for row in &rows {
            for tasks in TASKS {
                (row.run)(&runtime, tasks, TASKS[2]);
            }
        }
        return;
    }
    let Some(patience) = asked.table else { return };
    let samples = measure(&runtime, &rows, patience);
    println!("ns of wall time a call, by the number of tasks; 2 threads:\n");
    println!("| row | 1 task | 2 tasks | 16 tasks | throughput of 2 to 1 | of 16 to 1 |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for row in &rows {
        let of = |tasks| &samples[&(row.name, tasks)];
        let gain = |tasks| {
            let pairs = of(1).iter().zip(of(tasks));
            median(pairs.map(|(one, more)| one / more).collect())
        };
        let [one, two, many] = TASKS.map(|tasks| median(of(tasks).clone()));
        println!(
            "| {} | {one:.1} | {two:.1} | {many:.1} | {:.2} | {:.2} |",
            row.name,
            gain(2),
            gain(16),
        );
    }
}
