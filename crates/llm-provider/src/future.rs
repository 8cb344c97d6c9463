use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use llm_call::{BoxError, Error};
use pin_project_lite::pin_project;

pin_project! {
    /// The response future of [`Provide`](crate::Provide).
    ///
    /// # Panics
    ///
    /// When it is polled again after it was ready.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        // `None` where there is nobody to call; the error says why.
        #[pin]
        calling: Option<F>,
        error: Option<Error>,
    }
}

impl<F> ResponseFuture<F> {
    pub(crate) fn calling(future: F) -> Self {
        ResponseFuture {
            calling: Some(future),
            error: None,
        }
    }

    pub(crate) fn failed(error: Error) -> Self {
        ResponseFuture {
            calling: None,
            error: Some(error),
        }
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match (this.calling.as_pin_mut(), this.error.take()) {
            (Some(calling), _) => calling.poll(cx).map_err(Into::into),
            (None, Some(error)) => Poll::Ready(Err(error.into())),
            (None, None) => polled_after_ready(),
        }
    }
}

#[expect(
    clippy::panic,
    reason = "the contract of Future: not polled after Ready"
)]
fn polled_after_ready() -> ! {
    panic!("a response future was polled after it was ready")
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Ready, pin::pin, task::Waker};

    use llm_call::Kind;

    use super::*;

    #[test]
    #[should_panic(expected = "polled after it was ready")]
    fn a_poll_after_ready_panics_and_never_hangs() {
        let mut future = pin!(ResponseFuture::<Ready<Result<(), BoxError>>>::failed(
            Error::new(Kind::NotFound)
        ));
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_ready());
        let _ = future.as_mut().poll(&mut context);
    }
}
