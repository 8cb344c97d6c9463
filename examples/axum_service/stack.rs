//! The stack: one linear service, from the server's edge to the sockets.

use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use llm_call::{BoxError, IdentifyLayer, PeekLayer, RespondLayer};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::ServiceBuilder;

use crate::settings::{Settings, Upstream};

/// Builds the service and routes the paths of the API to it.
pub(crate) fn router(settings: &Settings) -> Result<Router, BoxError> {
    let targets = Targets::ordered(settings.upstreams.iter().map(Upstream::target))?;
    let mut providers = ProviderLayer::new();
    for upstream in &settings.upstreams {
        // No key of our own: the caller's goes through.
        providers = providers.provider(&upstream.name, Provider::new(&upstream.url)?);
    }
    let timeout = TimeoutLayer::new()
        .first_token(settings.first_token)
        .answer(settings.answer)
        .idle(settings.idle);
    let service = ServiceBuilder::new()
        .layer(RespondLayer::new())
        .layer(IdentifyLayer::new())
        .layer(DeadlineLayer::new(settings.deadline))
        .layer(FailoverLayer::new(targets))
        .layer(timeout)
        .layer(providers)
        .layer(PeekLayer::new().commit(settings.commit))
        .service(client());
    Ok(Router::new()
        .route_service("/v1/chat/completions", service.clone())
        .route_service("/v1/responses", service.clone())
        .route_service("/v1/embeddings", service.clone())
        .route_service("/v1/models", service))
}

/// An HTTP client that notices dead connections and has no retries of its own.
fn client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(2)));
    connector.set_keepalive(Some(Duration::from_secs(10)));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(Duration::from_secs(15)));
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(5))
        // The failover layer decides what is sent again.
        .retry_canceled_requests(false)
        .build(connector)
}
