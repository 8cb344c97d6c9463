//! [`client`]: bounds a stack and boxes it into a type that has a name.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower_service::Service;

use crate::{Answer, BoxError};

/// The body of an answer, boxed.
pub type AnswerBody = Pin<Box<dyn Answer<Data = Bytes, Error = BoxError> + Send>>;

/// The response future of [`Client`].
pub type ClientFuture =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, BoxError>> + Send>>;

/// A whole stack behind one name: what to keep in a struct and hand around.
///
/// Made by [`client`].
///
/// # Clone and shared state
///
/// A clone clones the stack; what its layers share stays shared. A clone is not ready, as of any
/// service.
///
/// # Errors
///
/// Those of the stack: see [`Kind::of`](crate::Kind::of).
pub struct Client(Box<dyn Stack>);

/// Boxes a stack, and makes sure that it is one.
///
/// A stack that takes requests with a whole body ([`IdentifyLayer`](crate::IdentifyLayer) hands
/// those on, and takes others) and whose answers know their outcome. If the compiler says that a
/// body does not, a [`PeekLayer`](crate::PeekLayer) is missing.
///
/// It costs a box a call and one more for the body of the answer.
///
/// # Example
///
/// ```
/// use bytes::Bytes;
/// use http_body_util::{BodyExt, Full};
/// use llm_call::{Client, IdentifyLayer, PeekLayer, client};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// struct App {
///     llm: Client,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), llm_call::BoxError> {
/// // In place of an HTTP client.
/// let http = service_fn(async |_: http::Request<Full<Bytes>>| {
///     let answer = Bytes::from(r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#);
///     Ok::<_, llm_call::BoxError>(http::Response::new(Full::new(answer)))
/// });
/// let app = App {
///     llm: client(
///         ServiceBuilder::new()
///             .layer(IdentifyLayer::new())
///             .layer(PeekLayer::new())
///             .service(http),
///     ),
/// };
/// let request = http::Request::post("https://h/v1/chat/completions")
///     .body(Full::from(r#"{"model":"m"}"#))?;
/// let answer = app.llm.clone().oneshot(request).await?;
/// assert_eq!(answer.headers()["x-llm-model"], "m");
/// assert!(answer.into_body().collect().await?.to_bytes().ends_with(b"}"));
/// # Ok(())
/// # }
/// ```
pub fn client<S, B>(stack: S) -> Client
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = BoxError>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Answer + Send + 'static,
{
    Client(Box::new(stack))
}

trait Stack: Send + Sync {
    fn clone_boxed(&self) -> Box<dyn Stack>;
    fn poll_ready_boxed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    fn call_boxed(&mut self, request: Request<Full<Bytes>>) -> ClientFuture;
}

impl<S, B> Stack for S
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = BoxError>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Answer + Send + 'static,
{
    fn clone_boxed(&self) -> Box<dyn Stack> {
        Box::new(self.clone())
    }

    fn poll_ready_boxed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.poll_ready(cx)
    }

    fn call_boxed(&mut self, request: Request<Full<Bytes>>) -> ClientFuture {
        let answer = self.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Box::pin(body) as AnswerBody)) })
    }
}

impl Service<Request<Full<Bytes>>> for Client {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = ClientFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready_boxed(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> ClientFuture {
        self.0.call_boxed(request)
    }
}

impl Clone for Client {
    fn clone(&self) -> Self {
        Client(self.0.clone_boxed())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
