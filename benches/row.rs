//! One thing to measure.

use std::{
    fmt,
    hint::black_box,
    time::{Duration, Instant},
};

/// So many are prepared and then measured in one go: few enough to stay in the cache, enough not to
/// measure the clock.
pub const BATCH: u64 = 64;

/// One thing to measure, in batches.
pub struct Row {
    name: String,
    run: Box<dyn FnMut(u64) -> Duration>,
}

impl Row {
    /// Measures `run`, the drop of its result included, over what `prepare` has made before.
    pub fn new<I: 'static, O>(
        name: impl Into<String>,
        mut prepare: impl FnMut() -> I + 'static,
        mut run: impl FnMut(I) -> O + 'static,
    ) -> Row {
        let mut prepared = Vec::new();
        let run = move |count: u64| {
            let mut took = Duration::ZERO;
            let mut left = count;
            while left > 0 {
                let batch = left.min(BATCH);
                left -= batch;
                prepared.extend((0..batch).map(|_| prepare()));
                let start = now();
                for input in prepared.drain(..) {
                    black_box(run(black_box(input)));
                }
                took += start.elapsed();
            }
            took
        };
        Row {
            name: name.into(),
            run: Box::new(run),
        }
    }

    /// What is measured.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it so many times; how long that took altogether.
    pub fn run(&mut self, count: u64) -> Duration {
        (self.run)(count)
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
