//! What changes of a request on its way to a provider: pure functions.

use std::{borrow::Cow, fmt, ops::Range};

use bytes::{BufMut, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{ACCEPT_ENCODING, AUTHORIZATION, COOKIE, EXPECT, HOST, TRAILER},
    uri::PathAndQuery,
};
use llm_call::{BoxError, Dialect, remove_hop_by_hop};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::provider::{Auth, Provider};

/// The roots of callers' paths that a base URL with a path stands for.
const CALLER_ROOTS: [&str; 2] = ["/v1", "/v1beta"];

/// Headers that carry a key with one provider or another.
const KEY_HEADERS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Pairs of a query that carry a key; Google takes its own with a `$` before the name too.
const KEY_QUERIES: [&str; 4] = ["key", "api_key", "api-key", "access_token"];

/// What may not stand as it is in one segment of a path.
pub(crate) const NOT_IN_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@');

/// Where a request goes.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) uri: Uri,
    /// Whether the path names the target's model, so that the body need not.
    pub(crate) names_model: bool,
}

/// The provider's URL for a caller's path, with the model of the target where it stands in the
/// path.
pub(crate) fn uri(
    provider: &Provider,
    given: &Uri,
    model: Option<&str>,
) -> Result<Located, BoxError> {
    if !given.path().starts_with('/') {
        // `CONNECT` and `OPTIONS *` are meant for the server that they are sent to.
        return Err(format!("{given} has no path; send requests to a path of the API").into());
    }
    if climbs(given.path()) {
        return Err(
            "the path has a `..` segment, which could leave the provider's base URL".into(),
        );
    }
    let mut names_model = false;
    let mut path = Cow::Borrowed(given.path());
    if !provider.path.is_empty() {
        let rest = CALLER_ROOTS.iter().find_map(|root| {
            let rest = path.strip_prefix(root)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
        });
        if let Some(rest) = rest {
            path = Cow::Owned(rest);
        }
    }
    if let Some(model) = model
        && let Some(span) = model_in_path(&path)
    {
        let mut named = path.into_owned();
        let model = utf8_percent_encode(model, NOT_IN_SEGMENT);
        named.replace_range(span, &model.to_string());
        path = Cow::Owned(named);
        names_model = true;
    }
    let mut whole = format!("{}{path}", provider.base_path(model));
    if whole.is_empty() {
        whole.push('/');
    }
    let own = provider.query.as_deref();
    let callers = given.query().map(|query| match provider.auth {
        Auth::PassThrough => Cow::Borrowed(query),
        Auth::Header(..) | Auth::Nothing => without_keys(query),
    });
    let queries = [own, callers.as_deref()].into_iter().flatten();
    for (i, query) in queries.filter(|query| !query.is_empty()).enumerate() {
        whole.push(if i == 0 { '?' } else { '&' });
        whole.push_str(query);
    }
    let uri = Uri::builder()
        .scheme(provider.scheme.clone())
        .authority(provider.authority.clone())
        .path_and_query(PathAndQuery::try_from(whole)?)
        .build()?;
    Ok(Located { uri, names_model })
}

/// Whether a path goes up, as HTTP clients and servers read it: they resolve `..` in any spelling,
/// and some take a backslash for a slash.
fn climbs(path: &str) -> bool {
    path.split(['/', '\\'])
        .any(|segment| percent_decode_str(segment).eq([b'.', b'.']))
}

/// Where the model stands in a path of Gemini's: `/v1beta/models/{model}:generateContent`.
///
/// OpenAI's `/v1/models/ft:gpt-4.1:org::id` has a model with colons and no method after it.
fn model_in_path(path: &str) -> Option<Range<usize>> {
    const BEFORE: &str = "/models/";
    let start = path.find(BEFORE)? + BEFORE.len();
    let (model, method) = path[start..].split_once(':')?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    (is_method && !model.contains('/')).then_some(start..start + model.len())
}

/// A query without the pairs that carry a key.
fn without_keys(query: &str) -> Cow<'_, str> {
    let carries_key = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        let name: Vec<u8> = percent_decode_str(name).collect();
        let name = name.strip_prefix(b"$").unwrap_or(&name);
        KEY_QUERIES
            .iter()
            .any(|key| name.eq_ignore_ascii_case(key.as_bytes()))
    };
    if !query.split('&').any(|pair| carries_key(&pair)) {
        return Cow::Borrowed(query);
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !carries_key(pair)).collect();
    Cow::Owned(kept.join("&"))
}

