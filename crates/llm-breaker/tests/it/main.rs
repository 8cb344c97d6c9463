//! The breaker layer over a `PeekLayer`, on paused time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod commits;
mod contract;
mod drops;
mod handles;

mod layer;
mod peers;
mod support;
