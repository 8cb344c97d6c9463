use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// 2026-11-30T17:00:00Z.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_058_000)
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

/// The hint in milliseconds.
fn hint(pairs: &[(&str, &str)], body: &str) -> Option<u128> {
    retry_after(&headers(pairs), body.as_bytes(), now()).map(|wait| wait.as_millis())
}

fn says(message: &str) -> Option<u128> {
    hint(&[], &json!({"error": {"message": message}}).to_string())
}

#[test]
fn durations_as_go_writes_them() {
    for (text, micros) in [
        ("6m0s", 360_000_000),
        ("1s", 1_000_000),
        ("20ms", 20_000),
        ("1h2m3.5s", 3_723_500_000),
        ("120µs", 120),
        ("120us", 120),
        ("1500ns", 1),
        ("17.5", 17_500_000),
        ("9m38.016s", 578_016_000),
        (" 45 ", 45_000_000),
        ("0s", 0),
    ] {
        let parsed = duration(text).map(|wait| wait.as_micros());
        assert_eq!(parsed, Some(micros), "{text}");
    }
    for text in [
        "",
        "-1s",
        "-5",
        "s",
        "1x",
        "1m2",
        "1..2s",
        "soon",
        "1e3s",
        "inf",
        "nan",
        "1 s",
        "99999999999999999999h",
    ] {
        assert_eq!(duration(text), None, "{text}");
    }
}

#[test]
fn the_first_form_that_says_something_wins() {
    let all = [
        ("retry-after-ms", "1"),
        ("x-ms-retry-after-ms", "2"),
        ("x-amz-retry-after", "3"),
        ("retry-after", "0.004"),
    ];
    let body = r#"{"error":{"message":"try again in 5ms"}}"#;
    for first in 0..all.len() {
        assert_eq!(hint(&all[first..], body), Some(first as u128 + 1));
    }
    assert_eq!(hint(&[], body), Some(5));
}