/// The headers for the provider, made of the caller's.
pub(crate) fn headers(provider: &Provider, headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    // The body has no trailers any more.
    headers.remove(TRAILER);
    // The body is here already: nobody needs to ask whether to send it.
    headers.remove(EXPECT);
    headers.remove(HOST);
    headers.remove(ACCEPT_ENCODING);
    if !provider.decompressed_below {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    if !matches!(provider.auth, Auth::PassThrough) {
        // Cookies are the caller's credentials with whoever set them.
        headers.remove(COOKIE);
        for name in &KEY_HEADERS {
            headers.remove(name);
        }
    }
    if let Auth::Header(name, value) = &provider.auth {
        headers.insert(name, value.clone());
    }
    for (name, value) in &provider.headers {
        headers.insert(name, value.clone());
    }
}

/// Headers that mean something to one issuer alone.
const OF_OPENAI: [HeaderName; 3] = [
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
    HeaderName::from_static("openai-beta"),
];
const OF_ANTHROPIC: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
    HeaderName::from_static("anthropic-dangerous-direct-browser-access"),
];

/// The version of Anthropic's API that translations are written for, where the provider names none.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Takes out what the caller says to an issuer of another dialect, and adds what that of the target
/// cannot do without.
pub(crate) fn issuer_headers(to: Dialect, headers: &mut HeaderMap) {
    for name in OF_OPENAI.iter().chain(&OF_ANTHROPIC) {
        headers.remove(name);
    }
    if to == Dialect::Anthropic {
        headers.insert(&OF_ANTHROPIC[0], ANTHROPIC_VERSION);
    }
}

/// What some clients put before JSON, and some servers skip.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A JSON body with another model, every other byte as it was. `None` where nothing changes: the
/// model is the same, or the body is no JSON object (multipart forms, empty bodies, JSON that a
/// provider refuses).
pub(crate) fn model_in_body(body: &Bytes, model: &str) -> Option<Bytes> {
    let object = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    if object.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_slice(object);
    let models = json.deserialize_map(Models).ok()?;
    json.end().ok()?;
    let named = serde_json::to_string(model).ok()?;
    if !models.is_empty() && models.iter().all(|given| given.get() == named) {
        return None;
    }
    let mut rewritten = BytesMut::with_capacity(body.len() + named.len() + 10);
    let mut copied = 0;
    if models.is_empty() {
        copied = body.iter().position(|byte| *byte == b'{')? + 1;
        rewritten.put_slice(&body[..copied]);
        rewritten.put_slice(b"\"model\":");
        rewritten.put_slice(named.as_bytes());
        if body[copied..].trim_ascii_start().first() != Some(&b'}') {
            rewritten.put_u8(b',');
        }
    }
    for given in models {
        // The raw value borrows from the body, so its place is the distance between the two.
        let start = given.get().as_ptr() as usize - body.as_ptr() as usize;
        rewritten.put_slice(&body[copied..start]);
        rewritten.put_slice(named.as_bytes());
        copied = start + given.get().len();
    }
    rewritten.put_slice(&body[copied..]);
    Some(rewritten.freeze())
}

/// A JSON body without some fields of its object, every other byte as it was, and which of them were
/// there. `None` where none was, or the body is no JSON object.
pub(crate) fn without_fields(body: &Bytes, refused: &[String]) -> Option<(Bytes, Vec<String>)> {
    let object = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    if refused.is_empty() || object.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_slice(object);
    let fields = json.deserialize_map(Fields).ok()?;
    json.end().ok()?;
    let mut kept = BytesMut::with_capacity(body.len());
    let mut removed = Vec::new();
    let mut end = body.iter().position(|byte| *byte == b'{')? + 1;
    kept.put_slice(&body[..end]);
    let mut is_first = true;
    for (name, value) in fields {
        let start = end;
        end = value.get().as_ptr() as usize - body.as_ptr() as usize + value.get().len();
        if refused.contains(&name) {
            removed.push(name);
            continue;
        }
        // What stands between two fields goes with the second one.
        let field = &body[start..end];
        let after_comma = field
            .iter()
            .position(|byte| *byte == b',' || *byte == b'"')?;
        let has_comma = field[after_comma] == b',';
        kept.put_slice(
            &field[if is_first && has_comma {
                after_comma + 1
            } else {
                0
            }..],
        );
        is_first = false;
    }
    kept.put_slice(&body[end..]);
    (!removed.is_empty()).then(|| (kept.freeze(), removed))
}

