//! The stack: one linear service, from the server's edge to the sockets.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use axum::Router;
use http::{
    HeaderValue, Method, Response, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{BulkheadLayer, Pool};
use llm_call::{BoxError, CallSettings, Dialect, IdentifyLayer, PeekLayer, RespondLayer};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::ServiceBuilder;

use crate::{
    client::client,
    settings::{Settings, Upstream},
};

/// The paths of the API.
const PATHS: [&str; 5] = [
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/models",
];

/// Builds the service and routes the paths of the API to it.
pub(crate) fn router(settings: &Settings) -> Result<Router, BoxError> {
    let targets = Targets::ordered(settings.upstreams.iter().map(Upstream::target))?
        // Callers bring keys of their own: the rate limit of one is not everybody's.
        .rests_per_tenant();
    let keys = RandomState::new();
    let by_key = move |request: &http::request::Parts| {
        let headers = &request.headers;
        let key = headers
            .get(AUTHORIZATION)
            .or_else(|| headers.get("x-api-key"));
        CallSettings::new().tenant(format!("{:016x}", keys.hash_one(key)))
    };
    let mut providers = ProviderLayer::new();
    for upstream in &settings.upstreams {
        providers = providers.provider(&upstream.name, provider(upstream)?);
    }
    providers.check(targets.iter())?;
    let timeout = TimeoutLayer::new()
        .first_token(settings.first_token)
        .answer(settings.answer)
        .idle(settings.idle);
    // For a minute of outage as for hours: after ten seconds a call or a few try the target again, and
    // whoever makes them is answered by the next one if it still fails.
    let circuit = llm_breaker::Settings::new()
        .open_for(settings.open)
        .open_max(settings.open)
        .build()?;
    // No caller takes all places, and no target; a call that finds its target full goes to the next.
    let callers = Pool::new(settings.calls).tenant_limit(settings.calls_per_key);
    let callers = llm_bulkhead::Settings::new(callers).build()?;
    let each = Pool::new(settings.calls_per_target).wait(Duration::ZERO);
    let each = llm_bulkhead::Settings::each(each).build()?;
    let hedges = hedges(settings.hedge)?;
    let service = ServiceBuilder::new()
        // A gateway within a company shows its callers which targets failed, and how. Before the
        // public, leave the details out.
        .layer(RespondLayer::new().details(true))
        .layer(IdentifyLayer::new().settings(by_key))
        .layer(DeadlineLayer::new(settings.deadline))
        .layer(BulkheadLayer::new(callers))
        .layer(HedgeLayer::new(hedges))
        .layer(FailoverLayer::new(targets))
        .layer(RetryLayer::new(RetryBudget::new()).retries(settings.retries))
        .layer(BreakerLayer::new(Breakers::with(circuit)))
        .layer(BulkheadLayer::new(each).by_target())
        .layer(timeout)
        .layer(providers)
        .layer(PeekLayer::new().commit(settings.commit))
        .service(client());
    let router = PATHS.iter().fold(Router::new(), |router, path| {
        router.route_service(path, service.clone())
    });
    Ok(router.fallback(unknown_path))
}

/// A target's provider. Without a key of our own the caller's goes through.
fn provider(upstream: &Upstream) -> Result<Provider, BoxError> {
    let mut provider = Provider::new(&upstream.url)?;
    if let Some(dialect) = upstream.dialect {
        provider = provider.dialect(dialect);
    }
    let Some(variable) = &upstream.key else {
        return Ok(provider);
    };
    let key = std::env::var(variable).map_err(|_| {
        format!(
            "target {}: the variable {variable} is not set",
            upstream.name
        )
    })?;
    Ok(match upstream.dialect {
        Some(Dialect::Anthropic) => provider.key_header("x-api-key", &key)?,
        Some(Dialect::Gemini) => provider.key_header("x-goog-api-key", &key)?,
        _ => provider.bearer(&key)?,
    })
}

/// So many second requests in a hundred; paused for none.
fn hedges(percent: f64) -> Result<Hedges, llm_hedge::InvalidSettings> {
    if percent == 0.0 {
        let hedges = Hedges::new();
        hedges.pause();
        return Ok(hedges);
    }
    let settings = llm_hedge::Settings::new().percent(percent);
    Ok(Hedges::with(settings.build()?))
}

/// A 404 as OpenAI writes it, so that a client with a wrong base URL shows what is wrong.
async fn unknown_path(method: Method, uri: Uri) -> Response<String> {
    let paths = PATHS.join(", ");
    let error = serde_json::json!({
        "error": {
            "message": format!("Invalid URL ({method} {}); there are: {paths}", uri.path()),
            "type": "invalid_request_error",
            "param": null,
            "code": null,
        }
    });
    let mut answer = Response::new(error.to_string());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}
