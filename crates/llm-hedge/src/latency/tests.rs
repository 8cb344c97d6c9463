use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

const P95: Ask = Ask {
    quantile: 0.95,
    min_samples: 20,
};

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

/// The estimate of Kaplan and Meier from the sample itself: the first answer at which the share of
/// unanswered copies is at most `1 - quantile`, else the last answer.
fn exact(sample: &[(f64, bool)], quantile: f64) -> Option<f64> {
    let mut sample = sample.to_vec();
    // At one time those who were answered come before those who left.
    sample.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut unanswered, mut longest) = (1.0, None);
    for (i, (time, answered)) in sample.iter().enumerate() {
        if *answered {
            unanswered *= 1.0 - 1.0 / (sample.len() - i) as f64;
            longest = Some(*time);
            if unanswered <= 1.0 - quantile + 1e-9 {
                break;
            }
        }
    }
    longest
}

fn learn(sample: &[(f64, bool)]) -> Latency {
    let now = Instant::now();
    let mut latency = Latency::new(now);
    for (time, answered) in sample {
        if *answered {
            latency.answered(seconds(*time), P95, now);
        } else {
            latency.left(seconds(*time), P95, now);
        }
    }
    latency
}

/// Times between 5 ms and 60 s, evenly by their order of magnitude.
fn times() -> impl Strategy<Value = f64> {
    (5e-3_f64.ln()..60_f64.ln()).prop_map(f64::exp)
}

proptest! {
    #[test]
    fn h08_a_quantile_is_within_two_percent_of_the_exact_one(
        sample in proptest::collection::vec(times(), 1..1_500),
        quantile in 0.5..0.999_f64,
    ) {
        let sample: Vec<_> = sample.into_iter().map(|time| (time, true)).collect();
        let exact = exact(&sample, quantile).unwrap();
        let learned = learn(&sample).estimate(quantile).unwrap().as_secs_f64();
        prop_assert!((learned / exact - 1.0).abs() < 0.02, "{learned} and {exact}");
    }

    /// All in one bucket came at its middle, and the order among them is not known: those who were
    /// answered come first.
    #[test]
    fn h08_it_is_that_of_kaplan_and_meier_where_copies_were_left(
        sample in proptest::collection::vec((times(), prop::bool::weighted(0.7)), 1..1_500),
        quantile in 0.5..0.999_f64,
    ) {
        let learned = learn(&sample).estimate(quantile).map(|time| time.as_secs_f64());
        let rounded: Vec<_> = sample
            .into_iter()
            .map(|(time, answered)| (middle(index(seconds(time))).as_secs_f64(), answered))
            .collect();
        prop_assert_eq!(learned, exact(&rounded, quantile));
    }

    #[test]
    fn no_time_is_out_of_bounds(nanos in any::<u64>(), answered: bool) {
        let time = Duration::from_nanos(nanos).as_secs_f64();
        learn(&[(time, answered), (0.0, true), (1e18, answered)]);
    }
}

#[test]
fn h08_a_time_is_within_two_percent_of_its_bucket() {
    for ms in 1..600_000_u32 {
        let time = Duration::from_millis(u64::from(ms));
        let learned = middle(index(time));
        let ratio = learned.as_secs_f64() / time.as_secs_f64();
        assert!((ratio - 1.0).abs() < 0.02, "{time:?} as {learned:?}");
    }
}

#[test]
fn h08_a_copy_that_was_left_took_at_least_so_long() {
    // 90 answers within a second, and ten copies that nobody waited longer than two seconds for.
    let mut sample: Vec<_> = (1..=90).map(|i| (f64::from(i) / 90.0, true)).collect();
    sample.extend([(2.0, false); 10]);
    let p90 = learn(&sample).estimate(0.9).unwrap().as_secs_f64();
    assert!((p90 - 1.0).abs() < 0.02, "{p90}");
    // Left out, they would make the slowest tenth look like the fifth slowest answer of ninety.
    let p80 = learn(&sample).estimate(0.8).unwrap().as_secs_f64();
    assert!((p80 - 80.0 / 90.0).abs() < 0.02, "{p80}");
    // A twentieth was never answered, so nothing is known of the p95 but the slowest answer.
    let p95 = learn(&sample).estimate(0.95).unwrap().as_secs_f64();
    assert!((p95 - 1.0).abs() < 0.02, "{p95}");
}

#[test]
fn h02_nothing_is_known_of_few_answers_nor_of_copies_that_were_left() {
    let now = Instant::now();
    let mut latency = Latency::new(now);
    for i in 1..=40 {
        latency.left(seconds(1.0), P95, now);
        assert_eq!(latency.quantile(P95, now), None, "{i}");
    }
    let mut latency = Latency::new(now);
    for i in 1..20 {
        latency.answered(seconds(1.0), P95, now);
        assert_eq!(latency.quantile(P95, now), None, "{i}");
    }
    latency.answered(seconds(1.0), P95, now);
    assert!(latency.quantile(P95, now).is_some());
}

