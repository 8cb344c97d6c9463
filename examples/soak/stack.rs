//! The stack under test, and what it holds.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{client::legacy, rt::TokioExecutor};
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool};
use llm_call::{BoxError, Client, IdentifyLayer, PeekLayer, client};
use llm_chaos::{ChaosProvider, Pace, Spread};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::ServiceBuilder;

/// The secondary has a model of its own, so that a fault that the caller's model names is one of the
/// primary.
const TARGETS: [&str; 2] = ["primary", "secondary:chaos-1"];

/// Longer than every limit of the stack together: what takes longer hangs.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// A stack that many callers share, and its handles.
pub(crate) struct Stack {
    client: Client,
    breakers: Breakers,
    bulkheads: [Bulkhead; 2],
    hedges: Hedges,
}

/// How the servers write: a second and a half for sixty tokens.
pub(crate) fn pace() -> Pace {
    let ms = Duration::from_millis;
    Pace {
        first_token: Spread::Uniform {
            min: ms(10),
            max: ms(100),
        },
        token_gap: Spread::Constant(ms(25)),
        ..Pace::default()
    }
}

impl Stack {
    pub(crate) fn new(providers: &[ChaosProvider; 2], streams: usize) -> Result<Stack, BoxError> {
        let ms = Duration::from_millis;
        let provider = |at: &ChaosProvider| Provider::new(&format!("http://{}", at.addr()));
        let breakers = Breakers::with(
            llm_breaker::Settings::new()
                .open_for(ms(500))
                .open_max(ms(500))
                .build()?,
        );
        let hedges = Hedges::new();
        // Tight, so that callers wait for permits and are refused.
        let pool = Pool::new(streams * 4 / 5)
            .tenant_limit((streams / 10).max(1))
            .wait(ms(1000));
        let by_tenant = llm_bulkhead::Settings::new(pool).build()?;
        let by_target =
            llm_bulkhead::Settings::each(Pool::new(streams * 2 / 3).wait(ms(200))).build()?;
        let http = legacy::Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .build_http::<Full<Bytes>>();
        let stack = ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::new(ms(4000)))
            .layer(BulkheadLayer::new(by_tenant.clone()))
            .layer(HedgeLayer::new(hedges.clone()))
            .layer(FailoverLayer::new(Targets::ordered(TARGETS)?))
            .layer(RetryLayer::new(RetryBudget::new()))
            .layer(BreakerLayer::new(breakers.clone()))
            .layer(BulkheadLayer::new(by_target.clone()).by_target())
            .layer(
                TimeoutLayer::new()
                    .first_token(ms(1500))
                    .answer(ms(2500))
                    .idle(ms(1000))
                    .stall(ms(1500))
                    .stream(ms(6000)),
            )
            .layer(
                ProviderLayer::new()
                    .provider("primary", provider(&providers[0])?)
                    .provider("secondary", provider(&providers[1])?),
            )
            .layer(PeekLayer::new().error_wait(ms(500)))
            .service(http);
        Ok(Stack {
            client: client(stack),
            breakers,
            bulkheads: [by_tenant, by_target],
            hedges,
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// What is still held although nobody calls.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let mut left = Vec::new();
        for circuit in self.breakers.snapshot() {
            if circuit.totals.in_flight != 0 {
                left.push(format!("a circuit waits for a call: {circuit:?}"));
            }
        }
        for bulkhead in &self.bulkheads {
            for pool in bulkhead.snapshot().pools {
                if pool.in_flight != 0 || pool.queued != 0 {
                    left.push(format!("a permit is out: {pool:?}"));
                }
            }
        }
        left
    }

    /// What the layers did.
    pub(crate) fn report(&self) -> String {
        let hedges = self.hedges.snapshot();
        let opened = self.breakers.history().len();
        let rejected: u64 = (self.bulkheads.iter())
            .flat_map(|bulkhead| bulkhead.snapshot().pools)
            .map(|pool| pool.rejected)
            .sum();
        format!(
            "{} hedges ({} won), {opened} changes of circuits, {rejected} refusals of bulkheads",
            hedges.hedges, hedges.won
        )
    }
}