/// Collects the fields of one object.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

/// Collects the values of the key `model` of one object.
struct Models;

impl<'de> Visitor<'de> for Models {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut models = Vec::new();
        while let Some(key) = map.next_key::<Key>()? {
            let value = map.next_value::<&RawValue>()?;
            if key.0 {
                models.push(value);
            }
        }
        Ok(models)
    }
}

/// Whether a key is `model`, however it is written.
struct Key(bool);

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_bytes<E>(self, key: &[u8]) -> Result<Key, E> {
                Ok(Key(key == b"model"))
            }
        }
        // As bytes, since a key may hold half a surrogate pair, which is no `str`.
        deserializer.deserialize_bytes(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(body: &'static str, model: &str) -> Option<String> {
        let body = model_in_body(&Bytes::from_static(body.as_bytes()), model)?;
        Some(String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn only_the_model_changes() {
        for (body, expected) in [
            (r#"{"model":"a","x":1}"#, Some(r#"{"model":"b","x":1}"#)),
            (
                "{ \"x\" : {\"model\":\"a\"},\n\t\"model\"  : \"a\" }\n",
                Some("{ \"x\" : {\"model\":\"a\"},\n\t\"model\"  : \"b\" }\n"),
            ),
            (r#"{"mod\u0065l":"a"}"#, Some(r#"{"mod\u0065l":"b"}"#)),
            (r#"{"model":null}"#, Some(r#"{"model":"b"}"#)),
            (
                r#"{"model":"a","model":"c"}"#,
                Some(r#"{"model":"b","model":"b"}"#),
            ),
            (
                r#"{"x":"\"model\":\"a\""}"#,
                Some(r#"{"model":"b","x":"\"model\":\"a\""}"#),
            ),
            ("{}", Some(r#"{"model":"b"}"#)),
            (" { } ", Some(r#" {"model":"b" } "#)),
            (r#"{"model":"b"}"#, None),
            ("", None),
            ("--boundary", None),
            (r#"["model"]"#, None),
            (r#"{"model":"a""#, None),
            (r#"{"model":"a"} x"#, None),
        ] {
            assert_eq!(rewritten(body, "b").as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn only_what_is_refused_is_taken_out() {
        let refused = ["temperature".to_owned(), "top_p".to_owned()];
        for (body, expected) in [
            (r#"{"temperature":1}"#, Some("{}")),
            (r#"{"temperature":1,"x":2}"#, Some(r#"{"x":2}"#)),
            (
                "{ \"temperature\" : 1 ,\n \"x\" : [ \"top_p\" ] , \"top_p\":{} }\n",
                Some("{\n \"x\" : [ \"top_p\" ] }\n"),
            ),
            (r#"{"x":{"temperature":1},"y":",\""}"#, None),
            ("{}", None),
            ("", None),
            (r#"{"temperature":1"#, None),
            ("[]", None),
        ] {
            let kept = without_fields(&Bytes::from(body), &refused);
            let kept = kept.map(|(body, _)| String::from_utf8(body.to_vec()).unwrap());
            assert_eq!(kept.as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn a_model_is_written_as_json() {
        for model in ["a\"b", "a\\b", "a\n\u{1}b", "ü/日本:8b", ""] {
            for body in [r#"{"model":"a","x":1}"#, r#"{"x":1}"#] {
                let read: serde_json::Value =
                    serde_json::from_str(&rewritten(body, model).unwrap()).unwrap();
                assert_eq!(read, serde_json::json!({"model": model, "x": 1}));
            }
        }
    }

    #[test]
    fn odd_bodies_get_the_model_too() {
        let deep = |model: &str| {
            let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
            format!(r#"{{"x":{open}{close},"model":"{model}"}}"#)
        };
        for (given, expected) in [
            (deep("a"), deep("b")),
            // A byte order mark.
            (
                "\u{feff}{\"model\":\"a\"}".to_owned(),
                "\u{feff}{\"model\":\"b\"}".to_owned(),
            ),
            // Half a surrogate pair, in a value and in a key.
            (
                r#"{"x":"\ud83d","\ud83d":1,"model":"a"}"#.to_owned(),
                r#"{"x":"\ud83d","\ud83d":1,"model":"b"}"#.to_owned(),
            ),
        ] {
            let body = model_in_body(&Bytes::from(given), "b");
            assert!(body.is_some_and(|body| body == expected), "{expected:.60}");
        }
    }

    #[test]
    fn a_base_url_with_a_path_stands_for_v1() {
        for (base, given, model, expected) in [
            (
                "http://h/v1",
                "/v1/chat/completions",
                None,
                "http://h/v1/chat/completions",
            ),
            (
                "http://h/v1/",
                "/chat/completions?a=1",
                None,
                "http://h/v1/chat/completions?a=1",
            ),
            (
                "http://h/openai/v1",
                "/v1/models",
                None,
                "http://h/openai/v1/models",
            ),
            ("http://h/v1beta", "/v1beta/x", None, "http://h/v1beta/x"),
            ("http://h/v1", "/v1beta2/x", None, "http://h/v1/v1beta2/x"),
            ("https://h", "/v1/messages", None, "https://h/v1/messages"),
            (
                "https://h:8443/",
                "http://other/v1/messages",
                None,
                "https://h:8443/v1/messages",
            ),
            (
                "https://h",
                "/v1beta/models/a:generateContent",
                Some("b"),
                "https://h/v1beta/models/b:generateContent",
            ),
            (
                "https://h",
                "/v1beta/models/a:generateContent",
                Some("b/c?"),
                "https://h/v1beta/models/b%2Fc%3F:generateContent",
            ),
            (
                "https://h",
                "/v1/models/a",
                Some("b"),
                "https://h/v1/models/a",
            ),
            (
                "https://h",
                "/v1/models/ft:gpt-4.1:org::id",
                Some("b"),
                "https://h/v1/models/ft:gpt-4.1:org::id",
            ),
            ("https://h", "/", None, "https://h/"),
        ] {
            let provider = Provider::new(base).unwrap();
            let located = uri(&provider, &given.parse().unwrap(), model).unwrap();
            assert_eq!(located.uri.to_string(), expected, "{base} {given}");
            let names_model = model.is_some() && given.contains(":generateContent");
            assert_eq!(located.names_model, names_model, "{base} {given}");
        }
        let azure = Provider::new("https://h/d")
            .unwrap()
            .query("api-version=1")
            .unwrap();
        let located = uri(&azure, &"/v1/chat/completions?b=2".parse().unwrap(), None).unwrap();
        assert_eq!(
            located.uri.to_string(),
            "https://h/d/chat/completions?api-version=1&b=2"
        );
    }

    #[test]
    fn the_callers_key_in_the_query_reaches_no_provider_with_its_own() {
        let pass = Provider::new("https://h").unwrap();
        let own = pass.clone().bearer("k").unwrap();
        let none = pass.clone().no_auth().query("key=own").unwrap();
        for (given, through, with_key, without) in [
            ("?key=S", "?key=S", "", "?key=own"),
            (
                "?a=1&key=S&b=2",
                "?a=1&key=S&b=2",
                "?a=1&b=2",
                "?key=own&a=1&b=2",
            ),
            (
                "?api_key=S&alt=sse",
                "?api_key=S&alt=sse",
                "?alt=sse",
                "?key=own&alt=sse",
            ),
            (
                "?access_token=S&api-key=S",
                "?access_token=S&api-key=S",
                "",
                "?key=own",
            ),
            (
                "?%6bey=S&%24key=S&Key=S",
                "?%6bey=S&%24key=S&Key=S",
                "",
                "?key=own",
            ),
            (
                "?key&keys=1&x=key",
                "?key&keys=1&x=key",
                "?keys=1&x=key",
                "?key=own&keys=1&x=key",
            ),
        ] {
            let given = format!("/v1/messages{given}").parse().unwrap();
            for (provider, expected) in [(&pass, through), (&own, with_key), (&none, without)] {
                let located = uri(provider, &given, None).unwrap();
                assert_eq!(
                    located.uri.to_string(),
                    format!("https://h/v1/messages{expected}")
                );
            }
        }
    }
}
