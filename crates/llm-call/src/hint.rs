//! When to come back: the server's own word, in all the forms that providers use.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use crate::classify::{Fault, parse};

/// How long the server asks to wait, counted from `now`, in whichever form it says so.
///
/// The forms, the first that holds a positive wait wins:
/// 1. `retry-after-ms`, `x-ms-retry-after-ms`, `x-amz-retry-after` (milliseconds);
/// 2. `retry-after` (seconds, also fractions; or an HTTP date);
/// 3. Gemini's `RetryInfo`, OpenRouter's `availability.retry_after`, a sentence like `Please try
///    again in 1m2.5s` in the body, and a minute for a Gemini quota by the minute;
/// 4. the `reset` headers of the limits that are used up (see [`RateLimits`]);
/// 5. `x-rate-limit-reset-tokens` (Azure, seconds) and `x-ratelimit-reset` (a Unix time).
///
/// What is garbage, negative or past counts as not said. A Gemini quota by the day says nothing of
/// use, since its `RetryInfo` is about the quota by the minute. The wait is as the server gave it,
/// never shortened: who finds it too long should go elsewhere rather than come back early. For a
/// `reset` header the time is that of a full refill, so less might do.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use http::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", "1.5".parse()?);
/// let hint = llm_call::retry_after(&headers, b"", SystemTime::UNIX_EPOCH);
/// assert_eq!(hint, Some(Duration::from_millis(1500)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
pub fn retry_after(headers: &HeaderMap, body: &[u8], now: SystemTime) -> Option<Duration> {
    let root = parse(body);
    let fault = root.as_ref().and_then(Fault::of);
    asked(headers, fault.as_ref(), now).or_else(|| reset(headers, now))
}

/// The wait that the server asks for in so many words.
pub(crate) fn asked(
    headers: &HeaderMap,
    fault: Option<&Fault<'_>>,
    now: SystemTime,
) -> Option<Duration> {
    ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"]
        .iter()
        .find_map(|name| positive(millis(text(headers, name)?)?))
        .or_else(|| {
            let value = text(headers, "retry-after")?;
            positive(seconds(value).or_else(|| until_date(value, now))?)
        })
        .or_else(|| in_body(fault?))
}

/// The time until the limits that are used up are full again.
pub(crate) fn reset(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let limits = RateLimits::read(headers, now);
    Dimension::ALL
        .iter()
        .map(|dimension| limits.get(*dimension))
        .filter(|limit| limit.remaining.is_none_or(|left| left == 0))
        .filter_map(|limit| positive(limit.reset?))
        .max()
        .or_else(|| positive(duration(text(headers, "x-rate-limit-reset-tokens")?)?))
        .or_else(|| {
            let left = text(headers, "x-ratelimit-remaining").and_then(|left| left.parse().ok());
            if left.is_some_and(|left: f64| left > 0.0) {
                return None;
            }
            positive(until_epoch(text(headers, "x-ratelimit-reset")?, now)?)
        })
}

fn in_body(fault: &Fault<'_>) -> Option<Duration> {
    if fault.has_quota("PerDay") || fault.has_quota("Daily") {
        return None;
    }
    fault
        .retry_info()
        .and_then(duration)
        .or_else(|| fault.availability_wait().and_then(from_secs))
        .and_then(positive)
        .or_else(|| positive(in_sentence(&fault.message)?))
        .or_else(|| {
            fault
                .has_quota("PerMinute")
                .then_some(Duration::from_secs(60))
        })
}

/// A wait in a sentence: `try again in 4.77s`, `Retry after 45 seconds`.
fn in_sentence(message: &str) -> Option<Duration> {
    let message = message.to_ascii_lowercase();
    [
        "try again in ",
        "retry in ",
        "try again after ",
        "retry after ",
    ]
    .iter()
    .flat_map(|words| message.match_indices(words))
    .find_map(|(at, words)| {
        let mut rest = message[at + words.len()..].split_ascii_whitespace();
        let amount = rest.next()?.trim_end_matches(['.', ',', ';', ')']);
        let Ok(number) = amount.parse::<f64>() else {
            return duration(amount);
        };
        let unit = rest.next().unwrap_or_default();
        from_secs(match unit.trim_end_matches(['.', ',', ';', ')']) {
            "ms" | "millisecond" | "milliseconds" => number / 1e3,
            "m" | "min" | "minute" | "minutes" => number * 60.0,
            "h" | "hour" | "hours" => number * 3600.0,
            _ => number,
        })
    })
}

/// A duration as Go writes it (`6m0s`, `1h2m3.5s`, `20ms`, `120µs`), or a bare number of seconds.
/// Nothing negative, nothing that does not fit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return seconds(text);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(from_secs(number * unit)?)?;
        rest = &rest[end..];
    }
    Some(total)
}

