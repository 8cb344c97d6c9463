//! A chat endpoint for clients of OpenAI and Anthropic that keeps answering while a provider is down.
//!
//! ```sh
//! cargo run --release --example axum_service -- \
//!     --target a=https://api.openai.com/v1 \
//!     --target b=https://api.anthropic.com,model=claude-haiku-4-5,dialect=anthropic,key=ANTHROPIC_API_KEY
//! ```
//!
//! Point any OpenAI client at `http://127.0.0.1:8080/v1`, or any Anthropic client at
//! `http://127.0.0.1:8080`. Between targets of one dialect bodies and unknown fields pass through;
//! without a key of its own a target gets the caller's; answers stream. Give the client no retries of its own
//! (`max_retries=0` in the official SDKs): they would multiply with those of this service.

mod client;
mod settings;
mod stack;
#[cfg(test)]
mod tests;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = match settings::Settings::from_args(std::env::args_os().skip(1)) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            say(settings::HELP);
            return Ok(());
        }
        Err(error) => {
            complain(&format!("axum_service: {error}\n\n{}", settings::HELP));
            std::process::exit(2);
        }
    };
    let app = stack::router(&settings).map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(settings.listen).await?;
    say(&format!(
        "listening on http://{}\n{settings}",
        listener.local_addr()?
    ));
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            // Without a signal handler the service runs until it is killed, which is sound too.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program speaks to its user")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a program speaks to its user")]
fn complain(text: &str) {
    eprintln!("{text}");
}
