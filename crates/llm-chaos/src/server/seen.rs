//! What the provider saw of each request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::time::Instant;

use crate::Fault;

/// One request, as the provider saw it. Times are milliseconds since the last reset or script.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Seen {
    /// When it had been read.
    pub at_ms: u64,
    /// Which connection it came on, counted from 1 since the provider's start.
    pub connection: u64,
    /// Whether that connection speaks HTTP/2.
    pub http2: bool,
    /// The method; empty for a connection that was never read.
    pub method: String,
    /// The path.
    pub path: String,
    /// The model it asked for.
    pub model: Option<String>,
    /// Whether it asked for a stream.
    pub stream: bool,
    /// Whether its last message was the assistant's.
    pub prefill: bool,
    /// The value of `authorization`, or of `x-api-key`.
    pub authorization: Option<String>,
    /// The value of `x-stainless-retry-count`, the official SDKs' count of their own retries.
    pub retry_count: Option<String>,
    /// The value of `idempotency-key`.
    pub idempotency_key: Option<String>,
    /// Length of the body.
    pub body_bytes: u64,
    /// The body, if the provider keeps bodies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The fault it got.
    pub fault: Option<Fault>,
    /// The status it was sent; none if it was sent no head.
    pub status: Option<u16>,
    /// Body bytes written to the socket, without framing.
    pub bytes_sent: u64,
    /// Tokens written to the socket.
    pub tokens_sent: u64,
    /// Whether the client left before the provider was done with it.
    pub client_gone: bool,
    /// When the provider was done with it; none while it is not.
    pub ended_ms: Option<u64>,
}

/// A live record.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    seen: Arc<Mutex<Seen>>,
    epoch: Instant,
}

impl Entry {
    pub(super) fn new(epoch: Instant, mut seen: Seen) -> Self {
        seen.at_ms = millis_since(epoch);
        Self {
            seen: Arc::new(Mutex::new(seen)),
            epoch,
        }
    }

    pub(super) fn edit(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut lock(&self.seen));
    }

    pub(super) fn end(&self) {
        let now = millis_since(self.epoch);
        self.edit(|seen| seen.ended_ms = Some(now));
    }

    pub(super) fn snapshot(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

pub(super) fn millis_since(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A panic elsewhere must not hide what was seen.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
