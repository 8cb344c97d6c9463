//! Which target a call goes to next.

use llm_call::{Call, Capability, Facts, InvalidTarget, Kind, Lack, Lease, Refusal, Target};
use tokio::time::Instant;

use super::Targets;
use crate::rest::Rested;

/// Which targets a call has not tried, as bits by index, and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    left: u64,
    /// Those whose provider fell silent in this call.
    silent: u64,
    /// Those whose circuit breaker refused the call while it had other targets left.
    refused: u64,
    /// Those of them that take the call once it has no other target left.
    willing: u64,
    /// No other target is left: the refused ones are asked once more.
    last_resort: bool,
    /// Those whose context window may be too small for the request.
    scarce: u64,
    /// What the call needs, where no target has it.
    lack: Option<Lack>,
    /// Another copy of the call is under way, so that this one need not be answered.
    hedge: bool,
    first: usize,
    dice: fastrand::Rng,
}

/// The answer to "who is next?".
#[derive(Debug)]
pub(crate) enum Next {
    Target {
        index: usize,
        lease: Lease,
        /// Targets that could be tried after it.
        others: u32,
        /// Nothing can follow: no other one rests or is taken either.
        is_last: bool,
    },
    None {
        /// When the first resting target comes back.
        soonest: Option<Instant>,
    },
}

impl Order {
    /// The breaker of the target with this index refused the call while it had other targets left.
    /// A circuit that has just closed does so with most calls, and takes them when they have no
    /// other place to go: it is asked once more then. `willing`: it has said that it will.
    pub(crate) fn ask_again(&mut self, index: usize, willing: bool) {
        if self.hedge {
            return;
        }
        self.refused |= 1 << index;
        self.willing |= u64::from(willing) << index;
    }

    /// What the call needs, where no target has it.
    pub(crate) fn lack(&self) -> Option<Lack> {
        self.lack
    }

    /// Whether this is the order of a hedge.
    pub(crate) fn is_of_hedge(&self) -> bool {
        self.hedge
    }

    /// Whether those that refused the call are being asked once more.
    pub(crate) fn is_last_resort(&self) -> bool {
        self.last_resort
    }
}

fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        (index < 64).then(|| {
            set &= set - 1;
            index as usize
        })
    })
}

impl Targets {
    /// An order for one call, or for the hedge of one: that goes to no target that rests, and to none
    /// a second time.
    pub(crate) fn order(&self, call: &Call, hedge: bool) -> Order {
        let mut order = Order {
            left: u64::MAX >> (64 - self.len()),
            silent: 0,
            refused: 0,
            willing: 0,
            scarce: 0,
            lack: None,
            last_resort: false,
            hedge,
            first: 0,
            dice: fastrand::Rng::with_seed(0),
        };
        if let Some(facts) = call.facts() {
            self.pass_over(&mut order, call, facts);
        }
        if self.0.settings.weighted {
            // Calls of one affinity throw the same numbers.
            let seed = call.affinity().unwrap_or_else(|| fastrand::u64(..));
            order.dice = fastrand::Rng::with_seed(seed);
            let first = if order.left == 0 {
                order.scarce
            } else {
                order.left
            };
            order.first = self.draw(first, order.dice.u64(..));
        }
        order
    }

    /// Passes over targets that lack what a call needs.
    fn pass_over(&self, order: &mut Order, call: &Call, facts: &Facts) {
        let mut first = None;
        for (index, entry) in self.0.settings.entries.iter().enumerate() {
            let Some(lack) = entry.abilities.as_ref().and_then(|able| able.lack(facts)) else {
                continue;
            };
            order.left &= !(1 << index);
            if lack == Lack::ContextWindow {
                order.scarce |= 1 << index;
                continue;
            }
            first.get_or_insert(lack);
            if !order.hedge {
                call.note_refused(0, Some(&entry.base), Kind::Refused(Refusal::Unable));
            }
        }
        if order.left | order.scarce == 0 {
            order.lack = first;
        }
    }

    /// The target with this index could not be reached, or said nothing: the others of its
    /// provider are likely no better and are asked last.
    pub(crate) fn fell_silent(&self, order: &mut Order, index: usize) {
        let entries = &self.0.settings.entries;
        let provider = entries[index].base.provider();
        for (i, entry) in entries.iter().enumerate() {
            order.silent |= u64::from(entry.base.provider() == provider) << i;
        }
    }

