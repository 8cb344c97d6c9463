//! What one call costs as the work around it grows: targets and tenants that were seen, and streams
//! that are open at the same time.
//!
//! `cargo bench -p benches --bench growth` prints ns a call, and whether a curve is flat: not twice
//! as dear among 10,000 as alone. All keys are called for in turn, so the misses of the caches are a
//! part of it.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use std::{num::NonZeroU32, pin::Pin};

use benches::{
    Form, PRIMARY, Req, Upstream, answer, committed,
    ended::AtOnce,
    identified, identify,
    keys::{Keys, resting_tenants},
    ours::{breaker, bulkhead, bulkhead_by_target, hedge, peek, retry},
    read_on,
    row::Row,
    run,
    samples::Samples,
    wire,
};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::Body;
use llm_call::{BoxError, CallSettings};
use llm_failover::{FailoverLayer, Targets};
use llm_timeout::TimeoutLayer;
use tower::{Layer, Service, ServiceExt};

/// How much there is of what grows.
const SIZES: [usize; 5] = [1, 10, 100, 1_000, 10_000];

/// Failover's list ends at 64 targets.
const LISTS: [usize; 4] = [1, 4, 16, 64];

/// Dearer than this, and a curve is not flat.
const FLAT: f64 = 2.0;

/// The cost of a layer as something grows.
struct Curve {
    name: &'static str,
    /// The curve of what stands below it.
    below: Option<&'static str>,
    row: Box<dyn Fn(String, usize) -> Row>,
}

impl Curve {
    fn new(
        name: &'static str,
        below: Option<&'static str>,
        row: impl Fn(String, usize) -> Row + 'static,
    ) -> Curve {
        Curve {
            name,
            below,
            row: Box::new(row),
        }
    }

    fn at(&self, size: usize) -> String {
        point(self.name, size)
    }

    /// ns beyond what stands below it.
    fn added(&self, samples: &Samples, size: usize) -> f64 {
        let below = self.below.map(|below| point(below, size));
        samples.added(&self.at(size), below.as_deref().as_slice())
    }
}

fn point(name: &str, size: usize) -> String {
    format!("{name}, {size}")
}

/// Calls of all keys in turn.
fn keyed<S, B>(name: String, keys: Keys, mut service: S) -> Row
where
    S: Service<Request<()>, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
{
    keys.call_each(&mut service);
    Row::new(name, keys.in_turn(), move |request| {
        drop(answer(&mut service, request));
    })
}

/// Calls of one of the keys, all of which are known.
fn one_of<S, B>(name: String, keys: &Keys, mut service: S) -> Row
where
    S: Service<Request<()>, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
{
    keys.call_each(&mut service);
    let keys = keys.clone();
    let prepare = move || keys.request(0);
    Row::new(name, prepare, move |request| {
        drop(answer(&mut service, request));
    })
}

fn one_tenant(_: usize) -> Req {
    identified(Form::Streamed)
}

fn a_tenant_each(number: usize) -> Req {
    let mut request = identified(Form::Streamed);
    let target = PRIMARY.parse().unwrap();
    let settings = CallSettings::new().tenant(format!("tenant-{number}"));
    identify(&mut request, Form::Streamed, &target, settings);
    request
}

/// One more stream, from the call to its end, while so many others wait for their next event.
fn beside<S, B>(name: String, open: usize, make: fn(usize) -> Req, mut service: S) -> Row
where
    S: Service<Req, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    const BEFORE_THE_PAUSE: NonZeroU32 = NonZeroU32::new(3).unwrap();
    let frames = wire::openai(6);
    let prepare = move |number| {
        Upstream::prepare_pausing(&frames, BEFORE_THE_PAUSE);
        make(number)
    };
    let begin = move |service: &mut S, request| {
        let mut body = committed(service, request);
        assert!(!read_on(body.as_mut()).1, "it waits");
        body
    };
    let held: Vec<Pin<Box<B>>> = (1..open)
        .map(|number| begin(&mut service, prepare(number)))
        .collect();
    let prepare = move || prepare(0);
    Row::new(name, prepare, move |request| {
        let mut body = begin(&mut service, request);
        assert!(read_on(body.as_mut()).1, "it ends");
        assert_eq!(held.len(), open - 1);
    })
}

/// One more call, up to its first token, while so many others wait for theirs.
fn waiting<S, B>(name: String, calls: usize, mut service: S) -> Row
where
    S: Service<Req, Response = Response<B>> + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: 'static,
{
    const ITS_ROLE: NonZeroU32 = NonZeroU32::new(1).unwrap();
    let frames = wire::openai(6);
    let prepare = move || {
        Upstream::prepare_pausing(&frames, ITS_ROLE);
        identified(Form::Streamed)
    };
    let begin = move |service: &mut S, request| {
        let ready = service.ready().now_or_never();
        assert!(matches!(ready, Some(Ok(_))), "nothing has to be waited for");
        let mut call = Box::pin(service.call(request));
        assert!(call.as_mut().now_or_never().is_none(), "it waits");
        call
    };
    let held: Vec<Pin<Box<S::Future>>> =
        (1..calls).map(|_| begin(&mut service, prepare())).collect();
    Row::new(name, prepare, move |request| {
        let mut call = begin(&mut service, request);
        let answer = call.as_mut().now_or_never();
        assert!(matches!(answer, Some(Ok(_))), "its first token has come");
        assert_eq!(held.len(), calls - 1);
    })
}

