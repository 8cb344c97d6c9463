//! What the call knows of one copy of its request.

use llm_call::{Call, Cause, Entry};
use tokio::time::Instant;

/// One copy that was sent and has not ended.
#[derive(Debug)]
pub(crate) struct SentCopy {
    pub(crate) at: Instant,
    /// When its first token came, of a stream that is held to its end.
    pub(crate) first_token: Option<Instant>,
    /// Why it is being dropped, where a layer above has said so.
    pub(crate) cause: Option<Cause>,
    /// A copy that was sent later had its first token before this one.
    pub(crate) overtaken: bool,
}

impl SentCopy {
    /// A copy of which nothing is known but when it was sent.
    pub(crate) fn unknown(at: Instant) -> SentCopy {
        SentCopy {
            at,
            first_token: None,
            cause: None,
            overtaken: false,
        }
    }

    /// The copy with this number that was admitted then; `None` where it still waits below for
    /// leave to be sent. The ledger is cloned, so this is for copies that are being dropped.
    pub(crate) fn find(call: &Call, n: u32, admitted: Instant) -> Option<SentCopy> {
        let entries = call.ledger().entries;
        let admitted = admitted.saturating_duration_since(call.opened());
        let open = |e: &Entry| e.n == n && e.kind.is_none();
        // Copies may share a number: it is the first since its admission. Only where a Peek above
        // counted it is it older.
        let since = entries.iter().position(|e| open(e) && e.opened >= admitted);
        let index = since.or_else(|| entries.iter().rposition(open))?;
        let (entry, later) = entries[index..].split_first()?;
        let time = |since_opened| call.opened().checked_add(since_opened);
        Some(SentCopy {
            at: time(entry.opened)?,
            first_token: entry.first_token.and_then(time),
            cause: entry.cause,
            overtaken: later.iter().any(|entry| entry.first_token.is_some()),
        })
    }
}
