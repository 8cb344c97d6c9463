//! temporary
use crate::*;
use http::{HeaderMap, StatusCode};
use std::{error::Error as StdError, time::SystemTime};
/// x
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Seen<'a> {
    Answer {
        status: StatusCode,
        headers: &'a HeaderMap,
        body: &'a [u8],
    },
    Event {
        headers: Option<&'a HeaderMap>,
        data: &'a [u8],
    },
    Finish {
        kind: Kind,
        random: bool,
    },
    Malformed {
        status: StatusCode,
        headers: &'a HeaderMap,
        body: &'a [u8],
    },
    Empty {
        finished: bool,
    },
    Transport(&'a (dyn StdError + 'static)),
    Cut(Option<&'a (dyn StdError + 'static)>),
}
/// x
pub trait Classify {
    /// x
    fn classify(&self, seen: &Seen<'_>, now: SystemTime) -> Outcome;
}
/// x
#[derive(Clone, Debug, Default)]
pub struct Standard {}
impl Classify for Standard {
    fn classify(&self, seen: &Seen<'_>, _now: SystemTime) -> Outcome {
        Outcome::of(match seen {
            Seen::Answer { status, .. } if status.as_u16() == 429 => Kind::RateLimited,
            Seen::Answer { status, .. } if status.as_u16() == 503 => Kind::Overloaded,
            Seen::Answer { status, .. } if status.as_u16() == 400 => Kind::InvalidRequest,
            Seen::Answer { .. } | Seen::Event { .. } => Kind::ServerError,
            Seen::Finish { kind, .. } => *kind,
            Seen::Malformed { .. } => Kind::Malformed,
            Seen::Empty { .. } => Kind::Empty,
            Seen::Transport(_) => Kind::ConnectionLost,
            Seen::Cut(_) => Kind::Interrupted,
        })
    }
}
