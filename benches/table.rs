//! What rows say about each other: what a layer adds, and how that compares.

use std::fmt;

use crate::samples::Samples;

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
#[derive(Debug)]
pub struct Table<'a> {
    lines: &'a [Line],
    samples: &'a Samples,
    times: usize,
}

impl<'a> Table<'a> {
    /// What is measured happens `times` times in one iteration: once in a call, once for each event
    /// in a stream.
    pub fn new(lines: &'a [Line], samples: &'a Samples, times: usize) -> Table<'a> {
        Table {
            lines,
            samples,
            times,
        }
    }

    /// ns that the row of `line` adds each time.
    fn added(&self, line: &Line) -> f64 {
        self.samples.added(line.row, line.less) / self.times as f64
    }
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
            let whole = self.samples.added(line.row, &[]) / self.times as f64;
            writeln!(
                f,
                "| {} | {ratios} | {to} | {added:.1} | {} | {whole:.1} |",
                line.row,
                line.less.join(" + "),
            )?;
        }
        Ok(())
    }
}
