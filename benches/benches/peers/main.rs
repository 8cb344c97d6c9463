//! The same work by the layers of others: whole stacks beside ours, and what theirs cannot do.
//!
//! `cargo bench -p benches --bench peers` runs every stack under criterion and then prints the tables;
//! `-- --table` prints those alone, and `--quick` both sooner. What cannot be done is shown by doing
//! it: nothing in that table is written by hand.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

mod limits;
mod provider;
mod stacks;

use benches::{EVENTS, Form, run, samples::Samples, table::Table};

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let entered = runtime.enter();
    let mut whole = stacks::rows(Form::Whole);
    let mut streamed = stacks::rows(Form::Streamed);
    let asked = run::asked();
    if asked.criterion {
        run::criterion(&mut [("answer", &mut whole), ("stream", &mut streamed)]);
    }
    if let Some(patience) = asked.table {
        println!("An answer in one piece, ns a call:\n");
        let samples = Samples::measure(&mut whole, patience.rounds(2000), 64);
        println!("{}", Table::new(stacks::LINES, &samples, 1));
        println!("A stream, ns an event:\n");
        let samples = Samples::measure(&mut streamed, patience.rounds(1000), 8);
        // Nothing of theirs looks at events, so there is nothing to compare.
        let lines = stacks::LINES.iter().map(|line| line.against(&[]));
        let lines: Vec<_> = lines.collect();
        println!("{}", Table::new(&lines, &samples, EVENTS));
    }
    drop(entered);
    if asked.table.is_some() || asked.test {
        println!("What happens, and who notices:\n");
        println!("{}", runtime.block_on(limits::report()));
    }
}
