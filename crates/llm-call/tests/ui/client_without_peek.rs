use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use llm_call::{BoxError, client};
use tower::service_fn;

fn main() {
    let http = service_fn(async |_: Request<Full<Bytes>>| {
        Ok::<_, BoxError>(Response::new(Full::new(Bytes::new())))
    });
    client(http);
}
