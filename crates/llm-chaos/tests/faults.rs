//! Each fault on a real socket: the bytes, the RST, the silence.
#![cfg(feature = "server")]
#![cfg_attr(
    feature = "server",
    expect(
        clippy::unwrap_used,
        reason = "a helper of a test may do what a test may"
    )
)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::{
    Ending, PATIENCE, Raw, SHORT, ask, ask_briefly, chat, content, exchange, post, tokens,
};
use llm_chaos::{ChaosProvider, Fault, Phase, Script};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

async fn provider() -> ChaosProvider {
    ChaosProvider::start().await.unwrap()
}

fn messages(model: &str, stream: bool) -> String {
    let body = format!(
        r#"{{"model":"{model}","stream":{stream},"max_tokens":60,"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    post("/v1/messages", &body)
}

#[tokio::test]
async fn statuses_come_with_the_bodies_of_either_provider() {
    let provider = provider().await;
    // Fault, status, OpenAI's `code` or `type`, Anthropic's status, Anthropic's `type`.
    let table = [
        (
            "rate_limit",
            429,
            "rate_limit_exceeded",
            429,
            "rate_limit_error",
        ),
        (
            "insufficient_quota",
            429,
            "insufficient_quota",
            400,
            "invalid_request_error",
        ),
        (
            "context_length",
            400,
            "context_length_exceeded",
            400,
            "invalid_request_error",
        ),
        (
            "content_filter",
            400,
            "content_policy_violation",
            400,
            "invalid_request_error",
        ),
        (
            "error_400",
            400,
            "decimal_above_max_value",
            400,
            "invalid_request_error",
        ),
        (
            "error_401",
            401,
            "invalid_api_key",
            401,
            "authentication_error",
        ),
        (
            "error_403",
            403,
            "unsupported_country_region_territory",
            403,
            "permission_error",
        ),
        ("error_404", 404, "model_not_found", 404, "not_found_error"),
        ("error_408", 408, "timeout_error", 408, "timeout_error"),
        ("error_409", 409, "conflict", 409, "conflict_error"),
        (
            "error_413",
            413,
            "request_too_large",
            413,
            "request_too_large",
        ),
        ("error_500", 500, "server_error", 500, "api_error"),
        ("error_503", 503, "server_is_overloaded", 503, "api_error"),
        ("error_504", 504, "timeout_error", 504, "timeout_error"),
        ("error_529", 529, "server_error", 529, "overloaded_error"),
        ("error_200", 200, "server_error", 200, "api_error"),
    ];
    for (fault, status, code, anthropic_status, kind) in table {
        let openai = ask(&provider, &format!("fault-{fault}"), true).await;
        assert_eq!(openai.status(), status, "{fault}");
        let error = &openai.json()["error"];
        assert!(
            error["code"] == code || error["type"] == code,
            "{fault}: {error}"
        );
        let anthropic = exchange(
            &provider,
            &messages(&format!("fault-{fault}"), true),
            PATIENCE,
        )
        .await;
        assert_eq!(anthropic.status(), anthropic_status, "{fault}");
        assert_eq!(anthropic.json()["type"], "error", "{fault}");
        assert_eq!(anthropic.json()["error"]["type"], kind, "{fault}");
    }
    assert!(
        ask(&provider, "fault-error_502", false)
            .await
            .body_text()
            .contains("502 Bad Gateway")
    );
}

#[tokio::test]
async fn a_rate_limit_hints_in_headers_and_words_and_can_be_once() {
    let provider = provider().await;
    let model = "fault-rate_limit?times=1&retry_after=1500ms";
    let limited = ask(&provider, model, false).await;
    assert_eq!(limited.header("retry-after").as_deref(), Some("2"));
    assert_eq!(limited.header("retry-after-ms").as_deref(), Some("1500"));
    assert!(limited.body_text().contains("Please try again in 1.5s."));
    assert_eq!(ask(&provider, model, false).await.status(), 200);
    let silent = ask(&provider, "fault-rate_limit?retry_after=0s", false).await;
    assert_eq!(silent.header("retry-after"), None);
}

#[tokio::test]
async fn connections_end_before_the_head_by_rst_or_by_fin() {
    let provider = provider().await;
    let reset = ask(&provider, "fault-reset", true).await;
    assert_eq!((reset.bytes.len(), reset.ending), (0, Ending::Rst));
    let close = ask(&provider, "fault-close", true).await;
    assert_eq!((close.bytes.len(), close.ending), (0, Ending::Fin));
    assert!(
        provider
            .log()
            .iter()
            .all(|seen| seen.status.is_none() && !seen.client_gone)
    );
}

#[tokio::test]
async fn silence_comes_before_the_head_after_it_and_after_the_role() {
    let provider = provider().await;
    for fault in ["no_response", "black_hole", "never_read"] {
        let raw = ask_briefly(&provider, &format!("fault-{fault}"), true).await;
        assert_eq!(
            (raw.bytes.len(), raw.ending),
            (0, Ending::Silence),
            "{fault}"
        );
    }
    let head = ask_briefly(&provider, "fault-headers_then_silence", true).await;
    assert_eq!((head.status(), head.ending), (200, Ending::Silence));
    assert!(head.text().ends_with("\r\n\r\n"));
    let role = ask_briefly(&provider, "fault-role_then_silence", true).await;
    assert!(role.body_text().contains(r#""role":"assistant""#));
    assert_eq!(
        (content(&role.body_text()), role.ending),
        (String::new(), Ending::Silence)
    );
}

#[tokio::test]
async fn an_unread_connection_blocks_the_writer() {
    let provider = provider().await;
    provider.script(&Script::default().with(Phase::new(Fault::NeverRead)));
    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    let much = vec![b'x'; 64 << 20];
    let write = tokio::time::timeout(SHORT, stream.write_all(&much)).await;
    assert!(
        write.is_err(),
        "64 MiB went into a socket that nobody reads"
    );
    let log = provider.log();
    assert_eq!((log.len(), log[0].fault), (1, Some(Fault::NeverRead)));
}

#[tokio::test]
async fn slow_heads_and_slow_first_tokens_differ() {
    let provider = provider().await;
    let late = ask_briefly(&provider, "fault-latency?delay=1h", true).await;
    assert_eq!((late.bytes.len(), late.ending), (0, Ending::Silence));
    let slow = ask_briefly(&provider, "fault-slow_first_token?delay=1h", true).await;
    assert_eq!((slow.status(), slow.ending), (200, Ending::Silence));
    for model in [
        "fault-latency?delay=50ms",
        "fault-slow_first_token?delay=50ms",
        "fault-slow_first_token?factor=10",
    ] {
        let start = Instant::now();
        let raw = ask(&provider, model, true).await;
        assert!(start.elapsed() >= Duration::from_millis(50), "{model}");
        assert_eq!(content(&raw.body_text()), tokens(1, 60), "{model}");
    }
}

#[tokio::test]
async fn streams_are_cut_after_forty_of_sixty_tokens() {
    let provider = provider().await;
    for (fault, ending, complete) in [
        ("cut", Ending::Fin, false),
        ("cut_reset", Ending::Rst, false),
        ("half_chunk", Ending::Fin, false),
        ("silent_end", Ending::Fin, true),
    ] {
        let raw = ask(&provider, &format!("fault-{fault}"), true).await;
        let (body, is_complete) = raw.body();
        let text = String::from_utf8(body).unwrap();
        assert_eq!(content(&text), tokens(1, 40), "{fault}");
        assert_eq!(is_complete, complete, "{fault}");
        assert_eq!(raw.ending, ending, "{fault}");
        assert!(
            !text.contains("[DONE]") && !text.contains(r#""finish_reason":"stop""#),
            "{fault}"
        );
    }
    assert!(provider.log().iter().all(|seen| seen.tokens_sent == 40));
    let half = ask(&provider, "fault-half_chunk", true).await;
    assert!(!half.text().ends_with("\r\n"), "the last chunk is complete");
    let early = ask(&provider, "fault-cut?after_tokens=0", true).await;
    assert_eq!(content(&early.body_text()), "");
}

#[tokio::test]
async fn a_cut_plain_answer_is_shorter_than_it_declares() {
    let provider = provider().await;
    let raw = ask(&provider, "fault-cut", false).await;
    let declared: usize = raw.header("content-length").unwrap().parse().unwrap();
    assert_eq!(raw.body().0.len(), declared / 2);
}

#[tokio::test]
async fn a_stall_pauses_and_goes_on() {
    let provider = provider().await;
    let start = Instant::now();
    let raw = ask(&provider, "fault-stall?delay=200ms", true).await;
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(content(&raw.body_text()), tokens(1, 60));
    let paused = ask_briefly(&provider, "fault-stall?delay=1h", true).await;
    assert_eq!(
        (content(&paused.body_text()), paused.ending),
        (tokens(1, 40), Ending::Silence)
    );
}

#[tokio::test]
async fn the_end_marker_the_last_chunk_and_the_content_can_each_be_missing() {
    let provider = provider().await;
    let unmarked = ask(&provider, "fault-no_end_marker", true).await;
    let (body, complete) = unmarked.body();
    let text = String::from_utf8(body).unwrap();
    assert!(complete && text.contains(r#""finish_reason":"stop""#) && !text.contains("[DONE]"));
    let anthropic = exchange(&provider, &messages("fault-no_end_marker", true), PATIENCE)
        .await
        .body_text();
    assert!(anthropic.contains("message_delta") && !anthropic.contains("message_stop"));

    let unchunked = ask(&provider, "fault-missing_final_chunk", true).await;
    let (body, complete) = unchunked.body();
    assert!(!complete && body.ends_with(b"data: [DONE]\n\n"));

    let empty = ask(&provider, "fault-finish_without_content", true)
        .await
        .body_text();
    assert_eq!(content(&empty), "");
    assert!(empty.contains(r#""finish_reason":"stop""#) && empty.contains("[DONE]"));
    let plain = ask(&provider, "fault-finish_without_content", false)
        .await
        .json();
    assert!(plain["choices"][0]["message"]["content"].is_null());
}

#[tokio::test]
async fn one_event_is_malformed_and_the_rest_is_well() {
    let provider = provider().await;
    let text = ask(&provider, "fault-malformed_event", true)
        .await
        .body_text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let bad = events.filter(|data| {
        *data != "[DONE]" && serde_json::from_str::<serde_json::Value>(data).is_err()
    });
    assert_eq!(bad.count(), 1);
    assert_eq!(content(&text), tokens(1, 60));
    let plain = ask(&provider, "fault-malformed_event", false).await;
    assert!(serde_json::from_slice::<serde_json::Value>(&plain.body().0).is_err());
}

#[tokio::test]
async fn garbled_events_are_not_utf8_from_the_fault_on() {
    let provider = provider().await;
    let raw = ask(&provider, "fault-garbled?after_tokens=5", true).await;
    let (body, _) = raw.body();
    let good = std::str::from_utf8(&body).unwrap_err().valid_up_to();
    assert_eq!(
        content(std::str::from_utf8(&body[..good]).unwrap()),
        tokens(1, 5)
    );
}

#[tokio::test]
async fn split_and_dripped_bodies_are_the_same_bytes_in_small_chunks() {
    let provider = provider().await;
    for (model, size) in [
        ("fault-split_events?bytes=5", 5),
        ("fault-slow_drip?bytes=40&gap=1ms", 40),
    ] {
        let request = post(
            "/v1/chat/completions",
            &chat(model, true).replacen('{', "{\"max_tokens\":4,", 1),
        );
        let raw = exchange(&provider, &request, PATIENCE).await;
        assert_eq!(content(&raw.body_text()), tokens(1, 4), "{model}");
        assert!(raw.body_text().ends_with("data: [DONE]\n\n"), "{model}");
        let (chunks, complete) = raw.chunks();
        assert!(
            complete && chunks.iter().all(|chunk| chunk.len() <= size),
            "{model}"
        );
    }
    assert!(provider.log().iter().all(|seen| seen.tokens_sent == 4));
}

#[tokio::test]
async fn error_events_come_first_in_the_middle_and_before_done() {
    let provider = provider().await;
    let first = ask(&provider, "fault-error_event_first", true)
        .await
        .body_text();
    assert!(first.starts_with(r#"data: {"error":"#) && content(&first).is_empty());
    let mid = ask(&provider, "fault-error_event_mid?after_tokens=3", true)
        .await
        .body_text();
    assert_eq!(content(&mid), tokens(1, 3));
    assert!(mid.contains(r#"{"error":"#) && !mid.contains("[DONE]"));
    let done = ask(&provider, "fault-error_then_done", true)
        .await
        .body_text();
    assert!(done.contains(r#"{"error":"#) && done.ends_with("data: [DONE]\n\n"));
    let anthropic = exchange(
        &provider,
        &messages("fault-error_event_mid", true),
        PATIENCE,
    )
    .await
    .body_text();
    assert!(anthropic.contains(
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\""
    ));
}

#[tokio::test]
async fn two_hundred_can_be_anything() {
    let provider = provider().await;
    let html = ask(&provider, "fault-html_200", true).await;
    assert_eq!(
        (html.status(), html.header("content-type").unwrap()),
        (200, "text/html; charset=UTF-8".to_owned())
    );
    let empty = ask(&provider, "fault-empty_200", true).await;
    assert_eq!((empty.status(), empty.body()), (200, (Vec::new(), true)));
    let stream = ask(&provider, "fault-empty_stream", true).await;
    assert_eq!(stream.body(), (Vec::new(), true));
    assert!(
        stream
            .header("content-type")
            .unwrap()
            .starts_with("text/event-stream")
    );
    let half = ask(&provider, "fault-truncated_json", false).await;
    let (body, complete) = half.body();
    assert!(complete && serde_json::from_slice::<serde_json::Value>(&body).is_err());
}

#[tokio::test]
async fn a_content_filter_can_stop_an_answer_half_way() {
    let provider = provider().await;
    let text = ask(&provider, "fault-content_filter_finish", true)
        .await
        .body_text();
    assert_eq!(content(&text), tokens(1, 40));
    assert!(text.contains(r#""finish_reason":"content_filter""#));
}

#[tokio::test]
async fn keep_alives_and_error_bodies_can_go_on_for_ever() {
    let provider = provider().await;
    let request = post(
        "/v1/chat/completions",
        &chat("fault-keep_alive_only?gap=20ms", true),
    );
    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let text = read_some(&mut stream, 2000).await;
    assert!(
        text.matches(": keep-alive\n\n").count() > 3 && !text.contains("data:"),
        "{text}"
    );
    stream.shutdown().await.unwrap();

    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    let request = post("/v1/chat/completions", &chat("fault-endless_error", true));
    stream.write_all(request.as_bytes()).await.unwrap();
    let text = read_some(&mut stream, 600).await;
    assert!(text.starts_with("HTTP/1.1 500"), "{text}");
    assert!(
        text.matches("The server had an error.").count() > 3,
        "{text}"
    );
}

/// Reads until there are `bytes` bytes or half a second is over.
async fn read_some(stream: &mut TcpStream, bytes: usize) -> String {
    use tokio::io::AsyncReadExt;
    let mut got = Vec::new();
    let until = Instant::now() + Duration::from_millis(500);
    while got.len() < bytes {
        match tokio::time::timeout_at(until, stream.read_buf(&mut got)).await {
            Ok(Ok(n)) if n > 0 => {}
            _ => break,
        }
    }
    String::from_utf8(got).unwrap()
}

#[tokio::test]
async fn a_fallback_can_refuse_the_prefill_and_nothing_else() {
    let provider = provider().await;
    provider.script(&Script::default().with(Phase::new(Fault::RefusePrefill)));
    assert_eq!(ask(&provider, "m", true).await.status(), 200);
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"token1"}]}"#;
    assert_eq!(
        exchange(&provider, &post("/v1/chat/completions", body), PATIENCE)
            .await
            .status(),
        400
    );
}

#[tokio::test]
async fn open_connections_become_black_holes_and_new_ones_are_healthy() {
    let provider = provider().await;
    let request =
        post("/v1/chat/completions", &chat("m", false)).replace("connection: close\r\n", "");
    let mut old = TcpStream::connect(provider.addr()).await.unwrap();
    old.write_all(request.as_bytes()).await.unwrap();
    let answered = common::read_to_end(&mut old, SHORT).await;
    assert_eq!((answered.status(), answered.ending), (200, Ending::Silence));
    provider.black_hole();
    old.write_all(request.as_bytes()).await.unwrap();
    let dead = common::read_to_end(&mut old, SHORT).await;
    assert_eq!((dead.bytes.len(), dead.ending), (0, Ending::Silence));
    assert_eq!(ask(&provider, "m", false).await.status(), 200);
}

/// No fault may hang the provider, break it for the next request, or answer a healthy stream.
#[tokio::test]
async fn every_fault_shows_in_both_kinds_of_answer_and_leaves_the_provider_healthy() {
    let provider = Arc::new(provider().await);
    let mut clients = JoinSet::new();
    for (fault, stream) in Fault::ALL
        .iter()
        .flat_map(|fault| [(*fault, true), (*fault, false)])
    {
        let provider = Arc::clone(&provider);
        clients.spawn(async move {
            let slower = if fault == Fault::SlowDrip {
                "?gap=1h"
            } else {
                ""
            };
            let raw = ask_briefly(&provider, &format!("fault-{fault}{slower}"), stream).await;
            // These leave the answer whole: one needs a prefill, the others show in framing or content.
            let benign = [
                Fault::RefusePrefill,
                Fault::SplitEvents,
                Fault::MalformedEvent,
            ];
            let healthy = is_healthy(&raw, stream);
            assert!(
                !healthy || benign.contains(&fault),
                "{fault} (stream: {stream}) did nothing"
            );
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    let seen: BTreeSet<_> = provider
        .log()
        .iter()
        .filter_map(|seen| seen.fault)
        .collect();
    assert_eq!(seen.len(), Fault::ALL.len());
    assert!(is_healthy(&ask(&provider, "m", true).await, true));
}

/// Whether an answer is 200, complete, and has all sixty tokens and its end.
fn is_healthy(raw: &Raw, stream: bool) -> bool {
    if raw.status() != 200 {
        return false;
    }
    let (body, complete) = raw.body();
    let text = String::from_utf8_lossy(&body);
    complete
        && if stream {
            text.ends_with("data: [DONE]\n\n") && content(&text) == tokens(1, 60)
        } else {
            serde_json::from_str::<serde_json::Value>(&text)
                .is_ok_and(|body| body["choices"][0]["message"]["content"] == tokens(1, 60))
        }
}
