//! The stack, from the caller down to the HTTP client. This is the part to copy.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool};
use llm_call::{Answer, BoxError, IdentifyLayer, PeekLayer};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Service, ServiceBuilder};

use crate::{
    client::HttpClient,
    clocks::Limits,
    incident::{PRIMARY, SECONDARY},
};

/// Two providers behind one service: the same request goes to the secondary when the primary has
/// no first token to show.
pub(crate) fn stack(
    client: HttpClient,
    limits: Limits,
    breakers: &Breakers,
    primary_url: &str,
    secondary_url: &str,
) -> Result<
    impl Service<
        Request<Full<Bytes>>,
        Response = Response<impl Answer + Send>,
        Error = BoxError,
        Future: Send,
    > + Clone
    + Send
    + 'static,
    BoxError,
> {
    // From the caller down. A layer that sends again stands above those which it shall send through.
    Ok(ServiceBuilder::new()
        // Reads the request: a stream? which model? Says in the answer's head who served it.
        .layer(IdentifyLayer::new())
        // The most that a caller waits for a first token, whatever is tried meanwhile.
        .layer(DeadlineLayer::new(limits.deadline))
        // Bounds what is under way; who finds no room waits a little, in turn with other tenants.
        .layer(BulkheadLayer::new(pool(limits)?))
        // Asks the other target as well when the first token is late: for one call in ten at most.
        .layer(HedgeLayer::new(hedges(limits)?))
        // Chooses the target, and the next one when that has no first token to show.
        .layer(FailoverLayer::new(Targets::ordered([PRIMARY, SECONDARY])?))
        // A blip is ridden out on the same target; a retry costs a token of its budget.
        .layer(retry(limits))
        // A target that fails is not asked for a while. One circuit for each target.
        .layer(BreakerLayer::new(breakers.clone()))
        // No target takes all calls; one that finds its target full goes to the next.
        .layer(BulkheadLayer::new(each_target()?).by_target())
        // The limits of one attempt, by phase.
        .layer(
            TimeoutLayer::new()
                .first_token(limits.first_token)
                .idle(limits.idle)
                .stall(limits.stall)
                .stream(limits.stream),
        )
        // A target's name becomes a URL; keys and model names would stand here too.
        .layer(
            ProviderLayer::new()
                .provider(PRIMARY, Provider::new(primary_url)?)
                .provider(SECONDARY, Provider::new(secondary_url)?),
        )
        // Holds an answer back until its first token: what all layers above decide by.
        .layer(PeekLayer::new())
        .service(client))
}

/// A time on the play's clock.
fn usual(limits: Limits, seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds).div_f64(limits.factor())
}

fn pool(limits: Limits) -> Result<Bulkhead, llm_bulkhead::InvalidSettings> {
    llm_bulkhead::Settings::new(Pool::new(256).wait(usual(limits, 2.0))).build()
}

fn each_target() -> Result<Bulkhead, llm_bulkhead::InvalidSettings> {
    llm_bulkhead::Settings::each(Pool::new(128).wait(Duration::ZERO)).build()
}

/// The usual hedges on the play's clock.
fn hedges(limits: Limits) -> Result<Hedges, llm_hedge::InvalidSettings> {
    let settings = llm_hedge::Settings::new().first_delay(usual(limits, 3.0));
    Ok(Hedges::with(settings.build()?))
}

/// The usual retries on the play's clock.
fn retry(limits: Limits) -> RetryLayer {
    let usual = |seconds| usual(limits, seconds);
    RetryLayer::new(RetryBudget::new().refill(usual(10.0)))
        .backoff(limits.backoff / 2, usual(5.0))
        .hint_limit(usual(2.0))
        .longest_wait(usual(60.0))
        .least_attempt(usual(0.5))
}
