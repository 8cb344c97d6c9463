//! The command line.

use std::{ffi::OsString, fmt, net::SocketAddr, time::Duration};

use llm_call::{Commit, Dialect};

pub(crate) const HELP: &str = "\
Usage: axum_service --target NAME=URL[,model=MODEL][,dialect=DIALECT][,key=VAR] [--target ...] [options]

A chat endpoint for clients of OpenAI and Anthropic, whose client rides out blips, leaves a failing
target alone, and fails over between targets, in the order given.

  --target NAME=URL[,...]          a target: its base URL as for an SDK, and after commas
      model=MODEL                  the model to ask instead of the caller's
      dialect=DIALECT              what it speaks: openai, anthropic or gemini; requests in another one are
                                   translated, and need a model here. Without, all pass as they are
      key=VAR                      the environment variable with its key; without, the caller's goes through
  --listen ADDR                    where to listen                       [127.0.0.1:8080]
  --first-token DURATION           longest wait for a stream's first token [5s]
                                   (thinking requests: 60s, or this if it is longer)
  --answer DURATION                longest wait for an answer in one piece [20s]
                                   (thinking requests: 80s, or this if it is longer)
  --idle DURATION                  longest silence within a stream       [10s]
  --deadline DURATION              longest wait for an answer, over all targets [25s]
                                   (thinking requests: 120s, or this if it is longer)
  --retries N                      most retries of one call on one target [2]
  --open DURATION                  how long a target that fails is not asked, less up to a fifth,
                                   before a few calls try it again        [10s]
  --hedge PERCENT                  most second requests for 100 streams whose first token is late, for
                                   each caller; 0 for none               [10]
  --calls N                        most calls under way; as many may wait for up to 2 s [256]
  --calls-per-key N                most of them with one caller's key    [64]
  --calls-per-target N             most of them at one target            [128]
  --commit first-token|whole       when an answer is handed to the caller [first-token]
  --help                           this text

A thinking request asks the model to think before it answers, e.g. with reasoning_effort.";

/// One `--target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) model: Option<String>,
    pub(crate) dialect: Option<Dialect>,
    /// The environment variable that holds its key.
    pub(crate) key: Option<String>,
}

