//! What a request loses on its way to a target.

use std::{borrow::Cow, sync::Arc};

/// The most names that are kept: a request of thousands of unknown fields makes no long header.
const MOST: usize = 32;

/// The longest name.
const LONGEST: usize = 64;

/// Names of what a target cannot be told, each once, in the order in which they were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    names: Vec<Cow<'static, str>>,
    required: Vec<Box<str>>,
    /// The first that the caller cannot do without. It is noticed beyond `MOST` too.
    missed: Option<String>,
}

impl Lost {
    /// Nothing is lost yet, and this must not be.
    pub(crate) fn requiring(required: &[Box<str>]) -> Lost {
        Lost {
            required: required.to_vec(),
            ..Lost::default()
        }
    }

    /// Notes something of the tables in the crate docs.
    pub(crate) fn add(&mut self, name: &'static str) {
        self.check(name);
        self.push(Cow::Borrowed(name));
    }

    /// Notes a field that is in no table. What a header could not hold is left out of its name.
    pub(crate) fn add_unknown(&mut self, name: &str) {
        self.check(name);
        let is_fit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name: String = name.chars().filter(is_fit).take(LONGEST).collect();
        if !name.is_empty() {
            self.push(Cow::Owned(name));
        }
    }

    /// Whether the caller needs this field, or one around it.
    fn check(&mut self, lost: &str) {
        let is_it = |name: &str| {
            let inner = lost.strip_prefix(name);
            inner.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if self.missed.is_none() && self.required.iter().any(|name| is_it(name)) {
            self.missed = Some(lost.to_owned());
        }
    }

    fn push(&mut self, name: Cow<'static, str>) {
        if self.names.len() < MOST && !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// What was lost and must not be.
    pub(crate) fn missed(&self) -> Option<&str> {
        self.missed.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// The names, as they stand in a header; `None` where nothing was lost.
    pub(crate) fn text(&self) -> Option<Arc<str>> {
        (!self.names.is_empty()).then(|| Arc::from(self.names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_missed_beyond_the_names_that_are_kept() {
        let mut lost = Lost::requiring(&["tools".into()]);
        for i in 0..1_000 {
            lost.add_unknown(&format!("field {i}"));
        }
        lost.add_unknown("tools_of_another_kind");
        assert_eq!(lost.missed(), None);
        lost.add("tools.strict");
        assert_eq!(lost.missed(), Some("tools.strict"));
        assert_eq!(lost.iter().count(), MOST);
        assert!(lost.text().unwrap().starts_with("field0, field1, "));
        assert_eq!(Lost::default().text(), None);
    }
}
