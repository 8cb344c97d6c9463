//! Layers on the server side: the routes of an axum app whose answers are those of a model, each
//! with time limits by phase and a circuit of its own.
//!
//! ```sh
//! cargo run --example axum_middleware
//! curl -N -H 'content-type: application/json' http://127.0.0.1:8080/v1/chat/completions \
//!     -d '{"stream":true,"messages":[{"role":"user","content":"Hello, you over there."}]}'
//! ```
//!
//! The model is a stand-in that runs in this process and repeats what it is told. Three words make
//! it fail: `hang`, `fail` and `stall` (which stops after its first token). Ask for `fail` five
//! times, and the circuit of that route is open.
//!
//! What to know before you copy `guard`:
//!
//! - `RespondLayer` is at the top. axum takes services that cannot fail; it makes answers of errors.
//! - `PeekLayer` is at the bottom, directly above the handler, and reads its body as an LLM answer.
//!   A page or an empty 200 is none, and becomes a 502. So put it on the routes of the model alone,
//!   and compression above it.
//! - A circuit is named by the route. Otherwise it would be that of the model, or of the host and path,
//!   which callers write: two users would have two circuits where a path has parameters.

#![expect(clippy::print_stdout, reason = "a program speaks to its user")]

use axum::{
    Json, Router,
    extract::MatchedPath,
    response::{IntoResponse, Response, Sse, sse::Event},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt, stream};
use http::{StatusCode, request::Parts};
use llm_breaker::{BreakerLayer, Breakers, Key};
use llm_call::{BoxError, IdentifyLayer, PeekLayer, RespondLayer};
use llm_timeout::TimeoutLayer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceBuilder;

/// Puts limits and a circuit of its own on each of these routes.
fn guard(routes: Router, breakers: &Breakers, limits: &TimeoutLayer) -> Router {
    let by_route = |request: &Parts| {
        let route = request.extensions.get::<MatchedPath>();
        Key::url("", route.map_or("", MatchedPath::as_str))
    };
    routes.route_layer(
        ServiceBuilder::new()
            .layer(RespondLayer::new())
            .layer(IdentifyLayer::new().stamp(false))
            .layer(BreakerLayer::new(breakers.clone()).key(by_route))
            .layer(limits.clone())
            .layer(PeekLayer::new()),
    )
}

fn app(breakers: &Breakers, limits: &TimeoutLayer) -> Router {
    let model = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/summaries", post(chat))
        .route("/v1/users/{user}/chat/completions", post(chat));
    Router::new()
        .route("/health", get(async || "well"))
        .merge(guard(model, breakers, limits))
}

/// A handler, which knows nothing of all this.
async fn chat(Json(question): Json<Value>) -> Result<Response, StatusCode> {
    let prompt = question["messages"][0]["content"].as_str();
    let tokens = generate(prompt.ok_or(StatusCode::BAD_REQUEST)?).await?;
    if question["stream"] == true {
        let events = tokens.map(|token| chunk(&json!({ "content": token }), None));
        let end = [
            chunk(&json!({}), Some("stop")),
            Ok(Event::default().data("[DONE]")),
        ];
        Ok(Sse::new(events.chain(stream::iter(end))).into_response())
    } else {
        let text: String = tokens.collect().await;
        let message = json!({ "role": "assistant", "content": text });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
        Ok(Json(json!({ "object": "chat.completion", "choices": [choice] })).into_response())
    }
}

fn chunk(delta: &Value, finish: Option<&str>) -> Result<Event, axum::Error> {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    Event::default().json_data(json!({ "object": "chat.completion.chunk", "choices": [choice] }))
}

