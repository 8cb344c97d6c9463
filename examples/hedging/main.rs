//! What a hedge does about a heavy tail, and what it costs.
//!
//! ```sh
//! cargo run --release --example hedging
//! ```
//!
//! plays two published set-ups through the real layers on simulated time (about a minute, whatever
//! the machine): a wide fan-out with a rare slow server, and the times to the first token of five
//! hosted models. Each call is played twice with the same luck, once without hedging. `--check`
//! exits with an error where the outcome is not what was published.

mod goals;
mod latency;
mod play;

use std::time::Duration;

use llm_hedge::{Hedges, Measure, Settings};

use crate::{
    goals::Goals,
    latency::{MODELS, leaf},
    play::{Times, calls, fan_out},
};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => return Err(format!("{other} is no option; there is --check").into()),
    };
    let mut goals = Goals::default();
    tail_at_scale(&mut goals).await?;
    first_tokens(&mut goals).await?;
    slow_together(&mut goals).await?;
    if check {
        goals.met()?;
    }
    Ok(())
}

/// 100 servers asked at once, as many answers waited for: Dean & Barroso, The Tail at Scale, 2013.
async fn tail_at_scale(goals: &mut Goals) -> Result<(), Box<dyn std::error::Error>> {
    const TRIALS: usize = 10_000;
    let delay = Duration::from_millis(10) * latency::SCALE;
    let fixed = Settings::new()
        .floor(delay)
        .ceiling(delay)
        .first_delay(delay);
    let without = fan_out(TRIALS, leaf, None).await;
    let with = fan_out(TRIALS, leaf, Some(Hedges::with(fixed.build()?))).await;
    say("One request to 100 servers, a hedge after 10 ms; the slowest answer, in ms:\n");
    say("| | p50 | p99 | p99.9 | extra requests |\n|---|---|---|---|---|");
    row("without hedging", &without, f64::from(latency::SCALE));
    row("with", &with, f64::from(latency::SCALE));
    let ratio = without.quantile(0.999) / with.quantile(0.999);
    say(&format!(
        "\np99.9 is {ratio:.0} times lower (published: 1800 to 74 ms, 2 % extra).\n"
    ));
    goals.hold(
        "p99.9 of the fan-out is at least 15 times lower",
        ratio >= 15.0,
    );
    goals.hold("with at most 2 % extra requests", with.extra() <= 2.0);
    Ok(())
}

/// First-token times of a day, by modelstats.ai; a hedge at the p95 that was measured meanwhile.
async fn first_tokens(goals: &mut Goals) -> Result<(), Box<dyn std::error::Error>> {
    const CALLS: usize = 200_000;
    say(
        "Time to the first token, in ms, on published distributions; at most 5 hedges in 100 calls, as \
         in the simulation that this is compared with (the default is 10):\n",
    );
    say("| | p50 | p99 | p99.9 | extra requests |\n|---|---|---|---|---|");
    for model in MODELS {
        let without = calls(CALLS, model, 0.0, None).await;
        let with = calls(CALLS, model, 0.0, Some(hedges()?)).await;
        row(&format!("{}, without", model.name), &without, 1.0);
        row(&format!("{}, with", model.name), &with, 1.0);
        let (p99, expected) = (with.quantile(0.99), model.hedged_p99);
        let near = (p99 / expected - 1.0).abs() <= 0.1;
        goals.hold(
            &format!("{}: p99 {p99:.0} within 10 % of {expected}", model.name),
            near,
        );
        goals.hold(
            &format!("{}: at most 5 % extra", model.name),
            with.extra() <= 5.0,
        );
    }
    say("");
    Ok(())
}

/// The same where both copies are often slow together, since they share what makes them slow.
async fn slow_together(goals: &mut Goals) -> Result<(), Box<dyn std::error::Error>> {
    const CALLS: usize = 100_000;
    let model = &MODELS[1];
    say(&format!(
        "{}, where in so many calls the hedge is exactly as slow as the first copy:\n",
        model.name
    ));
    say("| shared | p99 without | p99 with | p99.9 with | extra requests | learned p95, ms |");
    say("|---|---|---|---|---|---|");
    for shared in [0.0, 0.3, 0.7] {
        let without = calls(CALLS, model, shared, None).await;
        let hedges = hedges()?;
        let with = calls(CALLS, model, shared, Some(hedges.clone())).await;
        let learned = hedges.delay(Some(&play::target()), Measure::FirstToken);
        let learned = learned.unwrap_or_default().as_secs_f64() * 1000.0;
        let (before, after) = (without.quantile(0.99), with.quantile(0.99));
        say(&format!(
            "| {:.0} % | {before:.0} | {after:.0} | {:.0} | {:.1} % | {learned:.0} |",
            shared * 100.0,
            with.quantile(0.999),
            with.extra(),
        ));
        let name = format!("luck shared by {shared}");
        goals.hold(&format!("{name}: no p99 is worse"), after <= before);
        goals.hold(&format!("{name}: at most 5 % extra"), with.extra() <= 5.0);
        let off = (learned / f64::from(model.p95) - 1.0).abs();
        goals.hold(
            &format!("{name}: the learned p95 is within 10 %"),
            off <= 0.1,
        );
    }
    say(
        "\nA hedge is worth the more the further the p99 lies beyond the p95, and the less both copies \
         share what makes them slow.",
    );
    Ok(())
}

/// A budget of 5 %, and the measured p95 whatever it is.
fn hedges() -> Result<Hedges, llm_hedge::InvalidSettings> {
    let settings = Settings::new().percent(5.0).floor(Duration::from_millis(1));
    Ok(Hedges::with(
        settings.ceiling(Duration::from_secs(60)).build()?,
    ))
}

fn row(name: &str, times: &Times, scale: f64) {
    say(&format!(
        "| {name} | {:.0} | {:.0} | {:.0} | {:.2} % |",
        times.quantile(0.5) / scale,
        times.quantile(0.99) / scale,
        times.quantile(0.999) / scale,
        times.extra(),
    ));
}

#[expect(clippy::print_stdout, reason = "a program speaks to its user")]
fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn h08_a_hedge_shortens_the_tail_within_its_budget() {
        let model = &MODELS[1];
        let without = calls(5_000, model, 0.0, None).await;
        let with = calls(5_000, model, 0.0, Some(hedges().unwrap())).await;
        assert!(with.quantile(0.99) < 0.7 * without.quantile(0.99));
        assert!(
            with.extra() > 1.0 && with.extra() <= 5.0,
            "{}",
            with.extra()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn c07_the_same_luck_gives_the_same_report() {
        let model = &MODELS[0];
        let mut times = Vec::new();
        for _ in 0..2 {
            times.push(calls(2_000, model, 0.3, Some(hedges().unwrap())).await);
        }
        assert_eq!(times[0], times[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wide_fan_out_is_saved_from_its_slowest_server() {
        let delay = Duration::from_millis(10) * latency::SCALE;
        let fixed = Settings::new()
            .floor(delay)
            .ceiling(delay)
            .first_delay(delay);
        let hedges = Hedges::with(fixed.build().unwrap());
        let without = fan_out(60, leaf, None).await;
        let with = fan_out(60, leaf, Some(hedges)).await;
        assert!(with.quantile(0.9) < without.quantile(0.9));
        assert!(with.extra() <= 4.0, "{}", with.extra());
    }
}
