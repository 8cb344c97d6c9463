//! The command line.

use std::{ffi::OsString, time::Duration};

pub(crate) const HELP: &str = "\
Usage: soak [options]

  --seconds N   how long                        [600]
  --streams N   how many callers at a time      [500]
  --help        this text";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) streams: usize,
}

impl Options {
    /// Reads the arguments; `None` when help is asked for.
    pub(crate) fn from_args(
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Option<Options>, lexopt::Error> {
        use lexopt::prelude::*;
        let mut options = Options {
            time: Duration::from_secs(600),
            streams: 500,
        };
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("seconds") => options.time = Duration::from_secs(parser.value()?.parse()?),
                Long("streams") => options.streams = parser.value()?.parse()?,
                Long("help") => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        if options.time.is_zero() || options.streams == 0 {
            return Err("--seconds and --streams must be at least 1".into());
        }
        Ok(Some(options))
    }
}
