//! [`History`]: the last transitions of all circuits, numbered, and who waits for the next.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{Key, Transition, core::Change};

/// How many transitions are kept.
const KEPT: usize = 1_000;

#[derive(Debug)]
pub(crate) struct History {
    log: Mutex<Log>,
    /// The number of the last transition.
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Log {
    last: u64,
    kept: VecDeque<Transition>,
}

impl History {
    pub(crate) fn new() -> History {
        History {
            log: Mutex::default(),
            last: watch::Sender::new(0),
        }
    }

    /// Writes changes down under the lock of their circuit, so that they are numbered in the order
    /// in which they happened. Returns the last number, for [`History::wake`].
    pub(crate) fn write(&self, key: &Key, changes: impl Iterator<Item = Change>) -> u64 {
        let mut log = self.log();
        for change in changes {
            if log.kept.len() >= KEPT {
                log.kept.pop_front();
            }
            log.last += 1;
            let transition = Transition {
                number: log.last,
                key: key.clone(),
                from: change.from,
                to: change.to,
                at: change.at,
                reason: change.reason,
            };
            log.kept.push_back(transition);
        }
        log.last
    }

    /// Wakes who waits. To be called without a lock: a waker may do anything.
    pub(crate) fn wake(&self, last: u64) {
        self.last.send_if_modified(|seen| {
            let newer = last > *seen;
            *seen = last.max(*seen);
            newer
        });
    }

    /// The number of the last transition.
    pub(crate) fn last(&self) -> u64 {
        self.log().last
    }

    /// Tells of what is written from now on. To be taken before the log is read.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The first transition after this number that is still kept.
    pub(crate) fn after(&self, number: u64) -> Option<Transition> {
        let log = self.log();
        let first = log.kept.front()?.number;
        let index = usize::try_from(number.saturating_add(1).saturating_sub(first)).ok()?;
        log.kept.get(index).cloned()
    }

    pub(crate) fn kept(&self) -> Vec<Transition> {
        self.log().kept.iter().cloned().collect()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // Each entry is written whole, so a poisoned log is a sound one.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
