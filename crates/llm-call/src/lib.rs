//! Under construction.

mod classify;
mod dialect;
mod error;
mod hint;
mod json;
mod kind;
mod sse;
mod target;
mod transport;

pub use classify::{Classify, Seen, Standard};
pub use dialect::{Dialect, Finish, Malformed, Sight, Usage, Watch};
pub use error::{BoxError, Error, find_cause};
pub use hint::{Dimension, RateLimit, RateLimits, retry_after};
pub use kind::{Health, Kind, Matrix, Outcome, Phase, Refusal, Retry, Verdict};
pub use sse::{Event, EventTooLarge, Framing, Scanner};
pub use target::{Capability, InvalidTarget, Target};
