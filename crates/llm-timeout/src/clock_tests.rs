use proptest::prelude::*;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One poll of a body, so long after the one before.
#[derive(Clone, Copy, Debug)]
struct Poll {
    after: u64,
    result: Result,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Result {
    Token,
    Ping,
    Nothing,
}

fn polls() -> impl Strategy<Value = Vec<Poll>> {
    let result = prop_oneof![
        Just(Result::Token),
        Just(Result::Ping),
        Just(Result::Nothing)
    ];
    let poll = (0..30_u64, result).prop_map(|(after, result)| Poll { after, result });
    prop::collection::vec(poll, 0..40)
}

fn limit() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Duration::MAX)),
        6 => (0..120_u64).prop_map(|limit| Some(ms(limit))),
    ]
}

prop_compose! {
    fn limits()(
        first_token in limit(), answer in limit(), idle in limit(),
        stall in limit(), stream in limit(), reader in limit(),
    ) -> Limits {
        Limits { first_token, answer, idle, stall, stream, reader }
    }
}

/// The same rules, told from the whole history at each poll.
struct Model {
    limits: Limits,
    streamed: bool,
    deadline: Option<Duration>,
    /// Time since the start, and what came.
    history: Vec<(Duration, Result)>,
}

impl Model {
    /// The gaps between something handed over and the next question.
    fn gaps(history: &[(Duration, Result)]) -> impl Iterator<Item = Duration> {
        let handed = history
            .windows(2)
            .filter(|pair| pair[0].1 != Result::Nothing);
        handed.map(|pair| pair[1].0 - pair[0].0)
    }

    /// Those from the beginning, when the reader got the answer.
    fn all_gaps(&self) -> Vec<Duration> {
        let start = [(Duration::ZERO, Result::Ping)];
        Model::gaps(&[&start[..], &self.history[..]].concat()).collect()
    }

    /// The first question without an answer after the last poll that `ends` the silence, moved on
    /// by the time that the reader was away since.
    fn silence(&self, ends: impl Fn(Result) -> bool) -> Option<Duration> {
        let ended = self.history.iter().rposition(|poll| ends(poll.1));
        let from = ended.map_or(0, |i| i + 1);
        let mut rest = self.history[from..].iter();
        let first = from + rest.position(|poll| poll.1 == Result::Nothing)?;
        let away: Duration = Model::gaps(&self.history[first..]).sum();
        Some(self.history[first].0 + away)
    }

    fn away(&self) -> Duration {
        self.all_gaps().iter().sum()
    }

    /// Who is to blame when the limit on the whole passes.
    fn of_whole(&self, phase: Phase, limit: Option<Duration>) -> Phase {
        match limit {
            Some(limit) if self.away() > limit / 2 => Phase::Reader,
            _ => phase,
        }
    }

    fn absent(&self) -> bool {
        let longest = self.all_gaps().into_iter().max().unwrap_or_default();
        self.limits.reader.is_some_and(|limit| longest > limit)
    }

    /// Every limit with the time at which it passes, the more important first.
    fn passing(&self, waiting: bool) -> Vec<(Duration, Phase)> {
        let mut all = Vec::new();
        let mut push = |phase, start: Option<Duration>, limit: Option<Duration>| {
            let limit = limit.filter(|limit| *limit != Duration::MAX);
            if let Some(at) = start.zip(limit).map(|(start, limit)| start + limit) {
                all.push((at, phase));
            }
        };
        let start = Some(Duration::ZERO);
        if !self.streamed {
            push(Phase::Deadline, start, self.deadline);
            let phase = self.of_whole(Phase::Answer, self.limits.answer);
            push(phase, start, self.limits.answer);
            return all;
        }
        if waiting {
            let token = self.history.iter().any(|poll| poll.1 == Result::Token);
            push(
                Phase::FirstToken,
                Some(self.away()).filter(|_| !token),
                self.limits.first_token,
            );
            let silent = self.silence(|result| result != Result::Nothing);
            push(Phase::Idle, silent, self.limits.idle);
            let stalled = self.silence(|result| result == Result::Token);
            push(Phase::Stall, stalled, self.limits.stall);
        }
        let phase = self.of_whole(Phase::Stream, self.limits.stream);
        push(phase, start, self.limits.stream);
        all
    }
}

