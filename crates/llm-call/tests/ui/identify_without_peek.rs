use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use llm_call::{BoxError, IdentifyLayer, client};
use tower::{ServiceBuilder, service_fn};

fn main() {
    let http = service_fn(async |_: Request<Full<Bytes>>| {
        Ok::<_, BoxError>(Response::new(Full::new(Bytes::new())))
    });
    client(ServiceBuilder::new().layer(IdentifyLayer::new()).service(http));
}
