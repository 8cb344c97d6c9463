//! Peek: holds an answer back until it is seen to be one.

mod body;
mod future;
mod held;
mod hold;
mod layer;
mod service;

pub use body::Peeked;
pub use future::PeekFuture;
pub use layer::{Commit, PeekLayer};
pub use service::Peek;

pub(crate) use body::longer;
pub(crate) use layer::Settings;
