//! What a layer costs while nothing is wrong: one thread, a service that was built once, an
//! upstream whose answer is there at once.
//!
//! `cargo bench -p benches --bench overhead` runs every row under criterion and then prints what each
//! layer adds to the row below it, beside what the nearest layer of tower, tower-http or
//! tower-resilience adds in the same run; `-- --table` prints that alone. Requests and answers are
//! made outside the measured time; an answer is read to its end.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use std::{future, time::Duration};

use benches::{
    EVENTS, Form, JSON, PRIMARY, SECOND, Upstream, answer, identified, read, request,
    row::Row,
    table::{Line, Table},
};
use bytes::Bytes;
use criterion::Criterion;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use llm_call::{BoxError, Call, CallSettings, Dialect, IdentifyLayer, PeekLayer, Watch};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use serde::de::IgnoredAny;
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
struct Calls {
    form: Form,
    rows: Vec<Row>,
}

impl Calls {
    fn row<S, B>(&mut self, name: &'static str, made: Made, mut service: S)
    where
        S: Service<Req, Response = Response<B>> + 'static,
        S::Error: Into<BoxError>,
        B: Body,
        B::Error: Into<BoxError>,
    {
        let form = self.form;
        let ready = move || {
            Upstream::prepare(form);
            make(made, form)
        };
        let call = move |request| read(answer(&mut service, request).into_body());
        self.rows.push(Row::new(name, ready, call));
    }
}

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
fn ours(rows: &mut Calls) {
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

fn whole() -> Vec<Row> {
    let mut rows = Calls {
        form: Form::Whole,
        rows: Vec::new(),
    };
    ours(&mut rows);
    peers(&mut rows);
    rows.rows.extend(parts());
    rows.rows
}

/// The nearest layers of others.
fn peers(rows: &mut Calls) {
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

fn streamed() -> Vec<Row> {
    let mut rows = Calls {
        form: Form::Streamed,
        rows: Vec::new(),
    };
    ours(&mut rows);
    let tower_http = ServiceBuilder::new().layer(ResponseBodyTimeoutLayer::new(LIMIT));
    rows.row(
        "tower-http ResponseBodyTimeout",
        Made::Bare,
        tower_http.service(Upstream),
    );
    rows.rows
}

/// What the layers cannot do without.
fn parts() -> [Row; 5] {
    let (bare, identified) = (request(Form::Whole), identified(Form::Whole));
    [
        Row::new("clone of the request", || (), move |()| bare.clone()),
        Row::new(
            "clone of the request, in a call",
            || (),
            move |()| identified.clone(),
        ),
        // Peek reads all of a JSON answer before it lets it through. The first row is what reading
        // costs, the second what it cannot cost less than.
        Row::new(
            "JSON, read by Watch",
            || (),
            |()| {
                let mut watch = Watch::new(Some(Dialect::OpenAiChat));
                watch.whole(JSON.as_bytes()).unwrap();
                watch
            },
        ),
        Row::new(
            "JSON, checked by serde_json",
            || (),
            |()| serde_json::from_str::<IgnoredAny>(JSON).unwrap(),
        ),
        Row::new("Call, opened", || (), |()| Call::open(CallSettings::new())),
    ]
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn main() {
    // Their timers want a runtime to be there; none of them has to fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let (mut whole, mut streamed) = (whole(), streamed());
    let args: Vec<String> = std::env::args().skip(1).collect();
    let table_alone = args.iter().any(|arg| arg == "--table");
    if !table_alone {
        run_criterion(&mut [("answer", &mut whole), ("stream", &mut streamed)]);
    }
    // Not in a test run, and not for a part of the rows.
    if table_alone || args == ["--bench"] {
        println!("An answer in one piece, ns a call:\n");
        println!("{}", Table::measure(&mut whole, ANSWER, 1));
        println!("A stream, ns an event:\n");
        println!("{}", Table::measure(&mut streamed, STREAM, EVENTS));
    }
}

fn run_criterion(groups: &mut [(&str, &mut Vec<Row>)]) {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, rows) in groups {
        let mut group = criterion.benchmark_group(*name);
        for row in &mut **rows {
            group.bench_function(row.name(), |bencher| {
                bencher.iter_custom(|iterations| row.run(iterations));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

const ANSWER: &[Line] = &[
    Line::new("no layer", &[]),
    Line::new("no layer, in a call", &[]),
    Line::new("clone of the request", &[]),
    Line::new("clone of the request, in a call", &[]),
    Line::new("Call, opened", &[]),
    Line::new("JSON, checked by serde_json", &[]),
    Line::new("JSON, read by Watch", &[]).against("JSON, checked by serde_json"),
    Line::new("Peek", &["no layer", "JSON, read by Watch"]),
    Line::new(
        "Peek, in a call",
        &["no layer, in a call", "JSON, read by Watch"],
    ),
    Line::new("tower Timeout", &["no layer"]),
    Line::new("tower-resilience TimeLimiter", &["no layer"]),
    Line::new("Timeout > Peek", &["Peek, in a call"]).against("tower Timeout"),
    Line::new("Deadline > Peek", &["Peek, in a call"]).against("tower Timeout"),
    Line::new("tower Retry", &["no layer", "clone of the request"]),
    Line::new(
        "tower-resilience Fallback",
        &["no layer", "clone of the request"],
    ),
    Line::new(
        "Failover (2 targets) > Peek",
        &["Peek, in a call", "clone of the request, in a call"],
    )
    .against("tower-resilience Fallback"),
    Line::new("Failover (1 target) > Peek", &["Peek, in a call"])
        .against("tower-resilience Fallback"),
    Line::new("Identify > Peek", &["Peek"]),
    Line::new("the whole stack", &["no layer"]),
];

const STREAM: &[Line] = &[
    Line::new("no layer", &[]),
    Line::new("Peek", &["no layer"]),
    Line::new("Peek, in a call", &["no layer, in a call"]),
    Line::new("tower-http ResponseBodyTimeout", &["no layer"]),
    Line::new("Timeout > Peek", &["Peek, in a call"]).against("tower-http ResponseBodyTimeout"),
    Line::new("Deadline > Peek", &["Peek, in a call"]).against("tower-http ResponseBodyTimeout"),
    Line::new("Failover (1 target) > Peek", &["Peek, in a call"]),
    Line::new("Failover (2 targets) > Peek", &["Peek, in a call"]),
    Line::new("Identify > Peek", &["Peek"]),
    Line::new("the whole stack", &["no layer"]),
];