fn seconds(text: &str) -> Option<Duration> {
    from_secs(text.trim().parse().ok()?)
}

fn millis(text: &str) -> Option<Duration> {
    from_secs(text.trim().parse::<f64>().ok()? / 1e3)
}

fn from_secs(secs: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(secs).ok()
}

fn until_date(text: &str, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    date.duration_since(now).ok()
}

fn until_timestamp(text: &str, now: SystemTime) -> Option<Duration> {
    let time: jiff::Timestamp = text.trim().parse().ok()?;
    SystemTime::try_from(time).ok()?.duration_since(now).ok()
}

/// A Unix time, in seconds or milliseconds: the size tells, since seconds stay below 10^11 until
/// the year 5138.
fn until_epoch(text: &str, now: SystemTime) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    let since_epoch = from_secs(if number > 1e11 { number / 1e3 } else { number })?;
    let time = SystemTime::UNIX_EPOCH.checked_add(since_epoch)?;
    time.duration_since(now).ok()
}

fn positive(wait: Duration) -> Option<Duration> {
    (!wait.is_zero()).then_some(wait)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// What a provider counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dimension {
    /// Requests: by the minute at most providers, by the day at Groq.
    Requests,
    /// Tokens of prompt and answer together.
    Tokens,
    /// Tokens of the prompt.
    InputTokens,
    /// Tokens of the answer.
    OutputTokens,
    /// Tokens of one project of an organization.
    ProjectTokens,
}

impl Dimension {
    /// Every dimension.
    pub const ALL: &'static [Dimension] = &[
        Dimension::Requests,
        Dimension::Tokens,
        Dimension::InputTokens,
        Dimension::OutputTokens,
        Dimension::ProjectTokens,
    ];

    fn of(name: &str) -> Option<Dimension> {
        match name {
            "requests" => Some(Dimension::Requests),
            "tokens" | "tokens_usage_based" => Some(Dimension::Tokens),
            "input-tokens" => Some(Dimension::InputTokens),
            "output-tokens" => Some(Dimension::OutputTokens),
            "project-tokens" => Some(Dimension::ProjectTokens),
            _ => None,
        }
    }
}

/// One limit of a provider, as the headers of an answer tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimit {
    /// How much is allowed in a window.
    pub limit: Option<u64>,
    /// How much of it is left.
    pub remaining: Option<u64>,
    /// How long until all of it is back.
    pub reset: Option<Duration>,
}

/// The limits that the headers of an answer tell, good answers included.
///
/// Reads `x-ratelimit-{limit,remaining,reset}-{dimension}` (OpenAI, Azure, Groq) and
/// `anthropic-ratelimit-{dimension}-{limit,remaining,reset}`. Negative numbers mean "unknown"
/// where they occur, and count as not said.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use http::HeaderMap;
/// use llm_call::{Dimension, RateLimits};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-ratelimit-remaining-tokens", "149984".parse()?);
/// headers.insert("x-ratelimit-reset-tokens", "6m0s".parse()?);
/// let tokens = RateLimits::read(&headers, SystemTime::UNIX_EPOCH).get(Dimension::Tokens);
/// assert_eq!(tokens.remaining, Some(149984));
/// assert_eq!(tokens.reset, Some(Duration::from_secs(360)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    limits: [RateLimit; Dimension::ALL.len()],
}

impl RateLimits {
    /// Reads the headers of an answer that came at `now`.
    pub fn read(headers: &HeaderMap, now: SystemTime) -> RateLimits {
        let mut limits = RateLimits::default();
        for (name, value) in headers {
            let name = name.as_str();
            let Some((dimension, field)) = name
                .strip_prefix("x-ratelimit-")
                .and_then(|rest| rest.split_once('-'))
                .map(|(field, dimension)| (dimension, field))
                .or_else(|| name.strip_prefix("anthropic-ratelimit-")?.rsplit_once('-'))
            else {
                continue;
            };
            let (Some(dimension), Ok(value)) = (Dimension::of(dimension), value.to_str()) else {
                continue;
            };
            let limit = &mut limits.limits[dimension as usize];
            match field {
                "limit" => limit.limit = value.trim().parse().ok(),
                "remaining" => limit.remaining = value.trim().parse().ok(),
                "reset" => {
                    limit.reset = duration(value).or_else(|| until_timestamp(value, now));
                }
                _ => {}
            }
        }
        limits
    }

    /// The limit of one dimension; empty where the headers say nothing of it.
    pub fn get(&self, dimension: Dimension) -> RateLimit {
        self.limits[dimension as usize]
    }
}

#[cfg(test)]
mod tests;
