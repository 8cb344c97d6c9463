//! The outage drill: what users see while a provider is down, with and without the stack.
//!
//! ```text
//! cargo run --release --example outage_drill
//! ```
//!
//! Two fake providers start on the loopback, `primary` and `secondary`, and play a regional outage:
//! an hour of calm, then for 5 h 55 min each request to the primary meets a 5xx, a first token ten
//! times as late, silence or a reset, then calm again. Two arms send the same streamed chat
//! completions at the same moments:
//!
//! - **bare**: hyper-util to the primary with one time limit for everything and no second attempt;
//! - **stack**: the layers of `stack.rs` over the same client.
//!
//! A request is answered when its finish reason and every token of its content came, once and in
//! order. The reader that judges this (`reader.rs`) shares no code with the layers.
//!
//! # What is divided by what
//!
//! Nobody waits eight hours for a drill, and a request cannot be 700 times as fast: a first token
//! within 7 ms measures the machine and not the stack. So there are two clocks.
//!
//! - The *incident's clock*: when phases begin and end. It is divided by the length of the incident
//!   over the length of the play (about 710 in 40 s).
//! - The *requests' clock*: all that happens within one request, both the provider's times (first
//!   token, gaps, delays of faults) and our time limits. It is divided by the same number, but by
//!   20 at most, so that the first-token limit of 5 s never gets below 250 ms. All limits keep
//!   their ratio to it.
//!
//! So a figure such as the time to switch, which is spent waiting within requests, is real on the
//! requests' clock; on the incident's clock it looks longer than it would be.

mod arm;
mod chart;
mod circuit;
mod client;
mod clocks;
mod figures;
mod incident;
mod options;
mod play;
mod reader;
mod report;
mod screen;
mod stack;
mod svg;

use std::{path::Path, process::ExitCode, time::Duration};

use llm_call::BoxError;

use crate::{
    clocks::{Clocks, Limits},
    figures::Figures,
    incident::Incident,
    options::{HELP, Options},
    play::Play,
    screen::Screen,
};

#[tokio::main]
async fn main() -> ExitCode {
    match drill().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the program ends here")]
            {
                eprintln!("outage_drill: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn drill() -> Result<(), BoxError> {
    let mut screen = Screen::new();
    let Some(options) = Options::parse(lexopt::Parser::from_env())? else {
        return Ok(screen.line(HELP)?);
    };
    let incident = Incident::read(options.incident.as_deref())?;
    let length = Duration::from_secs(u64::from(options.seconds));
    let clocks = Clocks::new(incident.length, length);
    let phases = incident.phases();
    let play = Play {
        incident: &incident,
        phases: &phases,
        clocks,
        limits: Limits::REAL.divided_by(clocks.request),
        seconds: options.seconds,
        seed: options.seed,
    };
    // A file that cannot be written should not be found out after the play.
    write(&options.svg, "")?;
    if let Some(file) = &options.json {
        write(file, "")?;
    }
    report::announce(&play, &mut screen)?;
    let played = play.run(&mut screen).await?;

    let outage = play.outage();
    let [bare, stack] = played
        .each_ref()
        .map(|arm| Figures::of(&arm.records, outage));
    let [played_bare, played_stack] = &played;
    let arms = [(played_bare, &bare), (played_stack, &stack)];
    report::print(&play, &arms, &mut screen)?;
    write(&options.svg, &chart::draw(&play, &arms))?;
    screen.line(&format!("\nThe timeline is in {}", options.svg.display()))?;
    if let Some(file) = &options.json {
        write(file, &format!("{:#}\n", report::json(&play, &arms)))?;
        screen.line(&format!("The figures are in {}", file.display()))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), BoxError> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, text))
        .map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}
