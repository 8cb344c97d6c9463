//! What the call knows of one copy of its request.

use llm_call::{Call, Cause};
use tokio::time::Instant;

/// One copy that was sent and has not ended.
#[derive(Debug)]
pub(crate) struct SentCopy {
    pub(crate) at: Instant,
    /// Why it is being dropped, where a layer above has said so.
    pub(crate) cause: Option<Cause>,
    /// A copy that was sent later had its first token before this one.
    pub(crate) overtaken: bool,
}

impl SentCopy {
    /// The copy with this number; `None` where it still waits below for leave to be sent. The
    /// ledger is cloned, so this is for copies that are being dropped.
    pub(crate) fn find(call: &Call, n: u32) -> Option<SentCopy> {
        let entries = call.ledger().entries;
        let open = entries.iter().rposition(|e| e.n == n && e.kind.is_none())?;
        let (entry, later) = entries[open..].split_first()?;
        Some(SentCopy {
            at: call.opened().checked_add(entry.opened)?,
            cause: entry.cause,
            overtaken: later.iter().any(|entry| entry.first_token.is_some()),
        })
    }
}
