//! Measuring rows against each other.

use std::collections::HashMap;

use crate::row::Row;

/// What rows took, in turns.
///
/// All rows take turns, a few µs each, and what is said of one row beside another comes from the two
/// turns of one round. So a neighbour on the machine who wakes up half-way disturbs both sides, or
/// neither.
#[derive(Debug)]
pub struct Samples {
    rounds: usize,
    /// ns an iteration, by row and round.
    samples: HashMap<String, Vec<f64>>,
}

impl Samples {
    /// Lets each row run `batch` times in each round.
    pub fn measure(rows: &mut [Row], rounds: usize, batch: u64) -> Samples {
        let mut samples: HashMap<_, Vec<f64>> = HashMap::new();
        let warm_up = rounds.div_ceil(20);
        for round in 0..warm_up + rounds {
            for row in &mut *rows {
                let took = row.run(batch).as_nanos() as f64 / batch as f64;
                if round < warm_up {
                    continue;
                }
                match samples.get_mut(row.name()) {
                    Some(samples) => samples.push(took),
                    None => {
                        samples.insert(row.name().to_owned(), vec![took]);
                    }
                }
            }
        }
        Samples { rounds, samples }
    }

    /// ns of a row, less those of others in the same round: the median.
    pub fn added(&self, row: &str, less: &[&str]) -> f64 {
        let of = |row: &str, round: usize| self.samples[row][round];
        let rounds = (0..self.rounds).map(|round| {
            let less: f64 = less.iter().map(|row| of(row, round)).sum();
            of(row, round) - less
        });
        median(rounds.collect())
    }

    /// How many times another row a row takes in the same round: the median.
    pub fn ratio(&self, row: &str, to: &str) -> f64 {
        let pairs = self.samples[row].iter().zip(&self.samples[to]);
        median(pairs.map(|(row, to)| row / to).collect())
    }
}

/// The middle one of the samples.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
