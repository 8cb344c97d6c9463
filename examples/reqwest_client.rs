//! reqwest as the client under the whole stack, and how to read what comes of a call.
//!
//! Without arguments it starts two fake providers on loopback and asks them while the first one
//! fails in three ways:
//!
//! ```sh
//! cargo run --example reqwest_client
//! ```
//!
//! With the base URLs and models of two real ones it asks those; their keys are read from
//! `PRIMARY_KEY` and `SECONDARY_KEY`. For https, give reqwest its feature `rustls` in
//! `examples/Cargo.toml` first: the examples are built without TLS.
//!
//! ```sh
//! cargo run --example reqwest_client -- \
//!     https://api.openai.com/v1 gpt-4.1-mini http://127.0.0.1:11434/v1 llama3.1
//! ```

#![expect(clippy::print_stdout, reason = "a program speaks to its user")]

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use llm_breaker::{BreakerLayer, Breakers};
use llm_call::{
    Answer, BoxError, Call, CallSettings, Client, IdentifyLayer, Kind, Outcome, PeekLayer,
    ResponseExt, client, reqwest::Reqwest,
};
use llm_chaos::{ChaosProvider, Count, Fault, Phase, Script};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{InvalidProvider, Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use serde_json::json;
use tower::{ServiceBuilder, ServiceExt};

/// The client. `docs/clients.md` says why each setting is there.
fn http() -> reqwest::Result<reqwest::Client> {
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(2))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(5))
        .http2_keep_alive_while_idle(true);
    #[cfg(target_os = "linux")]
    let http = http.tcp_user_timeout(Duration::from_secs(15));
    http.build()
}

/// The stack. The order matters: what sends again stands above what limits one attempt.
fn stack(targets: Targets, providers: ProviderLayer) -> Result<Client, BoxError> {
    providers.check(targets.iter())?;
    Ok(client(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::new(Duration::from_secs(25)))
            .layer(FailoverLayer::new(targets))
            .layer(RetryLayer::new(RetryBudget::new()))
            .layer(BreakerLayer::new(Breakers::new()))
            .layer(TimeoutLayer::new())
            .layer(providers)
            .layer(PeekLayer::new())
            .service(Reqwest::new(http()?)),
    ))
}

/// A chat request as an SDK would write it. The path stands for any provider's.
fn question(text: &str) -> Result<Request<Full<Bytes>>, http::Error> {
    let body = json!({
        "model": "any", // the target's model replaces it
        "stream": true,
        "messages": [{ "role": "user", "content": text }],
    });
    Request::post("/v1/chat/completions")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.to_string()))
}

/// Asks, and says what came of it.
async fn ask(llm: &Client, mut request: Request<Full<Bytes>>) -> String {
    // Only to print what happened: a call is opened by `IdentifyLayer` where there is none.
    let call = Call::open(CallSettings::new());
    request.extensions_mut().insert(call.clone());
    let said = match llm.clone().oneshot(request).await {
        // The first token is here, and the rest is under way.
        Ok(answer) if answer.outcome().is_success() => match read(answer).await {
            Ok(text) => format!("answered: {text}"),
            // What was read so far is not the whole answer, and never looks like it.
            Err(error) => format!("broke off: {}", Kind::of(&*error)),
        },
        // Nobody did better than this error of a provider's. It comes as it was sent, body and all.
        Ok(answer) => format!("{}: {}", answer.status(), answer.outcome().kind),
        // Nobody had any answer.
        Err(error) => {
            let outcome = Outcome::of_error(&*error);
            format!(
                "{}, again in {:?}: {}",
                outcome.kind,
                outcome.retry_after,
                chain(&*error)
            )
        }
    };
    format!("{said}\n{}", call.ledger())
}

/// An error with all that lay beneath it.
fn chain(error: &(dyn Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |&error| error.source());
    sources
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Reads a stream as it comes. A real program would hand each frame on.
async fn read(answer: Response<impl Answer + Unpin>) -> Result<String, BoxError> {
    let from = answer.headers().get("x-llm-provider");
    let from = from.map_or("?".into(), |name| {
        String::from_utf8_lossy(name.as_bytes()).into_owned()
    });
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    let events = body.state().token_events();
    Ok(format!("{events} events with content from {from}"))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demo().await,
        [primary, model, secondary, other_model] => {
            let targets = [
                format!("primary:{model}"),
                format!("secondary:{other_model}"),
            ];
            let providers = ProviderLayer::new()
                .provider("primary", provider(primary, "PRIMARY_KEY")?)
                .provider("secondary", provider(secondary, "SECONDARY_KEY")?);
            let llm = stack(Targets::ordered(targets)?, providers)?;
            println!("{}", ask(&llm, question("Say hello.")?).await);
            Ok(())
        }
        _ => {
            Err("give PRIMARY_URL MODEL SECONDARY_URL MODEL, or nothing for a demonstration".into())
        }
    }
}

