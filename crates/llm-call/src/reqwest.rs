//! reqwest as the client below a stack, and reqwest's own types at both ends of one.
//!
//! # The client below
//!
//! [`Reqwest`] sends what a stack hands down. The stack retries, redirects nothing, and reads the
//! bytes as they come, so the `reqwest::Client` should do none of it on its own:
//!
//! - `redirect(Policy::none())`: by default a redirected POST arrives as a GET without its body,
//!   and keys go to wherever the redirect says.
//! - `retry(reqwest::retry::never())`: the call counts its attempts, and knows nothing of others.
//! - `connect_timeout(..)` and no `timeout(..)`, neither on the client nor on a request: it counts
//!   anew for each attempt, and cuts streams that are alive.
//! - `http2_keep_alive_interval(..)`, `http2_keep_alive_timeout(..)` and
//!   `http2_keep_alive_while_idle(true)` where HTTP/2 may be spoken: a connection that has died without
//!   a word is otherwise used again and again, and no trial of a circuit breaker ever succeeds.
//! - Its decompression may stay on (features `gzip`, `brotli`, …): it is below `PeekLayer`, where
//!   it belongs. What is still encoded when it comes up is passed on unread.
//!
//! # Example
//!
//! ```no_run
//! use llm_call::{IdentifyLayer, PeekLayer, reqwest::{Over, Reqwest}};
//! use tower::ServiceBuilder;
//!
//! # async fn demo() -> Result<(), llm_call::BoxError> {
//! let http = reqwest::Client::builder()
//!     .redirect(reqwest::redirect::Policy::none())
//!     .retry(reqwest::retry::never())
//!     .build()?;
//! let llm = Over::new(
//!     ServiceBuilder::new()
//!         .layer(IdentifyLayer::new())
//!         .layer(PeekLayer::new())
//!         .service(Reqwest::new(http.clone())),
//! );
//! let request = http
//!     .post("https://api.openai.com/v1/chat/completions")
//!     .body(r#"{"model":"gpt-4.1-mini","messages":[]}"#)
//!     .build()?;
//! let answer: reqwest::Response = llm.execute(request).await?;
//! println!("{}", answer.text().await?);
//! # Ok(())
//! # }
//! ```

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use ::reqwest::{Body as ReqwestBody, ResponseBuilderExt, Url};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{BoxError, ready::polled_after_ready};

/// A `reqwest::Client` as a service of `http` types: the bottom of a stack.
///
/// # Streaming
///
/// Bodies are not buffered in either direction.
///
/// # Clone and shared state
///
/// Clones share the connection pool of the client. It is always ready.
///
/// # Cancellation
///
/// Dropping the future or the body closes the connection (HTTP/1) or resets the stream (HTTP/2).
///
/// # Errors
///
/// Those of reqwest; [`Kind::of`](crate::Kind::of) reads them. A URI without scheme and host is
/// one.
#[derive(Clone, Debug)]
pub struct Reqwest {
    client: ::reqwest::Client,
}

impl Reqwest {
    /// Sends with `client`. See [the module](self) for how to build one.
    pub fn new(client: ::reqwest::Client) -> Reqwest {
        Reqwest { client }
    }
}

impl Default for Reqwest {
    /// A client that follows no redirect, sends nothing twice, and waits 2 s for a connection. It does
    /// not ping: see the [module](self) for what a service that runs for long should set.
    ///
    /// # Panics
    ///
    /// Where `reqwest::Client::new` does: when no TLS backend can be initialised.
    #[expect(
        clippy::expect_used,
        reason = "as reqwest's own; Reqwest::new takes a client that was built with care"
    )]
    fn default() -> Reqwest {
        let client = ::reqwest::Client::builder()
            .redirect(::reqwest::redirect::Policy::none())
            .retry(::reqwest::retry::never())
            .connect_timeout(Duration::from_secs(2))
            .build();
        Reqwest::new(client.expect("reqwest has a TLS backend"))
    }
}

impl From<::reqwest::Client> for Reqwest {
    fn from(client: ::reqwest::Client) -> Self {
        Reqwest::new(client)
    }
}

impl<B> Service<http::Request<B>> for Reqwest
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<ReqwestBody>;
    type Error = ::reqwest::Error;
    type Future = ReqwestFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ::reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> ReqwestFuture {
        let request = request.map(|body| ReqwestBody::wrap(Shared::new(body)));
        ReqwestFuture {
            sending: match ::reqwest::Request::try_from(request) {
                Ok(request) => Ok(Service::call(&mut self.client, request)),
                Err(error) => Err(Some(error)),
            },
        }
    }
}

/// The response future of [`Reqwest`].
#[must_use = "futures do nothing unless polled"]
pub struct ReqwestFuture {
    sending: Result<Pending, Option<::reqwest::Error>>,
}

