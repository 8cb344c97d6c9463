//! async-openai with the stack under it: the code that asks stays as it is, and keeps getting
//! answers while the first provider is down.
//!
//! ```sh
//! cargo run --example async_openai
//! ```
//!
//! starts two fake providers on loopback, of which the first is down. With two base URLs it asks
//! those, with the key in `OPENAI_API_KEY`. For https, give reqwest its feature `rustls` in
//! `examples/Cargo.toml` first: the examples are built without TLS.
//!
//! ```sh
//! cargo run --example async_openai -- https://api.openai.com/v1 http://127.0.0.1:8080/v1
//! ```
//!
//! `with_http_service` needs async-openai's feature `middleware`. It replaces all that async-openai
//! sends by, its own three retries included; do not put `OpenAIRetryLayer` back on top.

#![expect(clippy::print_stdout, reason = "a program speaks to its user")]

use std::time::Duration;

use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    middleware::HttpRequestFactory,
    types::chat::{
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest,
        CreateChatCompletionRequestArgs,
    },
};
use futures_util::StreamExt;
use llm_breaker::{BreakerLayer, Breakers};
use llm_call::{
    BoxError, IdentifyLayer, Kind, PeekLayer,
    reqwest::{Over, Reqwest},
};
use llm_chaos::{ChaosProvider, Fault, Phase, Script};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_retry::{RetryBudget, RetryLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{ServiceBuilder, service_fn};

/// async-openai's client, with the stack in place of its own way to send. `docs/clients.md` says why
/// reqwest needs each of these settings.
fn openai(primary: &str, secondary: &str) -> Result<Client<OpenAIConfig>, BoxError> {
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(2))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(5))
        .http2_keep_alive_while_idle(true)
        .build()?;
    let providers = ProviderLayer::new()
        .provider("primary", Provider::new(primary)?)
        .provider("secondary", Provider::new(secondary)?);
    let targets = Targets::ordered(["primary", "secondary"])?;
    providers.check(targets.iter())?;
    // `Over` has reqwest's own types at both ends, as async-openai wants them.
    let stack = Over::new(
        ServiceBuilder::new()
            .layer(IdentifyLayer::new())
            .layer(DeadlineLayer::new(Duration::from_secs(25)))
            .layer(FailoverLayer::new(targets))
            .layer(RetryLayer::new(RetryBudget::new()))
            .layer(BreakerLayer::new(Breakers::new()))
            .layer(TimeoutLayer::new())
            .layer(providers)
            .layer(PeekLayer::new())
            .service(Reqwest::new(http)),
    );
    let service = service_fn(move |factory: HttpRequestFactory| {
        let stack = stack.clone();
        async move {
            let request = factory.build().await?;
            // An error of the stack becomes `OpenAIError::Boxed`.
            Ok::<_, OpenAIError>(stack.execute(request).await?)
        }
    });
    Ok(Client::new().with_http_service(service))
}

fn question(text: &str) -> Result<CreateChatCompletionRequest, OpenAIError> {
    CreateChatCompletionRequestArgs::default()
        .model("gpt-4.1-mini")
        .messages([ChatCompletionRequestUserMessage::from(text).into()])
        .build()
}

/// An answer in one piece.
async fn ask(openai: &Client<OpenAIConfig>, text: &str) -> Result<String, OpenAIError> {
    let answer = openai.chat().create(question(text)?).await?;
    let first = answer.choices.into_iter().next();
    Ok(first
        .and_then(|choice| choice.message.content)
        .unwrap_or_default())
}

/// An answer token by token.
async fn stream(openai: &Client<OpenAIConfig>, text: &str) -> Result<String, OpenAIError> {
    let mut events = openai.chat().create_stream(question(text)?).await?;
    let mut answer = String::new();
    while let Some(event) = events.next().await {
        // A stream that breaks ends in an error, and never as if it were whole.
        for choice in event?.choices {
            answer.extend(choice.delta.content);
        }
    }
    Ok(answer)
}

