//! Layers of others, told as much as they need.

use std::{error::Error, fmt, future, sync::Arc, time::Duration};

use http::Response;
use llm_call::BoxError;
use seatbelt::{RecoveryInfo, ResilienceContext, breaker, hedging, retry as seat_retry};
use tick::Clock;
use tower::{hedge, retry};

/// A time limit that does not pass.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Longer than a bench takes.
pub const HOUR: Duration = Duration::from_secs(3600);

/// An error of the kind that a hedge of tower-resilience can take: one that is `Clone`.
#[derive(Clone, Debug)]
pub struct Shared(Arc<BoxError>);

impl From<BoxError> for Shared {
    fn from(error: BoxError) -> Self {
        Shared(Arc::new(error))
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Shared {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.0)
    }
}

/// What a service of theirs yields here.
type Answered<B> = Result<Response<B>, BoxError>;

/// tower's retry, of errors.
pub fn tower_retry() -> retry::RetryLayer<OnError> {
    retry::RetryLayer::new(OnError)
}

/// As any policy that can retry, it clones the request.
#[derive(Clone, Debug)]
pub struct OnError;

impl<R: Clone, B> retry::Policy<R, Response<B>, BoxError> for OnError {
    type Future = future::Ready<()>;

    fn retry(&mut self, _: &mut R, result: &mut Answered<B>) -> Option<Self::Future> {
        result.is_err().then(|| future::ready(()))
    }

    fn clone_request(&mut self, request: &R) -> Option<R> {
        Some(request.clone())
    }
}

impl<R: Clone> hedge::Policy<R> for OnError {
    fn clone_request(&self, request: &R) -> Option<R> {
        Some(request.clone())
    }

    fn can_retry(&self, _: &R) -> bool {
        true
    }
}

/// seatbelt's hedging, after a time that does not pass.
pub fn seatbelt_hedging<R: Clone + 'static, B: 'static>() -> hedging::HedgingLayer<R, Answered<B>> {
    hedging::Hedging::layer("hedging", &context())
        .clone_input()
        .recovery_with(|result, _| recovery(result))
        .hedging_delay(LIMIT)
}

/// seatbelt's breaker, of errors.
pub fn seatbelt_breaker<R: 'static, B: 'static>() -> breaker::BreakerLayer<R, Answered<B>> {
    breaker::Breaker::layer("breaker", &context())
        .recovery_with(|result, _| recovery(result))
        .rejected_input_error(|_, _| BoxError::from("the circuit is open"))
}

/// seatbelt's retry, of errors.
pub fn seatbelt_retry<R: Clone + 'static, B: 'static>() -> seat_retry::RetryLayer<R, Answered<B>> {
    seat_retry::Retry::layer("retry", &context())
        .clone_input()
        .recovery_with(|result, _| recovery(result))
}

/// What seatbelt's layers are made with.
pub fn context<R, B>() -> ResilienceContext<R, Answered<B>> {
    ResilienceContext::new(Clock::new_tokio())
}

fn recovery<B>(result: &Answered<B>) -> RecoveryInfo {
    match result {
        Ok(_) => RecoveryInfo::never(),
        Err(_) => RecoveryInfo::retry(),
    }
}
