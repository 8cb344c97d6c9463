//! Under construction.

mod dialect;
mod error;
mod json;
mod kind;
mod sse;
mod target;

pub use dialect::{Dialect, Finish, Malformed, Sight, Usage, Watch};
pub use error::{BoxError, Error, find_cause};
pub use kind::{Health, Kind, Matrix, Outcome, Phase, Refusal, Retry, Verdict};
pub use sse::{Event, EventTooLarge, Framing, Scanner};
pub use target::{Capability, InvalidTarget, Target};

impl Kind {
    /// temporary
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Kind {
        find_cause::<Error>(error).map_or(Kind::Unknown, Error::kind)
    }
}
