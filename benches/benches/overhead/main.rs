//! What a layer costs while nothing is wrong: one thread, a service that was built once, an
//! upstream whose answer is there at once.
//!
//! `cargo bench -p benches --bench overhead` runs every row under criterion and then prints what each
//! layer adds to the row below it, beside what the nearest layer of tower, tower-http or
//! tower-resilience adds in the same run; `-- --table` prints that alone. Requests and answers are
//! made outside the measured time; an answer is read to its end.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

mod lines;
mod ours;
mod peers;
mod rows;

use std::time::Duration;

use benches::{EVENTS, Form, row::Row, table::Table};
use criterion::Criterion;

use crate::rows::Calls;

fn whole() -> Vec<Row> {
    let mut rows = Calls::new(Form::Whole);
    ours::layers(&mut rows);
    ours::open_circuit(&mut rows);
    peers::layers(&mut rows);
    peers::open_circuits(&mut rows);
    rows.finish(ours::parts())
}

fn streamed() -> Vec<Row> {
    let mut rows = Calls::new(Form::Streamed);
    ours::layers(&mut rows);
    peers::over_bodies(&mut rows);
    rows.finish([])
}

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn main() {
    // Their timers want a runtime to be there; none of them has to fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let (mut whole, mut streamed) = (whole(), streamed());
    let args: Vec<String> = std::env::args().skip(1).collect();
    let table_alone = args.iter().any(|arg| arg == "--table");
    if !table_alone {
        run_criterion(&mut [("answer", &mut whole), ("stream", &mut streamed)]);
    }
    // Not in a test run, and not for a part of the rows.
    if table_alone || args == ["--bench"] {
        println!("An answer in one piece, ns a call:\n");
        println!("{}", Table::measure(&mut whole, lines::ANSWER, 1));
        println!("A stream, ns an event:\n");
        println!("{}", Table::measure(&mut streamed, lines::STREAM, EVENTS));
    }
}

fn run_criterion(groups: &mut [(&str, &mut Vec<Row>)]) {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, rows) in groups {
        let mut group = criterion.benchmark_group(*name);
        for row in &mut **rows {
            group.bench_function(row.name(), |bencher| {
                bencher.iter_custom(|iterations| row.run(iterations));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