/// A list of so many targets, all but the last of which are drained.
fn listed(name: String, count: usize) -> Row {
    let names = (0..count).map(|i| format!("provider-{i}:gpt-4.1-mini"));
    let targets = Targets::ordered(names).unwrap();
    let all: Vec<_> = targets.iter().cloned().collect();
    for target in &all[..count - 1] {
        targets.drain(target);
    }
    let service = FailoverLayer::new(targets).layer(AtOnce);
    keyed(name, Keys::tenants(1), service)
}

fn curves() -> Vec<Curve> {
    let targets = Keys::targets;
    let tenants = Keys::tenants;
    vec![
        Curve::new("targets: no layer", None, move |name, size| {
            keyed(name, targets(size), AtOnce)
        }),
        Curve::new(
            "targets: Breaker",
            Some("targets: no layer"),
            move |name, size| keyed(name, targets(size), breaker().layer(AtOnce)),
        ),
        Curve::new(
            "targets: Retry",
            Some("targets: no layer"),
            move |name, size| keyed(name, targets(size), retry().layer(AtOnce)),
        ),
        Curve::new(
            "targets, of which one is called: Breaker",
            None,
            move |name, size| one_of(name, &targets(size), breaker().layer(AtOnce)),
        ),
        Curve::new(
            "targets, of which one is called: Retry",
            None,
            move |name, size| one_of(name, &targets(size), retry().layer(AtOnce)),
        ),
        Curve::new(
            "targets: Bulkhead, a pool each",
            Some("targets: no layer"),
            move |name, size| keyed(name, targets(size), bulkhead_by_target().layer(AtOnce)),
        ),
        Curve::new("tenants: no layer", None, move |name, size| {
            keyed(name, tenants(size), AtOnce)
        }),
        Curve::new(
            "tenants at rest: Failover",
            Some("tenants: no layer"),
            move |name, size| {
                let keys = tenants(size);
                let service = resting_tenants(&keys);
                keyed(name, keys, service)
            },
        ),
        Curve::new(
            "tenants: Hedge",
            Some("tenants: no layer"),
            move |name, size| keyed(name, tenants(size), hedge().layer(AtOnce)),
        ),
        Curve::new("open streams: Peek", None, |name, size| {
            beside(name, size, one_tenant, peek())
        }),
        Curve::new(
            "open streams: Breaker",
            Some("open streams: Peek"),
            |name, size| beside(name, size, one_tenant, breaker().layer(peek())),
        ),
        Curve::new(
            "open streams: Retry",
            Some("open streams: Peek"),
            |name, size| beside(name, size, one_tenant, retry().layer(peek())),
        ),
        Curve::new(
            "open streams: Bulkhead",
            Some("open streams: Peek"),
            |name, size| beside(name, size, one_tenant, bulkhead().layer(peek())),
        ),
        Curve::new(
            "open streams, each of a tenant: Bulkhead",
            Some("open streams: Peek"),
            |name, size| beside(name, size, a_tenant_each, bulkhead().layer(peek())),
        ),
        Curve::new(
            "open streams: Timeout, a timer each",
            Some("open streams: Peek"),
            |name, size| beside(name, size, one_tenant, TimeoutLayer::new().layer(peek())),
        ),
        Curve::new("calls that wait: Peek", None, |name, size| {
            waiting(name, size, peek())
        }),
        Curve::new(
            "calls that wait: Timeout, a timer each",
            Some("calls that wait: Peek"),
            |name, size| waiting(name, size, TimeoutLayer::new().layer(peek())),
        ),
        Curve::new(
            "calls that wait: Hedge, a timer each",
            Some("calls that wait: Peek"),
            |name, size| waiting(name, size, hedge().layer(peek())),
        ),
    ]
}

fn lists() -> Vec<Curve> {
    vec![Curve::new(
        "Failover, all but the last drained",
        None,
        listed,
    )]
}

/// Measures the curves and shows them as a table.
fn report(curves: &[Curve], sizes: &[usize], rounds: usize) -> String {
    let rows = curves
        .iter()
        .flat_map(|curve| sizes.iter().map(|size| (curve.row)(curve.at(*size), *size)));
    let samples = Samples::measure(&mut rows.collect::<Vec<_>>(), rounds, 256);
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    let columns = sizes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut table = format!(
        "| what grows: layer | {} | {last} to {first} | flat |\n",
        columns.join(" | ")
    );
    table += &format!("| --- |{} ---: | --- |\n", " ---: |".repeat(sizes.len()));
    for curve in curves {
        let ns = sizes.iter().map(|size| curve.added(&samples, *size));
        let ns: Vec<_> = ns.collect();
        let ratio = ns[ns.len() - 1] / ns[0];
        let flat = if ratio < FLAT { "yes" } else { "no" };
        let shown: Vec<_> = ns.iter().map(|ns| format!("{ns:.0}")).collect();
        let shown = shown.join(" | ");
        table += &format!("| {} | {shown} | {ratio:.2} | {flat} |\n", curve.name);
    }
    table
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn main() {
    // Timers want a runtime to be there; none of them has to fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    AtOnce::warm_up();
    let asked = run::asked();
    if asked.test {
        // It works; once is not enough for figures.
        report(&curves(), &SIZES[..3], 1);
        report(&lists(), &LISTS, 1);
        return;
    }
    let Some(patience) = asked.table else { return };
    println!("ns a call beyond what stands below, among so many:\n");
    println!("{}", report(&curves(), &SIZES, patience.rounds(400)));
    println!("ns a call by the length of failover's list, which ends at 64:\n");
    println!("{}", report(&lists(), &LISTS, patience.rounds(400)));
}
