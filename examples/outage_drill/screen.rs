//! What people see while it plays.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::{incident::Phase, play::Tally, report::clock};

/// Standard output. On a terminal the line of progress is drawn again and again; elsewhere there
/// is one a second.
#[derive(Debug)]
pub(crate) struct Screen {
    out: io::Stdout,
    terminal: bool,
    before: [(u64, u64); 2],
}

impl Screen {
    pub(crate) fn new() -> Screen {
        let out = io::stdout();
        Screen {
            terminal: out.is_terminal(),
            out,
            before: [(0, 0); 2],
        }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        writeln!(self.out, "{clear}{text}")
    }

    /// Announces a phase.
    pub(crate) fn phase(&mut self, phase: &Phase) -> io::Result<()> {
        let Phase {
            name, from, faults, ..
        } = phase;
        let what = match faults {
            0.0 => "the primary is well".to_owned(),
            share => format!(
                "{:.0} % of the primary's requests meet a fault",
                share * 100.0
            ),
        };
        self.line(&format!("-- {} {name}: {what}", clock(*from)))
    }

    /// What came since the last time.
    pub(crate) fn progress(
        &mut self,
        second: u32,
        now: Duration,
        tallies: &[Arc<Tally>; 2],
    ) -> io::Result<()> {
        let mut text = format!("{second:>4} s  {}", clock(now));
        for ((name, tally), before) in ["bare", "stack"]
            .into_iter()
            .zip(tallies)
            .zip(&mut self.before)
        {
            let count = (
                tally.answered.load(Ordering::Relaxed),
                tally.failed.load(Ordering::Relaxed),
            );
            let (answered, failed) = (count.0 - before.0, count.1 - before.1);
            *before = count;
            text += &format!("   {name}: {answered:>2} answered, {failed:>2} failed");
        }
        if self.terminal {
            write!(self.out, "\r\x1b[K{text}")?;
            self.out.flush()
        } else {
            self.line(&text)
        }
    }
}
