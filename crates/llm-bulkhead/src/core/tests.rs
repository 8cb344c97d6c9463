use std::{collections::HashMap, time::Duration};

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::name::Names;

struct Bench {
    core: Core,
    now: Instant,
    wakes: Wakes,
    /// Who waits, by the waiter.
    waiting: HashMap<usize, (&'static str, usize)>,
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        Bench {
            core: Core::new(settings),
            now: Instant::now(),
            wakes: Wakes::new(),
            waiting: HashMap::new(),
        }
    }

    fn arrive(&mut self, pool: &str, tenant: &'static str, cost: usize) -> Arrival {
        let id = self.core.pool_of(&Names::of_text(pool));
        let now = self.now;
        let name: Option<std::sync::Arc<str>> = (!tenant.is_empty()).then(|| tenant.into());
        let arrival = self
            .core
            .arrive(id, name.as_ref(), cost, || (now, None), &mut self.wakes);
        if let Arrival::Parked(waiter) = arrival {
            self.waiting.insert(waiter, (tenant, cost));
        }
        arrival
    }

    fn hold(&mut self, pool: &str, tenant: &'static str) -> usize {
        match self.arrive(pool, tenant, 1) {
            Arrival::Admitted(slot) => slot,
            other => panic!("{other:?}"),
        }
    }

