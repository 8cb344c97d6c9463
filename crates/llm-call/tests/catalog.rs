//! Every case of `data/catalog.json`: answers of the real providers, and what must follow from
//! them.
//!
//! The driver here is the smallest one that can judge a body: scan, watch, classify. Streams are
//! also cut at every point, since a chunk may end anywhere.

#![expect(clippy::unwrap_used, reason = "the helpers of a test fail the test")]

mod cases;

use std::{collections::BTreeSet, fmt::Write as _};

use cases::{Case, DEVIATIONS, MALFORMED, differences};
use llm_call::{Classify, Dialect, Finish, Kind, Outcome, Scanner, Seen, Standard, Watch};

impl Case {
    fn judge(&self, seen: &Seen<'_>) -> Outcome {
        Standard::default().classify(seen, self.now)
    }

    fn success() -> Outcome {
        Outcome::of(Kind::Success)
    }

    /// Judges an answer in one piece.
    fn whole(&self, dialect: Option<Dialect>) -> Outcome {
        let (status, headers, body) = (self.status, &self.headers, &self.body[..]);
        let answer = Seen::Answer {
            status,
            headers,
            body,
        };
        if !status.is_success() {
            return self.judge(&answer);
        }
        if body.is_empty() {
            return self.judge(&Seen::Empty { finished: false });
        }
        let mut watch = Watch::new(dialect);
        let Ok(sight) = watch.whole(body) else {
            return self.judge(&Seen::Malformed {
                status,
                headers,
                body,
            });
        };
        if sight.error {
            return self.judge(&answer);
        }
        match watch.finish() {
            Some(Finish::Failed { kind, random }) => self.judge(&Seen::Finish { kind, random }),
            Some(Finish::Length) => Case::success(),
            finish if watch.is_answer_like() && !watch.has_token() => self.judge(&Seen::Empty {
                finished: finish.is_some(),
            }),
            _ => Case::success(),
        }
    }

    /// The events of a stream that comes in these chunks, and whether it ends between two.
    fn events<'c>(
        &self,
        chunks: impl IntoIterator<Item = &'c [u8]>,
    ) -> (Vec<(Vec<u8>, Vec<u8>, bool)>, bool) {
        let mut scanner = Scanner::new(self.framing());
        let mut events = Vec::new();
        for chunk in chunks {
            let scan = scanner.feed(chunk, |event| {
                events.push((event.name.to_vec(), event.data.to_vec(), event.error));
            });
            scan.unwrap();
        }
        (events, scanner.is_between_events())
    }

    /// Judges a stream that comes in these chunks.
    fn stream<'c>(
        &self,
        dialect: Option<Dialect>,
        chunks: impl IntoIterator<Item = &'c [u8]>,
    ) -> Stream {
        let mut scanner = Scanner::new(self.framing());
        let mut watch = Watch::new(dialect);
        let mut stream = Stream::default();
        let mut bytes = 0;
        let mut events = 0;
        let mut outcome = None;
        for chunk in chunks {
            bytes += chunk.len();
            scanner
                .feed(chunk, |event| {
                    // What follows the end or an error says nothing any more.
                    if outcome.is_some() {
                        return;
                    }
                    let committed = stream.first_token.is_some();
                    let sight = watch.event(&event, committed);
                    if sight.token && !committed {
                        stream.first_token = Some((events, event.data.to_vec()));
                    }
                    events += 1;
                    if sight.end {
                        stream.ended = true;
                    }
                    if sight.error && watch.finish().is_none_or(is_failed) {
                        let headers = (!committed).then_some(&self.headers);
                        let data = event.data;
                        outcome = Some(self.judge(&Seen::Event { headers, data }));
                    } else if let Some(Finish::Failed { kind, random }) = watch.finish() {
                        outcome = Some(self.judge(&Seen::Finish { kind, random }));
                    }
                })
                .unwrap();
        }
        stream.finish = watch.finish();
        stream.complete = matches!(stream.finish, Some(Finish::Complete | Finish::Length));
        stream.outcome = Some(outcome.unwrap_or_else(|| match stream.finish {
            Some(Finish::Length) => Case::success(),
            Some(_) if watch.has_token() => Case::success(),
            Some(_) => self.judge(&Seen::Empty { finished: true }),
            None if bytes == 0 => self.judge(&Seen::Empty { finished: false }),
            None => self.judge(&Seen::Cut(None)),
        }));
        stream
    }
}

