//! What a caller reads about a failure: its kind, or the chain of sources, without secrets and
//! bounded.

use std::{error::Error as StdError, fmt::Write};

use super::form::{hint, millis};
use crate::{Error, Kind, Outcome, find_cause};

/// The longest message, in bytes.
const MAX: usize = 1024;

/// What clients of Anthropic's API look for.
pub(super) const TOO_LONG: &str = "prompt is too long";

/// What it was, and when to come back.
pub(super) fn of_outcome(outcome: Outcome) -> String {
    let mut message = outcome.kind.describe().to_owned();
    if outcome.kind == Kind::ContextTooLong {
        message = format!("{TOO_LONG}: {message}");
    }
    if let Some(hint) = hint(outcome).filter(|hint| !hint.is_zero()) {
        message += &format!("; come back in {} s", millis(hint).div_ceil(1000));
    }
    message
}

/// What an error is called; with details, it and its sources, outermost first, each said once.
pub(super) fn of_error(
    outcome: Outcome,
    error: &(dyn StdError + 'static),
    details: bool,
) -> String {
    if !details {
        let told = find_cause::<Error>(error).and_then(Error::told);
        return match told {
            Some(told) => format!("{}: {told}", outcome.kind.describe()),
            None => of_outcome(outcome),
        };
    }
    let mut message = String::new();
    if outcome.kind == Kind::ContextTooLong {
        message += TOO_LONG;
    }
    let mut next = Some(error);
    while let Some(error) = next {
        let mut text = String::new();
        // A Display that fails has said what it could.
        let _ = write!(text, "{error}");
        let text = without_secrets(&text);
        if !text.is_empty() && !message.contains(&*text) {
            if !message.is_empty() {
                message += ": ";
            }
            message += &text;
        }
        if message.len() > MAX {
            let mut end = MAX;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message += "…";
            break;
        }
        next = error.source();
    }
    message
}

/// URLs lose what may hold a key: their user and their query.
fn without_secrets(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        clean += before;
        let end = url
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>'))
            .unwrap_or(url.len());
        // A query may hold any other mark; those at its end belong to the sentence.
        let end = url[..end]
            .trim_end_matches([')', ',', '.', ';', ':', '\''])
            .len();
        let (url, after) = url.split_at(end);
        let url = url.split(['?', '#']).next().unwrap_or(url);
        let host_end = url.find('/').unwrap_or(url.len());
        let host_start = url[..host_end].rfind('@').map_or(0, |at| at + 1);
        clean += &url[host_start..];
        rest = after;
    }
    clean += rest;
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;

    fn chain(error: &Error) -> String {
        of_error(error.outcome(), error, true)
    }

    #[test]
    fn without_details_the_kind_and_the_hint_are_all() {
        let source = Error::new(Kind::ConnectFailed).with_source("at https://internal:8080/");
        for (kind, hint, message) in [
            (Kind::Unknown, None, "the call failed for an unknown reason"),
            (
                Kind::RateLimited,
                Some(6001),
                "the provider's rate limit is reached; come back in 7 s",
            ),
            (
                Kind::RateLimited,
                Some(0),
                "the provider's rate limit is reached",
            ),
            (
                Kind::Refused(Refusal::BulkheadFull),
                None,
                "the bulkhead is full; come back in 1 s",
            ),
            (
                Kind::ContextTooLong,
                None,
                "prompt is too long: the prompt does not fit the model's context window",
            ),
        ] {
            let error = Error::new(kind)
                .with_target(crate::Target::new("secret-provider", None, None).ok())
                .with_retry_after(hint.map(std::time::Duration::from_millis))
                .with_source(chain(&source));
            assert_eq!(of_error(error.outcome(), &error, false), message);
        }
    }

    #[test]
    fn each_level_is_said_once() {
        let source = Error::new(Kind::ConnectFailed);
        let middle = Error::new(Kind::ConnectFailed).with_source(source);
        let error = Error::new(Kind::Refused(Refusal::NoTarget)).with_source(middle);
        assert_eq!(
            chain(&error),
            "no target is available: no connection to the provider"
        );
    }

    #[test]
    fn urls_lose_their_users_and_queries() {
        for (text, clean) in [
            (
                "error for url (https://h/p?key=SECRET)",
                "error for url (https://h/p)",
            ),
            (
                "http://user:SECRET@h:1/p, then http://h?k=SECRET",
                "http://h:1/p, then http://h",
            ),
            (
                "url (https://h/p?fields=a,b)c'd&key=SECRET): reset",
                "url (https://h/p): reset",
            ),
            (
                "<https://u:SECRET@h?a>, 'http://h/p?k=SECRET', http://h/p.",
                "<https://h>, 'http://h/p', http://h/p.",
            ),
            ("https://h?a=https://u:SECRET@i/p?k=SECRET", "https://h"),
            ("no url?", "no url?"),
        ] {
            assert_eq!(without_secrets(text), clean);
        }
    }

    #[test]
    fn a_message_is_bounded_within_a_character() {
        let error = Error::new(Kind::Unknown).with_source("é".repeat(4000));
        let message = chain(&error);
        assert!(message.len() <= MAX + '…'.len_utf8() && message.ends_with("é…"));
    }
}
