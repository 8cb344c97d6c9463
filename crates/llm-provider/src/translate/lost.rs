//! What a translation leaves out.

use std::borrow::Cow;

/// The most names that are kept: a request of thousands of unknown fields makes no long header.
const MOST: usize = 32;

/// The longest name.
const LONGEST: usize = 64;

/// Names of what could not be said in the dialect of the target, each once, in the order in which they
/// were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost(Vec<Cow<'static, str>>);

impl Lost {
    /// Notes something of the tables in the crate docs.
    pub(crate) fn add(&mut self, name: &'static str) {
        self.push(Cow::Borrowed(name));
    }

    /// Notes a field that is in no table. What a header could not hold is left out of its name.
    pub(crate) fn add_unknown(&mut self, name: &str) {
        let is_fit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name: String = name.chars().filter(is_fit).take(LONGEST).collect();
        if !name.is_empty() {
            self.push(Cow::Owned(name));
        }
    }

    fn push(&mut self, name: Cow<'static, str>) {
        if self.0.len() < MOST && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