fn is_failed(finish: Finish) -> bool {
    matches!(finish, Finish::Failed { .. })
}

/// What a stream turned out to be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stream {
    /// The number and the data of the event in which the first token stands.
    first_token: Option<(usize, Vec<u8>)>,
    ended: bool,
    finish: Option<Finish>,
    complete: bool,
    outcome: Option<Outcome>,
}

#[test]
fn every_case_is_judged_as_the_catalogue_says() {
    let mut wrong = String::new();
    let mut judged = 0;
    for case in Case::all() {
        if case.deviation().is_some() {
            continue;
        }
        judged += 1;
        // The dialect may be known from the path, or must be found out.
        for dialect in [case.dialect(), None] {
            let outcome = if case.is_scanned() {
                case.stream(dialect, [&case.body[..]]).outcome.unwrap()
            } else {
                case.whole(dialect)
            };
            let found = differences(&case, outcome);
            if !found.is_empty() {
                writeln!(wrong, "{} ({dialect:?}):{found}", case.id).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(judged, 304);
}

#[test]
fn each_deviation_is_about_a_case_that_there_is() {
    let ids: BTreeSet<String> = Case::all().into_iter().map(|case| case.id).collect();
    for (start, reason) in DEVIATIONS {
        assert!(
            ids.iter().any(|id| id.starts_with(start)),
            "{start}: {reason}"
        );
    }
    for case in Case::all() {
        if MALFORMED.contains(&case.id.as_str()) {
            assert!(!case.is("class_confirmed"), "{}", case.id);
        }
    }
}

#[test]
fn a_stream_is_complete_and_its_first_token_stands_where_the_catalogue_says() {
    for case in Case::all().iter().filter(|case| case.is_scanned()) {
        let stream = case.stream(case.dialect(), [&case.body[..]]);
        if let Some(words) = case.json["first_token_substr"].as_str() {
            let (_, data) = stream.first_token.as_ref().expect("no token was seen");
            let data = String::from_utf8_lossy(data);
            assert!(data.contains(words), "{}: {data}", case.id);
        }
        // A content filter ends an answer by its protocol; for us it failed.
        if case.kind() != Kind::ContentFiltered {
            let expected = case.json["complete"].as_bool().unwrap();
            assert_eq!(stream.complete, expected, "{}", case.id);
        }
        assert_eq!(
            stream.first_token.is_some(),
            case.committed || case.kind() == Kind::Success,
            "{}",
            case.id
        );
    }
}

#[test]
fn a_glance_sees_what_a_reading_sees() {
    let mut events = 0;
    for case in Case::all().iter().filter(|case| case.is_scanned()) {
        let mut scanner = Scanner::new(case.framing());
        let scan = scanner.feed(&case.body, |event| {
            let glance = Watch::new(case.dialect()).event(&event, true);
            let reading = Watch::new(case.dialect()).event(&event, false);
            assert_eq!(glance, reading, "{}: {event:?}", case.id);
            events += 1;
        });
        scan.unwrap();
    }
    assert!(events > 100);
}

/// The watch and the classifier see events alone, so that the same events mean the same outcome.
#[test]
fn a_stream_is_the_same_however_it_is_cut() {
    for case in Case::all().iter().filter(|case| case.is_scanned()) {
        let body = &case.body[..];
        let bytewise = case.stream(case.dialect(), body.chunks(1));
        let at_once = case.stream(case.dialect(), [body]);
        assert_eq!(bytewise, at_once, "{} byte by byte", case.id);

        let whole = case.events([body]);
        for first in 0..=body.len() {
            let (start, rest) = body.split_at(first);
            let cut = case.events([start, rest]);
            assert_eq!(cut, whole, "{} cut at {first}", case.id);
            if body.len() > 400 {
                continue;
            }
            for second in 0..=rest.len() {
                let (middle, end) = rest.split_at(second);
                let cut = case.events([start, middle, end]);
                assert_eq!(cut, whole, "{} cut at {first} and {second} on", case.id);
            }
        }
    }
}
