//! Hedges.
mod budget;
mod future;
mod hedges;
mod latency;
mod layer;
mod lesson;
mod race;
mod recent;
mod service;
mod settings;
mod snapshot;

pub use future::ResponseFuture;
pub use hedges::Hedges;
pub use layer::HedgeLayer;
pub use service::Hedge;
pub use settings::{InvalidSettings, Policy, Settings};
pub use snapshot::{Measure, Skipped, Snapshot, TargetTimes};

pub use llm_call::{IdentifyLayer, PeekLayer};
