//! Time limits by phase, for one attempt.

mod layer;
mod service;

pub use layer::TimeoutLayer;
pub use service::Timeout;
