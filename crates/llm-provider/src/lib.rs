//! Under construction
mod future;
mod layer;
mod provider;
mod rewrite;
mod service;

pub use future::ResponseFuture;
pub use layer::ProviderLayer;
pub use provider::{InvalidProvider, Provider};
pub use service::Provide;
