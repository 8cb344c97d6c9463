//! Drops a future or a body after every number of polls.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http_body::Body;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How a fuzzed future or body ends when it is not dropped before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuzzed {
    /// It finished at this poll.
    Finished(usize),
    /// After this many polls nothing woke it for a day.
    Stuck(usize),
}

/// Longer than any limit in a test, so that what is not woken by then never will be.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// For every k: makes a future, polls it k times, drops it and calls `check(k)`.
///
/// Between two polls the future must be woken; with the clock paused that is the next timer at
/// once. It ends with the k at which the future finishes (its output is dropped before the
/// check), or at which it hangs for good.
///
/// # Panics
///
/// Only if `check` does.
pub async fn drop_fuzz<F: Future>(
    mut make: impl FnMut() -> F,
    mut check: impl FnMut(usize),
) -> Fuzzed {
    for k in 0.. {
        let ended = {
            let mut future = Box::pin(make());
            poll_times(k, |cx| future.as_mut().poll(cx).map(drop)).await
        };
        check(k);
        if let Some(ended) = ended {
            return ended;
        }
    }
    unreachable!("no future is polled usize::MAX times")
}

/// The same for the body that the future gives: polled for k frames, then dropped.
///
/// Polls that are pending count. The body has finished at its end or at its first error.
///
/// # Panics
///
/// Only if `check` does.
pub async fn drop_fuzz_body<F, B>(
    mut make: impl FnMut() -> F,
    mut check: impl FnMut(usize),
) -> Fuzzed
where
    F: Future<Output = B>,
    B: Body,
{
    for k in 0.. {
        let ended = {
            let mut body = Box::pin(make().await);
            poll_times(k, |cx| poll_body(body.as_mut(), cx)).await
        };
        check(k);
        if let Some(ended) = ended {
            return ended;
        }
    }
    unreachable!("no body is polled usize::MAX times")
}

/// One poll; `Ready(())` is the end, a frame is a pending that wakes at once.
fn poll_body<B: Body>(body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<()> {
    match body.poll_frame(cx) {
        Poll::Ready(Some(Ok(_))) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Ready(Some(Err(_)) | None) => Poll::Ready(()),
        Poll::Pending => Poll::Pending,
    }
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Polls up to `times` times; says how it ended if it did.
async fn poll_times(
    times: usize,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>,
) -> Option<Fuzzed> {
    let woken = Arc::new(Woken(Notify::new()));
    let waker = Waker::from(Arc::clone(&woken));
    for n in 1..=times {
        if poll(&mut Context::from_waker(&waker)).is_ready() {
            return Some(Fuzzed::Finished(n));
        }
        if n == times {
            break;
        }
        if timeout(PATIENCE, pin!(woken.0.notified())).await.is_err() {
            return Some(Fuzzed::Stuck(n));
        }
    }
    None
}
