//! Faults for LLM clients: a provider that misbehaves on cue, a fault layer, and testing helpers.
//!
//! A client that is to survive a provider's outage must be tested against one, and real outages
//! are not made of clean status codes: they reset connections, send headers and then nothing,
//! stop in the middle of a word, or answer 200 with a web page. This crate makes those failures,
//! at a chosen time, at a chosen rate, the same on every run.
//!
//! - [`ChaosProvider`] (feature `server`, and the binary `chaos-provider`) is a fake provider on a
//!   real socket. It speaks OpenAI's chat completions and responses and Anthropic's messages, JSON
//!   and streamed, over HTTP/1.1 and HTTP/2 with prior knowledge, and counts what it saw.
//! - [`FaultLayer`] (feature `layer`) is a tower layer that puts faults on any HTTP service.
//! - `testing` (feature `testing`) has a strict contract probe, a scripted inner service and a
//!   drop-fuzzer for tests on paused time.
//!
//! ```
//! # #[cfg(not(feature = "server"))]
//! # fn main() {}
//! # #[cfg(feature = "server")]
//! use llm_chaos::{ChaosProvider, Script};
//!
//! # #[cfg(feature = "server")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = ChaosProvider::start().await?;
//! provider.script(&Script::from_toml(
//!     r#"
//!     [[phase]]
//!     fault = "error_503"
//!     to = "1m"        # down for a minute, then healthy
//!
//!     [[phase]]
//!     fault = "cut"
//!     from = "1m"
//!     rate = 0.05      # then one stream in twenty is cut
//!     after_tokens = 12
//!     "#,
//! )?);
//!
//! // Point a client at `provider.base_url()`, then look at what arrived.
//! assert!(provider.base_url().ends_with("/v1"));
//! assert_eq!(provider.log().len(), 0);
//! # Ok(()) }
//! ```
//!
//! A request can also ask for its own fault, without a script: the model `fault-error_503` always
//! gets a 503, `fault-cut?after_tokens=5` a stream of five tokens, `fault-rate_limit?times=1` a 429
//! the first time. Parameters are those of a [`Phase`].
//!
//! # Answers
//!
//! A healthy answer is `token1 token2 ... token60`, so that a test can see what is missing, doubled
//! or out of order. The answer carries the model that was asked for, the name of the server
//! (`system_fingerprint` and the header `x-chaos-provider`), and usage. A request that is none (no
//! message, say) gets a 400, as from a provider, whatever the script says.
//!
//! # Faults
//!
#![doc = include_str!("../FAULTS.md")]
//!
//! A fault that needs a stream does the nearest thing to a request that asked for plain JSON: `cut`
//! sends half of the body, `malformed_event` a body that is not JSON, `error_event_first` and its
//! kin a 200 with an error in it.
//!
//! Over HTTP/2 a closed connection becomes a stream reset with `CANCEL`, an RST one with
//! `INTERNAL_ERROR`; `black_hole` takes the whole connection. A model name comes too late for
//! `never_read`, which is then a `no_response`: use a script.
//!
//! # Control endpoints
//!
//! On the provider's own port: `POST /_chaos/script` (TOML or JSON; the clock starts at zero, an
//! empty body is a healthy provider), `POST /_chaos/reset` (empties the log, restarts the clock and
//! the counts, keeps the script), `POST /_chaos/black_hole` (open connections go silent for good,
//! new ones are healthy), `GET /_chaos/log` (a JSON list of [`Seen`]), `GET /_chaos/health`.

mod fault;
#[cfg(feature = "layer")]
mod layer;
mod reply;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(any(feature = "server", feature = "layer"))]
mod window;

pub use fault::{Fault, UnknownFault};
#[cfg(feature = "layer")]
pub use layer::{FaultBody, FaultCounts, FaultFuture, FaultLayer, FaultService, Injection, Rule};
pub use reply::{Api, Reply};
#[cfg(feature = "server")]
pub use server::{
    ChaosProvider, ChaosProviderBuilder, Count, Pace, Phase, Prefill, Script, ScriptError, Seen,
    Spread, sixteen_faults,
};

/// The error type of the layer.
#[cfg(any(feature = "layer", feature = "testing"))]
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
