//! A string of an answer.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// A string, borrowed where it has no escapes. `null` is an empty one.
///
/// A server that cuts text between the halves of a surrogate pair (in JavaScript, between two chunks
/// of a stream) sends each half as an escape. Clients in JavaScript and Python read it: it must not end
/// a stream. Here it becomes U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Str;
        impl<'de> Visitor<'de> for Str {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
                Ok(Text(String::from_utf8_lossy(bytes)))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
                Ok(Text(whole(bytes)))
            }

            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }
        // Bytes, since the parser gives half surrogates to those who ask for bytes only.
        deserializer.deserialize_bytes(Str)
    }
}

/// The text, with U+FFFD for each half surrogate, which stands as three bytes.
fn whole(bytes: &[u8]) -> Cow<'static, str> {
    let lossy = String::from_utf8_lossy(bytes);
    Cow::Owned(match lossy {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text.replace("\u{FFFD}\u{FFFD}\u{FFFD}", "\u{FFFD}"),
    })
}