type Pending = <::reqwest::Client as Service<::reqwest::Request>>::Future;

impl Future for ReqwestFuture {
    type Output = Result<http::Response<ReqwestBody>, ::reqwest::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.sending {
            Ok(pending) => Pin::new(pending).poll(cx).map_ok(http::Response::from),
            Err(error) => Poll::Ready(Err(error.take().unwrap_or_else(|| polled_after_ready()))),
        }
    }
}

impl fmt::Debug for ReqwestFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestFuture").finish_non_exhaustive()
    }
}

/// A stack with reqwest's own types at both ends: `reqwest::Request` in, `reqwest::Response` out.
///
/// For code that is written against reqwest: build requests with a `reqwest::Client` as before,
/// and send them here. The answer keeps the request's URL.
///
/// # Streaming
///
/// Bodies are not buffered.
///
/// # Clone and shared state
///
/// A clone clones the stack; what its layers share stays shared.
///
/// # Cancellation
///
/// Dropping the future or the response drops what is below.
///
/// # Errors
///
/// Those of the stack, and those of a request that is no HTTP request.
#[derive(Clone, Debug)]
pub struct Over<S> {
    stack: S,
}

impl<S> Over<S> {
    /// Puts reqwest's types over a stack.
    pub fn new(stack: S) -> Over<S> {
        Over { stack }
    }

    /// Sends one request through a clone of the stack.
    ///
    /// # Errors
    ///
    /// Those of the stack.
    pub async fn execute<B>(
        &self,
        request: ::reqwest::Request,
    ) -> Result<::reqwest::Response, BoxError>
    where
        S: Service<http::Request<ReqwestBody>, Response = http::Response<B>> + Clone,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut over = self.clone();
        std::future::poll_fn(|cx| over.poll_ready(cx)).await?;
        over.call(request).await
    }
}

impl<S, B> Service<::reqwest::Request> for Over<S>
where
    S: Service<http::Request<ReqwestBody>, Response = http::Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = ::reqwest::Response;
    type Error = BoxError;
    type Future = OverFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.stack.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: ::reqwest::Request) -> Self::Future {
        let url = request.url().clone();
        let stage = match http::Request::try_from(request) {
            Ok(request) => Stage::Calling {
                future: self.stack.call(request),
                url: Some(url),
            },
            Err(error) => Stage::Failed { error: Some(error) },
        };
        OverFuture { stage }
    }
}

pin_project! {
    /// The response future of [`Over`].
    #[must_use = "futures do nothing unless polled"]
    pub struct OverFuture<F> {
        #[pin]
        stage: Stage<F>,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        /// Waiting for the answer.
        Calling {
            #[pin]
            future: F,
            url: Option<Url>,
        },
        /// The request was none.
        Failed { error: Option<::reqwest::Error> },
    }
}

impl<F> fmt::Debug for OverFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverFuture").finish_non_exhaustive()
    }
}

impl<F, B, E> Future for OverFuture<F>
where
    F: Future<Output = Result<http::Response<B>, E>>,
    E: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<::reqwest::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().stage.project() {
            StageProj::Calling { future, url } => {
                let response = ready!(future.poll(cx)).map_err(Into::into)?;
                Poll::Ready(Ok(response_of(response, url.take())))
            }
            StageProj::Failed { error } => Poll::Ready(Err(error
                .take()
                .unwrap_or_else(|| polled_after_ready())
                .into())),
        }
    }
}

fn response_of<B>(response: http::Response<B>, url: Option<Url>) -> ::reqwest::Response
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut response = response.map(|body| ReqwestBody::wrap(Shared::new(body)));
    // reqwest keeps the URL in an extension of a private type, which its builder can make.
    if let Some(url) = url
        && let Ok(with_url) = http::Response::builder().url(url).body(())
    {
        response
            .extensions_mut()
            .extend(with_url.into_parts().0.extensions);
    }
    response.into()
}

pin_project! {
    /// A body that is `Sync`, as reqwest demands: it is only ever reached through `&mut`, so the
    /// lock is never taken.
    struct Shared<B> {
        body: Mutex<Pin<Box<B>>>,
        ended: bool,
        hint: SizeHint,
    }
}

impl<B: Body> Shared<B> {
    fn new(body: B) -> Shared<B> {
        Shared {
            ended: body.is_end_stream(),
            hint: body.size_hint(),
            body: Mutex::new(Box::pin(body)),
        }
    }
}

impl<B: Body> Body for Shared<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let body = this.body.get_mut().unwrap_or_else(PoisonError::into_inner);
        let frame = ready!(body.as_mut().poll_frame(cx));
        *this.ended = body.is_end_stream();
        *this.hint = body.size_hint();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::clone(&self.hint)
    }
}