/// A provider with the key in an environment variable, or without one.
fn provider(url: &str, variable: &str) -> Result<Provider, InvalidProvider> {
    match std::env::var(variable) {
        Ok(key) => Provider::new(url)?.bearer(&key),
        Err(_) => Ok(Provider::new(url)?.no_auth()),
    }
}

/// Two fake providers, and what the first one's failures lead to.
async fn demo() -> Result<(), BoxError> {
    let (primary, secondary) = (fake("primary").await?, fake("secondary").await?);
    let targets = Targets::ordered(["primary", "secondary"])?;
    let providers = ProviderLayer::new()
        .provider("primary", Provider::new(&primary.base_url())?)
        .provider("secondary", Provider::new(&secondary.base_url())?);
    let llm = stack(targets, providers)?;

    println!("The primary is overloaded:");
    primary.script(&Script::default().with(Phase::new(Fault::Error503)));
    println!("{}", ask(&llm, question("Count.")?).await);

    println!("It breaks in the middle of its answer:");
    primary.script(&Script::default().with(Phase {
        after_tokens: Some(Count::Constant(12)),
        ..Phase::new(Fault::Cut)
    }));
    println!("{}", ask(&llm, question("Count.")?).await);

    println!("Both are overloaded:");
    primary.script(&Script::default().with(Phase::new(Fault::Error503)));
    secondary.script(&Script::default().with(Phase::new(Fault::Error503)));
    println!("{}", ask(&llm, question("Count.")?).await);
    Ok(())
}

async fn fake(name: &str) -> std::io::Result<ChaosProvider> {
    ChaosProvider::builder().name(name).start().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack over two providers with these faults.
    async fn two(faults: [Option<Phase>; 2]) -> (Client, [ChaosProvider; 2]) {
        let both = [
            fake("primary").await.unwrap(),
            fake("secondary").await.unwrap(),
        ];
        for (provider, fault) in both.iter().zip(faults) {
            provider.script(&fault.into_iter().fold(Script::default(), Script::with));
        }
        let [primary, secondary] = both.each_ref().map(ChaosProvider::base_url);
        let providers = ProviderLayer::new()
            .provider("primary", provider(&primary, "NO_SUCH_KEY").unwrap())
            .provider("secondary", provider(&secondary, "NO_SUCH_KEY").unwrap());
        let targets = Targets::ordered(["primary:m", "secondary:n"]).unwrap();
        (stack(targets, providers).unwrap(), both)
    }

    #[tokio::test]
    async fn the_secondary_answers_for_an_overloaded_primary() {
        let (llm, [primary, secondary]) = two([Some(Phase::new(Fault::Error503)), None]).await;
        let said = ask(&llm, question("Count.").unwrap()).await;
        assert!(
            said.starts_with("answered: 60 events with content from secondary"),
            "{said}"
        );
        assert_eq!(secondary.log()[0].model.as_deref(), Some("n"));
        assert!(!primary.log().is_empty());
    }

    #[tokio::test]
    async fn a_cut_answer_does_not_pass_for_a_whole_one() {
        let (llm, _providers) = two([Some(Phase::new(Fault::Cut)), None]).await;
        let said = ask(&llm, question("Count.").unwrap()).await;
        assert!(said.starts_with("broke off: interrupted"), "{said}");
    }

    #[tokio::test]
    async fn the_last_providers_own_error_is_passed_on() {
        let down = Some(Phase::new(Fault::Error503));
        let (llm, _providers) = two([down.clone(), down]).await;
        let said = ask(&llm, question("Count.").unwrap()).await;
        assert!(
            said.starts_with("503 Service Unavailable: overloaded"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn nobody_there_is_an_error_that_says_so() {
        let (llm, providers) = two([None, None]).await;
        drop(providers);
        let said = ask(&llm, question("Count.").unwrap()).await;
        assert!(said.starts_with("connect_failed"), "{said}");
    }

    #[tokio::test]
    async fn the_demonstration_runs() {
        demo().await.unwrap();
    }
}
