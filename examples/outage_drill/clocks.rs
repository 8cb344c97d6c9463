//! The two clocks of the play, and the time limits on the second.

use std::time::Duration;

/// The shortest first-token limit that still measures the provider and not the noise of the machine.
const SHORTEST_FIRST_TOKEN: Duration = Duration::from_millis(250);

/// By how much times are divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clocks {
    /// The incident's clock: when phases begin and end.
    pub(crate) incident: f64,
    /// The requests' clock: how long one request takes, and how long it may take.
    pub(crate) request: f64,
}

impl Clocks {
    /// Plays an incident of `length` in `play`.
    pub(crate) fn new(length: Duration, play: Duration) -> Clocks {
        let incident = length.as_secs_f64() / play.as_secs_f64();
        let most = Limits::REAL.first_token.as_secs_f64() / SHORTEST_FIRST_TOKEN.as_secs_f64();
        Clocks {
            incident,
            request: incident.clamp(1.0, most),
        }
    }
}

/// Time limits of both arms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Connecting, in both arms.
    pub(crate) connect: Duration,
    /// Stack: from sending an attempt to its first token.
    pub(crate) first_token: Duration,
    /// Stack: silence of a stream.
    pub(crate) idle: Duration,
    /// Stack: silence between two tokens, keep-alives do not count.
    pub(crate) stall: Duration,
    /// Stack: the whole of one stream.
    pub(crate) stream: Duration,
    /// Stack: the call, all attempts together, up to its first token.
    pub(crate) deadline: Duration,
    /// Stack: before a second retry; half of it before the first, at random below.
    pub(crate) backoff: Duration,
    /// Stack: how long an open circuit refuses calls, less up to a fifth.
    pub(crate) open: Duration,
    /// Stack: how long traffic grows after the circuit has closed.
    pub(crate) ramp: Duration,
    /// Bare client: everything, the one limit that most code has. SDKs have 600 s by default;
    /// a minute is what careful users set.
    pub(crate) bare_total: Duration,
}

impl Limits {
    /// The limits as one would set them for real.
    pub(crate) const REAL: Limits = Limits {
        connect: Duration::from_secs(5),
        first_token: Duration::from_secs(5),
        idle: Duration::from_secs(10),
        stall: Duration::from_secs(20),
        stream: Duration::from_secs(120),
        deadline: Duration::from_secs(25),
        backoff: Duration::from_millis(500),
        open: Duration::from_secs(30),
        ramp: Duration::from_secs(10),
        bare_total: Duration::from_secs(60),
    };

    /// The same limits on a faster clock: they keep their ratio to each other.
    pub(crate) fn divided_by(self, factor: f64) -> Limits {
        let faster = |limit: Duration| limit.div_f64(factor);
        Limits {
            connect: faster(self.connect),
            first_token: faster(self.first_token),
            idle: faster(self.idle),
            stall: faster(self.stall),
            stream: faster(self.stream),
            deadline: faster(self.deadline),
            backoff: faster(self.backoff),
            open: faster(self.open),
            ramp: faster(self.ramp),
            bare_total: faster(self.bare_total),
        }
    }

    /// By how much these limits are shorter than the real ones.
    pub(crate) fn factor(self) -> f64 {
        Limits::REAL.deadline.div_duration_f64(self.deadline)
    }

    /// Names and values, for people and for JSON.
    pub(crate) fn named(self) -> [(&'static str, Duration); 10] {
        [
            ("connect", self.connect),
            ("first_token", self.first_token),
            ("idle", self.idle),
            ("stall", self.stall),
            ("stream", self.stream),
            ("deadline", self.deadline),
            ("backoff", self.backoff),
            ("open", self.open),
            ("ramp", self.ramp),
            ("bare_total", self.bare_total),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn played_in(seconds: u64) -> (Clocks, Limits) {
        let clocks = Clocks::new(8 * HOUR, Duration::from_secs(seconds));
        (clocks, Limits::REAL.divided_by(clocks.request))
    }

    #[test]
    fn the_first_token_limit_has_a_floor_and_the_others_keep_their_ratio_to_it() {
        for seconds in [5, 40, 300, 1440, 3600, 28_800] {
            let (_, limits) = played_in(seconds);
            assert!(limits.first_token >= SHORTEST_FIRST_TOKEN, "{seconds} s");
            for ((name, real), (_, limit)) in Limits::REAL.named().into_iter().zip(limits.named()) {
                let ratio =
                    |limit: Duration, first: Duration| limit.as_secs_f64() / first.as_secs_f64();
                let (real, played) = (
                    ratio(real, Limits::REAL.first_token),
                    ratio(limit, limits.first_token),
                );
                assert!((real - played).abs() < 1e-6, "{name} in {seconds} s");
            }
        }
    }

    #[test]
    fn both_clocks_are_one_where_there_is_time_enough() {
        let (fast, _) = played_in(40);
        assert_eq!((fast.incident, fast.request), (720.0, 20.0));
        let (slow, limits) = played_in(28_800);
        assert_eq!((slow.incident, slow.request), (1.0, 1.0));
        assert_eq!(limits, Limits::REAL);
    }

    #[test]
    fn each_attempts_share_of_the_deadline_is_longer_than_its_first_token_limit() {
        assert!(Limits::REAL.deadline / 2 > Limits::REAL.first_token);
    }
}
