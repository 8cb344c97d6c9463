//! The stack: one linear service, from the server's edge to the sockets.

use axum::Router;
use llm_call::{BoxError, IdentifyLayer, PeekLayer, RespondLayer};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::ServiceBuilder;

use crate::{
    client::client,
    settings::{Settings, Upstream},
};

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
