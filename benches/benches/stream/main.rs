//! What a stream costs: an event after the first token by the number of guards, the scanner, finding
//! the first token, and translation.
//!
//! `cargo bench -p benches --bench stream` runs every row under criterion and then prints the tables;
//! `-- --table` prints those alone, and `--quick` both sooner.

#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on has nothing better to do than to say why"
)]

mod begin;
mod guards;
mod scan;
mod translate;

use benches::{run, samples::Samples, table::Table};

#[expect(clippy::print_stdout, reason = "the report of a bench")]
fn main() {
    // Timers want a runtime to be there; none of them has to fire.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let (mut guards, mut scan, mut begin) = (guards::rows(), scan::rows(), begin::rows());
    let mut translate = translate::rows();
    let asked = run::asked();
    if asked.criterion {
        run::criterion(&mut [
            ("guards", &mut guards),
            ("scan", &mut scan),
            ("first token", &mut begin),
            ("translate", &mut translate),
        ]);
    }
    let Some(patience) = asked.table else { return };
    let samples = Samples::measure(&mut guards, patience.rounds(1000), 4);
    println!("An event after the first token, ns:\n");
    println!("{}", Table::new(guards::LINES, &samples, guards::EVENTS));
    let samples = Samples::measure(&mut scan, patience.rounds(1000), 4);
    println!("Events found in chunks of 16 KiB:\n");
    println!("{}", scan::report(&samples));
    let samples = Samples::measure(&mut begin, patience.rounds(2000), 64);
    println!("From the first byte to the first token, ns:\n");
    println!("{}", Table::new(begin::LINES, &samples, 1));
    let samples = Samples::measure(&mut translate, patience.rounds(500), 4);
    println!("An event into the caller's dialect, ns:\n");
    println!(
        "{}",
        Table::new(translate::LINES, &samples, translate::EVENTS)
    );
}