    /// One of the targets in `left`, by weight; those without weight come last, in order.
    fn draw(&self, left: u64, random: u64) -> usize {
        let weight = |index: usize| u64::from(self.0.settings.entries[index].weight);
        let total: u64 = bits(left).map(weight).sum();
        if total == 0 {
            return left.trailing_zeros() as usize;
        }
        // 64 random bits over at most 2^38 of weight: the bias is below 2^-26.
        let mut point = random % total;
        bits(left)
            .find(|index| {
                let weight = weight(*index);
                let hit = point < weight;
                point = point.saturating_sub(weight);
                hit
            })
            .unwrap_or(0)
    }

    /// The next target for a call, leased; and how many others are left behind it.
    pub(crate) fn next(&self, order: &mut Order, call: &Call, now: Instant) -> Next {
        let mut next = self.next_left(order, call, now);
        if matches!(next, Next::None { .. }) && order.scarce != 0 {
            order.left = std::mem::take(&mut order.scarce);
            next = self.next_left(order, call, now);
        }
        match next {
            Next::None { .. } if order.refused != 0 => {
                order.left = std::mem::take(&mut order.refused);
                order.last_resort = true;
                self.next_left(order, call, now)
            }
            next => next,
        }
    }

    fn next_left(&self, order: &mut Order, call: &Call, now: Instant) -> Next {
        let facts = call.facts();
        let tenant = self.tenant(call);
        let mut soonest: Option<Instant> = None;
        let mut usable = 0u64;
        let mut needed = 0u64;
        let mut possible = 0u64;
        {
            let state = self.state();
            for index in bits(order.left) {
                let Some(live) = state.get(index) else { break };
                if live.drained {
                    continue;
                }
                possible |= 1 << index;
                match live.rests.at(tenant, now) {
                    Rested::Yes => usable |= 1 << index,
                    Rested::IfNeeded(until) => {
                        needed |= u64::from(!order.hedge) << index;
                        soonest = Some(soonest.map_or(until, |s| s.min(until)));
                    }
                    Rested::No(until) => soonest = Some(soonest.map_or(until, |s| s.min(until))),
                }
            }
        }
        // A guess of ours is no reason to refuse a call that has nowhere else to go.
        let mut pool = if usable == 0 { needed } else { usable };
        // What another copy has taken may be given back until the next one fails.
        let mut taken = 0u64;
        while pool != 0 {
            let elsewhere = pool & !order.silent;
            let index = self.pick(order, if elsewhere == 0 { pool } else { elsewhere });
            pool &= !(1 << index);
            // A model that cannot be named rules this target out, and not those with their own.
            let Ok(target) = self.resolve(index, facts) else {
                order.left &= !(1 << index);
                continue;
            };
            if let Some(lease) = call.lease(&target) {
                order.left &= !(1 << index);
                // Targets that rest by a guess are left too: they are asked when the others failed.
                // So are those that take the call as the last one left.
                let others = (usable | needed) & order.left & !taken | order.willing | order.scarce;
                return Next::Target {
                    index,
                    lease,
                    others: if order.last_resort {
                        0
                    } else {
                        others.count_ones()
                    },
                    is_last: possible & order.left == 0 && (order.refused | order.scarce) == 0,
                };
            }
            taken |= 1 << index;
        }
        Next::None { soonest }
    }

    fn pick(&self, order: &mut Order, pool: u64) -> usize {
        if !self.0.settings.weighted {
            return pool.trailing_zeros() as usize;
        }
        if pool & (1 << order.first) != 0 {
            return order.first;
        }
        self.draw(pool, order.dice.u64(..))
    }

    /// The target with what the request says filled in.
    fn resolve(&self, index: usize, facts: Option<&Facts>) -> Result<Target, InvalidTarget> {
        let entry = &self.0.settings.entries[index];
        let capability = facts.and_then(|facts| facts.capability);
        if let Some(ready) = &entry.ready {
            let slot = capability
                .and_then(|c| Capability::ALL.iter().position(|all| *all == c))
                .unwrap_or(Capability::ALL.len());
            if let Some(target) = ready.get(slot) {
                return Ok(target.clone());
            }
        }
        let model = facts.and_then(|facts| facts.model.as_deref());
        entry.base.complete(model, capability)
    }
}
