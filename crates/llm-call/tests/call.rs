//! `Call` against a naive model: leases, numbers, the deadline, causes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::{collections::HashSet, time::Duration};

use llm_call::{Call, CallSettings, Cause, Ending, Kind, Lease, Phase, Target};
use proptest::prelude::*;
use tokio::time::Instant;

#[derive(Clone, Debug)]
enum Op {
    Lease(usize),
    GiveBack(usize),
    DropLease(usize),
    Tighten(u64),
    Number,
    Refuse(usize),
    Finish(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..4usize).prop_map(Op::Lease),
        (0..8usize).prop_map(Op::GiveBack),
        (0..8usize).prop_map(Op::DropLease),
        (0..100u64).prop_map(Op::Tighten),
        Just(Op::Number),
        (0..4usize).prop_map(Op::Refuse),
        any::<bool>().prop_map(Op::Finish),
    ]
}

proptest! {
    #[test]
    fn f02_a_target_is_taken_once_and_the_deadline_never_moves_back(
        ops in proptest::collection::vec(op(), 0..60),
    ) {
        let targets: Vec<Target> = ["a", "b:m", "b:m:chat", "c"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let call = Call::open(CallSettings::new());
        let zero = Instant::now();
        // The model.
        let mut taken = HashSet::new();
        let mut held: Vec<Lease> = Vec::new();
        let mut deadline = None;
        let mut numbers = HashSet::new();
        let mut refused = 0;
        let mut ended = None;
        for op in ops {
            match op {
                Op::Lease(i) => {
                    let free = taken.insert(i);
                    let lease = call.lease(&targets[i]);
                    prop_assert_eq!(lease.is_some(), free);
                    held.extend(lease);
                }
                Op::GiveBack(i) if i < held.len() => {
                    let lease = held.swap_remove(i);
                    taken.remove(&targets.iter().position(|t| t == lease.target()).unwrap());
                    lease.give_back();
                }
                // The target stays used up.
                Op::DropLease(i) if i < held.len() => drop(held.swap_remove(i)),
                Op::GiveBack(_) | Op::DropLease(_) => {}
                Op::Tighten(s) => {
                    let to = zero + Duration::from_secs(s);
                    deadline = Some(deadline.map_or(to, |d: Instant| d.min(to)));
                    call.tighten(to);
                }
                Op::Number => prop_assert!(numbers.insert(call.number())),
                Op::Refuse(i) => {
                    refused += 1;
                    call.note_refused(9, Some(&targets[i]), Kind::Overloaded);
                }
                Op::Finish(whole) => {
                    let ending = if whole { Ending::Complete } else { Ending::Dropped };
                    ended.get_or_insert(ending);
                    call.finish(ending);
                }
            }
            for (i, target) in targets.iter().enumerate() {
                prop_assert_eq!(call.is_free(target), !taken.contains(&i));
            }
            prop_assert_eq!(call.deadline(), deadline);
            let ledger = call.ledger();
            prop_assert_eq!(ledger.entries.len(), refused);
            prop_assert_eq!(ledger.sent().count(), 0);
            prop_assert_eq!(ledger.ended.map(|(ending, _)| ending), ended);
        }
    }
}

#[test]
fn r03_a_lease_is_granted_once_among_threads() {
    let call = Call::open(CallSettings::new());
    let target: Target = "a:m".parse().unwrap();
    let granted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| usize::from(call.lease(&target).is_some())))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(granted, 1);
}

#[test]
fn a_ledger_reads_as_lines() {
    let call = Call::open(CallSettings::new());
    let target: Target = "a:m:chat".parse().unwrap();
    call.note_refused(1, Some(&target), Kind::Overloaded);
    call.note_wait(Duration::from_millis(250));
    call.finish(Ending::Cut(Cause::TimedOut(Phase::Deadline)));
    let text = call.ledger().to_string();
    assert!(text.contains("#1 a:m:chat at 0 ms: overloaded"), "{text}");
    assert!(text.contains("waited 250 ms"), "{text}");
    assert!(text.contains("timed_out_deadline after"), "{text}");
}

#[test]
fn r05_a_call_is_counted_as_answered_once() {
    let call = Call::open(CallSettings::new());
    assert!(call.count_answered());
    assert!(!call.clone().count_answered());
}
