//! One tenant offers twenty times its share for a simulated minute. What do the others see of it?
//!
//! ```sh
//! cargo run --release --example noisy_neighbour
//! ```
//!
//! Eight tenants share a provider that takes 32 calls at a time, on simulated time: ten minutes
//! without a noisy one, then ten with one, behind a bulkhead and behind a plain limit, which is a queue
//! without end, first come, first served. Prints how long each tenant's calls waited for their turn, over
//! the ten minutes and refused ones left out. `--check` exits with an error if the others' p99 is more
//! than twice what they see alone.

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use llm_bulkhead::{BulkheadLayer, Pool, Settings};
use llm_call::{BoxError, Call, CallSettings};
use tokio::time::{Instant, sleep};
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimit, service_fn};

const TENANTS: usize = 8;
const AT_ONCE: usize = 32;
/// Calls of one tenant in a second: together they keep nine tenths of the provider busy.
const SHARE: f64 = 0.9 * AT_ONCE as f64 / TENANTS as f64 / MEAN_ANSWER;
/// Mean length of an answer, in seconds, exponentially distributed.
const MEAN_ANSWER: f64 = 2.0;
const TIME: f64 = 600.0;
/// When the first tenant is noisy, in seconds.
const NOISE: std::ops::Range<f64> = 200.0..260.0;
const TIMES_ITS_SHARE: f64 = 20.0;

/// When each of the tenants' calls is made, and how long its answer takes.
#[derive(Clone, Copy, Debug)]
struct Asked {
    tenant: usize,
    at: f64,
    answer: Duration,
}

/// What became of the calls of one tenant.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// In seconds, sorted.
    waits: Vec<f64>,
    refused: usize,
}

impl Seen {
    fn quantile(&self, q: f64) -> f64 {
        let rank = (self.waits.len() as f64 * q).ceil() as usize;
        self.waits.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}, {:.2}", self.quantile(0.5), self.quantile(0.99))
    }
}

/// The same calls on each run.
fn calls(noisy: bool) -> Vec<Asked> {
    let mut calls = Vec::new();
    for tenant in 0..TENANTS {
        let mut dice = fastrand::Rng::with_seed(tenant as u64);
        let mut exponential = move |mean: f64| -mean * (1.0 - dice.f64()).ln();
        let mut at = 0.0;
        loop {
            let loud = noisy && tenant == 0 && NOISE.contains(&at);
            at += exponential(1.0 / SHARE) / if loud { TIMES_ITS_SHARE } else { 1.0 };
            if at >= TIME {
                break;
            }
            let answer = Duration::from_secs_f64(exponential(MEAN_ANSWER));
            calls.push(Asked { tenant, at, answer });
        }
    }
    calls
}

/// A provider that takes as long as the call says; its answer is when it began.
async fn provider(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, BoxError> {
    let began = Instant::now();
    let answer = request
        .extensions()
        .get::<Asked>()
        .map(|asked| asked.answer);
    sleep(answer.unwrap_or_default()).await;
    let mut response = Response::new(Full::default());
    response.extensions_mut().insert(began);
    Ok(response)
}

async fn play<S, B>(service: S, calls: Vec<Asked>) -> Vec<Seen>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
{
    let start = Instant::now();
    let asked = calls.into_iter().map(|asked| {
        let service = service.clone();
        async move {
            tokio::time::sleep_until(start + Duration::from_secs_f64(asked.at)).await;
            let settings = CallSettings::new().tenant(format!("tenant {}", asked.tenant));
            let mut request = Request::new(Full::default());
            request.extensions_mut().insert(Call::open(settings));
            request.extensions_mut().insert(asked);
            let made = Instant::now();
            let answer = service.oneshot(request).await.ok();
            let began = answer.and_then(|answer| answer.extensions().get::<Instant>().copied());
            (
                asked.tenant,
                began.map(|began| (began - made).as_secs_f64()),
            )
        }
    });
    let mut seen = vec![Seen::default(); TENANTS];
    for (tenant, wait) in join_all(asked.collect::<Vec<_>>()).await {
        match wait {
            Some(wait) => seen[tenant].waits.push(wait),
            None => seen[tenant].refused += 1,
        }
    }
    for seen in &mut seen {
        seen.waits.sort_by(f64::total_cmp);
    }
    seen
}

/// Behind a bulkhead: tenants take turns, and wait for 10 s at most.
async fn behind_a_bulkhead(noisy: bool) -> Result<Vec<Seen>, llm_bulkhead::InvalidSettings> {
    let pool = Pool::new(AT_ONCE).queue(128).wait(Duration::from_secs(10));
    let layer = BulkheadLayer::new(Settings::new(pool).build()?);
    Ok(play(layer.layer(service_fn(provider)), calls(noisy)).await)
}

/// Behind a plain limit: first come, first served.
async fn behind_a_limit(noisy: bool) -> Vec<Seen> {
    play(
        ConcurrencyLimit::new(service_fn(provider), AT_ONCE),
        calls(noisy),
    )
    .await
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), BoxError> {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => return Err(format!("{other} is no option; there is --check").into()),
    };
    let [quiet, noisy] = [
        behind_a_bulkhead(false).await?,
        behind_a_bulkhead(true).await?,
    ];
    let [plain_quiet, plain] = [behind_a_limit(false).await, behind_a_limit(true).await];
    say(&format!(
        "On simulated time: {TENANTS} tenants, {AT_ONCE} calls at once, 90 % busy. Tenant 0 offers \
         {TIMES_ITS_SHARE} times its share for {:.0} s of {TIME:.0} s.\nThe bulkhead: tenants take turns, a \
         call waits 10 s at most, 128 may wait. The plain limit: first come, first served, without end.\n\
         How long calls waited for their turn, p50 and p99 in s, without the noise and with it:\n",
        NOISE.end - NOISE.start
    ));
    say("| tenant | bulkhead, quiet | noisy | refused | plain limit, quiet | noisy |");
    say("|---|---|---|---|---|---|");
    let mut worst: f64 = 0.0;
    for tenant in 0..TENANTS {
        let [quiet, noisy, plain_quiet, plain] =
            [&quiet, &noisy, &plain_quiet, &plain].map(|seen| &seen[tenant]);
        let refused = noisy.refused;
        say(&format!(
            "| {tenant} | {quiet} | {noisy} | {refused} | {plain_quiet} | {plain} |"
        ));
        if tenant > 0 {
            if check && refused > 0 {
                return Err(format!("{refused} calls of tenant {tenant} were refused").into());
            }
            worst = worst.max(noisy.quantile(0.99) / quiet.quantile(0.99));
        }
    }
    say(&format!(
        "\nThe others' p99 is at most {worst:.2} times what it is without the noise."
    ));
    if check && worst > 2.0 {
        return Err("that is more than twice".into());
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program speaks to its user")]
fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn k04_the_others_hardly_notice_a_noisy_neighbour() {
        let alone = behind_a_bulkhead(false).await.unwrap();
        let beside = behind_a_bulkhead(true).await.unwrap();
        for tenant in 1..TENANTS {
            let [alone, beside] = [&alone, &beside].map(|seen| seen[tenant].quantile(0.99));
            assert!(
                beside <= 2.0 * alone,
                "tenant {tenant}: {alone} s alone, {beside} s beside"
            );
        }
        let refused: Vec<_> = beside.iter().map(|seen| seen.refused).collect();
        // It is the noisy one that is refused.
        assert!(
            refused[0] > 1000 && refused[1..].iter().all(|n| *n == 0),
            "{refused:?}"
        );
    }
}
