//! Faults in a tower stack.

mod body;
mod future;
mod rule;
mod service;

pub use body::FaultBody;
pub use future::FaultFuture;
pub use rule::{Injection, Rule};
pub use service::{FaultCounts, FaultLayer, FaultService};
