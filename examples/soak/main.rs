//! Many streams for a long time, with every fault mixed in: does anything grow, leak or stick?
//!
//! ```sh
//! cargo run --release --example soak -- --seconds 600
//! ```
//!
//! 500 callers ask two fault servers through the whole stack, on real sockets, again and again: some
//! leave early, some read slowly, half of them draw a fault. At the end nothing may be left: no permit, no
//! trial of a circuit, no task, no socket; and memory must be flat. Exits with an error otherwise.
//! Linux alone, since it reads `/proc`.

mod caller;
mod options;
mod process;
mod stack;

use std::time::Duration;

use llm_chaos::ChaosProvider;
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, interval, sleep},
};

use crate::{
    caller::{Caller, Tally},
    options::Options,
    process::{Memory, sockets},
    stack::Stack,
};

/// How long what is dropped may take to be gone: the other end has to notice.
const NOTICE: Duration = Duration::from_secs(10);

fn main() -> Result<(), llm_call::BoxError> {
    let Some(options) = Options::from_args(std::env::args_os().skip(1))? else {
        say(options::HELP);
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(soak(&options))
}

async fn soak(options: &Options) -> Result<(), llm_call::BoxError> {
    let before = (sockets()?, Handle::current().metrics().num_alive_tasks());
    let providers = [server("primary").await?, server("secondary").await?];
    let stack = Stack::new(&providers, options.streams)?;
    let until = Instant::now() + options.time;
    let mut callers = JoinSet::new();
    for n in 0..options.streams {
        callers.spawn(Caller::new(&stack, n).ask_until(until));
    }
    let mut memory = Memory::default();
    let mut tick = interval(options.time / 60);
    let mut tally = Tally::default();
    loop {
        tokio::select! {
            _ = tick.tick() => {
                memory.note()?;
                // The servers' own notes are no part of what is measured.
                providers.iter().for_each(ChaosProvider::reset);
            }
            done = callers.join_next() => match done {
                Some(done) => tally.add(done?),
                None => break,
            },
        }
    }
    say(&format!("{tally}{}\n{memory}", stack.report()));
    let mut wrong = stack.left_behind();
    wrong.extend(tally.worse());
    wrong.extend(memory.growth());
    drop((stack, providers));
    let started = Instant::now();
    let left = loop {
        let now = (sockets()?, Handle::current().metrics().num_alive_tasks());
        if now.0 <= before.0 && now.1 <= before.1 {
            break None;
        }
        if started.elapsed() > NOTICE {
            break Some(format!(
                "{} descriptors and {} tasks are left of {} and {}",
                now.0, now.1, before.0, before.1
            ));
        }
        sleep(Duration::from_millis(50)).await;
    };
    wrong.extend(left);
    if wrong.is_empty() {
        say("nothing is left behind");
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

async fn server(name: &str) -> std::io::Result<ChaosProvider> {
    ChaosProvider::builder()
        .name(name)
        .pace(stack::pace())
        .start()
        .await
}

#[expect(clippy::print_stdout, reason = "a program speaks to its user")]
fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_one_leaves_nothing() {
        let args = ["--seconds", "2", "--streams", "40"].map(Into::into);
        let options = Options::from_args(args).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(soak(&options)).unwrap();
    }
}
