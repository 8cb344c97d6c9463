//! Whatever a provider does, a call ends within its bound, an incomplete answer says that it is
//! one, no target is asked more than three times, the ledger is closed, and no connection is left
//! behind.

use std::time::Duration;

use llm_chaos::{Fault, Phase, Script, sixteen_faults};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::stack::{Client, Got, Pair, ask};

/// Longer than every limit of the stack together: what takes longer hangs.
const BOUND: Duration = Duration::from_secs(15);
/// How long a server may take to notice that its client has gone.
const NOTICE: Duration = Duration::from_secs(5);
/// Cases under way at once: more would make a slow machine time out by itself.
const AT_ONCE: usize = 32;

#[derive(Clone, Debug)]
struct Case {
    name: String,
    client: Client,
    path: &'static str,
    streamed: bool,
    primary: Script,
    secondary: Script,
}

fn script(fault: Fault) -> Script {
    Script::default().with(Phase::new(fault))
}

async fn play(case: Case) -> (Case, Result<Got, String>) {
    let outcome = judge(&case).await;
    (case, outcome)
}

async fn judge(case: &Case) -> Result<Got, String> {
    let pair = Pair::start(&case.primary, &case.secondary).await;
    let began = Instant::now();
    let asked = timeout(BOUND, ask(&pair, case.client, case.path, case.streamed)).await;
    let Ok(asked) = asked else {
        return Err("it hangs".to_owned());
    };
    let (got, call) = (asked.got.clone(), &asked.call);
    let took = began.elapsed();
    if let Got::Worse(what) = &got {
        return Err(format!("after {took:?}: {what}\n{}", call.ledger()));
    }
    let ledger = call.ledger();
    if ledger.ended.is_none() {
        return Err(format!("the call has not ended: {ledger}"));
    }
    if ledger.entries.iter().any(|entry| entry.kind.is_none()) {
        return Err(format!("a copy is still open: {ledger}"));
    }
    let calls = [pair.primary.log(), pair.secondary.log()].map(|log| log.len());
    // At most two retries each, and six attempts of the call.
    if calls.iter().any(|calls| *calls > 3) || ledger.sent().count() > 6 {
        return Err(format!("asked {calls:?} times: {ledger}"));
    }
    for circuit in asked.breakers.snapshot() {
        let totals = circuit.totals;
        let ended = totals.succeeded + totals.failed + totals.neutral + totals.abandoned;
        if totals.in_flight != 0 || ended != totals.admitted {
            return Err(format!("the circuit still waits: {circuit:?}"));
        }
    }
    for bulkhead in &asked.bulkheads {
        let held = bulkhead.snapshot();
        if held
            .pools
            .iter()
            .any(|pool| pool.in_flight + pool.queued != 0)
        {
            return Err(format!("a permit is out: {held:?}"));
        }
    }
    // Nothing is left open at either server. One that never reads cannot notice.
    let left = Instant::now();
    loop {
        let logs = [pair.primary.log(), pair.secondary.log()];
        let open = logs.iter().flatten().find(|seen| {
            let deaf = matches!(seen.fault, Some(Fault::NeverRead | Fault::BlackHole));
            seen.ended_ms.is_none() && !seen.client_gone && !deaf
        });
        match open {
            None => break,
            Some(open) if left.elapsed() > NOTICE => return Err(format!("left open: {open:?}")),
            Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    if call.ledger().ended != ledger.ended {
        return Err("it ended twice".to_owned());
    }
    Ok(got)
}

/// Plays all cases; panics with those that went wrong.
async fn play_all(cases: Vec<Case>) -> Vec<(Case, Got)> {
    let mut waiting = cases.into_iter();
    let mut playing: JoinSet<_> = waiting.by_ref().take(AT_ONCE).map(play).collect();
    let (mut played, mut failed) = (Vec::new(), Vec::new());
    while let Some(done) = playing.join_next().await {
        let (case, outcome) = done.unwrap();
        match outcome {
            Ok(got) => played.push((case, got)),
            Err(why) => failed.push(format!(
                "{} on {:?} {} streamed={}: {why}",
                case.name, case.client, case.path, case.streamed
            )),
        }
        waiting.next().map(|next| playing.spawn(play(next)));
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
    played
}

const CHAT: &str = "/v1/chat/completions";
const PATHS: [&str; 3] = [CHAT, "/v1/responses", "/v1/messages"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_primary_does_the_call_ends_well_or_says_that_it_did_not() {
    let mut cases = Vec::new();
    for fault in Fault::ALL {
        for streamed in [true, false] {
            for client in Client::ALL {
                cases.push(Case {
                    name: fault.to_string(),
                    client,
                    path: CHAT,
                    streamed,
                    primary: script(*fault),
                    secondary: Script::default(),
                });
            }
        }
    }
    play_all(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_both_providers_fail_alike_the_call_still_ends_honestly() {
    let mut cases = Vec::new();
    for (i, fault) in Fault::ALL.iter().enumerate() {
        for streamed in [true, false] {
            for (j, path) in PATHS.into_iter().enumerate() {
                cases.push(Case {
                    name: fault.to_string(),
                    client: Client::ALL[(i + j) % Client::ALL.len()],
                    path,
                    streamed,
                    primary: script(*fault),
                    secondary: script(*fault),
                });
            }
        }
    }
    play_all(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_faults_of_a_public_benchmark() {
    let faults = sixteen_faults();
    let names: Vec<_> = faults.iter().map(|(name, _)| *name).collect();
    let mut cases = Vec::new();
    for (name, script) in faults {
        for streamed in [true, false] {
            cases.push(Case {
                name: name.to_owned(),
                client: Client::Hyper,
                path: CHAT,
                streamed,
                primary: script.for_target("primary"),
                secondary: script.for_target("fallback"),
            });
        }
    }
    let played = play_all(cases).await;
    let got = |name: &str, streamed| {
        let mut played = played.iter();
        let played = played.find(|(case, _)| case.name == name && case.streamed == streamed);
        &played.unwrap().1
    };
    for name in names {
        let expected = match name {
            // Content was delivered: nothing is sent again, and the caller is told.
            "stream cut after 40 of 60 tokens"
            | "stream stalls 30 s"
            | "cut, and the fallback refuses prefill" => {
                Got::Failed("error event \"server_error\"".to_owned(), 40)
            }
            // The provider's own words: elsewhere the same prompt would be refused too.
            "content filter" => Got::Failed("400".to_owned(), 0),
            "one malformed event mid-stream" => Got::Marred("primary".to_owned()),
            // It passes, or it is whole as it is.
            "429 with a hint once" | "500 once" | "no end marker" => {
                Got::Whole("primary".to_owned())
            }
            _ => Got::Whole("secondary".to_owned()),
        };
        assert_eq!(*got(name, true), expected, "{name}");
        // An answer in one piece was not delivered before it was whole.
        let expected = match name {
            "content filter" => Got::Failed("400".to_owned(), 0),
            "429 with a hint once" | "500 once" => Got::Whole("primary".to_owned()),
            _ => Got::Whole("secondary".to_owned()),
        };
        assert_eq!(*got(name, false), expected, "{name}");
    }
}
