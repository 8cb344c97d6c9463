//! The [`Kind`] of an error that the HTTP client gave.
//!
//! The clients keep their reasons in private enums, so beyond the kinds of `io::Error` there is
//! only the text of each error in the chain to go by. Tests with real clients on real sockets pin
//! the texts.

use std::{
    error::Error as StdError,
    io::{self, ErrorKind},
};

use tokio::time::error::Elapsed;

use crate::{Error, Kind, Phase, Refusal};

/// The connector failed: nothing was sent.
const CONNECT: &[&str] = &[
    "client error (Connect)",
    "tcp connect error",
    "dns error",
    "error resolving DNS",
];

/// The connection was there, and the exchange on it failed.
const EXCHANGE: &[&str] = &[
    "client error (SendRequest)",
    "client error (ChannelClosed)",
    "client error (Canceled)",
    "connection closed before message completed",
    "connection error",
    "channel closed",
    "operation was canceled",
    "error reading a body from connection",
    "error writing a body to connection",
    "http2 error",
];

/// hyper found an HTTP/2 connection dead by its pings. Its own source is an "operation timed out".
const DEAD: &str = "keep-alive timed out";

/// The client's own limit, in reqwest and in tower.
const TIMED_OUT: &[&str] = &["operation timed out", "request timed out"];

/// tower's `LoadShed` did not let the request through.
const SHED: &str = "service overloaded";

/// What the chain of an error says.
#[derive(Default)]
struct Signs {
    ours: Option<Kind>,
    shed: bool,
    connect: bool,
    exchange: bool,
    dead: bool,
    timed_out: bool,
    unreadable: bool,
    io: Option<ErrorKind>,
}

impl Kind {
    /// What an error says about its attempt.
    ///
    /// An [`Error`] of the family anywhere in the chain says it itself. Else this reads
    /// `io::Error`, tokio's `Elapsed`, and the errors of hyper, hyper-util and reqwest. What tower's
    /// `LoadShed` did not let through is [`Refusal::BulkheadFull`]. A failure
    /// to connect counts before whatever broke the connection. A time limit of the client that is
    /// not about connecting is [`Phase::Answer`]. What nothing tells is [`Kind::Unknown`].
    ///
    /// ```
    /// use std::io;
    ///
    /// use llm_call::Kind;
    ///
    /// let error = io::Error::from(io::ErrorKind::ConnectionRefused);
    /// assert_eq!(Kind::of(&error), Kind::ConnectFailed);
    /// ```
    pub fn of(error: &(dyn StdError + 'static)) -> Kind {
        let signs = Signs::of(error);
        signs.ours.unwrap_or_else(|| signs.kind())
    }
}

impl Signs {
    fn of(error: &(dyn StdError + 'static)) -> Signs {
        let mut signs = Signs::default();
        let mut next = Some(error);
        while let Some(error) = next {
            signs.read(error);
            next = error.source();
        }
        signs
    }

    fn read(&mut self, error: &(dyn StdError + 'static)) {
        if let Some(ours) = error.downcast_ref::<Error>() {
            self.ours.get_or_insert(ours.kind());
        }
        if let Some(io) = error.downcast_ref::<io::Error>() {
            if io.kind() != ErrorKind::Other {
                self.io.get_or_insert(io.kind());
            }
            // An io error hides what it wraps: its source is the source of that.
            if let Some(inner) = io.get_ref() {
                self.read(inner);
            }
        }
        self.timed_out |= error.is::<Elapsed>();
        let text = error.to_string();
        self.shed |= text == SHED;
        let is_one_of = |texts: &[&str]| texts.iter().any(|start| text.starts_with(start));
        self.connect |= is_one_of(CONNECT);
        self.exchange |= is_one_of(EXCHANGE);
        self.dead |= text == DEAD;
        self.timed_out |= is_one_of(TIMED_OUT);
        // "invalid HTTP version parsed": the other side does not speak HTTP.
        self.unreadable |= text.starts_with("invalid ") && text.ends_with(" parsed")
            || text == "message head is too large";
    }

    fn kind(&self) -> Kind {
        if self.shed {
            return Kind::Refused(Refusal::BulkheadFull);
        }
        if self.connect {
            return if self.timed_out || self.io == Some(ErrorKind::TimedOut) {
                Kind::TimedOut(Phase::Connect)
            } else {
                Kind::ConnectFailed
            };
        }
        if self.dead {
            return Kind::ConnectionLost;
        }
        if self.timed_out {
            return Kind::TimedOut(Phase::Answer);
        }
        if self.unreadable {
            return Kind::Malformed;
        }
        match self.io {
            Some(
                ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::AddrNotAvailable
                | ErrorKind::AddrInUse,
            ) => Kind::ConnectFailed,
            Some(
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::NotConnected
                | ErrorKind::UnexpectedEof,
            ) => Kind::ConnectionLost,
            _ if self.exchange => Kind::ConnectionLost,
            Some(ErrorKind::TimedOut) => Kind::TimedOut(Phase::Connect),
            _ => Kind::Unknown,
        }
    }
}
