//! A permit and a place in the queue, each given back exactly once: when it is dropped.

use std::{
    fmt,
    task::{Context, Poll},
};

use tokio::time::Instant;

use crate::{Full, bulkhead::Shared, core::Answered, sync::Arc, watch::Watch};

/// One of the calls under way.
pub(crate) struct Permit {
    shared: Arc<Shared>,
    slot: usize,
    watch: Arc<Watch>,
}

impl Permit {
    pub(crate) fn new(shared: Arc<Shared>, slot: usize, watch: Arc<Watch>) -> Permit {
        Permit {
            shared,
            slot,
            watch,
        }
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.with(|core, wakes| {
            // Under the lock, so that it is not taken back in between.
            if !self.watch.is_revoked() {
                core.release(self.slot, Instant::now, wakes);
            }
        });
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

/// One of those that wait.
pub(crate) struct Place {
    shared: Arc<Shared>,
    /// `None` once it was answered.
    waiter: Option<usize>,
    /// When it has to look.
    pub(crate) looks_at: Instant,
}

impl Place {
    pub(crate) fn new(shared: Arc<Shared>, waiter: usize, looks_at: Instant) -> Place {
        Place {
            shared,
            waiter: Some(waiter),
            looks_at,
        }
    }

    /// Asks for the permit.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Full>> {
        let mut waker = Some(cx.waker().clone());
        self.answer(|core, waiter, _| core.ask(waiter, &mut waker))
    }

    /// Looks whether its time is over, or a reader has stopped; a permit that comes in this moment
    /// is taken. Its timer went off `at` that time.
    pub(crate) fn look(&mut self, at: Instant) -> Poll<Result<Permit, Full>> {
        let mut waker = None;
        // The timer can be of a runtime whose clock is ahead.
        let now = Instant::now().max(at);
        self.answer(|core, waiter, wakes| core.look(waiter, &mut waker, now, wakes))
    }

    fn answer(
        &mut self,
        ask: impl FnOnce(&mut crate::core::Core, usize, &mut crate::core::Wakes) -> Answered,
    ) -> Poll<Result<Permit, Full>> {
        let Some(waiter) = self.waiter else {
            return Poll::Pending;
        };
        self.shared.with(|core, wakes| {
            let answer = match ask(core, waiter, wakes) {
                Answered::NotYet => {
                    self.looks_at = core.looks_at(waiter);
                    return Poll::Pending;
                }
                Answered::Granted(slot) => {
                    Ok(Permit::new(self.shared.clone(), slot, core.watch(slot)))
                }
                Answered::Refused(full) => Err(full),
            };
            self.waiter = None;
            Poll::Ready(answer)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            let waker = self
                .shared
                .with(|core, wakes| core.cancel(waiter, Instant::now, wakes));
            drop(waker);
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("looks_at", &self.looks_at)
            .finish_non_exhaustive()
    }
}
