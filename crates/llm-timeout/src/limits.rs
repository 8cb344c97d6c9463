//! [`Limits`]: one time limit for each phase of an attempt, and which of them apply to a request.

use std::{collections::HashMap, sync::Arc, time::Duration};

use llm_call::{Facts, Target};

/// Time limits by phase. What is not set stays as it is in the layer that these are given to.
///
/// A limit of [`Duration::MAX`] never passes. A limit of zero leaves no time at all: with a zero
/// `first_token` or `answer` the request is not sent.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use llm_timeout::Limits;
///
/// let patient = Limits::new()
///     .first_token(Duration::from_secs(90))
///     .stream(Duration::from_secs(600));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub(crate) first_token: Option<Duration>,
    pub(crate) answer: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) stall: Option<Duration>,
    pub(crate) stream: Option<Duration>,
    pub(crate) reader: Option<Duration>,
}

impl Limits {
    pub(crate) const STANDARD: Limits = Limits::new()
        .first_token(Duration::from_secs(5))
        .answer(Duration::from_secs(20))
        .idle(Duration::from_secs(10))
        .stall(Duration::from_secs(20))
        .stream(Duration::from_secs(120))
        .reader(Duration::from_secs(120));

    /// What a request that asks the model to think gets at least: time to think, and for an answer
    /// in one piece the usual 20 s on top.
    const THINKING: Limits = Limits::new()
        .first_token(Duration::from_secs(60))
        .answer(Duration::from_secs(80));

    /// No limit set.
    pub const fn new() -> Limits {
        Limits {
            first_token: None,
            answer: None,
            idle: None,
            stall: None,
            stream: None,
            reader: None,
        }
    }

    /// The most time from sending to the first content token of a stream, connecting included.
    #[must_use]
    pub const fn first_token(mut self, limit: Duration) -> Limits {
        self.first_token = Some(limit);
        self
    }

    /// The most time from sending to the end of an answer that is not streamed; where nothing tells
    /// whether it is, to its commit.
    #[must_use]
    pub const fn answer(mut self, limit: Duration) -> Limits {
        self.answer = Some(limit);
        self
    }

    /// The longest silence of a stream, keep-alives counted as sound.
    #[must_use]
    pub const fn idle(mut self, limit: Duration) -> Limits {
        self.idle = Some(limit);
        self
    }

    /// The longest silence between two tokens of a stream, keep-alives counted as silence.
    #[must_use]
    pub const fn stall(mut self, limit: Duration) -> Limits {
        self.stall = Some(limit);
        self
    }

    /// The most time from sending to the end of a stream.
    #[must_use]
    pub const fn stream(mut self, limit: Duration) -> Limits {
        self.stream = Some(limit);
        self
    }

    /// The longest time between two reads of the body by its reader.
    #[must_use]
    pub const fn reader(mut self, limit: Duration) -> Limits {
        self.reader = Some(limit);
        self
    }

    /// These limits, and those of `base` where these say nothing.
    const fn over(self, base: Limits) -> Limits {
        const fn or(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
            if a.is_some() { a } else { b }
        }
        Limits {
            first_token: or(self.first_token, base.first_token),
            answer: or(self.answer, base.answer),
            idle: or(self.idle, base.idle),
            stall: or(self.stall, base.stall),
            stream: or(self.stream, base.stream),
            reader: or(self.reader, base.reader),
        }
    }
}

/// The limits of a layer: for any request, for one that thinks, and for one to a named model.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    any: Limits,
    thinking: Limits,
    models: HashMap<Box<str>, Limits>,
}

impl Settings {
    pub(crate) fn new() -> Settings {
        Settings {
            any: Limits::STANDARD,
            thinking: Limits::new(),
            models: HashMap::new(),
        }
    }

    pub(crate) fn set(&mut self, limits: Limits) {
        self.any = limits.over(self.any);
    }

    pub(crate) fn set_thinking(&mut self, limits: Limits) {
        self.thinking = limits.over(self.thinking);
    }

    pub(crate) fn set_model(&mut self, model: Box<str>, limits: Limits) {
        let entry = self.models.entry(model).or_default();
        *entry = limits.over(*entry);
    }