#[test]
fn what_says_nothing_falls_through() {
    for value in [
        "0",
        "-5",
        "soon",
        "",
        "nan",
        "inf",
        "Mon, 30 Nov 2026 16:59:59 GMT",
    ] {
        let pairs = [("retry-after-ms", value), ("retry-after", value)];
        assert_eq!(hint(&pairs, ""), None, "{value}");
        assert_eq!(
            hint(&pairs, r#"{"message":"retry after 7 seconds"}"#),
            Some(7000),
            "{value}"
        );
    }
}

#[test]
fn dates_count_from_now() {
    let date = ("retry-after", "Mon, 30 Nov 2026 17:00:21 GMT");
    assert_eq!(hint(&[date], ""), Some(21_000));
}

#[test]
fn waits_in_sentences() {
    assert_eq!(says("Please try again in 1m2.5s."), Some(62_500));
    assert_eq!(says("Please retry in 34.074824224s."), Some(34_074));
    assert_eq!(says("please RETRY AFTER 45 seconds."), Some(45_000));
    assert_eq!(says("Try again in 20 ms"), Some(20));
    assert_eq!(says("Try again in 2 minutes, please"), Some(120_000));
    assert_eq!(says("Try again in 1.5 hours."), Some(5_400_000));
    assert_eq!(
        says("Please try again in a moment, or retry after 3s"),
        Some(3_000)
    );
    assert_eq!(says("Please try again later."), None);
    assert_eq!(
        says("created within the last 5 minutes, please wait and try again."),
        None
    );
    assert_eq!(says("try again in"), None);
    assert_eq!(says("try again in -3s"), None);
}

#[test]
fn geminis_own_forms() {
    let body = |violations: &[&str], delay: Option<&str>| {
        let violations: Vec<_> = violations.iter().map(|id| json!({"quotaId": id})).collect();
        let mut details = vec![json!({"violations": violations})];
        details.extend(delay.map(|delay| json!({"retryDelay": delay})));
        json!({"error": {"code": 429, "details": details}}).to_string()
    };
    assert_eq!(hint(&[], &body(&[], Some("34s"))), Some(34_000));
    assert_eq!(
        hint(&[], &body(&["XPerMinuteY"], Some("34s"))),
        Some(34_000)
    );
    assert_eq!(hint(&[], &body(&["XPerMinuteY"], None)), Some(60_000));
    assert_eq!(
        hint(&[], &body(&["XPerMinuteY", "XPerDayY"], Some("12s"))),
        None
    );
    assert_eq!(
        hint(&[], r#"{"error":{"availability":{"retry_after":2.5}}}"#),
        Some(2_500)
    );
}

#[test]
fn resets_count_where_nothing_is_left() {
    let pairs = [
        ("x-ratelimit-remaining-requests", "1"),
        ("x-ratelimit-reset-requests", "50s"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("anthropic-ratelimit-output-tokens-remaining", "0"),
        (
            "anthropic-ratelimit-output-tokens-reset",
            "2026-11-30T17:00:12Z",
        ),
    ];
    assert_eq!(hint(&pairs, ""), Some(360_000));
    assert_eq!(hint(&pairs[..2], ""), None);
    assert_eq!(hint(&pairs[4..], ""), Some(12_000));
    assert_eq!(hint(&[("x-ratelimit-reset-tokens", "3s")], ""), Some(3_000));
    // A hint in words is about this very request.
    assert_eq!(hint(&pairs, r#"{"message":"retry in 4s"}"#), Some(4_000));
}

#[test]
fn unix_times_are_told_apart_by_their_size() {
    let at = |time| hint(&[("x-ratelimit-reset", time)], "");
    assert_eq!(at("1796058030"), Some(30_000));
    assert_eq!(at("1796058030000"), Some(30_000));
    assert_eq!(at("1796057999"), None);
    assert_eq!(at("never"), None);
    assert_eq!(at("1e300"), None);
    let left = [
        ("x-ratelimit-reset", "1796058030"),
        ("x-ratelimit-remaining", "3"),
    ];
    assert_eq!(hint(&left, ""), None);
    let none = [
        ("x-ratelimit-reset", "1796058030"),
        ("x-ratelimit-remaining", "0"),
    ];
    assert_eq!(hint(&none, ""), Some(30_000));
}

#[test]
fn limits_are_read_from_good_answers() {
    let limits = RateLimits::read(
        &headers(&[
            ("x-ratelimit-limit-requests", "14400"),
            ("x-ratelimit-remaining-requests", "14370"),
            ("x-ratelimit-reset-requests", "2m59.56s"),
            ("anthropic-ratelimit-input-tokens-limit", "30000"),
            (
                "anthropic-ratelimit-input-tokens-reset",
                "2026-11-30T17:00:38Z",
            ),
            ("x-ratelimit-remaining-tokens", "-1"),
            ("x-ratelimit-limit-project-tokens", "700000"),
            ("x-ratelimit-limit-images", "5"),
        ]),
        now(),
    );
    let limit = |limit, remaining, reset: Option<u64>| RateLimit {
        limit,
        remaining,
        reset: reset.map(Duration::from_millis),
    };
    let expected = [
        limit(Some(14400), Some(14370), Some(179_560)),
        limit(None, None, None),
        limit(Some(30000), None, Some(38_000)),
        limit(None, None, None),
        limit(Some(700_000), None, None),
    ];
    let read: Vec<_> = Dimension::ALL.iter().map(|d| limits.get(*d)).collect();
    assert_eq!(read, expected);
}

proptest! {
    #[test]
    fn what_go_writes_is_read_back(h in 0..200_u64, m in 0..60_u64, s in 0..60_u64, ms in 0..1000_u64) {
        let whole = Duration::from_millis(((h * 60 + m) * 60 + s) * 1000 + ms);
        let text = format!("{h}h{m}m{s}.{ms:03}s");
        let read = duration(&text).unwrap();
        prop_assert!(read.abs_diff(whole) <= Duration::from_nanos(2), "{} {:?}", text, read);
    }

    #[test]
    fn garbage_never_panics(value in "[ -~]{0,16}", body in ".{0,64}") {
        let names = [
            "retry-after-ms", "retry-after", "x-ratelimit-reset", "x-ratelimit-reset-tokens",
            "anthropic-ratelimit-tokens-reset", "x-rate-limit-reset-tokens",
        ];
        for name in names {
            let headers = headers(&[(name, value.trim())]);
            let hint = retry_after(&headers, body.as_bytes(), now());
            prop_assert_ne!(hint, Some(Duration::ZERO));
        }
        let _ = duration(&value);
        let _ = in_sentence(&format!("retry in {value}"));
    }
}
