//! What a layer costs while nothing is wrong: one thread, a service that was built once, an
//! upstream whose answer is there at once.
//!
//! `cargo bench -p benches --bench overhead` runs every row and then prints what each layer adds to
//! the row below it, beside what the nearest layer of tower or tower-resilience adds in the same
//! run. Requests and answers are made outside the measured time; an answer is read to its end.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use std::{future, path::Path, time::Duration};

use benches::{
    EVENTS, Form, PRIMARY, SECOND, Upstream, answer, identified, read,
    report::{self, Line, Medians},
    request,
};
use bytes::Bytes;
use criterion::{BatchSize, BenchmarkGroup, Criterion, measurement::WallTime};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use llm_call::{BoxError, Call, CallSettings, IdentifyLayer, PeekLayer};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Service, ServiceBuilder, retry, timeout};
use tower_http::timeout::ResponseBodyTimeoutLayer;
use tower_resilience_fallback::FallbackLayer;
use tower_resilience_timelimiter::TimeLimiterLayer;

const LIMIT: Duration = Duration::from_secs(20);

type Req = Request<Full<Bytes>>;

/// Who makes the request of a row.
#[derive(Clone, Copy)]
enum Made {
    /// A caller.
    Bare,
    /// `IdentifyLayer`: with a call and an attempt in its extensions.
    Identified,
}

/// The rows of one form of answer.
struct Rows<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    form: Form,
}

impl Rows<'_> {
    fn row<S, B>(&mut self, name: &str, made: Made, mut service: S)
    where
        S: Service<Req, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: Body,
        B::Error: Into<BoxError>,
    {
        let form = self.form;
        self.group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    Upstream::prepare(form);
                    make(made, form)
                },
                |request| read(answer(&mut service, request).into_body()),
                BATCH,
            );
        });
    }
}

/// Few enough to stay in the cache, enough not to measure the clock.
const BATCH: BatchSize = BatchSize::NumIterations(64);

fn make(made: Made, form: Form) -> Req {
    match made {
        Made::Bare => request(form),
        Made::Identified => identified(form),
    }
}

fn targets(count: usize) -> FailoverLayer {
    FailoverLayer::new(Targets::ordered(&[PRIMARY, SECOND][..count]).unwrap())
}

fn providers() -> ProviderLayer {
    let provider = |base| {
        Provider::new(base)
            .unwrap()
            .bearer("sk-of-the-provider")
            .unwrap()
    };
    ProviderLayer::new()
        .provider("primary", provider("https://primary.local/v1"))
        .provider("second", provider("https://second.local/v1"))
}

/// What is measured for answers in one piece and for streams alike.
fn ours(rows: &mut Rows<'_>) {
    use Made::{Bare, Identified};

    let peek = || ServiceBuilder::new().layer(PeekLayer::new());
    rows.row("no layer", Bare, Upstream);
    rows.row("no layer, in a call", Identified, Upstream);
    rows.row("Peek", Bare, peek().service(Upstream));
    rows.row("Peek, in a call", Identified, peek().service(Upstream));
    let above_peek = ServiceBuilder::new().layer(TimeoutLayer::new());
    rows.row(
        "Timeout > Peek",
        Identified,
        above_peek.service(peek().service(Upstream)),
    );
    let above_peek = ServiceBuilder::new().layer(DeadlineLayer::default());
    rows.row(
        "Deadline > Peek",
        Identified,
        above_peek.service(peek().service(Upstream)),
    );
    let above_peek = ServiceBuilder::new().layer(targets(1));
    rows.row(
        "Failover (1 target) > Peek",
        Identified,
        above_peek.service(peek().service(Upstream)),
    );
    let above_peek = ServiceBuilder::new().layer(targets(2));
    rows.row(
        "Failover (2 targets) > Peek",
        Identified,
        above_peek.service(peek().service(Upstream)),
    );
    let above_peek = ServiceBuilder::new().layer(IdentifyLayer::new());
    rows.row(
        "Identify > Peek",
        Bare,
        above_peek.service(peek().service(Upstream)),
    );
    let stack = ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .layer(DeadlineLayer::default())
        .layer(targets(2))
        .layer(TimeoutLayer::new())
        .layer(providers())
        .layer(PeekLayer::new())
        .service(Upstream);
    rows.row("the whole stack", Bare, stack);
}

fn whole(criterion: &mut Criterion) {
    let mut rows = Rows {
        group: criterion.benchmark_group("answer"),
        form: Form::Whole,
    };
    ours(&mut rows);
    peers(&mut rows);
    rows.group.finish();
}

/// The nearest layers of others.
fn peers(rows: &mut Rows<'_>) {
    let tower = ServiceBuilder::new().layer(timeout::TimeoutLayer::new(LIMIT));
    rows.row("tower Timeout", Made::Bare, tower.service(Upstream));
    let resilience = TimeLimiterLayer::builder()
        .timeout_duration(LIMIT)
        .cancel_running_future(true)
        .build();
    let resilience = ServiceBuilder::new().layer(resilience).service(Upstream);
    rows.row("tower-resilience TimeLimiter", Made::Bare, resilience);
    let tower = ServiceBuilder::new().layer(retry::RetryLayer::new(OnError));
    rows.row("tower Retry", Made::Bare, tower.service(Upstream));
    // The nearest to failover over there: another service, asked with a clone of the request when
    // the first one gave an error. It has two services, not a list of targets, knows of no rests,
    // and decides on errors alone.
    let resilience = FallbackLayer::<Req, _, BoxError>::tower_service(Upstream);
    let resilience = ServiceBuilder::new().layer(resilience).service(Upstream);
    rows.row("tower-resilience Fallback", Made::Bare, resilience);
}

