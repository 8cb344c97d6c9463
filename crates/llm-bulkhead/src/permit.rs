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
    pub(crate) until: Instant,
}

impl Place {
    pub(crate) fn new(shared: Arc<Shared>, waiter: usize, until: Instant) -> Place {
        Place {
            shared,
            waiter: Some(waiter),
            until,
        }
    }

    /// Asks for the permit.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Full>> {
        self.answer(|core, waiter, _| core.ask(waiter, cx.waker()))
    }

    /// Leaves, since the time is over; a permit that comes in this moment is taken.
    pub(crate) fn expire(&mut self) -> Poll<Result<Permit, Full>> {
        self.answer(|core, waiter, wakes| core.expire(waiter, Instant::now(), wakes))
    }

    fn answer(
        &mut self,
        ask: impl FnOnce(&mut crate::core::Core, usize, &mut crate::core::Wakes) -> Answered,
    ) -> Poll<Result<Permit, Full>> {
        let Some(waiter) = self.waiter else {
            return Poll::Pending;
        };
        let answered = self.shared.with(|core, wakes| {
            let answered = ask(core, waiter, wakes);
            match answered {
                Answered::NotYet => None,
                Answered::Granted(slot) => Some(Ok((slot, core.watch(slot)))),
                Answered::Refused(full) => Some(Err(full)),
            }
        });
        let Some(answered) = answered else {
            return Poll::Pending;
        };
        self.waiter = None;
        Poll::Ready(answered.map(|(slot, watch)| Permit::new(self.shared.clone(), slot, watch)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.shared
                .with(|core, wakes| core.cancel(waiter, Instant::now, wakes));
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
