//! [`Budget`]: how many hedges the calls of each tenant have paid for.

use std::sync::Arc;

use crate::recent::Recent;

/// One hedge costs a token, which is a million of the smallest unit.
pub(crate) const TOKEN: u64 = 1_000_000;

/// Tenants that are remembered.
const MOST_TENANTS: usize = 10_000;

/// A tenant's name; those without one share what they have.
pub(crate) type Tenant = Option<Arc<str>>;

/// The tokens of each tenant. Whoever is new, or was forgotten, has none.
#[derive(Debug)]
pub(crate) struct Budget {
    balances: Recent<Tenant, u64>,
    deposit: u64,
    most: u64,
}

impl Budget {
    pub(crate) fn new(deposit: u64, most: u64) -> Budget {
        Budget {
            balances: Recent::new(MOST_TENANTS),
            deposit,
            most,
        }
    }

    /// A call that could be hedged came: whether its tenant can pay for a hedge now.
    pub(crate) fn deposit(&mut self, tenant: &Tenant) -> bool {
        let (deposit, most) = (self.deposit, self.most);
        let balance = self.balances.get_or(tenant, || 0);
        *balance = most.min(*balance + deposit);
        *balance >= TOKEN
    }

    /// Takes a whole token, or nothing.
    pub(crate) fn withdraw(&mut self, tenant: &Tenant) -> bool {
        let balance = self.balances.get_or(tenant, || 0);
        match balance.checked_sub(TOKEN) {
            Some(rest) => {
                *balance = rest;
                true
            }
            None => false,
        }
    }

    /// A hedge that was paid for was never sent.
    pub(crate) fn give_back(&mut self, tenant: &Tenant) {
        let most = self.most;
        let balance = self.balances.get_or(tenant, || 0);
        *balance = most.min(*balance + TOKEN);
    }

    pub(crate) fn balance(&self, tenant: &Tenant) -> u64 {
        self.balances.peek(tenant).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In every window of calls: hedges sent <= percent of the calls in it + burst.
        #[test]
        fn h01_in_every_window_hedges_are_at_most_the_share_and_the_burst(
            percent in 1_u64..=100,
            burst in 1_u64..=20,
            // Of each call: whether it wants a hedge, and whether that is refused below.
            calls in proptest::collection::vec((any::<bool>(), prop::bool::weighted(0.2)), 1..400),
        ) {
            let deposit = percent * 10_000;
            let mut budget = Budget::new(deposit, burst * TOKEN);
            let tenant = Some(Arc::from("acme"));
            // A naive model: the balance as a plain number.
            let mut model = 0_u64;
            let mut sent = Vec::new();
            for (wants, refused) in calls {
                model = (model + deposit).min(burst * TOKEN);
                prop_assert_eq!(budget.deposit(&tenant), model >= TOKEN);
                let got = wants && budget.withdraw(&tenant);
                prop_assert_eq!(got, wants && model >= TOKEN);
                if got && refused {
                    budget.give_back(&tenant);
                } else if got {
                    model -= TOKEN;
                }
                prop_assert_eq!(budget.balance(&tenant), model);
                sent.push(u64::from(got && !refused));
            }
            for from in 0..sent.len() {
                let mut hedges = 0;
                for (calls, hedge) in (1_u64..).zip(&sent[from..]) {
                    hedges += hedge;
                    prop_assert!(hedges * TOKEN <= calls * deposit + burst * TOKEN);
                }
            }
        }
    }

    #[test]
    fn h01_a_share_is_exact_in_the_long_run() {
        // 0.7 % of a million calls, by tenths of thousandths of a token, is 7,000 and no other number.
        let mut budget = Budget::new(7_000, 10 * TOKEN);
        let mut hedges = 0;
        for _ in 0..1_000_000 {
            if budget.deposit(&None) && budget.withdraw(&None) {
                hedges += 1;
            }
        }
        assert_eq!(hedges, 7_000);
    }

    #[test]
    fn h01_tenants_do_not_share_and_a_new_one_has_nothing() {
        let mut budget = Budget::new(TOKEN / 2, 10 * TOKEN);
        let (a, b) = (Some(Arc::from("a")), Some(Arc::from("b")));
        assert!(!budget.deposit(&a));
        assert!(budget.deposit(&a));
        assert!(!budget.deposit(&b));
        assert!(!budget.withdraw(&b) && budget.withdraw(&a) && !budget.withdraw(&a));
        assert!(!budget.withdraw(&None));
    }

    #[test]
    fn h01_what_comes_back_is_not_held_beyond_the_burst() {
        let mut budget = Budget::new(TOKEN, TOKEN);
        assert!(budget.deposit(&None) && budget.withdraw(&None) && budget.deposit(&None));
        budget.give_back(&None);
        assert_eq!(budget.balance(&None), TOKEN);
    }

    #[test]
    fn a_flood_of_tenants_makes_nobody_richer() {
        let mut budget = Budget::new(TOKEN, TOKEN);
        let mut seen = VecDeque::new();
        for i in 0..30_000_u32 {
            let tenant = Some(Arc::from(i.to_string()));
            budget.deposit(&tenant);
            seen.push_back(tenant);
        }
        let held = seen.iter().filter(|tenant| budget.balance(tenant) > 0);
        assert!(held.count() <= MOST_TENANTS);
        assert_eq!(budget.balance(&seen[0]), 0);
    }
}
