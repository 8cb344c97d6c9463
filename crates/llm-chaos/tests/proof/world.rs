//! The handles that the layers of one stack share, and what must hold of them when its calls are gone.

use std::{cell::RefCell, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use llm_breaker::Breakers;
use llm_bulkhead::{Bulkhead, Pool, Settings as Pools};
use llm_call::{
    Answer, BoxError, Call, CallSettings, Client, Kind, PeekLayer, ResponseExt, client,
};
use llm_chaos::testing::{Gauges, Respond, Strict, service};
use llm_failover::Targets;
use llm_hedge::{Hedges, Settings as Hedging};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::RetryBudget;
use tokio::task::yield_now;
use tower::{Layer, Service, ServiceExt};

use crate::rows::{CHAOS, FAILOVER, HEDGE, IDENTIFY, PEEK, RESPOND, RETRY, Row};

/// Longer than any call may take, with all its limits, retries and targets.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3_600);

pub(crate) struct World {
    pub(crate) breakers: Breakers,
    pub(crate) budget: RetryBudget,
    pub(crate) targets: Targets,
    pub(crate) providers: ProviderLayer,
    pub(crate) hedges: Hedges,
    /// What each pool of a bulkhead takes.
    pub(crate) pool: Pool,
    pub(crate) gauges: Gauges,
    bulkheads: RefCell<Vec<Bulkhead>>,
    bottom: Client,
}

/// What the family saw of a call that ended.
#[derive(Debug)]
pub(crate) struct Heard {
    /// The status of the answer, if there was one.
    pub(crate) status: Option<u16>,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl World {
    pub(crate) fn new(answers: impl IntoIterator<Item = Respond>) -> World {
        let provider = Provider::new("http://a/v1").unwrap();
        let inner = service(answers);
        World {
            breakers: Breakers::new(),
            // Nothing comes back by itself, so that each token can be accounted for.
            budget: RetryBudget::new().refill(Duration::from_secs(1_000_000_000)),
            targets: Targets::ordered(["a:m1", "a:m2"]).unwrap(),
            providers: ProviderLayer::new().provider("a", provider),
            hedges: hedges(),
            pool: Pool::new(1).queue(1_000).wait(PATIENCE),
            gauges: inner.gauges(),
            bulkheads: RefCell::default(),
            bottom: client(PeekLayer::new().layer(Strict::new(inner))),
        }
    }

    /// A bulkhead of its own: two layers with one permit between them would wait for each other.
    pub(crate) fn bulkhead(&self) -> Bulkhead {
        let bulkhead = Pools::each(self.pool.clone()).build().unwrap();
        self.bulkheads.borrow_mut().push(bulkhead.clone());
        bulkhead
    }

    /// The stack of these rows, outermost first, with a probe of the contract below each of them.
    pub(crate) fn stack(&self, rows: &[Row]) -> Client {
        let mut stack = self.bottom.clone();
        for (_, row) in rows.iter().rev() {
            stack = row(self, client(Strict::new(stack)));
        }
        client(Strict::new(stack))
    }

    /// Each retry that was sent has cost a token, each hedge too, and nothing else has: none is
    /// lost, and none is planned.
    pub(crate) fn assert_paid(&self, call: &Call, rows: &[Row], when: &dyn std::fmt::Display) {
        let ledger = call.ledger();
        if tells(rows, RETRY, &[IDENTIFY, HEDGE, FAILOVER]) {
            let mut copies: Vec<_> = (ledger.sent())
                .map(|entry| (entry.n, entry.target.clone()))
                .collect();
            let sent = copies.len();
            copies.sort_by_key(|(n, target)| (*n, target.as_ref().map(ToString::to_string)));
            copies.dedup();
            let retries = sent - copies.len();
            let shares = self.budget.balances();
            let spent: f64 = shares.iter().map(|(_, balance)| 3.0 - balance).sum();
            // The call may have paid in, once.
            let deposit = retries as f64 - spent;
            assert!(
                deposit.abs() < 1e-6 || (deposit - 0.1).abs() < 1e-6,
                "{retries} retries, {shares:?}, {when}\n{ledger}"
            );
        }
        if tells(rows, HEDGE, &[IDENTIFY]) {
            let mut hedges: Vec<_> = ledger.sent().map(|entry| entry.hedge).collect();
            hedges.retain(|hedge| *hedge > 0);
            hedges.sort_unstable();
            hedges.dedup();
            let left = self.hedges.snapshot().calls as f64 - hedges.len() as f64;
            let balance = self.hedges.balance(None);
            assert!(
                (balance - left).abs() < 1e-6,
                "{balance} and not {left} hedges, {when}\n{ledger}"
            );
        }
    }

    /// What is left when all calls are gone: nothing.
    pub(crate) fn assert_settled(&self, calls: &[Call], when: &dyn std::fmt::Display) {
        assert_eq!(self.gauges.live(), 0, "futures and bodies alive, {when}");
        for circuit in self.breakers.snapshot() {
            let t = circuit.totals;
            assert_eq!(t.in_flight, 0, "{} in flight, {when}", circuit.key);
            let ends = t.succeeded + t.failed + t.neutral + t.abandoned;
            assert_eq!(t.admitted, ends, "outcomes of {}, {when}", circuit.key);
        }
        for bulkhead in self.bulkheads.borrow().iter() {
            let snapshot = bulkhead.snapshot();
            assert_eq!(snapshot.in_flight, 0, "{snapshot:?}, {when}");
            for pool in &snapshot.pools {
                assert_eq!((pool.in_flight, pool.queued), (0, 0), "{pool:?}, {when}");
            }
        }
        for call in calls {
            let ledger = call.ledger();
            let open = ledger.entries.iter().any(|entry| entry.kind.is_none());
            assert!(!open, "an open record, {when}:\n{ledger}");
        }
        // What reached the wire is in the ledgers.
        let sent: u32 = calls.iter().map(Call::sent).sum();
        assert!(
            self.gauges.calls() <= sent as usize,
            "unseen attempts, {when}"
        );
    }
}

/// Whether the ledger tells what this row sent: it is there once, who numbers copies is not below
/// it, and no other Peek writes records.
fn tells(rows: &[Row], row: Row, not_below: &[Row]) -> bool {
    let is_one_of = |row: &Row, names: &[Row]| names.iter().any(|other| other.0 == row.0);
    let mut parts = rows.split(|other| other.0 == row.0);
    let (Some(_), Some(below), None) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    !below.iter().any(|row| is_one_of(row, not_below))
        && !rows
            .iter()
            .any(|row| is_one_of(row, &[RESPOND, CHAOS, PEEK]))
}

/// Each call pays a whole hedge, which is sent when its first token is a second late.
fn hedges() -> Hedges {
    let settings = Hedging::new()
        .percent(100.0)
        .first_delay(Duration::from_secs(1));
    Hedges::with(settings.build().unwrap())
}

pub(crate) fn open() -> Call {
    Call::open(CallSettings::new())
}

/// A request for a stream, or for an answer in one piece.
pub(crate) fn request(call: &Call, streamed: bool) -> Request<Full<Bytes>> {
    let body = format!(
        "{{\"model\":\"m1\",\"stream\":{streamed},\"messages\":[{{\"role\":\"user\",\"content\":\"Hi\"}}]}}"
    );
    // Identify takes the authority as the name of the provider.
    let mut request = Request::post("http://a/v1/chat/completions")
        .header("content-type", "application/json")
        .body(Full::from(body))
        .unwrap();
    request.extensions_mut().insert(call.clone());
    request
}

/// Reads an answer to its end, with a pause after each frame in which it can be dropped.
pub(crate) async fn read(
    answer: impl Future<Output = Result<http::Response<llm_call::AnswerBody>, BoxError>>,
) -> Heard {
    let answer = match answer.await {
        Ok(answer) => answer,
        Err(error) => {
            return Heard {
                status: None,
                kind: Kind::of(&*error),
                text: error.to_string(),
            };
        }
    };
    let (status, mut kind) = (answer.status().as_u16(), answer.outcome().kind);
    let (mut body, mut bytes) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
            Err(error) => kind = Kind::of(&*error),
        }
        yield_now().await;
    }
    if let Some(ending) = body.state().ending() {
        kind = ending.kind();
    }
    Heard {
        status: Some(status),
        kind,
        text: String::from_utf8(bytes).unwrap(),
    }
}

/// One exchange over a clone of a stack.
pub(crate) async fn exchange(stack: &Client, request: Request<Full<Bytes>>) -> Heard {
    read(stack.clone().oneshot(request)).await
}

/// The next call of this very instance.
pub(crate) async fn next(stack: &mut Client, request: Request<Full<Bytes>>) -> Heard {
    match stack.ready().await {
        Ok(stack) => read(stack.call(request)).await,
        Err(error) => read(std::future::ready(Err(error))).await,
    }
}