    fn park(&mut self, pool: &str, tenant: &'static str) -> usize {
        match self.arrive(pool, tenant, 1) {
            Arrival::Parked(waiter) => waiter,
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self, slot: usize) {
        let now = self.now;
        self.core.release(slot, || now, &mut self.wakes);
    }

    /// Those who were served since.
    fn served(&mut self) -> Vec<(usize, &'static str, usize)> {
        let core = &self.core;
        let mut served: Vec<_> = self
            .waiting
            .iter()
            .filter_map(|(waiter, (tenant, cost))| {
                let slot = core.waiters[*waiter].granted()??;
                Some((*waiter, slot, *tenant, *cost))
            })
            .collect();
        served.sort_unstable();
        for (waiter, ..) in &served {
            self.waiting.remove(waiter);
            let asked = self.core.ask(*waiter, &mut None);
            assert!(matches!(asked, Answered::Granted(_)), "{asked:?}");
        }
        let served = served.into_iter();
        served
            .map(|(_, slot, tenant, cost)| (slot, tenant, cost))
            .collect()
    }

    /// Ends one call, and says who was served for it.
    fn turn(&mut self, slot: usize) -> (usize, &'static str) {
        self.release(slot);
        match self.served().as_slice() {
            [(slot, tenant, _)] => (*slot, tenant),
            other => panic!("{other:?}"),
        }
    }
}

fn patient(limit: usize) -> Pool {
    Pool::new(limit)
        .queue(1_000)
        .wait(Duration::from_secs(6_000))
}

#[test]
fn k04_tenants_that_wait_take_turns_however_many_calls_each_has() {
    let mut b = Bench::new(Settings::new(patient(1)));
    let mut slot = b.hold("x", "a");
    for _ in 0..6 {
        b.park("x", "a");
    }
    for _ in 0..3 {
        b.park("x", "b");
    }
    b.park("x", "c");
    let mut order = String::new();
    for _ in 0..10 {
        let (next, tenant) = b.turn(slot);
        slot = next;
        order.push_str(tenant);
    }
    assert_eq!(order, "abcabab".to_owned() + "aaa");
}

#[test]
fn k04_who_leaves_the_ring_and_comes_back_stands_at_its_end() {
    let mut b = Bench::new(Settings::new(patient(1)));
    let mut slot = b.hold("x", "a");
    b.park("x", "a");
    b.park("x", "b");
    b.park("x", "b");
    b.park("x", "c");
    (slot, _) = b.turn(slot);
    // `a` has nothing left and comes again: not before `b` and `c`.
    b.park("x", "a");
    let mut order = String::new();
    for _ in 0..4 {
        let (next, tenant) = b.turn(slot);
        slot = next;
        order.push_str(tenant);
    }
    assert_eq!(order, "bcab");
}

#[test]
fn k11_who_leaves_the_ring_takes_nothing_of_its_turn_along() {
    let mut b = Bench::new(Settings::new(patient(4)));
    let Arrival::Admitted(first) = b.arrive("x", "", 4) else {
        panic!("there is room");
    };
    b.arrive("x", "b", 4);
    b.arrive("x", "a", 1);
    b.arrive("x", "b", 4);
    b.arrive("x", "b", 4);
    let mut out = vec![first];
    let mut order = String::new();
    for i in 0..9 {
        b.release(out.remove(0));
        for (slot, tenant, _) in b.served() {
            out.push(slot);
            order.push_str(tenant);
        }
        if i == 1 {
            // A turn is worth 4, and `a` has used 1 of it.
            for _ in 0..8 {
                b.park("x", "a");
            }
        }
    }
    assert_eq!(order, "babaaaabaaaa");
}

#[test]
fn k05_a_flood_of_tenants_with_one_call_each_starves_nobody() {
    let mut b = Bench::new(Settings::new(patient(1)));
    let mut slot = b.hold("x", "a");
    for _ in 0..10 {
        b.park("x", "a");
    }
    let mut turns_of_a = 0;
    let names: Vec<&'static str> = (0..200).map(|i| &*format!("t{i}").leak()).collect();
    for pair in names.chunks(2) {
        for name in pair {
            b.park("x", name);
        }
        let (next, tenant) = b.turn(slot);
        slot = next;
        turns_of_a += usize::from(tenant == "a");
    }
    // Each turn the ring has one more; `a` keeps its place in it.
    assert!(turns_of_a >= 5, "{turns_of_a}");
}

#[test]
fn k11_a_flood_of_tenants_that_leave_leaves_nothing() {
    let mut b = Bench::new(Settings::new(patient(1)));
    let slot = b.hold("x", "a");
    for i in 0..10_000 {
        let waiter = b.park("x", format!("t{i}").leak());
        let now = b.now;
        assert!(b.core.cancel(waiter, || now, &mut b.wakes).is_none());
    }
    b.waiting.clear();
    assert!(b.core.tenants.capacity() < 16);
    assert!(b.core.waiters.capacity() < 16);
    b.release(slot);
    assert_eq!(b.core.by_tenant.len(), 0);
}

#[test]
fn k11_pools_of_their_own_are_bounded_and_those_without_a_call_forgotten() {
    let mut b = Bench::new(Settings::each(patient(1)));
    for i in 0..30_000 {
        let slot = b.hold(&format!("p{i}"), "a");
        b.release(slot);
    }
    assert_eq!(b.core.pools.len(), 10_000);
    // Where each has a call, one more shares the default.
    let held: Vec<usize> = (0..9_999).map(|i| b.hold(&format!("q{i}"), "")).collect();
    let more = b.hold("one more", "");
    assert_eq!(&*b.core.pools[b.core.slots[more].pool].name, "default");
    b.release(held[0]);
    let again = b.hold("another", "");
    assert_eq!(&*b.core.pools[b.core.slots[again].pool].name, "another");
}

#[test]
fn k11_no_pool_is_forgotten_that_has_a_call_or_was_set_by_hand() {
    let name = |i: usize| format!("p{i}");
    let mut b = Bench::new(Settings::each(patient(1)).total_limit(9_998));
    // With the default one as many as there may be. Each has been without a call for once, and twice
    // adds nothing.
    for i in (0..9_999).chain(0..9_999) {
        let slot = b.hold(&name(i), "");
        b.release(slot);
    }
    assert_eq!((b.core.pools.len(), b.core.idle.len()), (10_000, 9_999));
    let held: Vec<usize> = (0..9_998).map(|i| b.hold(&name(i), "")).collect();
    let waits = b.park(&name(9_998), "");
    let (now, pools) = (b.now, b.core.pools.len());
    assert!(b.core.resize(&name(0), 2, now, &mut b.wakes));
    b.release(held[0]);
    assert_eq!(
        b.served().len(),
        1,
        "{waits} has the place of what was released"
    );
    let default = b.park("one more", "");
    assert_eq!(b.core.pools.len(), pools);
    b.release(held[1]);
    assert_eq!(b.served().len(), 1, "{default} was next");
    assert_eq!(b.core.idle.len(), 1);
    let another = b.core.pool_of(&Names::of_text("another"));
    assert_eq!(&*b.core.pools[another].name, "another");
    assert!(b.core.find_pool(crate::name::Name::of(&name(0))).is_some());
    assert!(b.core.find_pool(crate::name::Name::of(&name(1))).is_none());
    assert_eq!(b.core.by_name.len(), b.core.pools.len());
}

#[test]
fn k03_a_full_queue_drops_from_its_longest_part() {
    let mut b = Bench::new(Settings::new(patient(1).queue(4)));
    b.hold("x", "a");
    let mine: Vec<usize> = (0..4).map(|_| b.park("x", "a")).collect();
    // `b` has none of four: the newest of `a` goes. Then once more; then they have two each.
    b.park("x", "b");
    b.park("x", "b");
    assert!(matches!(b.arrive("x", "b", 1), Arrival::Refused(_)));
    assert!(matches!(b.arrive("x", "a", 1), Arrival::Refused(_)));
    let refused = |b: &Bench, i: usize| b.core.waiters[mine[i]].granted() == Some(None);
    assert!(!refused(&b, 0) && !refused(&b, 1) && refused(&b, 2) && refused(&b, 3));
    // A newcomer takes one of two, and nobody's only one.
    b.park("x", "c");
    b.park("x", "d");
    assert!(matches!(b.arrive("x", "e", 1), Arrival::Refused(_)));
    assert_eq!(b.core.snapshot().pools[0].rejected, 7);
}

#[test]
fn a_tenant_at_its_limit_is_in_nobodys_way() {
    let mut b = Bench::new(Settings::new(patient(3).tenant_limit(2)));
    let first = b.hold("x", "a");
    b.hold("x", "a");
    b.park("x", "a");
    b.hold("x", "b");
    b.park("x", "b");
    // The place of `a` goes to `a`, who stood before.
    let (slot, tenant) = b.turn(first);
    assert_eq!(tenant, "b", "who waited in the ring");
    let (_, tenant) = b.turn(slot);
    assert_eq!(tenant, "a");
}

#[test]
fn pools_that_compete_are_served_by_their_weights() {
    let settings = Settings::new(patient(9))
        .pool("three", patient(9).weight(3))
        .pool("one", patient(9).weight(1))
        .total_limit(1);
    let mut b = Bench::new(settings);
    let mut slot = b.hold("one", "");
    for _ in 0..100 {
        b.park("three", "three");
        b.park("one", "one");
    }
    let mut threes = 0;
    for i in 1..=80 {
        let (next, tenant) = b.turn(slot);
        slot = next;
        threes += usize::from(tenant == "three");
        assert!(
            (threes as f64 - f64::from(i) * 0.75).abs() <= 1.0,
            "{threes} of {i}"
        );
    }
    // One that comes later begins where the others are.
    for _ in 0..20 {
        b.park("x", "late");
    }
    let late = (0..20)
        .filter(|_| {
            let (next, tenant) = b.turn(slot);
            slot = next;
            tenant == "late"
        })
        .count();
    assert!((3..=5).contains(&late), "{late}");
}

#[test]
fn a_pool_whose_calls_cost_more_gets_fewer_of_them() {
    let settings = Settings::new(patient(9))
        .pool("large", patient(9))
        .pool("small", patient(9))
        .total_limit(3);
    let mut b = Bench::new(settings);
    let Arrival::Admitted(mut slot) = b.arrive("small", "", 3) else {
        panic!("there is room");
    };
    for _ in 0..100 {
        b.arrive("large", "large", 3);
        b.arrive("small", "small", 1);
    }
    let (mut large, mut small) = (0_i32, 0_i32);
    let mut held = vec![slot];
    while large < 20 {
        slot = held.remove(0);
        b.release(slot);
        for (slot, tenant, _) in b.served() {
            held.push(slot);
            match tenant {
                "large" => large += 1,
                _ => small += 1,
            }
        }
        assert!((small - 3 * large).abs() <= 6, "{small} to {large}");
    }
}

#[test]
fn k08_a_lower_limit_ends_nothing_and_a_higher_one_is_used_at_once() {
    let mut b = Bench::new(Settings::new(patient(3)));
    let slots: Vec<usize> = (0..3).map(|_| b.hold("x", "a")).collect();
    for _ in 0..4 {
        b.park("x", "a");
    }
    let now = b.now;
    assert!(b.core.resize("default", 1, now, &mut b.wakes));
    b.release(slots[0]);
    b.release(slots[1]);
    assert_eq!((b.served().len(), b.core.in_flight), (0, 1));
    assert!(b.core.resize("default", 4, now, &mut b.wakes));
    assert_eq!((b.served().len(), b.core.in_flight), (3, 4));
    b.core.resize_total(Some(2), now, &mut b.wakes);
    assert_eq!((b.served().len(), b.core.in_flight), (0, 4));
    b.core.resize_total(None, now, &mut b.wakes);
    assert!(b.core.resize("default", 5, now, &mut b.wakes));
    assert_eq!((b.served().len(), b.core.in_flight), (1, 5));
    assert!(!b.core.resize("nobody", 5, now, &mut b.wakes));
}

#[test]
fn what_costs_more_than_the_limit_goes_through_alone() {
    let mut b = Bench::new(Settings::new(patient(3)));
    let slot = b.hold("x", "a");
    assert!(matches!(b.arrive("x", "b", 9), Arrival::Parked(..)));
    // Small ones do not overtake it.
    b.park("x", "c");
    assert_eq!(b.turn(slot).1, "b");
    assert_eq!(b.core.in_flight, 9);
}

#[test]
fn k14_the_time_to_come_back_is_the_pace_of_the_pool_times_those_before() {
    let mut b = Bench::new(Settings::new(patient(1).queue(3)));
    let full = |b: &mut Bench| match b.arrive("x", "", 1) {
        Arrival::Refused(full) => full.retry_after.as_secs(),
        other => panic!("{other:?}"),
    };
    let mut slot = b.hold("x", "");
    for _ in 0..3 {
        b.park("x", "");
    }
    assert_eq!(full(&mut b), 1, "nothing is known");
    for _ in 0..2 {
        b.now += Duration::from_secs(4);
        slot = b.turn(slot).0;
        b.park("x", "");
    }
    assert_eq!(full(&mut b), 4 * 4);
    b.now += Duration::from_secs(599);
    b.turn(slot);
    b.park("x", "");
    assert_eq!(full(&mut b), 60);
}

#[test]
fn k14_while_a_pool_is_half_empty_no_pace_is_kept() {
    let mut b = Bench::new(Settings::new(patient(4).wait(Duration::ZERO)));
    let full = |b: &mut Bench| match b.arrive("x", "", 1) {
        Arrival::Refused(full) => full.retry_after.as_secs(),
        other => panic!("{other:?}"),
    };
    // Busy: a call ends every 3 s. Three of four under way is still busy, two is not.
    let mut held: Vec<_> = (0..4).map(|_| b.hold("x", "")).collect();
    for _ in 0..5 {
        assert!(full(&mut b) >= 1);
        b.now += Duration::from_secs(3);
        b.release(held.remove(0));
        held.push(b.hold("x", ""));
    }
    assert_eq!(full(&mut b), 3);
    for slot in held.drain(..2) {
        b.release(slot);
    }
    // The hour in which nobody was turned away says nothing of the pace.
    b.now += Duration::from_secs(3_600);
    held.extend((0..2).map(|_| b.hold("x", "")));
    let before = full(&mut b);
    b.release(held.remove(0));
    held.push(b.hold("x", ""));
    assert!(full(&mut b) <= before, "{before}");
}

#[test]
fn a_reader_that_stopped_loses_its_permit_once_and_a_silent_provider_does_not() {
    let mut b = Bench::new(Settings::new(patient(2).queue(100)));
    let (stopped, silent) = (b.hold("x", "a"), b.hold("x", "a"));
    let watch = b.core.watch(stopped);
    watch.handed();
    assert!(b.core.watch(silent).asked());
    for _ in 0..8 {
        b.park("x", "b");
        b.now += Duration::from_secs(15);
    }
    assert!(b.served().is_empty() && !watch.is_revoked());
    b.park("x", "b");
    assert_eq!(b.served().len(), 1);
    assert!(watch.is_revoked() && !watch.asked() && watch.is_revoked());
    assert_eq!((b.core.in_flight, b.core.slots.len()), (2, 2));
    assert_eq!(b.core.pools[b.core.default].abandoned, 1);
    // Whoever has its place now has a mark of its own.
    assert!(b.core.watch(stopped).asked());
}

#[test]
fn a_waiter_gets_what_is_found_in_the_moment_in_which_its_time_is_over() {
    let span = Duration::from_secs(120);
    let mut b = Bench::new(Settings::new(patient(1).wait(span)));
    let watch = {
        let slot = b.hold("x", "");
        b.core.watch(slot)
    };
    watch.handed();
    let waiter = b.park("x", "");
    b.now += span;
    let now = b.now;
    assert_eq!(b.core.looks_at(waiter), now - span * 7 / 8);
    let answered = b.core.look(waiter, &mut None, now, &mut b.wakes);
    assert!(matches!(answered, Answered::Granted(_)), "{answered:?}");
    assert!(watch.is_revoked());
}

#[test]
fn a_reader_that_comes_back_in_time_keeps_its_permit() {
    let mut b = Bench::new(Settings::new(patient(1).queue(100)));
    let slot = b.hold("x", "a");
    let watch = b.core.watch(slot);
    for _ in 0..40 {
        watch.handed();
        for _ in 0..7 {
            b.park("x", "b");
            b.now += Duration::from_secs(15);
        }
        if b.waiting.len() > 90 {
            break;
        }
        assert!(watch.asked());
    }
    assert!(!watch.is_revoked() && b.served().is_empty());
}

#[test]
fn k04_a_large_call_that_is_gone_makes_no_turn_longer() {
    let mut b = Bench::new(Settings::new(patient(9)));
    let mut slot = b.hold("x", "");
    for _ in 1..9 {
        b.hold("x", "");
    }
    b.arrive("x", "a", 8);
    let large = *b.waiting.keys().next().unwrap();
    for _ in 0..20 {
        b.park("x", "a");
        b.park("x", "b");
    }
    let now = b.now;
    assert!(b.core.cancel(large, || now, &mut b.wakes).is_none());
    b.waiting.remove(&large);
    let mut order = String::new();
    for _ in 0..6 {
        let (next, tenant) = b.turn(slot);
        slot = next;
        order.push_str(tenant);
    }
    assert_eq!(order, "ababab");
}

#[test]
fn k05_a_call_larger_than_the_limit_makes_a_turn_no_longer_than_that() {
    for settings in [
        Settings::new(patient(2)),
        Settings::new(patient(9)).total_limit(2),
    ] {
        let mut b = Bench::new(settings);
        let mut slot = b.hold("x", "");
        b.hold("x", "");
        for _ in 0..20 {
            b.park("x", "a");
            b.park("x", "b");
        }
        b.arrive("x", "a", u32::MAX as usize);
        let mut order = String::new();
        for _ in 0..8 {
            let (next, tenant) = b.turn(slot);
            slot = next;
            order.push_str(tenant);
        }
        assert_eq!(order, "abbaabba");
    }
}

#[test]
fn k11_who_waited_too_long_and_makes_place_leaves_nothing() {
    let mut b = Bench::new(Settings::new(patient(1).queue(1)));
    b.hold("x", "");
    b.park("x", "a");
    b.now += Duration::from_secs(6_001);
    b.park("x", "b");
    assert_eq!(b.core.by_tenant.len(), 1);
}

#[test]
fn k08_pools_share_what_a_resize_adds_by_their_weights() {
    let settings = Settings::new(patient(100))
        .pool("one", patient(100).weight(1))
        .pool("three", patient(100).weight(3))
        .total_limit(1);
    let mut b = Bench::new(settings);
    b.hold("x", "");
    for _ in 0..20 {
        b.park("one", "one");
        b.park("three", "three");
    }
    let now = b.now;
    b.core.resize_total(Some(9), now, &mut b.wakes);
    let served = b.served();
    let threes = served.iter().filter(|(_, who, _)| *who == "three").count();
    assert_eq!((served.len(), threes), (8, 6));
}

#[test]
fn a_reader_that_stopped_in_a_pool_with_room_keeps_its_permit() {
    let settings = Settings::new(patient(2)).pool("full", patient(1));
    for (total, kept) in [(None, true), (Some(2), false)] {
        let mut settings = settings.clone();
        settings.total = total;
        let mut b = Bench::new(settings);
        let stopped = b.hold("x", "a");
        let watch = b.core.watch(stopped);
        watch.handed();
        b.hold("full", "b");
        for _ in 0..20 {
            b.park("full", "b");
            b.now += Duration::from_secs(15);
        }
        assert_eq!(watch.is_revoked(), !kept, "{total:?}");
    }
}

#[test]
fn a_reader_that_stopped_is_found_where_a_large_call_waits_for_all_pools() {
    let mut b = Bench::new(
        Settings::new(patient(9))
            .pool("other", patient(9))
            .total_limit(3),
    );
    let stopped = b.hold("x", "a");
    let watch = b.core.watch(stopped);
    watch.handed();
    b.hold("other", "b");
    b.arrive("other", "b", 2);
    for _ in 0..10 {
        b.now += Duration::from_secs(15);
        b.park("other", "b");
    }
    assert!(watch.is_revoked());
}

proptest! {
    /// K4 for random costs: over any time in which two tenants both wait, what each got differs by
    /// at most three of the largest costs (two are the bound of the algorithm for equal quanta; the
    /// quantum grows when a larger cost comes).
    #[test]
    fn k04_tenants_that_both_wait_get_the_same_share(
        costs in prop::collection::vec((0..3usize, 1..5usize), 30..120),
        unit in any::<bool>(),
    ) {
        let cost_of = |cost: usize| if unit { 1 } else { cost };
        let max = costs.iter().map(|(_, c)| cost_of(*c)).max().unwrap();
        let mut b = Bench::new(Settings::new(patient(4)));
        let mut out: Vec<usize> = (0..4).map(|_| b.hold("x", "")).collect();
        let names = ["a", "b", "c"];
        for (tenant, cost) in &costs {
            b.arrive("x", names[*tenant], cost_of(*cost));
        }
        let mut history: Vec<[usize; 3]> = vec![[0; 3]];
        let waits = |b: &Bench, name: &str| b.waiting.values().any(|(t, _)| *t == name);
        while names.iter().all(|name| waits(&b, name)) {
            b.release(out.remove(0));
            for (slot, tenant, cost) in b.served() {
                out.push(slot);
                let mut got = *history.last().unwrap();
                got[names.iter().position(|n| *n == tenant).unwrap()] += cost;
                history.push(got);
            }
        }
        // The last step can have ended the wait of one; it still counts as a turn.
        let bound = if unit { 1 } else { 3 * max };
        for (i, from) in history.iter().enumerate() {
            for to in &history[i..] {
                for (x, y) in [(0, 1), (0, 2), (1, 2)] {
                    let (gx, gy) = (to[x] - from[x], to[y] - from[y]);
                    prop_assert!(gx.abs_diff(gy) <= bound, "{gx} {gy} of {max}");
                }
            }
        }
    }
}

#[test]
fn k14_a_refusal_names_the_limit_over_all_pools_only_where_that_alone_is_reached() {
    for (pool, total, named) in [(1, 1, None), (1, 5, None), (5, 1, Some(1))] {
        let one = patient(pool).wait(Duration::ZERO);
        let mut b = Bench::new(Settings::new(one).total_limit(total));
        b.hold("x", "");
        match b.arrive("x", "", 1) {
            Arrival::Refused(full) => assert_eq!(full.total_limit, named, "{pool} of {total}"),
            other => panic!("{other:?}"),
        }
    }
}
