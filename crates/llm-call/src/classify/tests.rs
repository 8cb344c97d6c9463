use http::HeaderName;
use proptest::prelude::*;

use super::*;
use crate::{Phase, Verdict};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect()
}

fn judge(seen: &Seen<'_>) -> Outcome {
    Standard::default().classify(seen, SystemTime::UNIX_EPOCH)
}

fn answer(status: u16, pairs: &[(&str, &str)], body: &str) -> Outcome {
    judge(&Seen::Answer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: &headers(pairs),
        body: body.as_bytes(),
    })
}

fn event(data: &str) -> Outcome {
    judge(&Seen::Event {
        headers: None,
        data: data.as_bytes(),
    })
}

#[test]
fn a_body_knows_better_than_a_load_balancer() {
    let body = r#"{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(answer(503, &[], body).kind, Kind::RateLimited);
    assert_eq!(answer(200, &[], body).kind, Kind::RateLimited);
    // It does not know better than a provider: vLLM writes its own codes into everything.
    let body = r#"{"error":{"code":500,"message":"x"}}"#;
    assert_eq!(answer(401, &[], body).kind, Kind::Authentication);
}

#[test]
fn a_bare_code_counts_instead_of_a_good_status_or_for_a_rate_limit() {
    let code = |code: u16| format!(r#"{{"error":{{"code":{code},"message":"x"}}}}"#);
    for (status, inner, kind) in [
        (200, 429, Kind::RateLimited),
        (200, 403, Kind::Permission),
        (503, 429, Kind::RateLimited),
        (500, 400, Kind::ServerError),
        (404, 429, Kind::NotFound),
        // A redirect is no good status.
        (300, 503, Kind::Authentication),
    ] {
        assert_eq!(
            answer(status, &[], &code(inner)).kind,
            kind,
            "{status} {inner}"
        );
    }
}

#[test]
fn each_way_to_say_that_a_prompt_is_too_long() {
    let kind = |message: &str| {
        let body = serde_json::json!({ "error": { "message": message } });
        answer(400, &[], &body.to_string()).kind
    };
    for message in [
        "Prompt is too long: 9 tokens",
        "Input is too long for requested model.",
        "Your input exceeds the context window",
        "Please reduce the length of the messages or completion.",
        "It exceeds the available context size",
        "It is greater than the context length",
        "Context length exceeded",
        "context_length_exceeded",
        "The total number of tokens in the prompt cannot exceed 9",
        "Maximum prompt length is 9",
        "The maximum context length is 9",
        "too large for model with 9 maximum context length",
        "The input token count (9) exceeds the maximum",
    ] {
        assert_eq!(kind(message), Kind::ContextTooLong, "{message}");
    }
    for message in [
        "too large for model with 9 tokens",
        "the model with maximum context length",
        "The maximum context length is unknown",
        "'max_tokens' is too large: the maximum context length is 9",
        "The input token count is odd",
    ] {
        assert_eq!(kind(message), Kind::InvalidRequest, "{message}");
    }
}

#[test]
fn an_error_says_that_it_is_one_in_several_ways() {
    // Groq's 498 is declared to be an error, and Cohere's is a bare message.
    for (body, kind) in [
        (r#"{"object":"error","message":"x"}"#, Kind::Overloaded),
        (r#"{"type":"error","message":"x"}"#, Kind::Overloaded),
        (r#"{"code":"c","message":"x"}"#, Kind::Overloaded),
        (r#"{"error":"x"}"#, Kind::Overloaded),
        (r#"{"code":"c"}"#, Kind::Authentication),
        (r#"{"message":"x"}"#, Kind::Authentication),
    ] {
        assert_eq!(answer(498, &[], body).kind, kind, "{body}");
    }
}

#[test]
fn a_wait_of_more_than_six_minutes_is_a_spent_quota_at_gemini() {
    let kind = |wait: u32| {
        let details = serde_json::json!([{
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{wait}s"),
        }]);
        let error = serde_json::json!({ "code": 429, "message": "x", "details": details });
        answer(429, &[], &serde_json::json!({ "error": error }).to_string()).kind
    };
    assert_eq!(
        (kind(360), kind(361)),
        (Kind::RateLimited, Kind::QuotaExhausted)
    );
}

#[test]
fn a_call_that_gemini_cancels_by_itself_is_sent_again() {
    let body = r#"{"error":{"code":499,"message":"x","status":"CANCELLED"}}"#;
    assert_eq!(answer(499, &[], body).verdict.retry, Retry::Yes);
    assert_eq!(answer(499, &[], "").verdict.retry, Retry::Never);
}

#[test]
fn a_status_alone_tells_the_rest() {
    for (status, kind) in [
        (413, Kind::RequestTooLarge),
        (431, Kind::RequestTooLarge),
        (425, Kind::Overloaded),
        (418, Kind::InvalidRequest),
    ] {
        assert_eq!(answer(status, &[], "").kind, kind, "{status}");
    }
}

#[test]
fn what_is_not_found_in_the_middle_of_a_stream_is_a_model_only_where_it_says_so() {
    let kind = |message: &str| {
        let error = serde_json::json!({ "type": "not_found_error", "message": message });
        event(&serde_json::json!({ "type": "error", "error": error }).to_string()).kind
    };
    assert_eq!(kind("model: x"), Kind::UnknownModel);
    assert_eq!(kind("no such file"), Kind::NotFound);
}

#[test]
fn the_same_words_mean_money_at_openai_and_a_minute_at_gemini() {
    let words = "You exceeded your current quota, please check your plan and billing details.";
    let openai = format!(r#"{{"error":{{"message":"{words}","code":"insufficient_quota"}}}}"#);
    let gemini = format!(r#"{{"error":{{"message":"{words}","status":"RESOURCE_EXHAUSTED"}}}}"#);
    assert_eq!(answer(429, &[], &openai).kind, Kind::QuotaExhausted);
    assert_eq!(answer(429, &[], &gemini).kind, Kind::RateLimited);
}

#[test]
fn one_status_means_two_things() {
    let groq = r#"{"error":{"message":"busy","type":"flex"}}"#;
    assert_eq!(answer(498, &[], groq).kind, Kind::Overloaded);
    let cohere = r#"{"message":"invalid token"}"#;
    assert_eq!(answer(498, &[], cohere).kind, Kind::Authentication);
}

#[test]
fn the_status_shades_the_retry() {
    for (status, retry) in [
        (500, Retry::Once),
        (501, Retry::Never),
        (502, Retry::Yes),
        (503, Retry::Yes),
        (504, Retry::Yes),
        (505, Retry::Never),
        (520, Retry::Yes),
        (522, Retry::Yes),
        (529, Retry::Yes),
        (599, Retry::Once),
    ] {
        assert_eq!(answer(status, &[], "").verdict.retry, retry, "{status}");
    }
}

#[test]
fn x_should_retry_rules_except_over_money() {
    let retry = |status, says, body| {
        answer(status, &[("x-should-retry", says)], body)
            .verdict
            .retry
    };
    assert_eq!(retry(400, "true", ""), Retry::Yes);
    assert_eq!(retry(503, "false", ""), Retry::Never);
    assert_eq!(retry(503, "perhaps", ""), Retry::Yes);
    assert_eq!(retry(402, "true", ""), Retry::Never);
    let spent = r#"{"error":{"code":"insufficient_quota"}}"#;
    assert_eq!(retry(429, "true", spent), Retry::Never);
}

#[test]
fn a_wait_that_is_too_long_is_told_and_not_waited() {
    let at = |secs: &str| {
        answer(
            429,
            &[("retry-after", secs), ("x-should-retry", "true")],
            "",
        )
    };
    assert_eq!(at("360").verdict.retry, Retry::Yes);
    let long = at("361");
    assert_eq!(long.verdict.retry, Retry::Never);
    assert!(long.verdict.fail_over);
    assert_eq!(long.retry_after, Some(Duration::from_secs(361)));
}

#[test]
fn limits_that_are_used_up_say_nothing_of_other_failures() {
    let reset = [
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "9s"),
    ];
    assert_eq!(
        answer(429, &reset, "").retry_after,
        Some(Duration::from_secs(9))
    );
    assert_eq!(answer(500, &reset, "").retry_after, None);
    // What is said in words counts for all.
    let hint = answer(500, &[("retry-after", "9")], "").retry_after;
    assert_eq!(hint, Some(Duration::from_secs(9)));
}

#[test]
fn pages_are_not_read_and_plain_text_is() {
    let html = [("content-type", "text/html")];
    let page = "<p>the model is overloaded, your credit balance is too low</p>";
    assert_eq!(answer(404, &html, page).kind, Kind::NotFound);
    let plain = [("content-type", "text/plain")];
    assert_eq!(
        answer(503, &plain, "upstream connect error or ...").kind,
        Kind::ServerError
    );
    assert_eq!(
        answer(503, &plain, "no healthy upstream").kind,
        Kind::Overloaded
    );
}

#[test]
fn another_server_may_support_what_this_one_does_not() {
    let body = r#"{"error":{"code":501,"message":"no embeddings","type":"not_supported_error"}}"#;
    let outcome = answer(501, &[], body);
    assert_eq!(outcome.kind, Kind::InvalidRequest);
    assert!(outcome.verdict.fail_over);
    assert_eq!(outcome.verdict.retry, Retry::Never);
}

#[test]
fn a_good_answer_fails_only_by_an_error_object() {
    assert_eq!(answer(200, &[], r#"{"choices":[]}"#).kind, Kind::Success);
    assert_eq!(
        answer(200, &[], r#"{"message":"hello"}"#).kind,
        Kind::Success
    );
    assert_eq!(answer(200, &[], r#"{"error":null}"#).kind, Kind::Success);
    assert_eq!(answer(200, &[], "<html>").kind, Kind::Malformed);
    assert_eq!(answer(200, &[], r#"{"error":"x"}"#).kind, Kind::ServerError);
}

#[test]
fn errors_are_found_in_every_place() {
    for body in [
        r#"{"error":{"code":"context_length_exceeded"}}"#,
        r#"[{"error":{"code":"context_length_exceeded"}}]"#,
        r#"{"type":"error","code":"context_length_exceeded","message":"x"}"#,
        r#"{"object":"error","type":"BadRequestError","message":"prompt is too long"}"#,
        r#"{"response":{"error":{"code":"context_length_exceeded"}}}"#,
        r#"{"choices":[{"error":{"code":"context_length_exceeded"}}]}"#,
        r#"{"x_groq":{"error":"prompt is too long"}}"#,
        r#"{"error":"prompt is too long"}"#,
        r#"{"error":null,"response":{"error":{"code":"context_length_exceeded"}}}"#,
    ] {
        assert_eq!(event(body).kind, Kind::ContextTooLong, "{body}");
    }
    assert_eq!(
        answer(422, &[], r#"{"detail":[{"msg":"prompt is too long"}]}"#).kind,
        Kind::ContextTooLong
    );
    let aws = [("x-amzn-errortype", "ModelNotReadyException:http://x/")];
    assert_eq!(
        answer(429, &aws, r#"{"message":"wait"}"#).kind,
        Kind::Overloaded
    );
}

#[test]
fn names_in_a_stream_stand_for_statuses() {
    for (name, kind) in [
        ("overloaded_error", Kind::Overloaded),
        ("rate_limit_error", Kind::RateLimited),
        ("throttlingException", Kind::RateLimited),
        ("modelTimeoutException", Kind::TimedOut(Phase::Upstream)),
        ("authentication_error", Kind::Authentication),
        ("permission_error", Kind::Permission),
        ("billing_error", Kind::QuotaExhausted),
        ("invalid_request_error", Kind::InvalidRequest),
        ("request_too_large", Kind::RequestTooLarge),
        ("api_error", Kind::ServerError),
        ("something_new", Kind::ServerError),
    ] {
        let data = format!(r#"{{"type":"error","error":{{"type":"{name}","message":"x"}}}}"#);
        assert_eq!(event(&data).kind, kind, "{name}");
    }
    assert_eq!(event("not json at all").kind, Kind::ServerError);
    assert_eq!(event("").kind, Kind::ServerError);
}

#[test]
fn messages_about_length_that_are_not_about_the_window() {
    for message in [
        "'max_tokens' is too large: 8000. This model's maximum context length is 4096 tokens",
        "too many tokens: max tokens must be less than or equal to 4096",
        "Expected a string with maximum length 64",
    ] {
        let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        assert_eq!(
            answer(400, &[], &body).kind,
            Kind::InvalidRequest,
            "{message}"
        );
    }
}

#[test]
fn chance_is_not_the_targets_fault() {
    let random = judge(&Seen::Finish {
        kind: Kind::Malformed,
        random: true,
    });
    assert_eq!(random.verdict.retry, Retry::Once);
    assert_eq!(random.verdict.breaker, Health::Neutral);
    assert!(random.verdict.fail_over);
    let finished = judge(&Seen::Empty { finished: true }).verdict.breaker;
    let broken = judge(&Seen::Empty { finished: false }).verdict.breaker;
    assert_eq!((finished, broken), (Health::Neutral, Health::Failure));
}

#[test]
fn our_own_errors_carry_their_outcome() {
    let ours =
        Error::new(Kind::TimedOut(Phase::Idle)).with_retry_after(Some(Duration::from_secs(1)));
    for outcome in [
        judge(&Seen::Transport(&ours)),
        judge(&Seen::Cut(Some(&ours))),
    ] {
        assert_eq!(outcome, ours.outcome());
    }
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    assert_eq!(judge(&Seen::Transport(&reset)).kind, Kind::ConnectionLost);
    assert_eq!(judge(&Seen::Cut(Some(&reset))).kind, Kind::Interrupted);
    assert_eq!(judge(&Seen::Cut(None)).kind, Kind::Interrupted);
}

#[test]
fn verdicts_start_from_the_matrix() {
    let never = Verdict {
        retry: Retry::Never,
        fail_over: false,
        ..Matrix::default()[Kind::ServerError]
    };
    let standard = Standard::with_matrix(Matrix::default().set(Kind::ServerError, never));
    let seen = Seen::Answer {
        status: StatusCode::BAD_GATEWAY,
        headers: &HeaderMap::new(),
        body: b"",
    };
    assert_eq!(
        standard.classify(&seen, SystemTime::UNIX_EPOCH).verdict,
        never
    );
}

#[test]
fn what_people_said_is_not_in_the_debug_text() {
    let seen = Seen::Event {
        headers: None,
        data: b"secret",
    };
    assert_eq!(format!("{seen:?}"), "Event { data: 6, .. }");
}

proptest! {
    /// R15: every answer has one outcome, and the same one each time.
    #[test]
    fn r15_classification_is_total_and_deterministic(
        status in 100..1000_u16,
        body in prop_oneof![
            ".{0,40}",
            "\\{\"error\":\\{\"(code|type|message|details)\":(\"[a-z ]{0,9}\"|[0-9]{1,9}|\\[\\{\\}\\]|null)\\}\\}",
        ],
        retry_after in "[0-9.-]{0,6}",
    ) {
        let once = answer(status, &[("retry-after", &retry_after)], &body);
        prop_assert_eq!(once, answer(status, &[("retry-after", &retry_after)], &body));
        prop_assert_eq!(once.is_success(), (200..300).contains(&status) && once.kind == Kind::Success);
        if matches!(once.kind, Kind::QuotaExhausted) {
            prop_assert_eq!(once.verdict.retry, Retry::Never);
        }
        event(&body);
    }
}
