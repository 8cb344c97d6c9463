//! Healthy answers of the provider, its log and its control endpoints, on a real socket.
#![cfg(feature = "server")]

mod common;

use common::{PATIENCE, ask, ask_briefly, chat, content, exchange, post, tokens};
use llm_chaos::{ChaosProvider, Count, Fault, Pace, Phase, Prefill, Script};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_chat_answer_names_model_and_server_and_counts_tokens() {
    let provider = ChaosProvider::builder()
        .name("primary")
        .start()
        .await
        .unwrap();
    let raw = ask(&provider, "gpt-5.2", false).await;
    assert_eq!(raw.status(), 200);
    assert_eq!(raw.header("x-chaos-provider").as_deref(), Some("primary"));
    let body = raw.json();
    assert_eq!(body["model"], "gpt-5.2");
    assert_eq!(body["system_fingerprint"], "primary");
    assert_eq!(body["choices"][0]["message"]["content"], tokens(1, 60));
    assert_eq!(body["usage"]["completion_tokens"], 60);
}

#[tokio::test]
async fn a_chat_stream_has_role_tokens_finish_usage_and_done() {
    let provider = ChaosProvider::start().await.unwrap();
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":3,
        "messages":[{"role":"user","content":"hi"}]}"#;
    let raw = exchange(&provider, &post("/v1/chat/completions", body), PATIENCE).await;
    let (bytes, complete) = raw.body();
    let text = String::from_utf8(bytes).unwrap();
    assert!(complete, "{text}");
    assert!(text.contains(r#""role":"assistant""#));
    assert_eq!(content(&text), tokens(1, 3));
    assert!(text.contains(r#""finish_reason":"length""#));
    assert!(text.contains(r#""completion_tokens":3"#));
    assert!(text.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn the_responses_api_answers_in_json_and_in_events() {
    let provider = ChaosProvider::start().await.unwrap();
    let request = |stream| {
        format!(r#"{{"model":"m","stream":{stream},"input":"hi","max_output_tokens":70}}"#)
    };
    let plain = exchange(&provider, &post("/v1/responses", &request(false)), PATIENCE)
        .await
        .json();
    assert_eq!(plain["status"], "completed");
    assert_eq!(plain["output"][0]["content"][0]["text"], tokens(1, 60));
    let events = exchange(&provider, &post("/v1/responses", &request(true)), PATIENCE)
        .await
        .body_text();
    assert_eq!(
        events
            .matches("event: response.output_text.delta\n")
            .count(),
        60
    );
    assert!(events.starts_with("event: response.created\n"));
    assert!(events.contains("event: response.completed\n"));
}

#[tokio::test]
async fn anthropics_messages_answer_in_json_and_in_events() {
    let provider = ChaosProvider::start().await.unwrap();
    let request = |stream| {
        format!(
            r#"{{"model":"c","stream":{stream},"max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]}}"#
        )
    };
    let plain = exchange(&provider, &post("/v1/messages", &request(false)), PATIENCE)
        .await
        .json();
    assert_eq!(plain["content"][0]["text"], tokens(1, 9));
    assert_eq!(plain["stop_reason"], "max_tokens");
    let events = exchange(&provider, &post("/v1/messages", &request(true)), PATIENCE)
        .await
        .body_text();
    assert!(events.starts_with("event: message_start\n"));
    assert_eq!(events.matches("event: content_block_delta\n").count(), 9);
    assert!(events.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
}

#[tokio::test]
async fn a_prefill_is_continued_restarted_or_refused() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"},
        {"role":"assistant","content":"token1 token2 token3"}]}"#;
    let request = post("/v1/chat/completions", body);
    for (prefill, first) in [(Prefill::Continue, 4), (Prefill::Restart, 1)] {
        let provider = ChaosProvider::builder()
            .prefill(prefill)
            .start()
            .await
            .unwrap();
        let answer = exchange(&provider, &request, PATIENCE).await.json();
        assert_eq!(
            answer["choices"][0]["message"]["content"],
            tokens(first, 60)
        );
        assert!(provider.log()[0].prefill);
    }
    let provider = ChaosProvider::builder()
        .prefill(Prefill::Refuse)
        .start()
        .await
        .unwrap();
    let refused = exchange(&provider, &request, PATIENCE).await;
    assert_eq!(refused.status(), 400);
    assert!(
        refused
            .body_text()
            .contains("does not support assistant message prefill")
    );
    assert_eq!(ask(&provider, "m", false).await.status(), 200);
}

#[tokio::test]
async fn bad_requests_get_the_providers_own_400_and_404() {
    let provider = ChaosProvider::start().await.unwrap();
    let cut = exchange(
        &provider,
        &post("/v1/chat/completions", "{\"model\":"),
        PATIENCE,
    )
    .await;
    assert_eq!(cut.status(), 400);
    assert_eq!(cut.json()["error"]["type"], "invalid_request_error");
    assert!(cut.body_text().contains("We could not parse the JSON body"));
    let unknown = exchange(&provider, &post("/v1/nowhere", "{}"), PATIENCE).await;
    assert_eq!(unknown.status(), 404);
    assert!(
        unknown
            .body_text()
            .contains("Invalid URL (POST /v1/nowhere)")
    );
    let noise = exchange(&provider, "\u{1}\u{2} hello\r\n\r\n", PATIENCE).await;
    assert!(noise.text().starts_with("HTTP/1.1 400"), "{}", noise.text());
    let typo = ask(&provider, "fault-eror_503", false).await;
    assert_eq!(typo.status(), 400);
    assert!(
        typo.body_text().contains("no fault is called `eror_503`"),
        "{}",
        typo.body_text()
    );
}

#[tokio::test]
async fn a_connection_carries_many_requests_and_chunked_bodies() {
    let provider = ChaosProvider::start().await.unwrap();
    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    let body = chat("m", false);
    let (first, second) = body.split_at(10);
    let chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    stream.write_all(chunked.as_bytes()).await.unwrap();
    stream
        .write_all(post("/v1/chat/completions", &body).as_bytes())
        .await
        .unwrap();
    let raw = common::read_to_end(&mut stream, PATIENCE).await;
    assert_eq!(raw.text().matches("HTTP/1.1 200 OK").count(), 2);
    let log = provider.log();
    assert_eq!(log.len(), 2);
    assert_eq!((log[0].connection, log[1].connection), (1, 1));
    assert_eq!(log[0].body_bytes, body.len() as u64);
}

#[tokio::test]
async fn the_log_has_headers_bytes_and_tokens() {
    let provider = ChaosProvider::builder()
        .keep_bodies(true)
        .start()
        .await
        .unwrap();
    let body = chat("m", true);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer k\r\nx-stainless-retry-count: 2\r\n\
         idempotency-key: i-1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let raw = exchange(&provider, &request, PATIENCE).await;
    let log = provider.log();
    let [seen] = &log[..] else { panic!("{log:?}") };
    assert_eq!(seen.authorization.as_deref(), Some("Bearer k"));
    assert_eq!(seen.retry_count.as_deref(), Some("2"));
    assert_eq!(seen.idempotency_key.as_deref(), Some("i-1"));
    assert_eq!(seen.body.as_deref(), Some(body.as_str()));
    assert_eq!(
        (seen.status, seen.tokens_sent, seen.fault),
        (Some(200), 60, None)
    );
    assert_eq!(seen.bytes_sent, raw.body().0.len() as u64);
    assert!(!seen.client_gone && seen.ended_ms.is_some());
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_is_seen() {
    let provider = ChaosProvider::start().await.unwrap();
    let raw = ask_briefly(&provider, "fault-stall?after_tokens=5&delay=1h", true).await;
    assert_eq!(content(&raw.body_text()), tokens(1, 5));
    // The client's socket is closed by now; the server notices on its own.
    let seen = loop {
        let seen = provider.log().remove(0);
        if seen.ended_ms.is_some() {
            break seen;
        }
        tokio::task::yield_now().await;
    };
    assert!(seen.client_gone);
    assert_eq!(seen.tokens_sent, 5);
}

#[tokio::test]
async fn an_api_key_is_checked_when_there_is_one() {
    let provider = ChaosProvider::builder()
        .api_key("right")
        .start()
        .await
        .unwrap();
    assert_eq!(ask(&provider, "m", false).await.status(), 401);
    let request = post("/v1/chat/completions", &chat("m", false))
        .replace("host: chaos", "host: chaos\r\nauthorization: Bearer right");
    assert_eq!(exchange(&provider, &request, PATIENCE).await.status(), 200);
}

#[tokio::test]
async fn the_control_endpoints_script_reset_and_report() {
    let provider = ChaosProvider::builder()
        .name("primary")
        .start()
        .await
        .unwrap();
    let script = "[[phase]]\nfault = \"error_503\"\ntarget = \"primary\"\ntimes = 1\n\
                  [[phase]]\nfault = \"error_500\"\ntarget = \"other\"\n";
    let control = async |path, body| exchange(&provider, &post(path, body), PATIENCE).await;
    let played = control("/_chaos/script", script).await;
    assert_eq!(played.status(), 200, "{}", played.text());
    assert_eq!(ask(&provider, "m", false).await.status(), 503);
    assert_eq!(ask(&provider, "m", false).await.status(), 200);
    assert_eq!(control("/_chaos/reset", "").await.status(), 200);
    assert_eq!(ask(&provider, "m", false).await.status(), 503);

    let log = exchange(
        &provider,
        "GET /_chaos/log HTTP/1.1\r\nconnection: close\r\n\r\n",
        PATIENCE,
    )
    .await;
    let log = log.json();
    assert_eq!(log.as_array().unwrap().len(), 1);
    assert_eq!(log[0]["fault"], "error_503");

    let refused = control(
        "/_chaos/script",
        r#"{"phase":[{"fault":"reset","rate":3}]}"#,
    )
    .await;
    assert_eq!(refused.status(), 400);
    assert!(
        refused
            .body_text()
            .contains("rate is 3; it must be between 0 and 1")
    );
    assert_eq!(control("/_chaos/script", "").await.status(), 200);
    assert_eq!(ask(&provider, "m", false).await.status(), 200);
    let health = exchange(
        &provider,
        "GET /_chaos/health HTTP/1.1\r\nconnection: close\r\n\r\n",
        PATIENCE,
    )
    .await;
    assert_eq!(health.json()["name"], "primary");
}

#[tokio::test]
async fn models_are_listed() {
    let provider = ChaosProvider::builder()
        .models(["a", "b"])
        .start()
        .await
        .unwrap();
    let raw = exchange(
        &provider,
        "GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n",
        PATIENCE,
    )
    .await;
    assert_eq!(raw.json()["data"][1]["id"], "b");
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let script = Script {
        seed: 11,
        ..Script::default()
    }
    .with(Phase {
        rate: 0.5,
        ..Phase::new(Fault::Error500)
    });
    let mut runs = Vec::new();
    for _ in 0..2 {
        let pace = Pace {
            tokens: Count::Constant(1),
            ..Pace::default()
        };
        let provider = ChaosProvider::builder()
            .pace(pace)
            .script(script.clone())
            .start()
            .await
            .unwrap();
        for _ in 0..30 {
            ask(&provider, "m", false).await;
        }
        runs.push(
            provider
                .log()
                .iter()
                .map(|seen| seen.fault)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(runs[0], runs[1]);
    let faults = runs[0].iter().flatten().count();
    assert!((8..=22).contains(&faults), "{faults} of 30");
}

#[tokio::test]
async fn dropping_the_provider_frees_its_port_and_its_connections() {
    let provider = ChaosProvider::start().await.unwrap();
    let addr = provider.addr();
    let mut idle = TcpStream::connect(addr).await.unwrap();
    ask(&provider, "m", false).await;
    drop(provider);
    let raw = common::read_to_end(&mut idle, PATIENCE).await;
    assert_ne!(raw.ending, common::Ending::Silence);
    ChaosProvider::builder().start_on(addr).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waits_run_on_tokios_clock() {
    use tokio::io::AsyncReadExt;
    let provider = ChaosProvider::start().await.unwrap();
    let start = tokio::time::Instant::now();
    let mut stream = TcpStream::connect(provider.addr()).await.unwrap();
    let request = post(
        "/v1/chat/completions",
        &chat("fault-slow_first_token", true),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(content(&text), tokens(1, 60));
    assert!(start.elapsed() >= std::time::Duration::from_secs(20));
}
