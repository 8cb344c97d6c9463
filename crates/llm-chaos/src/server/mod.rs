//! The provider on a real socket.
//!
//! `script` decides which fault a request gets, `plan` turns the request and the fault into steps,
//! `http1` and `http2` perform the steps. Only the last two touch a socket.

mod answer;
mod ask;
mod control;
mod http1;
mod http2;
mod pace;
mod phase;
mod pieces;
mod plan;
mod provider;
mod script;
mod seen;
mod shared;
mod sixteen;
mod switch;
mod wire;

pub use pace::{Count, Pace, Spread};
pub use phase::Phase;
pub use plan::Prefill;
pub use provider::{ChaosProvider, ChaosProviderBuilder};
pub use script::{Script, ScriptError};
pub use seen::Seen;
pub use sixteen::sixteen_faults;
