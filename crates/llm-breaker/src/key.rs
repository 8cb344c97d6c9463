//! [`Key`]: which calls share a circuit.

use std::{
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::Arc,
};

use http::{Request, header::HOST};
use llm_call::{Attempt, Target};

/// Which calls share a circuit: a target, or an authority and a path where nobody chose a target;
/// and a class, where [`BreakerLayer::class`](crate::BreakerLayer::class) tells calls apart.
///
/// Its text is `openai:gpt-4.1-mini:streaming` or `api.openai.com/v1/chat/completions`, followed by
/// ` [class]`. Cloning it counts references.
///
/// # Example
///
/// ```
/// use llm_breaker::Key;
///
/// let key = Key::target("openai:gpt-4.1-mini".parse()?).with_class("premium");
/// assert_eq!(key.to_string(), "openai:gpt-4.1-mini [premium]");
/// assert_eq!(Key::url("localhost:8080", "/v1/models").to_string(), "localhost:8080/v1/models");
/// # Ok::<(), llm_call::InvalidTarget>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    place: Place,
    class: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Target(Target),
    Url { authority: Arc<str>, path: Arc<str> },
}

impl Key {
    /// All calls to a target.
    pub fn target(target: Target) -> Key {
        Key {
            place: Place::Target(target),
            class: None,
        }
    }

    /// All calls without a target to an authority (`host` or `host:port`) and a path.
    pub fn url(authority: &str, path: &str) -> Key {
        Key {
            place: Place::Url {
                authority: authority.into(),
                path: path.into(),
            },
            class: None,
        }
    }

    /// The same, of one class.
    #[must_use]
    pub fn with_class(mut self, class: impl Into<Arc<str>>) -> Key {
        self.class = Some(class.into());
        self
    }

    /// The target, where the key is one of a target.
    pub fn as_target(&self) -> Option<&Target> {
        match &self.place {
            Place::Target(target) => Some(target),
            Place::Url { .. } => None,
        }
    }

    /// Authority and path, where the key is not one of a target.
    pub fn as_url(&self) -> Option<(&str, &str)> {
        match &self.place {
            Place::Target(_) => None,
            Place::Url { authority, path } => Some((authority, path)),
        }
    }

    /// The class.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// Whether this is the key of a target, or of a more particular one.
    pub(crate) fn is_of(&self, target: &Target) -> bool {
        let own = self.as_target();
        own.is_some_and(|own| crate::table::covers(target, own))
    }

    pub(crate) fn borrow(&self) -> KeyRef<'_> {
        let place = match &self.place {
            Place::Target(target) => PlaceRef::Target(target),
            Place::Url { authority, path } => PlaceRef::Url { authority, path },
        };
        KeyRef {
            place,
            class: self.class(),
        }
    }
}

impl From<Target> for Key {
    fn from(target: Target) -> Self {
        Key::target(target)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Target(target) => write!(f, "{target}")?,
            Place::Url { authority, path } => write!(f, "{authority}{path}")?,
        }
        match &self.class {
            Some(class) => write!(f, " [{class}]"),
            None => Ok(()),
        }
    }
}

/// A key that borrows, so that looking up a known one allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRef<'a> {
    place: PlaceRef<'a>,
    class: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceRef<'a> {
    Target(&'a Target),
    Url { authority: &'a str, path: &'a str },
}

impl<'a> KeyRef<'a> {
    /// The key of a request.
    pub(crate) fn of<B>(request: &'a Request<B>, class: Option<&'a str>) -> KeyRef<'a> {
        let attempt = request.extensions().get::<Attempt>();
        let place = match attempt.and_then(|attempt| attempt.target.as_ref()) {
            Some(target) => PlaceRef::Target(target),
            None => PlaceRef::Url {
                authority: authority(request),
                path: request.uri().path(),
            },
        };
        KeyRef { place, class }
    }

    pub(crate) fn to_key(self) -> Key {
        let key = match self.place {
            PlaceRef::Target(target) => Key::target(target.clone()),
            PlaceRef::Url { authority, path } => Key::url(authority, path),
        };
        match self.class {
            Some(class) => key.with_class(class),
            None => key,
        }
    }

    /// A target has hashed itself already.
    pub(crate) fn hash(self, random: &RandomState) -> u64 {
        let place = match self.place {
            PlaceRef::Target(target) => {
                let mut made = Made(0);
                target.hash(&mut made);
                made.finish()
            }
            PlaceRef::Url { authority, path } => random.hash_one((authority, path)),
        };
        match self.class {
            Some(class) => random.hash_one((place, class)),
            None => place,
        }
    }
}

fn authority<B>(request: &Request<B>) -> &str {
    let authority = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => {
            let host = request.headers().get(HOST);
            host.and_then(|host| host.to_str().ok()).unwrap_or("")
        }
    };
    // What stands before an `@` is a secret, and keys are shown.
    authority.rsplit('@').next().unwrap_or(authority)
}

/// Hands on a hash that was made before.
struct Made(u64);

impl Hasher for Made {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = self.0.rotate_left(5) ^ hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
