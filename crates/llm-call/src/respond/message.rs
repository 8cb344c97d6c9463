//! What a caller reads about an error: its chain of sources, without secrets, and bounded.

use std::{error::Error as StdError, fmt::Write};

use crate::Kind;

/// The longest message, in bytes.
const MAX: usize = 1024;

/// The sentence for a failure without an error: what it was.
pub(super) fn of_kind(kind: Kind) -> String {
    // Clients of Anthropic's API look for these very words.
    if kind == Kind::ContextTooLong {
        return format!("prompt is too long: {}", kind.describe());
    }
    kind.describe().to_owned()
}

/// The error and its sources, outermost first, each said once.
pub(super) fn of_error(kind: Kind, error: &(dyn StdError + 'static)) -> String {
    let mut message = if kind == Kind::ContextTooLong {
        String::from("prompt is too long")
    } else {
        String::new()
    };
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
    use crate::Error;

    #[test]
    fn each_level_is_said_once() {
        let source = Error::new(Kind::ConnectFailed);
        let middle = Error::new(Kind::ConnectFailed).with_source(source);
        let error = Error::new(Kind::Refused(crate::Refusal::NoTarget)).with_source(middle);
        assert_eq!(
            of_error(error.kind(), &error),
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
        let message = of_error(Kind::Unknown, &error);
        assert!(message.len() <= MAX + '…'.len_utf8() && message.ends_with("é…"));
    }
}
