use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use llm_call::{Answer, BoxError, Ending, State};
use pin_project_lite::pin_project;

use crate::{error::abandoned, permit::Permit};

pin_project! {
    /// The body of [`BulkheadService`](crate::BulkheadService): the inner body, with the permit of
    /// its call.
    ///
    /// The permit is free at the end of the body, at its first error, or when it is dropped. Where
    /// it was taken back from a reader that had stopped, the next poll fails with the kind
    /// [`TimedOut(Reader)`](llm_call::Phase::Reader) and the body ends.
    pub struct BulkheadBody<B> {
        // Fields are dropped in their order: the permit is free once the connection is.
        #[pin]
        inner: B,
        permit: Option<Permit>,
        abandoned: bool,
    }
}

impl<B: Body> BulkheadBody<B> {
    pub(crate) fn new(inner: B, permit: Option<Permit>) -> Self {
        let permit = permit.filter(|_| !inner.is_end_stream());
        if let Some(permit) = &permit {
            // The headers are with the reader.
            permit.watch().handed();
        }
        BulkheadBody {
            inner,
            permit,
            abandoned: false,
        }
    }
}

impl<B> Body for BulkheadBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        if *this.abandoned {
            return Poll::Ready(None);
        }
        if let Some(permit) = &*this.permit
            && !permit.watch().asked()
        {
            *this.abandoned = true;
            *this.permit = None;
            return Poll::Ready(Some(Err(abandoned())));
        }
        match this.inner.as_mut().poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                if this.inner.is_end_stream() {
                    *this.permit = None;
                } else if let Some(permit) = &*this.permit {
                    permit.watch().handed();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(end) => {
                *this.permit = None;
                Poll::Ready(end.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.abandoned || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.abandoned {
            return SizeHint::with_exact(0);
        }
        self.inner.size_hint()
    }
}

impl<B: Answer> Answer for BulkheadBody<B> {
    fn state(&self) -> &State {
        self.inner.state()
    }

    fn cut(self: Pin<&mut Self>, ending: Ending) {
        let this = self.project();
        this.inner.cut(ending);
        *this.permit = None;
    }
}

impl<B: fmt::Debug> fmt::Debug for BulkheadBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadBody")
            .field("inner", &self.inner)
            .field("permit", &self.permit)
            .field("abandoned", &self.abandoned)
            .finish()
    }
}
