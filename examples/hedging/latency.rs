//! Published distributions of response times, by quantile: `u` in 0..1 is the luck of one call.

use std::time::Duration;

/// Simulated milliseconds for one of the fan-out's, so that a timer that counts milliseconds is
/// exact enough.
pub(crate) const SCALE: u32 = 100;

/// One server of the fan-out: mostly 2 ms, sometimes tens, once in 20,000 up to two seconds.
pub(crate) fn leaf(u: f64) -> Duration {
    const RARE: f64 = 0.000_05;
    const SLOW: f64 = 0.015_95;
    let ms = if u < RARE {
        100.0 + u / RARE * 1900.0
    } else if u < RARE + SLOW {
        10.0 + (u - RARE) / SLOW * 55.0
    } else {
        let u = (u - RARE - SLOW) / (1.0 - RARE - SLOW);
        (-2.0 * (1.0 - u).ln()).min(10.0)
    };
    Duration::from_secs_f64(ms / 1000.0) * SCALE
}

/// First-token times of one model over a day, in ms, and the p99 that hedging at its p95 within a
/// budget of 5 % gave in an independent simulation.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) p50: u32,
    pub(crate) p95: u32,
    pub(crate) p99: u32,
    pub(crate) max: u32,
    pub(crate) hedged_p99: f64,
}

pub(crate) const MODELS: &[Model] = &[
    model("Haiku 4.5", [541, 1591, 4117, 11611], 2505.0),
    model("GPT-4o", [639, 1144, 4517, 7010], 2022.0),
    model("GPT-4o mini", [536, 844, 4461, 5946], 1539.0),
    model("Sonnet 4.6", [941, 2939, 4787, 5453], 4100.0),
    model("Gemini 2.5 Flash", [477, 776, 1309, 1879], 1206.0),
];

const fn model(name: &'static str, [p50, p95, p99, max]: [u32; 4], hedged_p99: f64) -> Model {
    Model {
        name,
        p50,
        p95,
        p99,
        max,
        hedged_p99,
    }
}

impl Model {
    /// The time at a quantile: log-linear between the published ones, from 0.6 of the median.
    pub(crate) fn first_token(&self, u: f64) -> Duration {
        let at = [
            (0.0, 0.6 * f64::from(self.p50)),
            (0.5, f64::from(self.p50)),
            (0.95, f64::from(self.p95)),
            (0.99, f64::from(self.p99)),
            (1.0, f64::from(self.max)),
        ];
        let above = at
            .iter()
            .position(|(q, _)| u < *q)
            .unwrap_or(at.len() - 1)
            .max(1);
        let ((q0, t0), (q1, t1)) = (at[above - 1], at[above]);
        let part = (u - q0) / (q1 - q0);
        Duration::from_secs_f64((t0.ln() + part * (t1 / t0).ln()).exp() / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_published() {
        for model in MODELS {
            for (u, ms) in [(0.5, model.p50), (0.95, model.p95), (0.99, model.p99)] {
                let got = model.first_token(u).as_secs_f64() * 1000.0;
                assert!((got - f64::from(ms)).abs() < 0.01, "{}: {got}", model.name);
            }
        }
    }

    #[test]
    fn the_slow_servers_are_as_many_as_published() {
        let slower = |ms: u32| {
            let all = 1_000_000;
            let limit = Duration::from_millis(ms.into()) * SCALE;
            (0..all)
                .filter(|i| leaf(f64::from(*i) / f64::from(all)) > limit)
                .count()
        };
        assert_eq!((slower(100), slower(10) / 100), (49, 159));
    }
}