    /// What applies to which request. The most particular word wins: model, thinking, any.
    pub(crate) fn table(&self) -> Table {
        let mut thinking = self.any;
        thinking.first_token = thinking.first_token.max(Limits::THINKING.first_token);
        thinking.answer = thinking.answer.max(Limits::THINKING.answer);
        let rows = [self.any, self.thinking.over(thinking)];
        let models = self.models.iter();
        Table {
            rows: rows.map(Arc::new),
            models: models
                .map(|(name, model)| {
                    let rows = rows.map(|row| Arc::new(model.over(row)));
                    (name.clone(), rows)
                })
                .collect(),
        }
    }
}

/// The limits of each kind of request, worked out once: not thinking, thinking.
#[derive(Debug)]
pub(crate) struct Table {
    rows: [Arc<Limits>; 2],
    models: HashMap<Box<str>, [Arc<Limits>; 2]>,
}

impl Table {
    /// What applies to one request. Looks up, and copies nothing.
    pub(crate) fn limits(&self, target: Option<&Target>, facts: Option<&Facts>) -> &Arc<Limits> {
        let mut rows = &self.rows;
        if !self.models.is_empty() {
            let model = target
                .and_then(Target::model)
                .or_else(|| facts.and_then(|facts| facts.model.as_deref()));
            rows = model
                .and_then(|model| self.models.get(model))
                .unwrap_or(rows);
        }
        &rows[usize::from(facts.is_some_and(|facts| facts.thinking))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn limits(settings: &Settings, target: Option<&Target>, facts: Option<&Facts>) -> Limits {
        *settings.table().limits(target, facts).as_ref()
    }

    fn facts(model: &str, thinking: bool) -> Facts {
        let mut facts = Facts::default();
        facts.model = Some(model.into());
        facts.thinking = thinking;
        facts
    }

    #[test]
    fn the_defaults_are_finite_and_a_thinking_request_gets_longer() {
        let settings = Settings::new();
        let plain = limits(&settings, None, None);
        assert_eq!(plain, Limits::STANDARD);
        let thinking = limits(&settings, None, Some(&facts("m", true)));
        assert_eq!(thinking, Limits::THINKING.over(Limits::STANDARD));
        assert_eq!(thinking.first_token, Some(s(60)));
        assert_eq!(thinking.answer, Some(s(80)));
    }

    #[test]
    fn the_most_particular_word_wins_in_whatever_order_it_was_said() {
        let mut settings = Settings::new();
        settings.set_model("o3".into(), Limits::new().first_token(s(90)));
        settings.set_thinking(Limits::new().first_token(s(70)).idle(s(30)));
        settings.set(Limits::new().first_token(s(1)).idle(s(2)).stall(s(3)));
        settings.set_model("o3".into(), Limits::new().stall(s(40)));

        let plain = limits(&settings, None, Some(&facts("gpt", false)));
        assert_eq!((plain.first_token, plain.idle), (Some(s(1)), Some(s(2))));
        let thinking = limits(&settings, None, Some(&facts("gpt", true)));
        assert_eq!(thinking.first_token, Some(s(70)));
        assert_eq!((thinking.idle, thinking.stall), (Some(s(30)), Some(s(3))));
        let model = limits(&settings, None, Some(&facts("o3", true)));
        assert_eq!(model.first_token, Some(s(90)));
        assert_eq!((model.idle, model.stall), (Some(s(30)), Some(s(40))));
    }

    #[test]
    fn the_targets_model_is_meant_and_else_the_callers() {
        let mut settings = Settings::new();
        settings.set_model("o3".into(), Limits::new().idle(s(1)));
        let is_o3 = |target: Option<&str>, model: &str| {
            let target = target.map(|target| target.parse::<Target>().unwrap());
            let facts = facts(model, false);
            limits(&settings, target.as_ref(), Some(&facts)).idle == Some(s(1))
        };
        assert!(is_o3(Some("openai:o3"), "gpt"));
        assert!(!is_o3(Some("openai:gpt"), "o3"));
        assert!(is_o3(Some("openai"), "o3"));
        assert!(is_o3(None, "o3"));
        assert!(!is_o3(None, "o3-mini"));
    }

    #[test]
    fn a_plain_limit_longer_than_the_thinking_default_is_kept() {
        let mut settings = Settings::new();
        settings.set(Limits::new().first_token(s(100)));
        let limits = limits(&settings, None, Some(&facts("m", true)));
        assert_eq!(limits.first_token, Some(s(100)));
    }
}
