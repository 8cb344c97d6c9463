//! What a future does that is polled once too often.

#[expect(
    clippy::panic,
    reason = "the contract of Future: not polled after Ready"
)]
pub(crate) fn polled_after_ready() -> ! {
    panic!("a response future was polled after it was ready")
}
