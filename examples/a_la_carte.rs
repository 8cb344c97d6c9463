//! Each layer alone, over the HTTP client that you have: take one, leave the rest.
//!
//! ```sh
//! cargo run --example a_la_carte
//! ```
//!
//! shows what each of them does about a fake provider that fails.
//!
//! A layer that judges answers needs a `PeekLayer` below it: `.alone()` brings one along. Several
//! layers share one `PeekLayer`, directly above the client; leave the others' `.alone()` out then.

#![expect(clippy::print_stdout, reason = "a program speaks to its user")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use llm_breaker::{BreakerLayer, Breakers};
use llm_bulkhead::{Bulkhead, BulkheadLayer, Pool};
use llm_call::{
    BoxError, Client, IdentifyLayer, Kind, PeekLayer, ResponseExt, client, reqwest::Reqwest,
};
use llm_chaos::{ChaosProvider, Fault, Phase, Script};
use llm_failover::{FailoverLayer, Targets};
use llm_hedge::{HedgeLayer, Hedges};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{ServiceBuilder, ServiceExt};

/// Time limits by phase. `IdentifyLayer` reads in the request whether a stream is asked for.
fn timeout(http: Reqwest, first_token: Duration) -> Client {
    client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(TimeoutLayer::new().first_token(first_token).alone())
            .service(http),
    )
}

/// One limit on the wait for an answer, whatever is below it. A stream may go on after it.
fn deadline(http: Reqwest, limit: Duration) -> Client {
    client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::new(limit).alone())
            .service(http),
    )
}

/// The same request once more, within a budget. `IdentifyLayer` makes bodies that can be copied.
fn retry(http: Reqwest, budget: RetryBudget) -> Client {
    client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(RetryLayer::new(budget).alone())
            .service(http),
    )
}

/// No calls to what does not work. Without a target there is a circuit for each URL.
fn breaker(http: Reqwest, breakers: Breakers) -> Client {
    client(
        ServiceBuilder::new()
            .layer(BreakerLayer::new(breakers).alone())
            .service(http),
    )
}

/// So many calls at once, until their bodies have ended. Whatever the client, no `PeekLayer` is needed.
fn bulkhead(http: Reqwest, bulkhead: Bulkhead) -> Client {
    client(
        ServiceBuilder::new()
            .layer(BulkheadLayer::new(bulkhead))
            .layer(PeekLayer::new()) // for `client` alone
            .service(http),
    )
}

/// A second request to the same provider when the first token is late.
fn hedge(http: Reqwest, hedges: Hedges) -> Client {
    client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(HedgeLayer::new(hedges).alone())
            .service(http),
    )
}

/// The next target, before the first token. Something has to make URLs of targets: `llm-provider`,
/// or a layer of your own that reads the `Attempt` in the request's extensions.
fn failover(http: Reqwest, targets: Targets, providers: ProviderLayer) -> Client {
    client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(FailoverLayer::new(targets))
            .layer(providers)
            .layer(PeekLayer::new())
            .service(http),
    )
}

/// A path becomes a URL with a key. Requests without a target go to the only provider there is.
fn provider(http: Reqwest, provider: Provider) -> Client {
    client(
        ServiceBuilder::new()
            .layer(ProviderLayer::new().provider("openai", provider))
            .layer(PeekLayer::new())
            .service(http),
    )
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    for line in demo().await? {
        println!("{line}");
    }
    Ok(())
}

