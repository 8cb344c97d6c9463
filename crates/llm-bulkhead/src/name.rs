//! Names of pools, looked up without putting them together.

use std::{
    borrow::Cow,
    hash::{BuildHasher, Hasher},
};

use llm_call::{Call, Target, Workload};

/// `left`, or `left/right`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    left: &'a str,
    right: Option<&'a str>,
}

impl<'a> Name<'a> {
    pub(crate) fn of(text: &'a str) -> Name<'a> {
        match text.split_once('/') {
            Some((left, right)) => Name {
                left,
                right: Some(right),
            },
            None => Name {
                left: text,
                right: None,
            },
        }
    }

    pub(crate) fn hash(&self, random: &impl BuildHasher) -> u64 {
        let mut hasher = random.build_hasher();
        hasher.write(self.left.as_bytes());
        hasher.write_u8(0xff);
        if let Some(right) = self.right {
            hasher.write(right.as_bytes());
            hasher.write_u8(0xff);
        }
        hasher.finish()
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        match self.right {
            None => self.left == text,
            Some(right) => text
                .strip_prefix(self.left)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| rest == right),
        }
    }

    pub(crate) fn text(&self) -> Cow<'a, str> {
        match self.right {
            None => Cow::Borrowed(self.left),
            Some(right) => Cow::Owned(format!("{}/{right}", self.left)),
        }
    }
}

/// The names that a call goes by, the most telling one first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names<'a> {
    pub(crate) listed: [Option<Name<'a>>; 3],
    /// What a pool of its own is called.
    pub(crate) own: Option<Name<'a>>,
}

impl<'a> Names<'a> {
    /// `workload/class`, `workload`, `class`.
    pub(crate) fn of_call(call: &'a Call) -> Names<'a> {
        let workload = Name::of(workload_name(call.workload()));
        let Some(class) = call.class() else {
            return Names {
                listed: [Some(workload), None, None],
                own: Some(workload),
            };
        };
        let both = Name {
            right: Some(class),
            ..workload
        };
        Names {
            listed: [Some(both), Some(workload), Some(Name::of(class))],
            own: Some(both),
        }
    }

    /// `provider:model:capability`, `provider:model`, `provider`.
    pub(crate) fn of_target(target: &'a Target) -> Names<'a> {
        let (whole, provider) = (target.as_str(), target.provider());
        let end = match target.model() {
            Some(model) => provider.len() + 1 + model.len(),
            None => provider.len(),
        };
        let model = whole.get(..end).unwrap_or(whole);
        let name = |text: &'a str| Some(Name::of(text));
        Names {
            listed: [
                name(whole).filter(|_| whole.len() > model.len()),
                name(model),
                name(provider).filter(|_| model.len() > provider.len()),
            ],
            own: name(model),
        }
    }

    pub(crate) fn of_text(text: &'a str) -> Names<'a> {
        let name = Some(Name::of(text));
        Names {
            listed: [name, None, None],
            own: name,
        }
    }
}

fn workload_name(workload: Workload) -> &'static str {
    match workload {
        Workload::Background => "background",
        Workload::Internal => "internal",
        _ => "interactive",
    }
}
