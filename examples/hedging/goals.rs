//! What is expected of the outcome.

/// Expectations that were not met.
#[derive(Debug, Default)]
pub(crate) struct Goals {
    missed: Vec<String>,
}

impl Goals {
    /// One expectation, and whether it is met.
    pub(crate) fn hold(&mut self, goal: &str, met: bool) {
        if !met {
            self.missed.push(goal.to_owned());
        }
    }

    /// An error that lists what was missed.
    pub(crate) fn met(self) -> Result<(), String> {
        if self.missed.is_empty() {
            return Ok(());
        }
        Err(format!("not met: {}", self.missed.join("; ")))
    }
}
