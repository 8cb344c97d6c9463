//! [`Race`]: when the second copy of a call is sent, and which of the two decides.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use llm_call::{
    Answer, Attempt, BoxError, Call, Cause, Kind, Outcome, Phase, ResponseExt, Retry, Target,
    detach,
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::util::Oneshot;
use tower_service::Service;

use crate::{Hedges, budget::Tenant, hedges::Times, lesson::Lesson, snapshot::Skip};

/// What one call that can be hedged knows beside its first copy.
///
/// The fields are dropped in this order: the hedge, its token, what is kept of a failure, and then
/// what learns from all of them.
pub(crate) struct Race<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) hedge: Option<Running<S, ReqB>>,
    token: Option<Token>,
    /// How the copy ended that failed first. It holds no connection and no permit.
    kept: Option<Box<Result<S::Response, S::Error>>>,
    /// Gone once no hedge can follow.
    spare: Option<Spare<S, ReqB>>,
    /// The copy that the timer counts for.
    armed: Option<(Option<Target>, Instant)>,
    /// Why no hedge was started, as it stands.
    skipped: Option<Skip>,
    lesson: Lesson,
}

/// Boxed, since most calls never have one.
pub(crate) type Running<S, ReqB> = Pin<Box<Oneshot<S, Request<ReqB>>>>;

/// What is needed to send again.
pub(crate) struct Spare<S, ReqB> {
    pub(crate) service: S,
    pub(crate) request: Request<ReqB>,
    pub(crate) tenant: Tenant,
}

/// One of the two copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Hedge,
}

impl<S, ReqB> Race<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    pub(crate) fn new(lesson: Lesson, spare: Option<Spare<S, ReqB>>) -> Self {
        Race {
            hedge: None,
            token: None,
            kept: None,
            spare,
            armed: None,
            skipped: None,
            lesson,
        }
    }

    pub(crate) fn has_hedge(&self) -> bool {
        self.hedge.is_some()
    }

    fn call(&self) -> &Call {
        &self.lesson.call
    }

    fn hedges(&self) -> &Hedges {
        &self.lesson.hedges
    }

    /// Notes why there is no hedge. A copy that failover moves on may still get one.
    fn skip(&mut self, skip: Skip) {
        self.skipped = Some(skip);
    }
}

