//! The control endpoints, on the provider's own port.

use super::Script;
use super::shared::{Received, Shared};
use crate::Reply;
use crate::reply::JSON;

pub(super) fn answer(shared: &Shared, received: &Received) -> Reply {
    match (received.method.as_str(), received.path.as_str()) {
        ("GET", "/_chaos/health") => {
            let body = serde_json::json!({
                "ok": true, "name": shared.name(), "elapsed_ms": shared.elapsed_ms(),
            });
            Reply::new(200, JSON, body.to_string())
        }
        ("GET", "/_chaos/log") => match serde_json::to_string(&shared.log()) {
            Ok(log) => Reply::new(200, JSON, log),
            Err(error) => refuse(500, &error.to_string()),
        },
        ("POST", "/_chaos/reset") => {
            shared.reset();
            done()
        }
        ("POST", "/_chaos/black_hole") => {
            shared.black_hole();
            done()
        }
        ("POST", "/_chaos/script") => match script(&received.body) {
            Ok(script) => {
                shared.play(&script);
                done()
            }
            Err(error) => refuse(400, &error),
        },
        (method, path) => refuse(
            404,
            &format!(
                "no {method} {path}; there are POST /_chaos/script, POST /_chaos/reset, \
                 POST /_chaos/black_hole, GET /_chaos/log and GET /_chaos/health"
            ),
        ),
    }
}

fn script(body: &[u8]) -> Result<Script, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    // A TOML document cannot start with a brace.
    let script = if text.trim_start().starts_with('{') {
        Script::from_json(text)
    } else {
        Script::from_toml(text)
    };
    script.map_err(|error| error.to_string())
}

fn done() -> Reply {
    Reply::new(200, JSON, r#"{"ok":true}"#.to_owned())
}

fn refuse(status: u16, error: &str) -> Reply {
    Reply::new(
        status,
        JSON,
        serde_json::json!({ "ok": false, "error": error }).to_string(),
    )
}