proptest! {
    #[test]
    fn t02_the_answer_clock_agrees_with_a_naive_reading_of_the_history(
        limits in limits(),
        streamed in any::<bool>(),
        deadline in prop::option::of(0..200_u64),
        polls in polls(),
    ) {
        let start = Instant::now();
        let mut model = Model {
            limits,
            streamed,
            deadline: deadline.map(ms),
            history: Vec::new(),
        };
        let mut request = RequestClock::attempt(start, false, Arc::new(limits));
        let mut clock = request.committed(streamed, 0).unwrap();
        clock.start(start);
        let (mut now, mut tokens) = (Duration::ZERO, 0);
        for Poll { after, result } in polls {
            now += ms(after);
            model.history.push((now, result));
            tokens += u64::from(result == Result::Token);
            let seen = Seen {
                started: start,
                has_token: tokens > 0,
                tokens,
                deadline: deadline.map(|deadline| start + ms(deadline)),
            };
            clock.asked(start + now);
            if result == Result::Nothing {
                let due = clock.waiting(start + now, seen);
                let expected = if model.absent() {
                    Some(Due { at: start + now, phase: Phase::Reader })
                } else {
                    let first = model.passing(true).into_iter().min_by_key(|(at, _)| *at);
                    first.map(|(at, phase)| Due { at: start + at, phase })
                };
                prop_assert_eq!(due, expected);
            } else {
                let passed = clock.handed(start + now, seen);
                let expected = if model.absent() {
                    Some(Phase::Reader)
                } else {
                    let first = model.passing(false).into_iter().min_by_key(|(at, _)| *at);
                    first.filter(|(at, _)| *at <= now).map(|(_, phase)| phase)
                };
                prop_assert_eq!(passed, expected);
            }
        }
    }

    #[test]
    fn t01_a_request_never_outlives_the_deadline(
        limits in limits(),
        streamed in any::<bool>(),
        deadline in prop::option::of(0..200_u64),
    ) {
        let start = Instant::now();
        let deadline = deadline.map(|deadline| start + ms(deadline));
        let clock = RequestClock::attempt(start, streamed, Arc::new(limits));
        let due = clock.due(deadline);
        // Sent only where there is time, and refused with the limit that would have passed.
        if let Some(phase) = clock.spent(deadline) {
            prop_assert!(due.is_some_and(|due| due.at <= start && due.phase == phase));
        } else {
            prop_assert!(due.is_none_or(|due| due.at > start));
        }
        if let Some(deadline) = deadline {
            let due = due.unwrap();
            prop_assert!(due.at <= deadline);
            if due.at == deadline {
                prop_assert_eq!(due.phase, Phase::Deadline);
            }
        }
        let phase = if streamed { limits.first_token } else { limits.answer };
        if let Some(at) = phase.and_then(|limit| start.checked_add(limit)) {
            prop_assert!(due.is_some_and(|due| due.at <= at));
        }
    }
}

#[test]
fn t07_no_limit_however_long_overflows() {
    let start = Instant::now();
    let far = [ms(0), Duration::from_secs(u64::MAX / 2), Duration::MAX];
    for limit in far {
        let limits = Limits::new()
            .first_token(limit)
            .answer(limit)
            .idle(limit)
            .stall(limit)
            .stream(limit)
            .reader(limit);
        for streamed in [true, false] {
            let mut clock = RequestClock::attempt(start, streamed, Arc::new(limits));
            assert_eq!(clock.due(None).is_some(), limit.is_zero());
            assert_eq!(clock.spent(None).is_some(), limit.is_zero());
            let mut clock = clock.committed(streamed, 0).unwrap();
            let seen = Seen {
                started: start,
                has_token: false,
                tokens: 0,
                deadline: None,
            };
            clock.start(start);
            clock.asked(start);
            assert_eq!(clock.waiting(start, seen).is_some(), limit.is_zero());
        }
    }
}

#[test]
fn t08_the_time_that_a_reader_stays_away_is_no_silence() {
    let start = Instant::now();
    let at = |millis| start + ms(millis);
    let limits = Limits::new().idle(ms(10)).stall(ms(10));
    let mut clock = RequestClock::attempt(start, true, Arc::new(limits))
        .committed(true, 1)
        .unwrap();
    let seen = Seen {
        started: start,
        has_token: true,
        tokens: 1,
        deadline: None,
    };
    clock.start(start);
    clock.asked(at(1000));
    assert_eq!(clock.handed(at(1000), seen), None);
    clock.asked(at(5000));
    let due = clock.waiting(at(5000), seen).unwrap();
    assert_eq!((due.at, due.phase), (at(5010), Phase::Idle));
}
