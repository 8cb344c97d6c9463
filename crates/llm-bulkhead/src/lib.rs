//! Bulkheads for LLM calls.

mod body;
mod bulkhead;
mod core;
mod error;
mod future;
mod layer;
mod name;
mod permit;
mod service;
mod settings;
mod snapshot;
mod sync;
mod watch;

pub use body::BulkheadBody;
pub use bulkhead::Bulkhead;
pub use error::{Full, ResizeError};
pub use future::ResponseFuture;
pub use layer::{BulkheadLayer, Until};
pub use service::BulkheadService;
pub use settings::{InvalidSettings, Pool, Settings};
pub use snapshot::{PoolSnapshot, Snapshot, TenantSnapshot};