impl Upstream {
    /// The target's text: `name[:model]`.
    pub(crate) fn target(&self) -> String {
        match &self.model {
            Some(model) => format!("{}:{model}", self.name),
            None => self.name.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) first_token: Duration,
    pub(crate) answer: Duration,
    pub(crate) idle: Duration,
    pub(crate) deadline: Duration,
    pub(crate) retries: u32,
    pub(crate) open: Duration,
    pub(crate) hedge: f64,
    pub(crate) calls: usize,
    pub(crate) calls_per_key: usize,
    pub(crate) calls_per_target: usize,
    pub(crate) commit: Commit,
}

impl Settings {
    /// Reads the arguments; `None` when help is asked for.
    pub(crate) fn from_args(
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Option<Settings>, String> {
        use lexopt::prelude::*;
        let mut settings = Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            upstreams: Vec::new(),
            first_token: Duration::from_secs(5),
            answer: Duration::from_secs(20),
            idle: Duration::from_secs(10),
            deadline: Duration::from_secs(25),
            retries: 2,
            open: Duration::from_secs(10),
            hedge: 10.0,
            calls: 256,
            calls_per_key: 64,
            calls_per_target: 128,
            commit: Commit::FirstToken,
        };
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(text)? {
            let Long(name) = arg else {
                return Err(text(arg.unexpected()));
            };
            if name == "help" {
                return Ok(None);
            }
            let name = name.to_owned();
            let value = parser.value().map_err(text)?.string().map_err(text)?;
            match name.as_str() {
                "listen" => {
                    settings.listen = value
                        .parse()
                        .map_err(|_| format!("--listen {value}: give an address and a port"))?;
                }
                "target" => settings.upstreams.push(upstream(&value)?),
                "first-token" => settings.first_token = duration(&name, &value)?,
                "answer" => settings.answer = duration(&name, &value)?,
                "idle" => settings.idle = duration(&name, &value)?,
                "deadline" => settings.deadline = duration(&name, &value)?,
                "retries" => {
                    settings.retries = (value.parse())
                        .map_err(|_| format!("--retries {value}: give a number such as 2"))?;
                }
                "open" => settings.open = duration(&name, &value)?,
                "hedge" => {
                    settings.hedge = (value.parse().ok())
                        .filter(|percent| (0.0..=100.0).contains(percent))
                        .ok_or_else(|| format!("--hedge {value}: give a number from 0 to 100"))?;
                }
                "calls" => settings.calls = count(&name, &value)?,
                "calls-per-key" => settings.calls_per_key = count(&name, &value)?,
                "calls-per-target" => settings.calls_per_target = count(&name, &value)?,
                "commit" => {
                    settings.commit = match value.as_str() {
                        "first-token" => Commit::FirstToken,
                        "whole" => Commit::Whole,
                        _ => return Err(format!("--commit {value}: give first-token or whole")),
                    }
                }
                _ => return Err(format!("unknown option --{name}")),
            }
        }
        if settings.upstreams.is_empty() {
            return Err("no target: give at least one --target NAME=URL".to_owned());
        }
        Ok(Some(settings))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text(error: lexopt::Error) -> String {
    error.to_string()
}

fn upstream(value: &str) -> Result<Upstream, String> {
    let invalid = || {
        format!(
            "--target {value}: write NAME=URL, and after it ,model=MODEL ,dialect=DIALECT or ,key=VAR"
        )
    };
    let (name, rest) = value.split_once('=').ok_or_else(invalid)?;
    let mut parts = rest.split(',');
    let url = parts.next().unwrap_or_default();
    if name.is_empty() || url.is_empty() {
        return Err(invalid());
    }
    let mut upstream = Upstream {
        name: name.to_owned(),
        url: url.to_owned(),
        model: None,
        dialect: None,
        key: None,
    };
    for part in parts {
        let (what, given) = part.split_once('=').ok_or_else(invalid)?;
        match what {
            _ if given.is_empty() => return Err(invalid()),
            "model" => upstream.model = Some(given.to_owned()),
            "key" => upstream.key = Some(given.to_owned()),
            "dialect" => {
                upstream.dialect = Some(match given {
                    "openai" => Dialect::OpenAiChat,
                    "anthropic" => Dialect::Anthropic,
                    "gemini" => Dialect::Gemini,
                    _ => {
                        return Err(format!(
                            "--target {value}: the dialect is openai, anthropic or gemini"
                        ));
                    }
                });
            }
            _ => return Err(invalid()),
        }
    }
    Ok(upstream)
}

fn duration(name: &str, value: &str) -> Result<Duration, String> {
    match humantime::parse_duration(value) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("--{name} {value}: give a time such as 5s or 800ms")),
    }
}

fn count(name: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("--{name} {value}: give a number such as 64")),
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, upstream) in self.upstreams.iter().enumerate() {
            let model = upstream.model.as_deref().unwrap_or("the caller's");
            let dialect = upstream.dialect.map_or("the caller's", Dialect::as_str);
            writeln!(
                f,
                "target {}: {} at {}, model {model}, dialect {dialect}",
                i + 1,
                upstream.name,
                upstream.url
            )?;
        }
        writeln!(
            f,
            "limits: first token {:?}, answer {:?}, idle {:?}, deadline {:?}",
            self.first_token, self.answer, self.idle, self.deadline
        )?;
        writeln!(
            f,
            "retries on one target: {}; an open circuit is tried again after {:?}",
            self.retries, self.open
        )?;
        writeln!(
            f,
            "at once: {} calls, {} with one key, {} at one target; hedges: {} %",
            self.calls, self.calls_per_key, self.calls_per_target, self.hedge
        )?;
        write!(f, "commit: {:?}", self.commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Settings>, String> {
        Settings::from_args(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn targets_keep_their_order_and_their_models() {
        let settings = read(
            "--target a=http://127.0.0.1:8401/v1 --target b=http://127.0.0.1:8401/v1,model=other:8b \
             --first-token 800ms --commit whole",
        )
        .unwrap()
        .unwrap();
        let targets: Vec<_> = settings.upstreams.iter().map(Upstream::target).collect();
        assert_eq!(targets, ["a", "b:other:8b"]);
        let other = upstream("c=https://h,dialect=anthropic,model=m,key=KEY").unwrap();
        assert_eq!(other.dialect, Some(Dialect::Anthropic));
        assert_eq!(other.key.as_deref(), Some("KEY"));
        assert_eq!(settings.first_token, Duration::from_millis(800));
        assert_eq!(settings.commit, Commit::Whole);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, word) in [
            ("", "--target"),
            ("--target a", "NAME=URL"),
            ("--target a=", "NAME=URL"),
            ("--target a=u,model=", "NAME=URL"),
            ("--target a=u,x=y", "NAME=URL"),
            ("--target a=u,key=", "NAME=URL"),
            ("--target a=u,dialect=latin", "openai, anthropic or gemini"),
            ("--target a=u --idle soon", "--idle soon"),
            ("--target a=u --idle 0s", "--idle 0s"),
            ("--target a=u --commit late", "first-token or whole"),
            ("--target a=u --retries many", "--retries many"),
            ("--target a=u --open 0s", "--open 0s"),
            ("--target a=u --hedge 101", "--hedge 101"),
            ("--target a=u --hedge some", "--hedge some"),
            ("--target a=u --calls 0", "--calls 0"),
            ("--target a=u --calls-per-key -1", "--calls-per-key -1"),
            (
                "--target a=u --calls-per-target few",
                "--calls-per-target few",
            ),
            ("--target a=u --listen x", "--listen x"),
            ("--target a=u --what 1", "--what"),
            ("stray", "stray"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(word), "{line:?}: {error}");
        }
        assert_eq!(read("--help").unwrap(), None);
    }
}
