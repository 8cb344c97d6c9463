//! One deadline for the whole call.

mod layer;
mod service;

pub use layer::DeadlineLayer;
pub use service::Deadline;
