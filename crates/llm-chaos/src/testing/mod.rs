//! Helpers for testing layers on paused time: a strict contract probe, a scripted inner service
//! and a drop-fuzzer.
//!
//! ```
//! use std::time::Duration;
//!
//! use llm_chaos::testing::{BodyStep, Respond, Strict, drop_fuzz, service};
//! use tower::{ServiceExt, timeout::Timeout};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // The first call hangs, every later one streams two frames, a second apart.
//! let inner = service([
//!     Respond::hang(),
//!     Respond::ok([BodyStep::data("to"), BodyStep::wait(Duration::from_secs(1)), BodyStep::data("ken")]),
//! ]);
//! let gauges = inner.gauges();
//! let stack = Timeout::new(Strict::new(inner), Duration::from_secs(5));
//!
//! let request = || http::Request::new(String::new());
//! assert!(stack.clone().oneshot(request()).await.is_err());
//!
//! // Dropped after any number of polls, nothing of the call is left.
//! drop_fuzz(
//!     || stack.clone().oneshot(request()),
//!     |polls| assert_eq!(gauges.live(), 0, "after {polls} polls"),
//! )
//! .await;
//! # }
//! ```

mod drop_fuzz;
mod scripted;
mod strict;

pub use drop_fuzz::{Fuzzed, drop_fuzz, drop_fuzz_body};
pub use scripted::{
    BodyStep, Gauges, Live, Respond, Scripted, ScriptedBody, ScriptedFuture, service,
};
pub use strict::Strict;
