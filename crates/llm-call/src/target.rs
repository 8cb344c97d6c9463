//! [`Target`]: who is asked, and for what.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

use http::HeaderValue;

/// What a request asks for: the last part of a target's text.
///
/// The set is closed, since model names contain colons: only these words end a target's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Capability {
    /// A chat answer in one piece.
    Chat,
    /// A chat answer token by token.
    Streaming,
    /// Embeddings.
    Embeddings,
    /// A moderation verdict.
    Moderation,
    /// Images.
    Images,
    /// Speech or transcription.
    Audio,
}

impl Capability {
    /// Every capability.
    pub const ALL: &'static [Capability] = &[
        Capability::Chat,
        Capability::Streaming,
        Capability::Embeddings,
        Capability::Moderation,
        Capability::Images,
        Capability::Audio,
    ];

    /// The word in a target's text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Capability::Chat => "chat",
            Capability::Streaming => "streaming",
            Capability::Embeddings => "embeddings",
            Capability::Moderation => "moderation",
            Capability::Images => "images",
            Capability::Audio => "audio",
        }
    }

    fn parse(word: &str) -> Option<Capability> {
        Capability::ALL.iter().copied().find(|c| c.as_str() == word)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who is asked, and for what: `provider[:model][:capability]`.
///
/// The text is split at the first colon; a last part is a capability only if it is one of
/// [`Capability`]'s words. Without a model, the model that the caller asked for is meant. A second
/// key or region of a provider is a second provider name.
///
/// A target is a key of shared state (breakers, bulkheads, rests) and is written into answer
/// headers, so its hash and its header values are made once. Cloning it counts a reference.
///
/// # Example
///
/// ```
/// use llm_call::{Capability, Target};
///
/// let target: Target = "ollama:llama3.1:8b:streaming".parse()?;
/// assert_eq!(target.provider(), "ollama");
/// assert_eq!(target.model(), Some("llama3.1:8b"));
/// assert_eq!(target.capability(), Some(Capability::Streaming));
/// # Ok::<(), llm_call::InvalidTarget>(())
/// ```
#[derive(Clone)]
pub struct Target(Arc<Inner>);

struct Inner {
    text: Box<str>,
    provider_end: usize,
    model_end: usize,
    capability: Option<Capability>,
    hash: u64,
    provider_header: HeaderValue,
    model_header: Option<HeaderValue>,
}

/// A text that is no [`Target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTarget(&'static str);

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid target: {}; write provider[:model][:capability], e.g. openai:gpt-4.1-mini",
            self.0
        )
    }
}

impl std::error::Error for InvalidTarget {}

impl Target {
    /// A target from its parts.
    ///
    /// # Errors
    ///
    /// When the provider is empty or has a colon, or a part cannot stand in an HTTP header.
    pub fn new(
        provider: &str,
        model: Option<&str>,
        capability: Option<Capability>,
    ) -> Result<Target, InvalidTarget> {
        if provider.is_empty() {
            return Err(InvalidTarget("the provider is empty"));
        }
        if provider.contains(':') {
            return Err(InvalidTarget("the provider has a colon"));
        }
        let mut text = String::from(provider);
        if model.is_some_and(|model| model.starts_with("//")) {
            return Err(InvalidTarget("it is a URL; give that to the provider"));
        }
        let model = model.filter(|model| !model.is_empty());
        if let Some(model) = model {
            text.push(':');
            text.push_str(model);
        }
        let model_end = text.len();
        if let Some(capability) = capability {
            text.push(':');
            text.push_str(capability.as_str());
        }
        let header = |part: &str| {
            HeaderValue::from_str(part)
                .map_err(|_| InvalidTarget("a part has characters that no HTTP header can hold"))
        };
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Ok(Target(Arc::new(Inner {
            provider_end: provider.len(),
            model_end,
            capability,
            hash: hasher.finish(),
            provider_header: header(provider)?,
            model_header: model.map(header).transpose()?,
            text: text.into_boxed_str(),
        })))
    }

    /// The provider's name: the text up to the first colon.
    pub fn provider(&self) -> &str {
        &self.0.text[..self.0.provider_end]
    }

    /// The model, or `None` where the caller's own choice is meant.
    pub fn model(&self) -> Option<&str> {
        (self.0.model_end > self.0.provider_end)
            .then(|| &self.0.text[self.0.provider_end + 1..self.0.model_end])
    }

    /// What is asked for.
    pub fn capability(&self) -> Option<Capability> {
        self.0.capability
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The provider as a header value.
    pub fn provider_header(&self) -> &HeaderValue {
        &self.0.provider_header
    }

    /// The model as a header value.
    pub fn model_header(&self) -> Option<&HeaderValue> {
        self.0.model_header.as_ref()
    }

    /// The same target with the missing parts filled in.
    ///
    /// # Errors
    ///
    /// When the model cannot stand in an HTTP header.
    pub fn complete(
        &self,
        model: Option<&str>,
        capability: Option<Capability>,
    ) -> Result<Target, InvalidTarget> {
        let (model, capability) = (self.model().or(model), self.capability().or(capability));
        if model == self.model() && capability == self.capability() {
            return Ok(self.clone());
        }
        Target::new(self.provider(), model, capability)
    }
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((provider, rest)) = text.split_once(':') else {
            return Target::new(text, None, None);
        };
        if rest.is_empty() {
            return Err(InvalidTarget("nothing follows the colon"));
        }
        let (model, last) = rest.rsplit_once(':').unwrap_or(("", rest));
        match Capability::parse(last) {
            Some(capability) => Target::new(provider, Some(model), Some(capability)),
            None => Target::new(provider, Some(rest), None),
        }
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash && self.0.text == other.0.text)
    }
}

impl Eq for Target {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl PartialOrd for Target {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Target {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.text.cmp(&other.0.text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_the_first_colon_and_at_a_closing_capability() {
        for (text, provider, model, capability) in [
            ("a", "a", None, None),
            ("a:m", "a", Some("m"), None),
            ("a:m:8b", "a", Some("m:8b"), None),
            (
                "a:m:8b:streaming",
                "a",
                Some("m:8b"),
                Some(Capability::Streaming),
            ),
            ("a:embeddings", "a", None, Some(Capability::Embeddings)),
            ("a:org/m@x", "a", Some("org/m@x"), None),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(
                (target.provider(), target.model(), target.capability()),
                (provider, model, capability)
            );
            assert_eq!(target.as_str(), text);
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_a_reason() {
        for text in ["", ":m", "a:", "a\n:m", "a:m\0", "http://h/v1"] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.to_string().contains("provider[:model]"), "{error}");
        }
    }

    #[test]
    fn completing_a_target_keeps_what_it_has() {
        let target: Target = "a".parse().unwrap();
        let full = target.complete(Some("m"), Some(Capability::Chat)).unwrap();
        assert_eq!(full.as_str(), "a:m:chat");
        assert_eq!(
            full.complete(Some("n"), Some(Capability::Audio)).unwrap(),
            full
        );
    }
}
