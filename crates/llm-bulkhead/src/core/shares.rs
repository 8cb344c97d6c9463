//! The limit over all pools: stride scheduling by their weights.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{Core, Wakes};

/// How far a call of cost 1 moves a pool of weight 1. Every weight moves its pool by at least 1.
const STRIDE: u128 = 1 << 32;

/// The pools that have room and somebody waiting, by how much each has had.
#[derive(Debug, Default)]
pub(super) struct Shares {
    contenders: BTreeSet<(u128, usize)>,
    /// Where whoever was served last stood. Who joins begins there: time away earns nothing.
    reached: u128,
}

impl Shares {
    pub(super) fn is_empty(&self) -> bool {
        self.contenders.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.contenders.clear();
    }
}

impl Core {
    /// Lets a pool compete, or no longer.
    pub(super) fn contend(&mut self, pool: usize, now: Instant, wakes: &mut Wakes) {
        let wants = self.ready(pool, now, wakes).is_some();
        let state = &mut self.pools[pool];
        if wants == state.contends {
            return;
        }
        state.contends = wants;
        if wants {
            state.pass = state.pass.max(self.shares.reached);
            self.shares.contenders.insert((state.pass, pool));
        } else {
            self.shares.contenders.remove(&(state.pass, pool));
        }
    }

    /// Serves the pools that compete, after a change in one of them.
    pub(super) fn share_out(&mut self, pool: usize, now: Instant, wakes: &mut Wakes) {
        self.contend(pool, now, wakes);
        while let Some(&(pass, pool)) = self.shares.contenders.first() {
            let Some(waiter) = self.ready(pool, now, wakes) else {
                self.contend(pool, now, wakes);
                continue;
            };
            let cost = self.waiters[waiter].cost;
            if !self.has_total_room(cost) {
                break;
            }
            self.shares.contenders.remove(&(pass, pool));
            self.shares.reached = pass;
            let state = &mut self.pools[pool];
            state.contends = false;
            state.pass = pass + STRIDE * cost as u128 / u128::from(state.settings.weight);
            self.serve(waiter, wakes);
            self.contend(pool, now, wakes);
        }
    }
}