/// Retries errors, of which there are none. As any policy that can retry, it clones the request.
#[derive(Clone, Debug)]
struct OnError;

impl<B> retry::Policy<Req, Response<B>, BoxError> for OnError {
    type Future = future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Req,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        result.is_err().then(|| future::ready(()))
    }

    fn clone_request(&mut self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

fn streamed(criterion: &mut Criterion) {
    let mut rows = Rows {
        group: criterion.benchmark_group("stream"),
        form: Form::Streamed,
    };
    ours(&mut rows);
    let tower_http = ServiceBuilder::new().layer(ResponseBodyTimeoutLayer::new(LIMIT));
    rows.row(
        "tower-http ResponseBodyTimeout",
        Made::Bare,
        tower_http.service(Upstream),
    );
    rows.group.finish();
}

/// What the layers cannot do without.
fn parts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("part");
    for (name, made) in [
        ("a clone of the request", Made::Bare),
        ("a clone of the request, in a call", Made::Identified),
    ] {
        let request = make(made, Form::Whole);
        group.bench_function(name, |bencher| {
            bencher.iter(|| drop(std::hint::black_box(request.clone())));
        });
    }
    group.bench_function("a call, opened and dropped", |bencher| {
        bencher.iter(|| drop(std::hint::black_box(Call::open(CallSettings::new()))));
    });
    group.finish();
}

fn main() {
    // Their timers want a runtime to be there; none of them has to fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overhead");
    report::forget(&directory).unwrap();
    let mut criterion = Criterion::default()
        .output_directory(&directory)
        .without_plots()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    whole(&mut criterion);
    streamed(&mut criterion);
    parts(&mut criterion);
    criterion.final_summary();
    print(&Medians::read(&directory).unwrap());
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn print(medians: &Medians) {
    for (title, lines) in [
        ("An answer in one piece, ns a call", ANSWER),
        ("A stream, ns an event", STREAM),
        ("Parts, ns", PARTS),
    ] {
        let table = medians.table(lines).to_string();
        if !table.is_empty() {
            println!("{title}\n\n{table}");
        }
    }
}

const fn line(row: &'static str, less: &'static [&'static str]) -> Line {
    Line {
        row,
        less,
        times: 1,
        peer: None,
    }
}

const fn against(mut line: Line, peer: &'static str) -> Line {
    line.peer = Some(peer);
    line
}

const fn per_event(mut line: Line) -> Line {
    line.times = EVENTS + 3;
    line
}

const ANSWER: &[Line] = &[
    line("answer/no layer", &[]),
    line("answer/no layer, in a call", &[]),
    line("answer/Peek", &["answer/no layer"]),
    line("answer/Peek, in a call", &["answer/no layer, in a call"]),
    line("answer/tower Timeout", &["answer/no layer"]),
    line("answer/tower-resilience TimeLimiter", &["answer/no layer"]),
    against(
        line("answer/Timeout > Peek", &["answer/Peek, in a call"]),
        "answer/tower Timeout",
    ),
    against(
        line("answer/Deadline > Peek", &["answer/Peek, in a call"]),
        "answer/tower Timeout",
    ),
    line(
        "answer/tower Retry",
        &["answer/no layer", "part/a clone of the request"],
    ),
    line(
        "answer/tower-resilience Fallback",
        &["answer/no layer", "part/a clone of the request"],
    ),
    against(
        line(
            "answer/Failover (2 targets) > Peek",
            &[
                "answer/Peek, in a call",
                "part/a clone of the request, in a call",
            ],
        ),
        "answer/tower-resilience Fallback",
    ),
    line(
        "answer/Failover (1 target) > Peek",
        &["answer/Peek, in a call"],
    ),
    line("answer/Identify > Peek", &["answer/Peek"]),
    line("answer/the whole stack", &["answer/no layer"]),
];

const STREAM: &[Line] = &[
    per_event(line("stream/no layer", &[])),
    per_event(line("stream/no layer, in a call", &[])),
    per_event(line("stream/Peek", &["stream/no layer"])),
    per_event(line(
        "stream/Peek, in a call",
        &["stream/no layer, in a call"],
    )),
    per_event(line(
        "stream/tower-http ResponseBodyTimeout",
        &["stream/no layer"],
    )),
    against(
        per_event(line("stream/Timeout > Peek", &["stream/Peek, in a call"])),
        "stream/tower-http ResponseBodyTimeout",
    ),
    against(
        per_event(line("stream/Deadline > Peek", &["stream/Peek, in a call"])),
        "stream/tower-http ResponseBodyTimeout",
    ),
    per_event(line(
        "stream/Failover (1 target) > Peek",
        &["stream/Peek, in a call"],
    )),
    per_event(line(
        "stream/Failover (2 targets) > Peek",
        &["stream/Peek, in a call"],
    )),
    per_event(line("stream/Identify > Peek", &["stream/Peek"])),
    per_event(line("stream/the whole stack", &["stream/no layer"])),
];

const PARTS: &[Line] = &[
    line("part/a clone of the request", &[]),
    line("part/a clone of the request, in a call", &[]),
    line("part/a call, opened and dropped", &[]),
];
