use std::{sync::Barrier, thread};

use llm_call::CallSettings;

use super::*;
use crate::shares::MOST_TARGETS;

fn account(budget: &RetryBudget, target: Option<&str>) -> Account {
    Account {
        budget: budget.clone(),
        target: target.map(|target| target.parse().unwrap()),
        call: Call::open(CallSettings::new()),
    }
}

fn draw(account: &Account) -> Option<Withdrawal> {
    account.withdraw(Instant::now())
}

#[test]
fn r03_threads_on_a_balance_get_exactly_the_balance() {
    for balance in [0, 1, 7, 64] {
        let budget = RetryBudget::new().floor(balance).refill(Duration::MAX);
        let account = account(&budget, Some("a:m"));
        let start = Barrier::new(8);
        let granted: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        // Kept until all have asked, since a drop would give them back.
                        let kept: Vec<_> = (0..64).filter_map(|_| draw(&account)).collect();
                        start.wait();
                        kept.len()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(granted, balance as usize);
        assert_eq!(budget.balance(account.target.as_ref()), f64::from(balance));
    }
}

#[test]
fn r07_dropped_before_it_is_sent_a_token_goes_back_once() {
    let budget = RetryBudget::new();
    let account = account(&budget, None);
    let mut called = draw(&account).unwrap();
    let (planned, refused) = (draw(&account).unwrap(), draw(&account).unwrap());
    assert_eq!(budget.balance(None), 0.0);
    drop(planned);
    assert_eq!(budget.balance(None), 1.0);
    refused.refused();
    assert_eq!(budget.balance(None), 2.0);
    // Called, and dropped in the queue of a layer below.
    called.called(Instant::now());
    drop(called);
    assert_eq!(budget.balance(None), 3.0);
}

#[test]
fn r20_each_target_has_a_share_of_its_own_and_clones_have_the_same() {
    let budget = RetryBudget::new();
    let (a, b) = (
        account(&budget.clone(), Some("a:m")),
        account(&budget, Some("b:m")),
    );
    let _kept: Vec<_> = (0..3).map(|_| draw(&a).unwrap()).collect();
    assert!(draw(&a).is_none());
    assert!(draw(&b).is_some());
    let balances: Vec<_> = budget.balances();
    let of = |target: &str| Some(target.parse().unwrap());
    assert_eq!(balances, [(None, 3.0), (of("a:m"), 0.0), (of("b:m"), 3.0)]);
    assert_eq!(budget.balance(of("never:used").as_ref()), 3.0);
}

#[test]
fn a_setter_makes_a_budget_that_nobody_has_used() {
    let budget = RetryBudget::new();
    let _kept = draw(&account(&budget, None)).unwrap();
    let other = budget.clone().most(2);
    assert_eq!((budget.balance(None), other.balance(None)), (2.0, 2.0));
    assert_eq!(other.clone().most(100).balance(None), 3.0);
    assert!(format!("{other:?}").contains("most: 2.0"));
}

#[test]
fn the_number_of_targets_is_bounded_and_nobody_gains_by_it() {
    let budget = RetryBudget::new();
    // Targets that have spent their floor stay; so does one that has a retry planned.
    let drained: Vec<_> = (0..MOST_TARGETS - 1)
        .map(|i| account(&budget, Some(&format!("drained:{i}"))))
        .collect();
    let mut planned = Vec::new();
    for account in &drained {
        planned.extend(draw(account));
    }
    let fresh = account(&budget, Some("fresh:m"));
    drop(draw(&fresh));
    let len = || budget.balances().len() - 1;
    assert_eq!(len(), MOST_TARGETS);
    // One is as good as new and makes room.
    let first = account(&budget, Some("first:m"));
    let _first = draw(&first).unwrap();
    assert_eq!(len(), MOST_TARGETS);
    assert!(
        !budget
            .balances()
            .iter()
            .any(|(target, _)| *target == fresh.target)
    );
    // Now nobody can go: the next one draws on the common share.
    let next = account(&budget, Some("next:m"));
    let taken = draw(&next).unwrap();
    assert_eq!((len(), budget.balance(None)), (MOST_TARGETS, 2.0));
    drop(taken);
    assert_eq!(budget.balance(None), 3.0);
    drop(planned);
    assert!(
        drained
            .iter()
            .all(|a| budget.balance(a.target.as_ref()) == 3.0)
    );
}

#[test]
fn each_setting_is_what_it_says() {
    let budget = RetryBudget::new()
        .percent(25)
        .most(7)
        .floor(2)
        .refill(Duration::from_secs(4));
    let terms = budget.0.terms;
    assert_eq!((terms.deposit, terms.most), (TOKEN / 4, 7 * TOKEN));
    assert_eq!(
        (terms.floor, terms.refill),
        (2 * TOKEN, Duration::from_secs(4))
    );
    // The default, where nothing is said.
    let terms = RetryBudget::new().0.terms;
    assert_eq!(
        (terms.deposit, terms.refill),
        (TOKEN / 10, Duration::from_secs(10))
    );
}
