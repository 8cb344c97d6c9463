//! [`client`]: bounds a stack and boxes it into a type that has a name.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tower_service::Service;

use crate::{Answer, BoxError, Ending, State};

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
        ClientFuture(Box::pin(async move {
            Ok(answer.await?.map(|body| AnswerBody(Box::pin(body))))
        }))
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

/// The response future of [`Client`].
#[must_use = "futures do nothing unless polled"]
pub struct ClientFuture(
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, BoxError>> + Send>>,
);

impl Future for ClientFuture {
    type Output = Result<Response<AnswerBody>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for ClientFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFuture").finish_non_exhaustive()
    }
}

/// The body of an answer of [`Client`]: that of the stack, boxed.
///
/// `Send`, and not `Sync`: HTTP clients and servers ask for no more, and a boxed body of theirs
/// often is not either.
pub struct AnswerBody(Pin<Box<dyn Answer<Data = Bytes, Error = BoxError> + Send>>);

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.as_mut().poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Answer for AnswerBody {
    fn state(&self) -> &State {
        self.0.state()
    }

    fn cut(mut self: Pin<&mut Self>, ending: Ending) {
        self.0.as_mut().cut(ending);
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody")
            .field("state", self.state())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use tower::{Layer, ServiceExt, service_fn};

    use super::*;
    use crate::{Cause, Kind, PeekLayer, Phase, ResponseExt};

    const WHOLE: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;

    fn answering(answer: Result<&'static str, &'static str>) -> Client {
        let http = service_fn(move |_: Request<Full<Bytes>>| {
            let answer = answer.map(|text| Response::new(Full::new(Bytes::from(text))));
            std::future::ready(answer)
        });
        client(PeekLayer::new().layer(http))
    }

    fn request() -> Request<Full<Bytes>> {
        Request::post("/v1/chat/completions")
            .body(Full::default())
            .unwrap()
    }

    #[tokio::test]
    async fn an_answer_can_be_printed_and_read() {
        let answer = answering(Ok(WHOLE)).oneshot(request()).await.unwrap();
        assert!(format!("{answer:?}").contains("Success"), "{answer:?}");
        assert!(answer.outcome().is_success());
        let body = answer.into_body();
        assert_eq!(body.size_hint().exact(), Some(WHOLE.len() as u64));
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), WHOLE);
    }

    #[tokio::test]
    async fn an_error_can_be_unwrapped() {
        let error = answering(Err("no")).oneshot(request()).await.unwrap_err();
        assert_eq!(Kind::of(&*error), Kind::Unknown);
    }

    #[tokio::test]
    async fn a_cut_reaches_the_body_below() {
        let http = service_fn(|_: Request<Full<Bytes>>| {
            let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
            let token = std::future::ready(Ok::<_, BoxError>(Frame::data(Bytes::from(token))));
            let stream = stream::once(token).chain(stream::pending());
            std::future::ready(Ok::<_, BoxError>(Response::new(StreamBody::new(stream))))
        });
        let client = client(PeekLayer::new().layer(http));
        let mut body = client.oneshot(request()).await.unwrap().into_body();
        let ending = Ending::Cut(Cause::TimedOut(Phase::Stall));
        Pin::new(&mut body).cut(ending);
        assert_eq!(body.state().ending(), Some(ending));
    }
}
