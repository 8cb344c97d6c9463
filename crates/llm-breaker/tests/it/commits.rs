//! Answers that are committed before their first token, or long after it.

use http::{Request, Response};
use http_body_util::BodyExt;
use llm_breaker::{BreakerLayer, Breakers, Circuit, CircuitState, Snapshot};
use llm_call::{BoxError, Commit, Kind, PeekLayer, Phase};
use llm_chaos::testing::{BodyStep, Respond, service};
use tokio::time::{advance, timeout};
use tower::{ServiceBuilder, ServiceExt};

use crate::support::*;

const PING: &str = ": ping\n\n";

/// A breaker over answers that are committed so, and its circuit.
struct Early {
    commit: Commit,
    answer: Respond,
    breakers: Breakers,
    circuit: Circuit,
}

impl Early {
    fn new(commit: Commit, answer: Respond) -> Early {
        let breakers = Breakers::new();
        let circuit = breakers.target(&target("a:m"));
        Early {
            commit,
            answer,
            breakers,
            circuit,
        }
    }

    async fn send(&self, request: Request<String>) -> Result<Response<Body>, BoxError> {
        let stack = ServiceBuilder::new()
            .layer(BreakerLayer::new(self.breakers.clone()))
            .layer(PeekLayer::new().commit(self.commit))
            .service(service([self.answer.clone()]));
        stack.oneshot(request).await
    }

    async fn body(&self) -> Body {
        self.send(request()).await.unwrap().into_body()
    }

    fn shot(&self) -> Snapshot {
        let shot = self.circuit.snapshot();
        sum_holds(shot.totals);
        shot
    }
}

#[tokio::test(start_paused = true)]
async fn cb19_a_stream_that_hangs_after_its_commit_opens_although_its_callers_leave() {
    for commit in [Commit::Headers, Commit::Window(s(1))] {
        let early = Early::new(commit, stream([PING.into(), BodyStep::Hang]));
        for _ in 0..5 {
            let mut body = early.body().await;
            body.frame().await.unwrap().unwrap();
            timeout(s(5), body.frame()).await.map(drop).unwrap_err();
        }
        let shot = early.shot();
        assert_eq!(shot.state, CircuitState::Open, "{commit:?}");
        assert_eq!((shot.totals.failed, shot.totals.slow), (5, 5), "{commit:?}");
        let kind = Kind::TimedOut(Phase::FirstToken);
        assert_eq!(shot.last_failure, Some(kind), "{commit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cb19_whoever_leaves_early_or_does_not_read_blames_nobody() {
    let early = Early::new(Commit::Headers, stream([PING.into(), BodyStep::Hang]));
    // It does not ask at all, or no longer.
    for frames in [0, 1] {
        let mut body = early.body().await;
        for _ in 0..frames {
            body.frame().await.unwrap().unwrap();
        }
        advance(s(60)).await;
    }
    // It asks, and leaves in time: its own absence is not the target's.
    let mut body = early.body().await;
    advance(s(60)).await;
    body.frame().await.unwrap().unwrap();
    timeout(s(3), body.frame()).await.map(drop).unwrap_err();
    drop(body);
    let shot = early.shot();
    assert_eq!((shot.totals.abandoned, shot.totals.slow), (3, 0));
    assert_eq!(shot.window_calls, 0);
}

#[tokio::test(start_paused = true)]
async fn cb20_slow_is_counted_at_the_first_token_and_not_at_the_end() {
    let steps = [
        PING.into(),
        BodyStep::wait(s(5)),
        TOKEN.into(),
        BodyStep::Hang,
    ];
    let early = Early::new(Commit::Headers, stream(steps));
    let mut body = early.body().await;
    body.frame().await.unwrap().unwrap();
    assert_eq!(early.shot().window_timed, 0);
    body.frame().await.unwrap().unwrap();
    let shot = early.shot();
    assert_eq!((shot.window_timed, shot.window_slow), (1, 1));
    assert_eq!(shot.totals.in_flight, 1);
    drop(body);
    let shot = early.shot();
    assert_eq!((shot.window_timed, shot.totals.slow), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn cb20_a_slow_reader_is_no_slow_target() {
    for (commit, steps) in [
        (Commit::Headers, vec![TOKEN.into(), STOP.into()]),
        (
            Commit::Headers,
            vec![PING.into(), BodyStep::wait(s(3)), TOKEN.into(), STOP.into()],
        ),
        // In one frame with its end.
        (
            Commit::Headers,
            vec![BodyStep::data(format!("{TOKEN}{STOP}"))],
        ),
    ] {
        let early = Early::new(commit, stream(steps));
        let mut body = early.body().await;
        advance(s(60)).await;
        while let Some(frame) = body.frame().await {
            frame.unwrap();
        }
        let shot = early.shot();
        assert_eq!((shot.totals.succeeded, shot.totals.slow), (1, 0));
        assert_eq!((shot.window_timed, shot.window_slow), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn cb06_a_stream_counts_as_delivering_from_its_first_token_on() {
    let early = Early::new(Commit::Headers, stream([TOKEN.into(), BodyStep::Hang]));
    for (tokens, expected) in [(0, CircuitState::Open), (1, CircuitState::Closed)] {
        early.circuit.force_open();
        early.circuit.release();
        let mut body = early.body().await;
        for _ in 0..tokens {
            body.frame().await.unwrap().unwrap();
        }
        advance(s(60)).await;
        assert_eq!(early.circuit.state(), expected, "{tokens}");
    }
}

#[tokio::test(start_paused = true)]
async fn cb19_a_stream_that_is_held_whole_and_delivers_is_not_overdue() {
    let steps = [TOKEN.into(), BodyStep::wait(s(20)), STOP.into()];
    for (after, slow) in [(1, 0), (5, 1)] {
        let early = Early::new(Commit::Whole, stream(steps.clone()).after(s(after)));
        let call = call_for(true, false);
        let sent = early.send(copy_of(Some(&call), 1));
        timeout(s(15), sent).await.map(drop).unwrap_err();
        let shot = early.shot();
        assert_eq!((shot.totals.abandoned, shot.totals.slow), (1, slow));
        assert_eq!((shot.window_timed, shot.window_slow), (1, slow as usize));
    }
}
