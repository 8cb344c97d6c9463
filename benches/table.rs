//! What rows say about each other: what a layer adds, and how that compares.

use std::{collections::HashMap, fmt};

use crate::row::{BATCH, Row};

const WARM_UP: usize = 100;
const ROUNDS: usize = 2000;

/// One line of a table: a row, less what it does not answer for.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    row: &'static str,
    less: &'static [&'static str],
    peers: &'static [&'static str],
}

impl Line {
    /// A row, less the rows whose time belongs to others: the row below it, a clone that any such
    /// layer has to make.
    pub const fn new(row: &'static str, less: &'static [&'static str]) -> Line {
        Line {
            row,
            less,
            peers: &[],
        }
    }

    /// Compares what the row adds with what the rows of other lines add.
    #[must_use]
    pub const fn against(mut self, rows: &'static [&'static str]) -> Line {
        self.peers = rows;
        self
    }
}

/// A Markdown table: what each row adds, and to how much of its peer that comes.
///
/// All rows take turns, a few µs each, and what a row adds is the median of the differences within
/// one turn. So a neighbour on the machine who wakes up half-way disturbs both sides of a
/// difference, or neither.
#[derive(Debug)]
pub struct Table<'a> {
    lines: &'a [Line],
    times: usize,
    /// ns an iteration, by row and round.
    samples: HashMap<&'static str, Vec<f64>>,
}

impl<'a> Table<'a> {
    /// Measures the rows. What is measured happens `times` times in one iteration: once in a call,
    /// once for each event in a stream.
    pub fn measure(rows: &mut [Row], lines: &'a [Line], times: usize) -> Table<'a> {
        let mut samples: HashMap<_, Vec<f64>> = HashMap::new();
        for round in 0..WARM_UP + ROUNDS {
            for row in &mut *rows {
                let took = row.run(BATCH).as_nanos() as f64 / BATCH as f64;
                if round >= WARM_UP {
                    samples.entry(row.name()).or_default().push(took);
                }
            }
        }
        Table {
            lines,
            times,
            samples,
        }
    }

    /// ns that the row of `line` adds each time.
    fn added(&self, line: &Line) -> f64 {
        let of = |row: &str, round: usize| self.samples[row][round];
        let rounds = (0..ROUNDS).map(|round| {
            let less: f64 = line.less.iter().map(|row| of(row, round)).sum();
            of(line.row, round) - less
        });
        median(rounds.collect()) / self.times as f64
    }
}

/// The middle one of the samples.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| row | ratio | to | adds ns | beyond | in all ns |")?;
        writeln!(f, "| --- | ---: | --- | ---: | --- | ---: |")?;
        for line in self.lines {
            let added = self.added(line);
            let peers = line.peers.iter();
            let peers = peers.filter_map(|name| self.lines.iter().find(|other| other.row == *name));
            let ratios: Vec<_> = peers
                .map(|peer| format!("{:.2}", added / self.added(peer)))
                .collect();
            let (ratios, to) = (ratios.join("; "), line.peers.join("; "));
            let whole = Line::new(line.row, &[]);
            writeln!(
                f,
                "| {} | {ratios} | {to} | {added:.1} | {} | {:.1} |",
                line.row,
                line.less.join(" + "),
                self.added(&whole),
            )?;
        }
        Ok(())
    }
}
