//! Whether an answer waits for its reader, as the body says it and whoever finds no room reads it.

use crate::sync::{AtomicU8, Ordering};

/// The body waits for the provider, or is being polled.
const UPSTREAM: u8 = 0;
/// The reader has what was there and has not asked for more.
const READER: u8 = 1;
/// The same, and this has been seen before.
const SEEN: u8 = 2;
/// The permit is gone.
const REVOKED: u8 = 3;

/// One mark, kept with the place of a permit and used again by the next call in that place.
#[derive(Debug)]
pub(crate) struct Watch(AtomicU8);

/// What whoever looks finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The provider is waited for.
    Upstream,
    /// The reader was asked for since somebody looked last.
    Reader,
    /// The reader has done nothing since.
    Stopped,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch(AtomicU8::new(UPSTREAM))
    }

    /// A new call takes the place.
    pub(crate) fn reset(&self) {
        self.0.store(UPSTREAM, Ordering::Release);
    }

    /// The reader asks for more. False where its permit is gone.
    pub(crate) fn asked(&self) -> bool {
        let before = self.0.swap(UPSTREAM, Ordering::AcqRel);
        if before == REVOKED {
            self.0.store(REVOKED, Ordering::Release);
        }
        before != REVOKED
    }

    /// The reader has something to work on.
    pub(crate) fn handed(&self) {
        self.0.store(READER, Ordering::Release);
    }

    /// Looks, and leaves a mark where the reader is waited for.
    pub(crate) fn look(&self) -> Sight {
        match self
            .0
            .compare_exchange(READER, SEEN, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Sight::Reader,
            Err(SEEN) => Sight::Stopped,
            Err(_) => Sight::Upstream,
        }
    }

    /// Takes the permit away, unless the reader has come back.
    pub(crate) fn revoke(&self) -> bool {
        self.0
            .compare_exchange(SEEN, REVOKED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.0.load(Ordering::Acquire) == REVOKED
    }
}
