//! Identify: the edge where requests come in.

mod collect;
mod facts;
mod future;
mod layer;
mod service;

pub use future::{CallGuard, IdentifyFuture};
pub use layer::IdentifyLayer;
pub use service::Identify;
