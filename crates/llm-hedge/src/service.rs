use std::task::{Context, Poll};

use http::{Request, Response};
use llm_call::{Answer, Attempt, BoxError, Call};
use tower_service::Service;

use crate::{
    Hedges, Measure, ResponseFuture,
    layer::{Admitted, Rules},
    lesson::Lesson,
    race::{Race, Spare},
};

/// The service of [`HedgeLayer`](crate::HedgeLayer).
#[derive(Clone, Debug)]
pub struct Hedge<S> {
    inner: S,
    hedges: Hedges,
    rules: Rules,
}

impl<S> Hedge<S> {
    pub(crate) fn new(inner: S, hedges: Hedges, rules: Rules) -> Hedge<S> {
        Hedge {
            inner,
            hedges,
            rules,
        }
    }

    /// The handle.
    pub fn hedges(&self) -> &Hedges {
        &self.hedges
    }
}

impl<S, ReqB, B> Service<Request<ReqB>> for Hedge<S>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = ResponseFuture<S, ReqB>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<ReqB>) -> Self::Future {
        let race = self.race(&mut request);
        if race.is_none() {
            self.hedges.totals().ineligible.add();
        }
        ResponseFuture::new(self.inner.call(request), race)
    }
}

impl<S> Hedge<S> {
    /// What a call needs to be hedged and learned from; `None` where neither is to be.
    fn race<ReqB>(&self, request: &mut Request<ReqB>) -> Option<Race<S, ReqB>>
    where
        S: Service<Request<ReqB>> + Clone,
        ReqB: Clone,
    {
        let call = request.extensions().get::<Call>()?;
        let admitted = self.rules.admit(call)?;
        let call = call.clone();
        let own = (request.extensions().get::<Attempt>()).map_or(0, |attempt| attempt.hedge);
        let tenant = call.tenant_name();
        let can_pay = !self.hedges.is_paused() && {
            self.hedges.totals().calls.add();
            let can_pay = self.hedges.deposit(&tenant);
            if !can_pay {
                self.hedges.totals().without_token.add();
            }
            can_pay
        };
        let spare = can_pay.then(|| Spare {
            service: self.inner.clone(),
            request: request.clone(),
            tenant,
        });
        if spare.is_some() {
            number(&call, request);
        }
        let lesson = Lesson::new(self.hedges.clone(), call, admitted, own);
        Some(Race::new(lesson, spare))
    }
}

/// Gives the first copy a number, unless somebody above has.
fn number<ReqB>(call: &Call, request: &mut Request<ReqB>) {
    match request.extensions_mut().get_mut::<Attempt>() {
        Some(attempt) if attempt.n == 0 => attempt.n = call.number(),
        Some(_) => {}
        None => {
            request.extensions_mut().insert(Attempt::new(call.number()));
        }
    }
}

impl Rules {
    /// What is to be known of a call, if it may be hedged.
    fn admit(&self, call: &Call) -> Option<Admitted> {
        let facts = call.facts()?;
        let measure = match facts.streamed {
            Some(true) if facts.thinking => Measure::AfterThinking,
            Some(true) => Measure::FirstToken,
            _ => Measure::WholeAnswer,
        };
        let may = (self.whole_answers || measure != Measure::WholeAnswer)
            && facts.input_tokens <= self.max_input_tokens
            && !call.has_side_effects();
        let attempts = if may { call.attempts_left() } else { 0 };
        (attempts >= 2).then_some(Admitted { measure, attempts })
    }
}
