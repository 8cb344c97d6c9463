//! What the command line asks of a bench.

use std::time::Duration;

use criterion::Criterion;

use crate::row::Row;

/// What to do, as `cargo bench` and `cargo test` say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Every row under criterion, or those that its filter names; in a test run each row once.
    pub criterion: bool,
    /// The tables, and with how much patience.
    pub table: Option<Patience>,
    /// It is a test run, which shows that everything works.
    pub test: bool,
}

/// How often a table measures what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As often as it takes.
    Full,
    /// A twentieth of that, for a first look.
    Quick,
}

impl Patience {
    /// How many rounds that makes of so many.
    pub fn rounds(self, full: usize) -> usize {
        match self {
            Patience::Full => full,
            Patience::Quick => full.div_ceil(20),
        }
    }
}

/// Reads the arguments of this process.
///
/// With `--table` there is the table alone, with `--quick` it comes sooner. A filter, or any other
/// option of criterion's, leaves the table out.
pub fn asked() -> Asked {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let patience = match has("--quick") {
        true => Patience::Quick,
        false => Patience::Full,
    };
    let ours = ["--bench", "--quick", "--table"];
    let all = args.iter().all(|arg| ours.contains(&arg.as_str()));
    let table = has("--table") || has("--bench") && all;
    Asked {
        criterion: !has("--table"),
        table: table.then_some(patience),
        test: !has("--bench"),
    }
}

/// Runs groups of rows under criterion.
pub fn criterion(groups: &mut [(&str, &mut Vec<Row>)]) {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, rows) in groups {
        let mut group = criterion.benchmark_group(*name);
        for row in &mut **rows {
            group.bench_function(row.name().to_owned(), |bencher| {
                bencher.iter_custom(|iterations| row.run(iterations));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
