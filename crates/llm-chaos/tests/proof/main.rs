//! What no crate can show alone: every service of the family keeps the contract of `Service` over
//! and under every other one, and whatever is dropped wherever, nothing of it is left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper may do what a test may"
)]

mod answers;
mod caps;
mod contract;
mod crowd;
mod drops;
mod order;
mod rows;
mod world;
