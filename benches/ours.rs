//! Our layers with their defaults, as all benches use them.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

use http::Response;
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{BulkheadLayer, Pool, Settings};
use llm_call::{Answer, BoxError, Dialect, IdentifyLayer, Peek, PeekLayer};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Layer, ServiceBuilder};
use tower_service::Service;

use crate::{PRIMARY, Req, SECOND, Upstream};

/// `PeekLayer` over the upstream.
pub fn peek() -> Peek<Upstream> {
    PeekLayer::new().layer(Upstream)
}

/// Failover over one target or two.
pub fn targets(count: usize) -> FailoverLayer {
    FailoverLayer::new(Targets::ordered(&[PRIMARY, SECOND][..count]).unwrap())
}

/// Retry with a budget of its own.
pub fn retry() -> RetryLayer {
    RetryLayer::new(RetryBudget::new())
}

/// A breaker with circuits of its own.
pub fn breaker() -> BreakerLayer {
    BreakerLayer::new(Breakers::new())
}

/// So many calls may be under way: none has to wait.
pub const ROOM: usize = 20_000;

/// One pool for all work, with room in it.
pub fn bulkhead() -> BulkheadLayer {
    BulkheadLayer::new(Settings::new(Pool::new(ROOM)).build().unwrap())
}

/// A pool for each target, with room in it.
pub fn bulkhead_by_target() -> BulkheadLayer {
    BulkheadLayer::new(Settings::each(Pool::new(ROOM)).build().unwrap()).by_target()
}

/// Hedges of streams: of ten calls one, which is paid for by calls before it.
pub fn hedge() -> HedgeLayer {
    HedgeLayer::new(Hedges::new())
}

/// The providers of both targets.
pub fn providers() -> ProviderLayer {
    let provider = |base| {
        let provider = Provider::new(base).unwrap();
        provider.bearer("sk-of-the-provider").unwrap()
    };
    ProviderLayer::new()
        .provider("primary", provider("https://primary.local/v1"))
        .provider("second", provider("https://second.local/v1"))
}

/// A provider that speaks this dialect, for the primary target.
pub fn speaking(dialect: Dialect) -> ProviderLayer {
    let provider = Provider::new("https://primary.local").unwrap();
    ProviderLayer::new().provider("primary", provider.no_auth().dialect(dialect))
}

/// All layers in their order, over the upstream.
pub fn stack()
-> impl Service<Req, Response = Response<impl Answer>, Error = BoxError, Future: Send> + Clone + 'static
{
    ServiceBuilder::new()
        .layer(IdentifyLayer::new())
        .layer(DeadlineLayer::default())
        .layer(bulkhead())
        .layer(hedge())
        .layer(targets(2))
        .layer(retry())
        .layer(breaker())
        .layer(bulkhead_by_target())
        .layer(TimeoutLayer::new())
        .layer(providers())
        .layer(PeekLayer::new())
        .service(Upstream)
}
