//! async-openai with the stack under it: the code that asks stays as it is, and keeps getting
//! answers while the first provider is down.
//!
//! ```sh
//! cargo run --example async_openai
//! ```
//!
//! starts two fake providers on loopback, of which the first is down. With two base URLs it asks
//! those, with the key in `OPENAI_API_KEY`:
//!
//! ```sh
//! cargo run --example async_openai -- https://api.openai.com/v1 https://eu.api.openai.com/v1
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
use llm_call::{
    BoxError, IdentifyLayer, Kind, PeekLayer,
    reqwest::{Over, Reqwest},
};
use llm_chaos::{ChaosProvider, Fault, Phase, Script};
use llm_failover::{FailoverLayer, Targets};
use llm_provider::{Provider, ProviderLayer};
use llm_timeout::{DeadlineLayer, TimeoutLayer};
use tower::{ServiceBuilder, service_fn};

/// async-openai's client, with the stack in place of its own way to send.
fn openai(primary: &str, secondary: &str) -> Result<Client<OpenAIConfig>, BoxError> {
    let http = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(2))
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

/// What kind of failure an error is.
fn kind(error: &OpenAIError) -> Kind {
    match error {
        // No provider had an answer.
        OpenAIError::Boxed(error) => Kind::of(&**error),
        // A provider's own answer was an error, as `OpenAIError::ApiError` shows; or it was cut.
        error => Kind::of(error),
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
            Err(error) => println!("{how}: {error} ({})", kind(&error)),
        }
    }
}

async fn fake(name: &str) -> std::io::Result<ChaosProvider> {
    ChaosProvider::builder().name(name).start().await
}
