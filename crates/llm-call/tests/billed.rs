//! What an attempt is billed, and the copies of a hedged request.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use llm_call::{
    Attempt, Billed, Call, CallSettings, Cause, Certainty, Entry, Facts, Kind, PeekLayer, Target,
};
use support::{Do, SSE, Script, response};
use tower::{Layer, ServiceExt, service_fn};

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n";
const ERROR: &str = "{\"error\":{\"message\":\"m\",\"type\":\"server_error\"}}";

#[derive(Clone, Copy)]
enum Left {
    /// Before the head of the answer was there.
    AtOnce,
    /// After so many frames.
    After(usize),
    ReadWhole,
}

/// The record of one attempt that is read so far.
async fn entry(status: u16, frames: Vec<Do>, left: Left, stops: bool) -> Entry {
    let call = Call::open(CallSettings::new());
    let mut facts = Facts::default();
    facts.input_tokens = 50;
    call.set_facts(facts);
    let mut request = Request::post("http://h/v1/chat/completions")
        .body(Full::<Bytes>::default())
        .unwrap();
    request.extensions_mut().insert(call.clone());
    request
        .extensions_mut()
        .insert(Attempt::new(1).with_drop_stops_bill(stops));
    let client = service_fn(move |_: Request<Full<Bytes>>| {
        let frames = frames.clone();
        async move { Ok::<_, llm_call::BoxError>(response(status, SSE, Script::new(frames))) }
    });
    let mut future = Box::pin(PeekLayer::new().layer(client).oneshot(request));
    match left {
        Left::AtOnce => {
            let _ = future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            drop(future);
        }
        Left::After(frames) => {
            let mut body = future.await.unwrap().into_body();
            for _ in 0..frames {
                body.frame().await.unwrap().unwrap();
            }
        }
        Left::ReadWhole => {
            if let Ok(answer) = future.await {
                let _ = answer.into_body().collect().await;
            }
        }
    }
    call.ledger().entries.remove(0)
}

fn script(texts: &[&'static str]) -> Vec<Do> {
    texts.iter().map(|text| Do::Data(text)).collect()
}

#[tokio::test]
async fn what_was_said_is_reported_and_what_was_left_is_at_least_what_came() {
    let mut hang = script(&[TOKEN, TOKEN]);
    hang.push(Do::Hang);
    let whole = script(&[TOKEN, STOP, USAGE]);
    let unsaid = script(&[TOKEN, TOKEN, STOP]);
    let cut = script(&[TOKEN, TOKEN]);
    let billed = |input, output, certainty| Some((input, output, certainty));
    use Certainty::{AtLeast, Estimated, Reported};
    for (name, status, frames, left, stops, expected) in [
        (
            "reported",
            200,
            whole,
            Left::ReadWhole,
            false,
            billed(9, 3, Reported),
        ),
        (
            "not said",
            200,
            unsaid,
            Left::ReadWhole,
            false,
            billed(50, 2, Estimated),
        ),
        (
            "left silent",
            200,
            vec![Do::Hang],
            Left::AtOnce,
            false,
            billed(50, 0, AtLeast),
        ),
        (
            "left silent, stops",
            200,
            vec![Do::Hang],
            Left::AtOnce,
            true,
            billed(50, 0, Estimated),
        ),
        (
            "left",
            200,
            hang.clone(),
            Left::After(2),
            false,
            billed(50, 2, AtLeast),
        ),
        (
            "left, stops",
            200,
            hang,
            Left::After(2),
            true,
            billed(50, 2, Estimated),
        ),
        (
            "cut",
            200,
            cut,
            Left::ReadWhole,
            false,
            billed(50, 2, AtLeast),
        ),
        (
            "an error",
            500,
            script(&[ERROR]),
            Left::ReadWhole,
            false,
            None,
        ),
    ] {
        let entry = entry(status, frames, left, stops).await;
        let got = entry.billed.map(
            |Billed {
                 input,
                 output,
                 certainty,
                 ..
             }| { (input, output, certainty) },
        );
        assert_eq!(got, expected, "{name}: {entry}");
    }
}

#[tokio::test]
async fn a_cause_reaches_all_that_is_under_way_of_one_copy_and_nothing_else() {
    let call = Call::open(CallSettings::new());
    let client = PeekLayer::new().layer(service_fn(|_: Request<()>| async {
        Ok::<_, llm_call::BoxError>(response(200, SSE, Script::new([Do::Hang])))
    }));
    let target: Target = "a:m".parse().unwrap();
    // The first copy went to two targets, one after the other; 2 is a hedge.
    let mut under_way = Vec::new();
    for (n, hedge) in [(1, 0), (2, 2), (3, 0)] {
        let mut request = Request::post("http://h/v1/chat/completions")
            .body(())
            .unwrap();
        let attempt = Attempt::new(n)
            .with_hedge(hedge)
            .with_target(Some(target.clone()));
        request.extensions_mut().insert(call.clone());
        request.extensions_mut().insert(attempt);
        let mut future = Box::pin(client.clone().oneshot(request));
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(&mut future).poll(&mut context).is_pending());
        under_way.push(future);
    }
    assert_eq!(call.under_way(2).unwrap().0, Some(target));
    assert!(call.under_way(7).is_none());
    call.set_cause_hedge(0, Cause::HedgeLost);
    drop(under_way);
    assert!(call.under_way(0).is_none());
    let ledger = call.ledger();
    let lost: Vec<_> = ledger
        .entries
        .iter()
        .map(|entry| entry.cause.is_some())
        .collect();
    assert_eq!(lost, [true, false, true]);
    assert!(
        ledger
            .entries
            .iter()
            .all(|entry| entry.kind == Some(Kind::Cancelled))
    );
    assert!(
        ledger.entries[0]
            .to_string()
            .ends_with("lost to another copy, at least 0 + 0 tokens"),
        "{ledger}"
    );
    assert!(
        ledger.entries[1].to_string().starts_with("#2 (hedge) a:m"),
        "{ledger}"
    );
}
