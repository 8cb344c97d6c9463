//! Which pool a call belongs to, and what can be done to pools.

use llm_bulkhead::{BulkheadLayer, InvalidSettings, Pool, ResizeError, Settings};
use llm_call::{CallSettings, Kind, Refusal, Workload};
use llm_chaos::testing::Respond;

use crate::support::*;

/// The pools that have a call, by their names.
fn used(world: &World) -> Vec<String> {
    let pools = world.bulkhead.snapshot().pools;
    let used = pools.iter().filter(|pool| pool.in_flight > 0);
    used.map(|pool| pool.name.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_to_the_listed_pool_that_says_most_about_it() {
    let bulkhead = Settings::new(Pool::new(9))
        .pool("interactive/free", Pool::new(9))
        .pool("interactive", Pool::new(9))
        .pool("free", Pool::new(9))
        .build()
        .unwrap();
    let world = world(&BulkheadLayer::new(bulkhead), [Respond::hang()]);
    let call = CallSettings::new;
    for (settings, expected) in [
        (call().class("free"), "interactive/free"),
        (call().class("premium"), "interactive"),
        (call(), "interactive"),
        (call().workload(Workload::Background).class("free"), "free"),
        (call().workload(Workload::Internal), "default"),
        (call().workload(Workload::Background).class("x"), "default"),
    ] {
        let _sent = world.begin(of(settings));
        assert_eq!(used(&world), [expected]);
    }
    let _no_call = world.begin(request());
    assert_eq!(used(&world), ["default"]);
}

#[tokio::test(start_paused = true)]
async fn a_target_has_the_pool_of_its_model_unless_another_is_listed() {
    let bulkhead = Settings::each(Pool::new(1).wait(s(0)))
        .pool("anthropic", Pool::new(5))
        .pool("openai:big:streaming", Pool::new(5))
        .build()
        .unwrap();
    let world = world(&BulkheadLayer::new(bulkhead).by_target(), [Respond::hang()]);
    for (target, expected) in [
        ("openai:small", "openai:small"),
        ("openai:small:streaming", "openai:small"),
        ("openai:big:streaming", "openai:big:streaming"),
        ("openai:big", "openai:big"),
        ("anthropic:any:streaming", "anthropic"),
        ("local", "local"),
    ] {
        let _sent = world.begin(to(target));
        assert_eq!(used(&world), [expected]);
    }
    let _none = world.begin(request());
    assert_eq!(used(&world), ["default"]);
    // One that is down and full does not stand in the way of another.
    let _held = world.begin(to("openai:small"));
    let error = world.call(to("openai:small:streaming")).await.unwrap_err();
    assert_eq!(kind(&error), Kind::Refused(Refusal::BulkheadFull));
    assert_eq!(&*full(&error).pool, "openai:small");
    let _other = world.begin(to("openai:other"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_its_own_takes_no_calls_that_go_by_another_name() {
    let each = || Settings::each(Pool::new(1).wait(s(0))).build().unwrap();
    let targets = world(&BulkheadLayer::new(each()).by_target(), [Respond::hang()]);
    let work = world(&BulkheadLayer::new(each()), [Respond::hang()]);
    // Whoever goes by the short name came first.
    let _provider = targets.begin(to("openai"));
    let _model = targets.begin(to("openai:gpt"));
    assert_eq!(used(&targets), ["openai", "openai:gpt"]);
    let _workload = work.begin(of(CallSettings::new()));
    let _class = work.begin(of(CallSettings::new().class("free")));
    assert_eq!(used(&work), ["interactive", "interactive/free"]);
    // A limit that was set by hand makes a pool no listed one.
    targets.bulkhead.resize("openai", 2).unwrap();
    let _other = targets.begin(to("openai:other"));
    assert_eq!(used(&targets), ["openai", "openai:gpt", "openai:other"]);
}

#[tokio::test(start_paused = true)]
async fn a_layer_can_name_pools_and_weigh_calls() {
    let bulkhead = Settings::new(Pool::new(9))
        .pool("a/b", Pool::new(4))
        .build()
        .unwrap();
    let layer = BulkheadLayer::new(bulkhead)
        .pool(|request| Some(request.uri.path().strip_prefix("/v1/chat/")?.into()))
        .cost(|call| if call.tenant() == Some("big") { 3 } else { 0 });
    let world = world(&layer, [Respond::hang()]);
    let mut named = by("big");
    *named.uri_mut() = "http://h/v1/chat/a/b".parse().unwrap();
    let _sent = world.begin(named);
    assert_eq!(world.pool("a/b").in_flight, 3);
    let _other = world.begin(by("small"));
    assert_eq!(world.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_each_tenant_that_has_something() {
    let world = over(Pool::new(3).tenant_limit(2).queue(1), Respond::hang());
    let mut all: Vec<Sent> = (0..3).map(|_| world.begin(by("a"))).collect();
    all.push(world.begin(request()));
    world.call(by("a")).await.unwrap_err();
    let pool = world.pool("default");
    assert_eq!((pool.in_flight, pool.queued, pool.rejected), (3, 1, 1));
    let mut tenants = pool.tenants;
    tenants.sort_by(|a, b| a.name.cmp(&b.name));
    let [nobody, a] = tenants.as_slice() else {
        panic!("{tenants:?}");
    };
    assert_eq!(
        (nobody.name.as_deref(), nobody.limit, nobody.in_flight),
        (None, None, 1)
    );
    assert_eq!((a.name.as_deref(), a.limit), (Some("a"), Some(2)));
    assert_eq!((a.in_flight, a.queued, a.rejected), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn k08_pools_can_be_resized_by_hand() {
    let world = over(Pool::new(1), Respond::hang());
    let _first = world.begin(request());
    let mut second = world.begin(request());
    world.bulkhead.resize("default", 2).unwrap();
    assert_eq!(world.counts(), (2, 0));
    assert!(poll(&mut second).is_pending());
    assert_eq!(world.gauges.calls(), 2);
    world.bulkhead.resize("default", 1).unwrap();
    assert_eq!(world.gauges.live(), 2);
    let unknown = world.bulkhead.resize("x", 1).unwrap_err();
    assert_eq!(unknown, ResizeError::NoSuchPool("x".into()));
    assert_eq!(
        unknown.to_string(),
        "there is no pool x; use a name that the snapshot lists"
    );
    let zero = world.bulkhead.resize("default", 0).unwrap_err();
    assert_eq!(zero, ResizeError::Zero);
    assert_eq!(world.bulkhead.resize_total(Some(0)), Err(ResizeError::Zero));
}

#[test]
fn what_cannot_work_cannot_be_built() {
    let zero = |pool: Pool, setting| {
        let error = Settings::new(pool).build().unwrap_err();
        let pool = "default".into();
        assert_eq!(error, InvalidSettings::Zero { pool, setting });
        assert!(error.to_string().contains("set it to a positive value"));
    };
    zero(Pool::new(0), "limit");
    zero(Pool::new(1).weight(0), "weight");
    zero(Pool::new(1).tenant_limit(0), "tenant_limit");
    zero(Pool::new(1).abandon_after(s(0)), "abandon_after");
    let twice = Settings::new(Pool::new(1))
        .pool("a", Pool::new(1))
        .pool("a", Pool::new(2));
    assert_eq!(
        twice.build().unwrap_err(),
        InvalidSettings::Twice("a".into())
    );
    let default = |settings: Settings| settings.pool("default", Pool::new(2)).build();
    assert_eq!(
        default(Settings::new(Pool::new(1))).unwrap_err(),
        InvalidSettings::Twice("default".into())
    );
    assert!(default(Settings::each(Pool::new(1))).is_ok());
    for name in ["", "interactive/", "openai::gpt"] {
        let named = Settings::new(Pool::new(1)).pool(name, Pool::new(1)).build();
        assert_eq!(named.unwrap_err(), InvalidSettings::EmptyName(name.into()));
    }
    let none = Settings::new(Pool::new(1)).total_limit(0);
    assert_eq!(none.build().unwrap_err(), InvalidSettings::ZeroTotal);
}