#[test]
fn the_past_fades_by_answers_and_by_hours() {
    let start = Instant::now();
    let mut latency = Latency::new(start);
    for _ in 0..2_000 {
        latency.answered(seconds(1.0), P95, start);
    }
    // The target becomes four times slower: after as many answers again that is what is known.
    for _ in 0..2_000 {
        latency.answered(seconds(4.0), P95, start);
    }
    assert!(latency.samples() <= MOST);
    assert!(latency.estimate(0.7).unwrap() > seconds(3.9));
    let weight = latency.samples();
    let hour = start + HALF_LIFE;
    assert!(latency.quantile(P95, hour).is_some());
    assert!((latency.samples() - weight / 2.0).abs() < 1.0);
    // After a day without a call it is learned again.
    assert_eq!(latency.quantile(P95, hour + 24 * HALF_LIFE), None);
    assert_eq!(latency.samples(), 0.0);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_breaks_nothing() {
    let later = Instant::now() + HALF_LIFE;
    let mut latency = Latency::new(later);
    for _ in 0..30 {
        latency.answered(seconds(1.0), P95, later - HALF_LIFE);
    }
    assert!(latency.quantile(P95, later - HALF_LIFE).is_some());
}

/// Time to the first token as LLM providers have it: half within 0.7 s, a twentieth over 2.5 s.
fn first_token(rng: &mut fastrand::Rng) -> f64 {
    let normal =
        (-2.0 * rng.f64().max(1e-12).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    0.7 * (0.77 * normal).exp()
}

/// What a hundred thousand calls teach about one target, where the hedge goes to it as well.
/// `share`: hedges for a call. `censored`: whether losers are learned from.
fn simulate(share: f64, censored: bool) -> Vec<f64> {
    let now = Instant::now();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut latency = Latency::new(now);
    let (mut tokens, mut learned) = (0.0_f64, Vec::new());
    for call in 0..100_000 {
        tokens = (tokens + share).min(10.0);
        let delay = latency.quantile(P95, now).map_or(3.0, |d| d.as_secs_f64());
        let first = first_token(&mut rng);
        let hedge = delay + first_token(&mut rng);
        if first <= delay || tokens < 1.0 {
            latency.answered(seconds(first), P95, now);
        } else {
            tokens -= 1.0;
            let (winner, loser) = if first <= hedge {
                (first, first - delay)
            } else {
                (hedge - delay, hedge)
            };
            latency.answered(seconds(winner), P95, now);
            if censored {
                latency.left(seconds(loser), P95, now);
            }
        }
        if call >= 2_000 && call % 500 == 0 {
            learned.push(latency.quantile(P95, now).unwrap().as_secs_f64());
        }
    }
    learned
}

#[test]
fn h08_hedging_does_not_change_what_is_learned() {
    let mean = |learned: &[f64]| learned.iter().sum::<f64>() / learned.len() as f64;
    let off = mean(&simulate(0.0, true));
    for share in [0.1, 1.0] {
        let on = simulate(share, true);
        let ratio = mean(&on) / off;
        assert!((ratio - 1.0).abs() < 0.1, "{ratio} at {share}");
        // Nor does it drift: the last quarter is as the first.
        let quarter = on.len() / 4;
        let drift = mean(&on[on.len() - quarter..]) / mean(&on[..quarter]);
        assert!((drift - 1.0).abs() < 0.1, "{drift} at {share}");
    }
    // With losers left out the delay follows itself down.
    let blind = mean(&simulate(1.0, false)) / off;
    assert!(blind < 0.9, "{blind}");
}

#[test]
fn h08_after_a_hundred_thousand_answers_it_still_follows_the_day() {
    let mut sample = vec![(0.1, true); 100_000];
    sample.extend([(1.0, true); 5_000]);
    let learned = learn(&sample).estimate(0.5).unwrap().as_secs_f64();
    assert!((learned - 1.0).abs() < 0.02, "{learned}");
}

#[test]
fn h02_copies_that_were_left_are_no_answers() {
    let now = Instant::now();
    let mut latency = Latency::new(now);
    for _ in 0..100 {
        latency.left(Duration::from_secs(5), P95, now);
    }
    for _ in 0..19 {
        latency.answered(Duration::from_millis(400), P95, now);
        assert_eq!(latency.quantile(P95, now), None);
    }
    latency.answered(Duration::from_millis(400), P95, now);
    assert!(latency.quantile(P95, now).is_some());
}

#[test]
fn h08_the_past_is_halved_beyond_two_thousand_copies_answered_or_left() {
    let now = Instant::now();
    let mut latency = Latency::new(now);
    for _ in 0..1_500 {
        latency.answered(Duration::from_millis(400), P95, now);
    }
    for _ in 0..500 {
        latency.left(Duration::from_secs(5), P95, now);
    }
    assert_eq!(latency.samples(), 2_000.0);
    latency.left(Duration::from_secs(5), P95, now);
    assert_eq!(latency.samples(), 1_000.5);
}

#[test]
fn the_quantile_is_computed_with_every_sixteenth_copy() {
    let now = Instant::now();
    let mut latency = Latency::new(now);
    for _ in 0..20 {
        latency.answered(Duration::from_millis(100), P95, now);
    }
    let first = latency.quantile(P95, now).unwrap();
    for _ in 0..15 {
        latency.answered(Duration::from_secs(9), P95, now);
        assert_eq!(latency.quantile(P95, now), Some(first));
    }
    latency.answered(Duration::from_secs(9), P95, now);
    assert!(latency.quantile(P95, now).unwrap() > Duration::from_secs(8));
}
