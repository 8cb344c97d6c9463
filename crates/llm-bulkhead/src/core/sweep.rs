//! Permits of readers that have stopped.

use tokio::time::Instant;

use super::{Core, Wakes};
use crate::{
    sync::Arc,
    watch::{Sight, Watch},
};

impl Core {
    /// Takes back the permits of readers that have stopped, where it is time to look.
    pub(super) fn sweep(&mut self, now: Instant, wakes: &mut Wakes) {
        if self.next_sweep.is_some_and(|next| now < next) {
            return;
        }
        self.next_sweep = now.checked_add(self.sweep_every);
        let all_full = self.total.is_some_and(|total| self.in_flight >= total);
        let all = all_full || !self.shares.is_empty();
        let mut stopped = Vec::new();
        for (i, slot) in &mut self.slots {
            // Nobody is helped by what is taken where there is room.
            if !all && !self.pools[slot.pool].pace.is_busy() {
                continue;
            }
            match self.watches[i].look() {
                Sight::Upstream => {}
                Sight::Reader => slot.stopped = Some(now),
                Sight::Stopped => {
                    let since = slot.stopped.get_or_insert(now);
                    let span = now.saturating_duration_since(*since);
                    if span >= self.pools[slot.pool].settings.abandon_after
                        && self.watches[i].revoke()
                    {
                        stopped.push(i);
                    }
                }
            }
        }
        for slot in stopped {
            // The old mark stays with the body, which learns from it.
            self.watches[slot] = Arc::new(Watch::new());
            self.pools[self.slots[slot].pool].abandoned += 1;
            self.release(slot, || now, wakes);
        }
    }
}
