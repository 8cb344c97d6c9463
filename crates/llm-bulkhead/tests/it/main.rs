//! The bulkhead layer, on paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod answers;
mod contract;
mod pools;
mod support;