/// What kind of failure an error of the stack is. All others are async-openai's own: `ApiError` is
/// the answer of a provider, `StreamError` an answer that broke off.
fn kind(error: &OpenAIError) -> Option<Kind> {
    match error {
        OpenAIError::Boxed(error) => Some(Kind::of(&**error)),
        _ => None,
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match &args[..] {
        [] => {
            let (primary, secondary) = (fake("primary").await?, fake("secondary").await?);
            primary.script(&Script::default().with(Phase::new(Fault::Error503)));
            show(&openai(&primary.base_url(), &secondary.base_url())?).await;
        }
        [primary, secondary] => show(&openai(primary, secondary)?).await,
        _ => return Err("give PRIMARY_URL SECONDARY_URL, or nothing for a demonstration".into()),
    }
    Ok(())
}

async fn show(openai: &Client<OpenAIConfig>) {
    for (how, result) in [
        ("in one piece", ask(openai, "Count.").await),
        ("token by token", stream(openai, "Count.").await),
    ] {
        match result {
            Ok(answer) => println!("{how}: {answer}"),
            Err(error) => println!("{how}: {error}, kind: {:?}", kind(&error)),
        }
    }
}

async fn fake(name: &str) -> std::io::Result<ChaosProvider> {
    ChaosProvider::builder().name(name).start().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_chaos::Count;

    /// A client before two providers with these faults.
    async fn two(faults: [Option<Phase>; 2]) -> (Client<OpenAIConfig>, [ChaosProvider; 2]) {
        let both = [
            fake("primary").await.unwrap(),
            fake("secondary").await.unwrap(),
        ];
        for (provider, fault) in both.iter().zip(faults) {
            provider.script(&fault.into_iter().fold(Script::default(), Script::with));
        }
        let [primary, secondary] = both.each_ref().map(ChaosProvider::base_url);
        (openai(&primary, &secondary).unwrap(), both)
    }

    fn whole() -> String {
        (1..=60)
            .map(|n| format!("token{n} "))
            .collect::<String>()
            .trim_end()
            .to_owned()
    }

    #[tokio::test]
    async fn answers_come_whole_from_the_secondary() {
        for fault in [
            Fault::Error503,
            Fault::Reset,
            Fault::ErrorEventFirst,
            Fault::Html200,
        ] {
            let (openai, [_, secondary]) = two([Some(Phase::new(fault)), None]).await;
            assert_eq!(ask(&openai, "Count.").await.unwrap(), whole(), "{fault}");
            assert_eq!(stream(&openai, "Count.").await.unwrap(), whole(), "{fault}");
            assert_eq!(secondary.log().len(), 2, "{fault}");
        }
    }

    #[tokio::test]
    async fn an_error_that_nobody_can_better_comes_as_the_provider_sent_it() {
        let wrong = Some(Phase::new(Fault::Error400));
        let (openai, [primary, secondary]) = two([wrong, None]).await;
        let error = ask(&openai, "Count.").await.unwrap_err();
        assert!(matches!(error, OpenAIError::ApiError(_)), "{error}");
        assert_eq!((primary.log().len(), secondary.log().len()), (1, 0));
    }

    #[tokio::test]
    async fn a_cut_stream_ends_in_an_error() {
        let cut = Phase {
            after_tokens: Some(Count::Constant(12)),
            ..Phase::new(Fault::Cut)
        };
        let (openai, _providers) = two([Some(cut), None]).await;
        let error = stream(&openai, "Count.").await.unwrap_err();
        assert!(matches!(error, OpenAIError::StreamError(_)), "{error}");
    }

    #[tokio::test]
    async fn an_error_of_the_stack_has_its_kind() {
        let (openai, providers) = two([None, None]).await;
        drop(providers);
        let error = ask(&openai, "Count.").await.unwrap_err();
        assert_eq!(kind(&error), Some(Kind::ConnectFailed), "{error}");
    }

    #[tokio::test]
    async fn the_demonstration_runs() {
        let (openai, _providers) = two([Some(Phase::new(Fault::Error503)), None]).await;
        show(&openai).await;
    }
}
