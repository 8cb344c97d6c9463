//! Under construction.

mod answer;
mod call;
mod classify;
mod client;
mod clock;
mod dialect;
mod error;
mod hint;
mod identify;
mod json;
mod kind;
mod ledger;
mod peek;
mod plan;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod respond;
mod sse;
mod target;
mod transport;

pub use answer::{Answer, Ending, Guard, Guarded, ResponseExt, State};
pub use call::{Attempt, Call, CallSettings, Cause, Facts, Lease, MAX_ATTEMPTS, Workload};
pub use classify::{Classify, Seen, Standard};
pub use client::{AnswerBody, Client, ClientFuture, client};
pub use dialect::{Dialect, Finish, Malformed, Sight, Usage, Watch};
pub use error::{BoxError, Error, find_cause};
pub use hint::{Dimension, RateLimit, RateLimits, retry_after};
pub use identify::{CallGuard, Identify, IdentifyFuture, IdentifyLayer};
pub use kind::{Health, Kind, Matrix, Outcome, Phase, Refusal, Retry, Verdict};
pub use ledger::{Entry, Ledger};
pub use peek::{Commit, Peek, PeekLayer, Peeked, ResponseFuture};
pub use respond::{Respond, RespondBody, RespondFuture, RespondLayer};
pub use sse::{Event, EventTooLarge, Framing, Scanner};
pub use target::{Capability, InvalidTarget, Target};
