//! Every service of the family, one a line.

use llm_breaker::BreakerLayer;
use llm_bulkhead::{BulkheadLayer, Until};
use llm_call::{Client, IdentifyLayer, PeekLayer, RespondLayer, client};
use llm_chaos::{FaultLayer, Injection, Rule};
use llm_failover::FailoverLayer;
use llm_hedge::HedgeLayer;
use llm_retry::RetryLayer;
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{Layer, buffer::Buffer, limit::ConcurrencyLimit, load_shed::LoadShed};

use crate::{answers::ms, world::World};

/// A name, and the service of that name over another one.
pub(crate) type Row = (&'static str, fn(&World, Client) -> Client);

pub(crate) const IDENTIFY: Row = ("identify", |_, inner| {
    client(IdentifyLayer::new().layer(inner))
});
pub(crate) const RESPOND: Row = ("respond", |_, inner| {
    // Its body is no answer any more: another Peek makes one of it.
    client(PeekLayer::new().layer(RespondLayer::new().layer(inner)))
});
pub(crate) const DEADLINE: Row = ("deadline", |_, inner| {
    client(DeadlineLayer::default().layer(inner))
});
pub(crate) const BULKHEAD: Row = ("bulkhead by workload", |world, inner| {
    client(BulkheadLayer::new(world.bulkhead()).layer(inner))
});
pub(crate) const BULKHEAD_BY_TARGET: Row = ("bulkhead by target", |world, inner| {
    let layer = BulkheadLayer::new(world.bulkhead()).by_target();
    client(layer.layer(inner))
});
pub(crate) const BULKHEAD_UNTIL_RESPONSE: Row = ("bulkhead until the response", |world, inner| {
    let layer = BulkheadLayer::new(world.bulkhead()).until(Until::Response);
    client(layer.layer(inner))
});
pub(crate) const HEDGE: Row = ("hedge", |world, inner| {
    client(HedgeLayer::new(world.hedges.clone()).layer(inner))
});
pub(crate) const FAILOVER: Row = ("failover", |world, inner| {
    client(FailoverLayer::new(world.targets.clone()).layer(inner))
});
pub(crate) const RETRY: Row = ("retry", |world, inner| {
    client(RetryLayer::new(world.budget.clone()).layer(inner))
});
pub(crate) const BREAKER: Row = ("breaker", |world, inner| {
    client(BreakerLayer::new(world.breakers.clone()).layer(inner))
});
pub(crate) const TIMEOUT: Row = ("timeout", |_, inner| {
    client(TimeoutLayer::new().layer(inner))
});
pub(crate) const PROVIDER: Row = ("provider", |world, inner| {
    client(world.providers.layer(inner))
});
pub(crate) const PEEK: Row = ("peek", |_, inner| client(PeekLayer::new().layer(inner)));
pub(crate) const CHAOS: Row = ("chaos", |_, inner| {
    let late = FaultLayer::new(7, [Rule::new(Injection::Latency(ms(10)))]);
    client(PeekLayer::new().layer(late.layer(inner)))
});

/// All of them. A new layer is one line here, and one above.
pub(crate) const ALL: &[Row] = &[
    IDENTIFY,
    RESPOND,
    DEADLINE,
    BULKHEAD,
    BULKHEAD_BY_TARGET,
    BULKHEAD_UNTIL_RESPONSE,
    HEDGE,
    FAILOVER,
    RETRY,
    BREAKER,
    TIMEOUT,
    PROVIDER,
    PEEK,
    CHAOS,
];

/// The documented order, outermost first; the bottom of a world is `peek` over the client.
pub(crate) const CANONICAL: &[Row] = &[
    IDENTIFY,
    DEADLINE,
    BULKHEAD,
    HEDGE,
    FAILOVER,
    RETRY,
    BREAKER,
    BULKHEAD_BY_TARGET,
    TIMEOUT,
    PROVIDER,
];

/// tower's own, which do not forgive what most services forgive.
pub(crate) const FOREIGN: &[Row] = &[
    ("nothing", |_, inner| inner),
    ("one permit", |_, inner| {
        client(ConcurrencyLimit::new(inner, 1))
    }),
    ("a buffer", |_, inner| client(Buffer::new(inner, 2))),
    SHED,
];

pub(crate) const SHED: Row = ("a load shedder over one permit", |_, inner| {
    client(LoadShed::new(ConcurrencyLimit::new(inner, 1)))
});

pub(crate) fn names(rows: &[Row]) -> String {
    let names: Vec<_> = rows.iter().map(|row| row.0).collect();
    names.join(" > ")
}

/// How many random cases there are where there usually are so many: `PROPTEST_CASES` raises them, as
/// it raises the 256 of a property.
pub(crate) fn cases(usual: u64) -> u64 {
    let cases = std::env::var("PROPTEST_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse::<u64>().ok());
    (usual * cases.unwrap_or(256)).div_ceil(256)
}

/// Any services in any order, some of them twice; of those that take a target for each copy not
/// more than there are targets.
pub(crate) fn any_order(dice: &mut fastrand::Rng) -> Vec<Row> {
    loop {
        let number = dice.usize(2..=ALL.len());
        let rows: Vec<_> = (0..number).map(|_| *dice.choice(ALL).unwrap()).collect();
        if rows.iter().filter(|row| row.0 == FAILOVER.0).count() <= 2 {
            return rows;
        }
    }
}