/// In place of a model.
async fn generate(prompt: &str) -> Result<impl Stream<Item = String> + use<>, StatusCode> {
    match prompt {
        "fail" => return Err(StatusCode::INTERNAL_SERVER_ERROR),
        "hang" => std::future::pending().await,
        _ => {}
    }
    let words: Vec<_> = prompt.split_inclusive(' ').map(str::to_owned).collect();
    let stall = prompt == "stall";
    Ok(stream::iter(words).chain(stream::once(async move {
        if stall {
            std::future::pending::<()>().await;
        }
        String::new()
    })))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let app = app(&Breakers::new(), &TimeoutLayer::new());
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{body::Body, extract::Request, response::Html};
    use llm_breaker::CircuitState;
    use tokio::task::JoinHandle;
    use tower::ServiceExt;

    use super::*;

    struct Server {
        url: String,
        breakers: Breakers,
        http: reqwest::Client,
        serving: JoinHandle<()>,
    }

    impl Server {
        async fn start() -> Server {
            let limit = Duration::from_millis(300);
            let limits = TimeoutLayer::new()
                .first_token(limit)
                .answer(limit)
                .idle(limit);
            let breakers = Breakers::new();
            let app = app(&breakers, &limits);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            #[expect(clippy::disallowed_methods, reason = "a server runs beside its test")]
            let serving = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
            let http = reqwest::Client::builder().no_proxy().build().unwrap();
            Server {
                url,
                breakers,
                http,
                serving,
            }
        }

        async fn ask(&self, path: &str, prompt: &str, streamed: bool) -> (u16, String) {
            let message = json!({ "role": "user", "content": prompt });
            let body = json!({ "stream": streamed, "messages": [message] });
            let request = self.http.post(format!("{}{path}", self.url)).json(&body);
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.serving.abort();
        }
    }

    const CHAT: &str = "/v1/chat/completions";

    #[tokio::test]
    async fn answers_pass_whole_and_streamed() {
        let server = Server::start().await;
        let (status, text) = server.ask(CHAT, "Hello, you.", false).await;
        assert_eq!(status, 200);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["choices"][0]["message"]["content"], "Hello, you.");
        let (status, text) = server.ask(CHAT, "Hello, you.", true).await;
        assert_eq!(status, 200);
        assert!(
            text.contains("Hello, ") && text.ends_with("data: [DONE]\n\n"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_handler_that_hangs_becomes_a_504() {
        let server = Server::start().await;
        for streamed in [true, false] {
            let (status, text) = server.ask(CHAT, "hang", streamed).await;
            assert_eq!(status, 504, "{text}");
            assert!(text.starts_with(r#"{"error":"#), "{text}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_stalls_ends_in_an_error_event() {
        let server = Server::start().await;
        let (status, text) = server.ask(CHAT, "stall", true).await;
        assert_eq!(status, 200);
        let last = text.trim_end().lines().last().unwrap();
        assert!(last.starts_with(r#"data: {"error":"#), "{text}");
        assert!(!text.contains("[DONE]"), "{text}");
        assert_eq!(server.breakers.snapshot()[0].totals.failed, 1);
    }

    #[tokio::test]
    async fn each_route_has_a_circuit_of_its_own() {
        let server = Server::start().await;
        for _ in 0..5 {
            assert_eq!(server.ask(CHAT, "fail", true).await.0, 500);
        }
        let (status, text) = server.ask(CHAT, "Hello.", true).await;
        assert_eq!(status, 503, "{text}");
        assert_eq!(server.ask("/v1/summaries", "Hello.", true).await.0, 200);
        let mut keys = server.breakers.snapshot();
        keys.sort_by_key(|circuit| circuit.key.to_string());
        let keys: Vec<_> = keys
            .iter()
            .map(|circuit| circuit.key.as_url().unwrap().1)
            .collect();
        assert_eq!(keys, [CHAT, "/v1/summaries"]);
    }

    #[tokio::test]
    async fn a_circuit_is_one_for_all_paths_of_its_route() {
        let server = Server::start().await;
        for user in 0..5 {
            let path = format!("/v1/users/{user}/chat/completions");
            assert_eq!(server.ask(&path, "fail", false).await.0, 500);
        }
        let users = Key::url("", "/v1/users/{user}/chat/completions");
        assert_eq!(server.breakers.circuit(&users).state(), CircuitState::Open);
        assert_eq!(server.ask(CHAT, "Hello.", false).await.0, 200);
    }

    #[tokio::test]
    async fn routes_and_errors_of_the_router_stay_as_they_are() {
        let server = Server::start().await;
        for (path, status) in [("/health", 200), ("/v1/summaries", 405), ("/nowhere", 404)] {
            let answer = server
                .http
                .get(format!("{}{path}", server.url))
                .send()
                .await;
            assert_eq!(answer.unwrap().status().as_u16(), status, "{path}");
        }
    }

    #[tokio::test]
    async fn a_page_and_nothing_at_all_are_no_answers() {
        let routes = Router::new()
            .route("/page", post(async || Html("<p>well</p>")))
            .route("/nothing", post(async || StatusCode::OK))
            .route("/text", post(async || "well"));
        let guarded = guard(routes, &Breakers::new(), &TimeoutLayer::new());
        for (path, status) in [("/page", 502), ("/nothing", 502), ("/text", 200)] {
            let request = Request::post(path).body(Body::empty()).unwrap();
            let answer = guarded.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{path}");
        }
    }
}