/// What each layer does about a provider that fails.
async fn demo() -> Result<Vec<String>, BoxError> {
    let http = Reqwest::default(); // no redirects, no retries; docs/clients.md has the rest
    let (fake, spare) = (ChaosProvider::start().await?, ChaosProvider::start().await?);
    let url = format!("{}/chat/completions", fake.base_url());
    let mut lines = Vec::new();

    fake.script(&Script::default().with(Phase::new(Fault::KeepAliveOnly)));
    let llm = timeout(http.clone(), Duration::from_millis(200));
    lines.push(format!("timeout: {}", ask(&llm, &url).await));

    let llm = deadline(http.clone(), Duration::from_millis(200));
    lines.push(format!("deadline: {}", ask(&llm, &url).await));

    fake.script(&Script::default().with(Phase {
        times: Some(1),
        ..Phase::new(Fault::Error503)
    }));
    let llm = retry(http.clone(), RetryBudget::new());
    lines.push(format!("retry: {}", ask(&llm, &url).await));

    fake.script(&Script::default().with(Phase::new(Fault::Error503)));
    let breakers = Breakers::new();
    let llm = breaker(http.clone(), breakers.clone());
    for _ in 0..5 {
        ask(&llm, &url).await;
    }
    lines.push(format!("breaker: {}", ask(&llm, &url).await));
    lines.extend(breakers.history().iter().map(ToString::to_string));

    fake.script(&Script::default());
    let places = llm_bulkhead::Settings::new(Pool::new(1).wait(Duration::ZERO)).build()?;
    let llm = bulkhead(http.clone(), places.clone());
    let unread = llm.clone().oneshot(request(&url)?).await?;
    lines.push(format!("bulkhead: {}", ask(&llm, &url).await));
    drop(unread);
    lines.push(format!("bulkhead: {}", ask(&llm, &url).await));

    fake.script(&Script::default().with(Phase {
        times: Some(1),
        ..Phase::new(Fault::KeepAliveOnly)
    }));
    let at_once = Duration::from_millis(100);
    let hedges = Hedges::with(
        llm_hedge::Settings::new()
            .percent(100.0) // each call pays for a hedge; by default ten do
            .first_delay(at_once)
            .build()?,
    );
    let llm = hedge(http.clone(), hedges.clone());
    lines.push(format!("hedge: {}", ask(&llm, &url).await));
    lines.push(format!("hedges that won: {}", hedges.snapshot().won));

    fake.script(&Script::default().with(Phase::new(Fault::Error503)));
    let providers = ProviderLayer::new()
        .provider("fake", Provider::new(&fake.base_url())?)
        .provider("spare", Provider::new(&spare.base_url())?);
    let llm = failover(
        http.clone(),
        Targets::ordered(["fake", "spare"])?,
        providers,
    );
    lines.push(format!(
        "failover: {}",
        ask(&llm, "/v1/chat/completions").await
    ));

    spare.reset();
    let key = Provider::new(&spare.base_url())?.bearer("sk-of-the-service")?;
    let llm = provider(http, key);
    lines.push(format!(
        "provider: {}",
        ask(&llm, "/v1/chat/completions").await
    ));
    let key = spare.log()[0].authorization.clone();
    lines.push(format!("the provider saw {}", key.unwrap_or_default()));
    Ok(lines)
}

/// Asks for a stream and reads it to its end: what came of it.
async fn ask(llm: &Client, url: &str) -> String {
    match answer(llm, url).await {
        Ok(kind) => kind.to_string(),
        Err(error) => Kind::of(&*error).to_string(),
    }
}

fn request(url: &str) -> http::Result<Request<Full<Bytes>>> {
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi."}]}"#;
    Request::post(url)
        .header("content-type", "application/json")
        .body(Full::from(body))
}

async fn answer(llm: &Client, url: &str) -> Result<Kind, BoxError> {
    let answer = llm.clone().oneshot(request(url)?).await?;
    let kind = answer.outcome().kind;
    answer.into_body().collect().await?;
    Ok(kind)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn each_layer_does_its_work() {
        let lines = super::demo().await.unwrap();
        let circuit = lines
            .iter()
            .position(|line| line.starts_with("#1 "))
            .unwrap();
        assert!(lines[circuit].ends_with("closed -> open, 5 calls failed in a row"));
        let lines: Vec<_> = lines.iter().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "timeout: timed_out_first_token",
                "deadline: timed_out_deadline",
                "retry: success",
                "breaker: refused_circuit_open",
                "bulkhead: refused_bulkhead_full",
                "bulkhead: success",
                "hedge: success",
                "hedges that won: 1",
                "failover: success",
                "provider: success",
                "the provider saw Bearer sk-of-the-service",
            ]
        );
    }
}
