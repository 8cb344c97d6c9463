//! The figures of a play. Pure.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    arm::Record,
    incident::{PRIMARY, Phase, SECONDARY},
};

/// One arm in figures.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) requests: usize,
    pub(crate) answered: usize,
    pub(crate) first_token_p50: Option<Duration>,
    pub(crate) first_token_p99: Option<Duration>,
    /// From the beginning of the outage to the first token of the secondary.
    pub(crate) to_switch: Option<Duration>,
    /// From the end of the outage to the first token of the primary.
    pub(crate) to_return: Option<Duration>,
    pub(crate) failures: BTreeMap<String, usize>,
    pub(crate) served_by: BTreeMap<String, usize>,
}

impl Figures {
    /// Counts; `outage` is in the play's time.
    pub(crate) fn of(records: &[Record], outage: Option<(Duration, Duration)>) -> Figures {
        let mut figures = Figures {
            requests: records.len(),
            answered: 0,
            first_token_p50: None,
            first_token_p99: None,
            to_switch: outage.and_then(|(from, _)| first_answer(records, SECONDARY, from)),
            to_return: outage.and_then(|(_, to)| first_answer(records, PRIMARY, to)),
            failures: BTreeMap::new(),
            served_by: BTreeMap::new(),
        };
        let mut first_tokens = Vec::new();
        for record in records {
            match &record.outcome {
                Ok(()) => {
                    figures.answered += 1;
                    first_tokens.extend(record.first_token);
                    if let Some(server) = &record.served_by {
                        *figures.served_by.entry(server.clone()).or_default() += 1;
                    }
                }
                Err(kind) => *figures.failures.entry(kind.clone()).or_default() += 1,
            }
        }
        first_tokens.sort_unstable();
        figures.first_token_p50 = percentile(&first_tokens, 50);
        figures.first_token_p99 = percentile(&first_tokens, 99);
        figures
    }

    pub(crate) fn failed(&self) -> usize {
        self.requests - self.answered
    }

    /// The answered share in per cent.
    pub(crate) fn percent(&self) -> f64 {
        percent(self.answered, self.requests)
    }
}

/// From `from` to the first token that `server` spoke in answer to a request sent after it.
fn first_answer(records: &[Record], server: &str, from: Duration) -> Option<Duration> {
    let answers = records.iter().filter(|record| {
        record.sent >= from && record.outcome.is_ok() && record.served_by.as_deref() == Some(server)
    });
    answers
        .filter_map(|record| Some(record.sent + record.first_token? - from))
        .min()
}

/// The smallest value that is not exceeded by `percent` of 100 of the sorted values.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// A share in per cent; of nothing, everything.
pub(crate) fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 100.0;
    }
    part as f64 * 100.0 / whole as f64
}

/// What became of the requests sent in one column of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) primary: u32,
    pub(crate) secondary: u32,
    pub(crate) failed: u32,
}

/// Buckets of `width` over `length`, by when requests were sent; the last one may be narrower.
pub(crate) fn buckets(records: &[Record], length: Duration, width: Duration) -> Vec<Bucket> {
    let index = |at: Duration| at.div_duration_f64(width) as usize;
    let count = length.div_duration_f64(width).ceil() as usize;
    let mut buckets = vec![Bucket::default(); count];
    for record in records {
        let Some(bucket) = buckets.get_mut(index(record.sent)) else {
            continue;
        };
        match (&record.outcome, record.served_by.as_deref()) {
            (Ok(()), Some(SECONDARY)) => bucket.secondary += 1,
            (Ok(()), _) => bucket.primary += 1,
            (Err(_), _) => bucket.failed += 1,
        }
    }
    buckets
}

/// The requests sent between two moments of the play, and how many of them were answered.
pub(crate) fn between(records: &[Record], from: Duration, to: Duration) -> (usize, usize) {
    let sent = records
        .iter()
        .filter(|record| (from..to).contains(&record.sent));
    sent.fold((0, 0), |(requests, answered), record| {
        (requests + 1, answered + usize::from(record.outcome.is_ok()))
    })
}

/// The beginning and the end of the outage, if there is one.
pub(crate) fn outage(phases: &[Phase]) -> Option<(Duration, Duration)> {
    let mut outages = phases.iter().filter(|phase| phase.name == "outage");
    let first = outages.next()?;
    Some((first.from, outages.next_back().unwrap_or(first).to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn answer(sent: u32, first_token: u32, by: &str) -> Record {
        Record {
            sent: sent * MS,
            first_token: Some(first_token * MS),
            served_by: Some(by.to_owned()),
            outcome: Ok(()),
        }
    }

    fn failure(sent: u32, kind: &str) -> Record {
        Record {
            sent: sent * MS,
            first_token: None,
            served_by: None,
            outcome: Err(kind.to_owned()),
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<_> = (1..=200).map(|n| n * MS).collect();
        assert_eq!(percentile(&sorted, 50), Some(100 * MS));
        assert_eq!(percentile(&sorted, 99), Some(198 * MS));
        assert_eq!(percentile(&sorted, 100), Some(200 * MS));
        assert_eq!(percentile(&sorted[..1], 50), Some(MS));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn a_request_is_counted_in_the_column_it_was_sent_in() {
        let records = [
            answer(0, 900, PRIMARY),
            failure(999, "http_503"),
            answer(1000, 5, SECONDARY),
            failure(2499, "http_503"),
        ];
        let bucket = |primary, secondary, failed| Bucket {
            primary,
            secondary,
            failed,
        };
        assert_eq!(
            buckets(&records, 2500 * MS, 1000 * MS),
            [bucket(1, 0, 1), bucket(0, 1, 0), bucket(0, 0, 1)]
        );
        assert_eq!(between(&records, Duration::ZERO, 1000 * MS), (2, 1));
    }

    #[test]
    fn switching_counts_from_the_outage_and_returning_from_its_end() {
        let records = [
            answer(900, 40, SECONDARY),
            answer(1100, 300, SECONDARY),
            answer(1200, 40, SECONDARY),
            // Sent during the outage: no sign of a recovery.
            answer(1990, 40, PRIMARY),
            failure(2010, "http_503"),
            answer(2050, 40, PRIMARY),
        ];
        let figures = Figures::of(&records, Some((1000 * MS, 2000 * MS)));
        assert_eq!(figures.to_switch, Some(240 * MS));
        assert_eq!(figures.to_return, Some(90 * MS));
        assert_eq!((figures.answered, figures.failed()), (5, 1));
        assert_eq!(figures.failures["http_503"], 1);
        assert_eq!(figures.served_by[SECONDARY], 3);
        let never = Figures::of(&records[..1], None);
        assert_eq!((never.to_switch, never.to_return), (None, None));
    }
}
