//! The command line.

use std::{path::PathBuf, str::FromStr};

use lexopt::{Arg, Parser};
use llm_call::BoxError;

pub(crate) const HELP: &str = "\
Plays a provider's outage against a bare HTTP client and against the stack, and draws what users see.
The bare client has one time limit (60 s) and no second attempt; the stack is that of stack.rs.

cargo run --release --example outage_drill -- [OPTIONS]

  --seconds N      how long the play takes, 5 to 3600 (default 40)
  --incident FILE  the incident, a script of llm-chaos (default: a regional outage of 5 h 55 min)
  --seed N         another run of dice (default 1)
  --svg FILE       where to draw the timeline (default target/outage_drill.svg)
  --json FILE      write the figures as JSON too
  --help           this text
";

/// What the user asked for.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) seconds: u32,
    pub(crate) incident: Option<PathBuf>,
    pub(crate) seed: u64,
    pub(crate) svg: PathBuf,
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments; `None` if they ask for help.
    pub(crate) fn parse(mut parser: Parser) -> Result<Option<Options>, BoxError> {
        let mut options = Options {
            seconds: 40,
            incident: None,
            seed: 1,
            svg: PathBuf::from("target/outage_drill.svg"),
            json: None,
        };
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("seconds") => {
                    options.seconds = number(&mut parser, "--seconds")?;
                    if !(5..=3600).contains(&options.seconds) {
                        return Err("--seconds must be between 5 and 3600".into());
                    }
                }
                Arg::Long("incident") => options.incident = Some(parser.value()?.into()),
                Arg::Long("seed") => options.seed = number(&mut parser, "--seed")?,
                Arg::Long("svg") => options.svg = parser.value()?.into(),
                Arg::Long("json") => options.json = Some(parser.value()?.into()),
                Arg::Long("help") | Arg::Short('h') => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Some(options))
    }
}

fn number<N: FromStr>(parser: &mut Parser, option: &str) -> Result<N, BoxError> {
    let value = parser.value()?;
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{option} {}: give a whole number", value.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Option<Options>, BoxError> {
        Options::parse(Parser::from_args(args))
    }

    #[test]
    fn no_argument_is_needed_and_each_is_heard() {
        assert_eq!(parse(&[]).unwrap().unwrap().seconds, 40);
        let options = parse(&["--seconds", "20", "--json=a.json", "--seed", "7"]);
        let options = options.unwrap().unwrap();
        assert_eq!((options.seconds, options.seed), (20, 7));
        assert_eq!(options.json, Some(PathBuf::from("a.json")));
        assert_eq!(parse(&["--help"]).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_words() {
        let refused = |args: &[&str]| parse(args).unwrap_err().to_string();
        assert!(refused(&["--seconds", "0"]).contains("between 5 and 3600"));
        assert!(refused(&["--seconds", "soon"]).contains("soon: give a whole number"));
        assert!(refused(&["--fast"]).contains("--fast"));
        assert!(refused(&["drill.svg"]).contains("drill.svg"));
    }
}
