//! [`Fault`]: the error object of an answer, in whichever place and shape.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::json::with_whole_surrogates;

/// What an answer says about its failure.
#[derive(Debug, Default)]
pub(crate) struct Fault<'v> {
    /// The sentence for people.
    pub(crate) message: Cow<'v, str>,
    /// The words for machines, the most telling first.
    pub(super) names: Vec<&'v str>,
    /// The HTTP status that the body names.
    pub(super) status: Option<u16>,
    /// The error stands in an object of its own, or says that it is one: a body with nothing but
    /// a `message` does not.
    pub(super) declared: bool,
    details: &'v [Value],
    availability_wait: Option<f64>,
}

/// The JSON in a body, if it is any.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    let body = body
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(body)
        .trim_ascii();
    // Pages and plain text are told apart without a parser.
    matches!(body.first(), Some(b'{' | b'['))
        .then(|| serde_json::from_slice(&with_whole_surrogates(body)).ok())
        .flatten()
}

impl<'v> Fault<'v> {
    /// Finds the error in a body.
    pub(crate) fn of(root: &'v Value) -> Option<Fault<'v>> {
        match root {
            // Gemini without `alt=sse`, and some proxies, wrap the error in an array.
            Value::Array(items) => items.iter().find_map(Fault::of),
            Value::Object(object) => Fault::in_object(object),
            _ => None,
        }
    }

    /// A fault that is known by its text alone.
    pub(super) fn of_text(text: &'v str) -> Fault<'v> {
        Fault {
            message: Cow::Borrowed(text),
            ..Fault::default()
        }
    }

    fn in_object(root: &'v Map<String, Value>) -> Option<Fault<'v>> {
        let own = root.get("error").filter(|error| !error.is_null());
        match own.or_else(|| inner_error(root)) {
            Some(Value::Object(error)) => {
                let mut fault = Fault::declared(error);
                // Some proxies leave the code outside.
                fault.names(root, &["code", "error_type"]);
                return Some(fault);
            }
            Some(Value::String(message)) => {
                let mut fault = Fault::of_text(message);
                fault.declared = true;
                return Some(fault);
            }
            _ => {}
        }
        let says = |key| root.get(key).and_then(Value::as_str) == Some("error");
        let bare = root.contains_key("code") && root.contains_key("message");
        if says("object") || says("type") || bare {
            return Some(Fault::declared(root));
        }
        let message = match (root.get("message"), root.get("detail")) {
            (Some(Value::String(message)), _) | (_, Some(Value::String(message))) => {
                Cow::Borrowed(message.as_str())
            }
            (_, Some(detail @ Value::Array(_))) => Cow::Owned(detail.to_string()),
            _ => return None,
        };
        let mut fault = Fault {
            message,
            ..Fault::default()
        };
        fault.names(root, &["__type", "type"]);
        Some(fault)
    }

    fn declared(error: &'v Map<String, Value>) -> Fault<'v> {
        let mut fault = Fault {
            message: error
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
            declared: true,
            ..Fault::default()
        };
        fault.names(error, &["code"]);
        let object = |key| error.get(key).and_then(Value::as_object);
        if let Some(details) = object("details") {
            fault.names(details, &["error_code"]);
        }
        if let Some(inner) = object("innererror") {
            fault.names(inner, &["code"]);
        }
        if let Some(availability) = object("availability") {
            fault.names(availability, &["code"]);
            fault.availability_wait = availability.get("retry_after").and_then(Value::as_f64);
        }
        if let Some(metadata) = object("metadata") {
            fault.names(metadata, &["provider_code", "error_type"]);
        }
        fault.names(error, &["error_type", "type", "status"]);
        if let Some(Value::Array(details)) = error.get("details") {
            fault.details = details;
            let reasons = details
                .iter()
                .filter_map(|detail| detail["reason"].as_str());
            fault.names.extend(reasons);
        }
        fault.status = ["code", "http_status", "status", "raw_status_code"]
            .iter()
            .find_map(|key| http_status(error.get(*key)?));
        fault
    }

    fn names(&mut self, object: &'v Map<String, Value>, keys: &[&str]) {
        let found = keys.iter().filter_map(|key| object.get(*key)?.as_str());
        self.names.extend(found);
    }

    /// Whether one of the words for machines is one of these, in any case.
    pub(super) fn is(&self, names: &[&str]) -> bool {
        self.names
            .iter()
            .any(|name| names.iter().any(|other| other.eq_ignore_ascii_case(name)))
    }

    /// Whether a quota of Gemini's whose name contains this is used up.
    pub(crate) fn has_quota(&self, part: &str) -> bool {
        self.details
            .iter()
            .filter_map(|detail| detail["violations"].as_array())
            .flatten()
            .filter_map(|violation| violation["quotaId"].as_str())
            .any(|quota| quota.contains(part))
    }

    /// The delay in Gemini's `RetryInfo`.
    pub(crate) fn retry_info(&self) -> Option<&'v str> {
        self.details
            .iter()
            .find_map(|detail| detail["retryDelay"].as_str())
    }

    /// OpenRouter's wait, in seconds.
    pub(crate) fn availability_wait(&self) -> Option<f64> {
        self.availability_wait
    }
}

/// An error that is not at the root: in a choice, in a response event, in Groq's addition.
fn inner_error(root: &Map<String, Value>) -> Option<&Value> {
    let choices = root.get("choices").and_then(Value::as_array);
    let places = [root.get("response"), root.get("x_groq")];
    places
        .into_iter()
        .flatten()
        .chain(choices.into_iter().flatten())
        .filter_map(|place| place.get("error"))
        .find(|error| !error.is_null())
}

/// A status that says "failed", as a number or in digits.
fn http_status(value: &Value) -> Option<u16> {
    let number = match value {
        Value::String(digits) => digits.parse().ok()?,
        number => u16::try_from(number.as_u64()?).ok()?,
    };
    (400..600).contains(&number).then_some(number)
}
