//! One request of one arm, from sending to the last byte.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response, header::CONTENT_TYPE};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use llm_call::{BoxError, Kind};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceExt};

use crate::reader::Reader;

/// What became of one request.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// When it was due to be sent, since the play's beginning.
    pub(crate) sent: Duration,
    /// From sending to the first token.
    pub(crate) first_token: Option<Duration>,
    /// Who answered.
    pub(crate) served_by: Option<String>,
    /// Whether the whole answer came; otherwise the kind of failure.
    pub(crate) outcome: Result<(), String>,
}

/// Request number `n`: the same in both arms. `url` is the one that the bare client needs; the
/// stack writes its own.
pub(crate) fn question(n: u32, url: &str) -> Result<Request<Full<Bytes>>, http::Error> {
    let body = json!({
        "model": "drill-1",
        "stream": true,
        "max_tokens": 20,
        "messages": [{ "role": "user", "content": format!("Question {n}: is anybody there?") }],
    });
    Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.to_string()))
}

/// Sends a request and reads its answer to the end, in `limit` all in all.
///
/// Times count from the moment it was `due`: a machine too busy to send in time shows.
pub(crate) async fn ask<S, B>(
    service: S,
    request: Request<Full<Bytes>>,
    began: Instant,
    due: Duration,
    limit: Option<Duration>,
) -> Record
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let at = began + due;
    let mut record = Record {
        sent: due,
        first_token: None,
        served_by: None,
        outcome: Ok(()),
    };
    let exchange = exchange(service, request, at, &mut record);
    let outcome = match limit {
        None => exchange.await,
        Some(limit) => match timeout(limit, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err("timed_out_total".to_owned()),
        },
    };
    record.outcome = outcome;
    record
}

async fn exchange<S, B>(
    service: S,
    request: Request<Full<Bytes>>,
    at: Instant,
    record: &mut Record,
) -> Result<(), String>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let response = service.oneshot(request).await.map_err(kind)?;
    if !response.status().is_success() {
        return Err(format!("http_{}", response.status().as_u16()));
    }
    let server = response.headers().get("x-chaos-provider");
    record.served_by = server.and_then(|name| Some(name.to_str().ok()?.to_owned()));
    let mut body = pin!(response.into_body());
    let mut reader = Reader::default();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.map_err(kind)?.into_data() {
            reader.push(&bytes);
        }
        if record.first_token.is_none() && reader.has_content() {
            record.first_token = Some(at.elapsed());
        }
    }
    reader.verdict().map_err(str::to_owned)
}

/// One name for a failure, in both arms.
fn kind(error: impl Into<BoxError>) -> String {
    Kind::of(&*error.into()).as_str().to_owned()
}
