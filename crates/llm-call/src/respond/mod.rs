//! Respond: the edge where errors go out.

mod body;
mod convert;
mod events;
mod form;
mod future;
mod layer;
mod message;
mod service;

pub use body::RespondBody;
pub use convert::error_message;
pub use future::RespondFuture;
pub use layer::RespondLayer;
pub use service::Respond;
