//! One caller: asks, reads, leaves early or reads slowly, asks again.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use llm_call::{Call, CallSettings, Client, Kind, ResponseExt};
use llm_chaos::Fault;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;

use crate::stack::{BOUND, Stack};

/// What became of the calls.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ended: BTreeMap<String, u64>,
    attempts: u64,
    worse: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        for (how, count) in other.ended {
            *self.ended.entry(how).or_default() += count;
        }
        self.attempts += other.attempts;
        self.worse.extend(other.worse);
    }

    /// What no caller should ever see; a few of them.
    pub(crate) fn worse(&self) -> Vec<String> {
        self.worse.iter().take(5).cloned().collect()
    }

    fn count(&mut self, how: &str) {
        *self.ended.entry(how.to_owned()).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: u64 = self.ended.values().sum();
        writeln!(f, "{calls} calls, {} attempts", self.attempts)?;
        for (how, count) in &self.ended {
            writeln!(f, "  {count:>8} {how}")?;
        }
        Ok(())
    }
}

/// What a caller does with its answer.
#[derive(Clone, Copy)]
enum Habit {
    Reads,
    /// Leaves after so long, wherever it is.
    Leaves(Duration),
    /// Waits so long before each frame.
    Dawdles(Duration),
}

pub(crate) struct Caller {
    client: Client,
    tenant: String,
    dice: fastrand::Rng,
    tally: Tally,
}

impl Caller {
    pub(crate) fn new(stack: &Stack, n: usize) -> Caller {
        Caller {
            client: stack.client(),
            tenant: format!("tenant-{}", n % 20),
            dice: fastrand::Rng::with_seed(n as u64),
            tally: Tally::default(),
        }
    }

    pub(crate) async fn ask_until(mut self, until: Instant) -> Tally {
        while Instant::now() < until {
            let habit = match self.dice.u32(0..10) {
                0 | 1 => Habit::Leaves(Duration::from_millis(self.dice.u64(0..800))),
                2 => Habit::Dawdles(Duration::from_millis(self.dice.u64(1..30))),
                _ => Habit::Reads,
            };
            let call = Call::open(CallSettings::new().tenant(self.tenant.as_str()));
            let asked = self.ask(call.clone(), habit);
            let how = match habit {
                Habit::Leaves(after) => timeout(after, asked).await.unwrap_or("left".to_owned()),
                _ => match timeout(BOUND, asked).await {
                    Ok(how) => how,
                    Err(_) => {
                        self.tally
                            .worse
                            .push(format!("a call hangs:\n{}", call.ledger()));
                        "hangs".to_owned()
                    }
                },
            };
            self.tally.count(&how);
            let ledger = call.ledger();
            self.tally.attempts += ledger.sent().count() as u64;
            let open = ledger.entries.iter().any(|entry| entry.kind.is_none());
            if open || ledger.ended.is_none() {
                self.tally
                    .worse
                    .push(format!("a record is open:\n{ledger}"));
            }
        }
        self.tally
    }

    /// One call, and how it went.
    fn ask(&mut self, call: Call, habit: Habit) -> impl Future<Output = String> + use<> {
        // Half of them draw a fault of the primary; the secondary serves a model of its own.
        let model = match self.dice.bool() {
            true => format!("fault-{}", Fault::ALL[self.dice.usize(..Fault::ALL.len())]),
            false => "chaos-1".to_owned(),
        };
        let streamed = self.dice.u32(0..10) > 0;
        let body = format!(
            r#"{{"model":"{model}","stream":{streamed},"max_tokens":60,"messages":[{{"role":"user","content":"Is anybody there?"}}]}}"#
        );
        let request = Request::post("/v1/chat/completions")
            .header("content-type", "application/json")
            .extension(call)
            .body(Full::from(Bytes::from(body)));
        let client = self.client.clone();
        async move {
            let request = match request {
                Ok(request) => request,
                Err(error) => return error.to_string(),
            };
            let answer = match client.oneshot(request).await {
                Ok(answer) => answer,
                Err(error) => return Kind::of(&*error).to_string(),
            };
            let kind = answer.outcome().kind;
            let mut body = answer.into_body();
            while let Some(frame) = body.frame().await {
                if let Err(error) = frame {
                    return format!("{}, cut", Kind::of(&*error));
                }
                if let Habit::Dawdles(wait) = habit {
                    sleep(wait).await;
                }
            }
            kind.to_string()
        }
    }
}
