//! The one place that reads wall time: HTTP dates and epoch resets need it.

use std::time::SystemTime;

#[expect(
    clippy::disallowed_methods,
    reason = "hints are given as dates; this is the one place that reads wall time"
)]
pub(crate) fn wall_now() -> SystemTime {
    SystemTime::now()
}
