//! Under construction
mod by_target;
mod error;
mod future;
mod layer;
mod rest;
mod service;
mod targets;

pub use by_target::{ByTarget, ByTargetFuture};
pub use error::{AllFailed, FailedAttempt};
pub use future::ResponseFuture;
pub use layer::FailoverLayer;
pub use llm_call::PeekLayer;
pub use service::Failover;
pub use targets::{InvalidTargets, TargetState, Targets};