impl<S, ReqB, B> Race<S, ReqB>
where
    S: Service<Request<ReqB>, Response = Response<B>, Error = BoxError> + Clone,
    ReqB: Clone,
    B: Answer + Unpin,
{
    /// The first copy is under way, alone: waits until its hedge is due, and starts it.
    pub(crate) fn poll_start(
        &mut self,
        mut timer: Pin<&mut Option<Sleep>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.spare.is_none() {
            return Poll::Pending;
        }
        // Whatever waits for a permit or between two attempts is not late.
        let under_way = self.call().under_way(self.lesson.own);
        if self.armed != under_way {
            let due = under_way.as_ref().and_then(|copy| self.due(copy));
            timer.set(due.map(sleep_until));
            self.armed = under_way;
        }
        let Some(sleep) = timer.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        ready!(sleep.poll(cx));
        timer.set(None);
        self.start(true);
        Poll::Ready(())
    }

    /// When the hedge of a copy is due; `None` where that is unknown or not before the deadline.
    fn due(&mut self, (target, sent): &(Option<Target>, Instant)) -> Option<Instant> {
        let times = Times {
            target: target.clone(),
            measure: self.lesson.measure,
        };
        let Some(delay) = self.hedges().delay_of(&times, Instant::now()) else {
            self.skip(Skip::Unknown);
            return None;
        };
        let due = sent.checked_add(delay);
        let deadline = self.call().deadline();
        let due = due.filter(|due| deadline.is_none_or(|deadline| *due < deadline));
        self.skipped = due.is_none().then_some(Skip::Deadline);
        due
    }

    /// Starts the hedge, unless there is a reason not to; there is no second chance.
    fn start(&mut self, first_runs: bool) {
        let Some(spare) = self.spare.take() else {
            return;
        };
        let token = match self.token(&spare.tenant, first_runs) {
            Ok(token) => token,
            Err(skip) => return self.skip(skip),
        };
        let Spare {
            service,
            mut request,
            ..
        } = spare;
        let n = token.hedge;
        let extensions = request.extensions_mut();
        let mut attempt = extensions.remove::<Attempt>().unwrap_or_default();
        (attempt.n, attempt.hedge) = (n, n);
        extensions.insert(attempt);
        self.lesson.hedge = Some(n);
        self.hedges().totals().hedges.add();
        self.hedge = Some(Box::pin(Oneshot::new(service, request)));
        self.token = Some(token);
    }

    /// The token of a hedge that may be sent now.
    fn token(&self, tenant: &Tenant, first_runs: bool) -> Result<Token, Skip> {
        let (call, hedges) = (self.call(), self.hedges());
        if hedges.is_paused() {
            return Err(Skip::Paused);
        }
        if call.attempts_left() == 0 {
            return Err(Skip::Attempts);
        }
        let now = Instant::now();
        if call.deadline().is_some_and(|deadline| deadline <= now) {
            return Err(Skip::Deadline);
        }
        let ledger = call.ledger();
        // What was cancelled says nothing of whoever should have answered.
        let mut met = ledger
            .sent()
            .filter_map(|entry| entry.kind)
            .filter(|kind| *kind != Kind::Cancelled);
        if met.any(|kind| !call.outcome(kind).verdict.hedge) {
            return Err(Skip::Kind);
        }
        let own = self.lesson.own;
        let mut running = ledger
            .sent()
            .filter(|entry| entry.hedge == own && entry.kind.is_none());
        if first_runs && running.any(|entry| entry.first_token.is_some()) {
            return Err(Skip::Begun);
        }
        // Asked last, so that a token is taken only for a hedge that is sent.
        if !hedges.withdraw(tenant) {
            return Err(Skip::Budget);
        }
        Ok(Token {
            hedges: hedges.clone(),
            tenant: tenant.clone(),
            call: call.clone(),
            hedge: call.number(),
        })
    }

    /// A copy ended, and its future is gone. Settles the race if that result is returned whatever
    /// becomes of the other copy, and says whether it is. Whoever returns it drops the race before.
    pub(crate) fn settle(
        &mut self,
        which: Which,
        result: &Result<Response<B>, BoxError>,
        other_runs: bool,
    ) -> bool {
        let outcome = outcome(result);
        let decided = outcome.is_success() || is_fatal(outcome);
        if decided && other_runs {
            self.lose(which);
        }
        if let (Ok(answer), true) = (result, outcome.is_success()) {
            match which {
                Which::First => self.lesson.answered(answer.body().state()),
                Which::Hedge => self.hedges().totals().won.add(),
            }
        }
        decided
    }

    /// A copy failed, which decides nothing by itself: what the call returns, or `None` where the
    /// other copy decides.
    pub(crate) fn fail(
        &mut self,
        which: Which,
        result: Result<Response<B>, BoxError>,
        other_runs: bool,
    ) -> Option<Result<Response<B>, BoxError>> {
        if which == Which::Hedge {
            self.token = None;
        }
        if let Some(kept) = self.kept.take() {
            return Some(more_telling(*kept, result));
        }
        if which == Which::First && !other_runs {
            if outcome(&result).verdict.hedge {
                self.start(false);
            } else if self.spare.take().is_some() {
                self.skip(Skip::Kind);
            }
            if !self.has_hedge() {
                return Some(result);
            }
        }
        // A connection or a permit is not kept: the other copy may need it.
        self.kept = Some(Box::new(
            result.and_then(|answer| detach(answer).map_err(Into::into)),
        ));
        None
    }

    /// Says why the copy is about to be dropped that is not this one.
    fn lose(&self, winner: Which) {
        let loser = match winner {
            Which::First => self.lesson.hedge,
            Which::Hedge => Some(self.lesson.own),
        };
        if let Some(loser) = loser {
            self.call().set_cause_hedge(loser, Cause::HedgeLost);
        }
    }
}

impl<S, ReqB> Drop for Race<S, ReqB>
where
    S: Service<Request<ReqB>>,
{
    fn drop(&mut self) {
        if let (Some(skip), None) = (self.skipped, self.lesson.hedge) {
            self.hedges().totals().skipped(skip);
        }
    }
}

/// The token of one hedge. Dropped, it goes back if nothing was sent.
#[derive(Debug)]
struct Token {
    hedges: Hedges,
    tenant: Tenant,
    call: Call,
    hedge: u32,
}

impl Drop for Token {
    fn drop(&mut self) {
        let ledger = self.call.ledger();
        if !ledger.sent().any(|entry| entry.hedge == self.hedge) {
            self.hedges.give_back(&self.tenant);
            self.hedges.totals().unsent.add();
        }
    }
}

fn outcome<B: Answer>(result: &Result<Response<B>, BoxError>) -> Outcome {
    match result {
        Ok(answer) => answer.outcome(),
        Err(error) => Outcome::of_error(&**error),
    }
}

/// Whether the request itself is wrong, so that every other copy fails the same way. A matrix that lets
/// others judge it says otherwise.
fn is_fatal(outcome: Outcome) -> bool {
    let is_of_request = matches!(
        outcome.kind,
        Kind::InvalidRequest
            | Kind::ContextTooLong
            | Kind::ContentFiltered
            | Kind::RequestTooLarge
            | Kind::Conflict
    );
    let verdict = outcome.verdict;
    is_of_request && verdict.retry == Retry::Never && !verdict.fail_over && !verdict.hedge
}

/// Of two failures the one that says more of a target; the later one where both say as much.
fn more_telling<B: Answer>(
    earlier: Result<Response<B>, BoxError>,
    later: Result<Response<B>, BoxError>,
) -> Result<Response<B>, BoxError> {
    let rank = |result: &Result<Response<B>, BoxError>| match (result, outcome(result).kind) {
        (Ok(_), _) => 2,
        (Err(_), Kind::Refused(_) | Kind::TimedOut(Phase::Deadline)) => 0,
        (Err(_), _) => 1,
    };
    if rank(&earlier) > rank(&later) {
        earlier
    } else {
        later
    }
}
