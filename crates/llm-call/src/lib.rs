//! Under construction.

mod error;
mod kind;
mod target;

pub use error::{BoxError, Error, find_cause};
pub use kind::{Health, Kind, Matrix, Outcome, Phase, Refusal, Retry, Verdict};
pub use target::{Capability, InvalidTarget, Target};

impl Kind {
    /// temporary
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Kind {
        find_cause::<Error>(error).map_or(Kind::Unknown, Error::kind)
    }
}
