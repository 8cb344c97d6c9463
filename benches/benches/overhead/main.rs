//! What a layer costs while nothing is wrong: one thread, a service that was built once, an
//! upstream whose answer is there at once.
//!
//! `cargo bench -p benches --bench overhead` runs every row under criterion and then prints what each
//! layer adds to the row below it, beside what the nearest layer of tower, tower-http or
//! tower-resilience adds in the same run; `-- --table` prints that alone, and with `--quick` all of
//! it comes sooner. Requests and answers are made outside the measured time; an answer is read to
//! its end.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

mod lines;
mod ours;
mod peers;

use benches::{
    EVENTS, Form,
    calls::Calls,
    row::{BATCH, Row},
    run::{self, Patience},
    samples::Samples,
    table::Table,
};

fn whole() -> Vec<Row> {
    let mut rows = Calls::new(Form::Whole);
    ours::layers(&mut rows);
    ours::not_hedged(&mut rows);
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
    let asked = run::asked();
    if asked.criterion {
        run::criterion(&mut [("answer", &mut whole), ("stream", &mut streamed)]);
    }
    if let Some(patience) = asked.table {
        let samples = measure(&mut whole, patience);
        println!("An answer in one piece, ns a call:\n");
        println!("{}", Table::new(lines::ANSWER, &samples, 1));
        let samples = measure(&mut streamed, patience);
        println!("A stream, ns an event:\n");
        println!("{}", Table::new(lines::STREAM, &samples, EVENTS));
    }
}

fn measure(rows: &mut [Row], patience: Patience) -> Samples {
    Samples::measure(rows, patience.rounds(2000), BATCH)
}
