//! What the handle and all connections share: the script being played, and the log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::Instant;

use super::ask::Ask;
use super::plan::{Plan, of_reply};
use super::provider::ChaosProviderBuilder;
use super::seen::{Entry, Seen, lock, millis_since};
use super::wire::Step;
use super::{Phase, Script, control};
use crate::window::{pick, rng_of};
use crate::{Api, Fault, Reply};

/// A request as it came off the socket.
pub(super) struct Received {
    pub(super) connection: u64,
    pub(super) http2: bool,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What the handle and all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    options: ChaosProviderBuilder,
    state: Mutex<State>,
    connections: AtomicU64,
    levers: Mutex<Vec<Weak<AtomicBool>>>,
}

#[derive(Debug)]
struct State {
    script: Script,
    /// Requests each phase took.
    hits: Vec<u64>,
    /// Requests each model of the form `fault-...` got.
    model_hits: HashMap<String, u64>,
    epoch: Instant,
    /// Decisions made: the number of the random draw.
    n: u64,
    log: Vec<Entry>,
}

impl State {
    fn new(script: Script) -> Self {
        let hits = vec![0; script.phases.len()];
        Self {
            script,
            hits,
            model_hits: HashMap::new(),
            epoch: Instant::now(),
            n: 0,
            log: Vec::new(),
        }
    }

    fn record(&mut self, seen: Seen) -> Entry {
        let entry = Entry::new(self.epoch, seen);
        self.log.push(entry.clone());
        entry
    }

    /// The phase for a request, and the random numbers for what is still to be drawn.
    fn decide(&mut self, seed: u64, ask: &Ask) -> Result<(Option<Phase>, fastrand::Rng), String> {
        self.n += 1;
        let mut rng = rng_of(self.script.seed ^ seed, self.n);
        let (draw, elapsed) = (rng.f64(), self.epoch.elapsed());
        if let Some(phase) = Phase::of_model(&ask.model) {
            let phase = phase.map_err(|error| error.to_string())?;
            let (window, hits) = (
                phase.window(),
                self.model_hits.entry(ask.model.clone()).or_default(),
            );
            let taken = pick([(0, &window)], &[*hits], elapsed, draw).is_some();
            return Ok(((taken && window.take(hits)).then_some(phase), rng));
        }
        let phase = self
            .script
            .decide(&self.hits, elapsed, draw, ask)
            .and_then(|index| {
                let phase = &self.script.phases[index];
                phase
                    .window()
                    .take(&mut self.hits[index])
                    .then(|| phase.clone())
            });
        Ok((phase, rng))
    }
}

impl Shared {
    pub(super) fn new(options: ChaosProviderBuilder) -> Self {
        let state = State::new(options.script.for_target(&options.name));
        Self {
            options,
            state: Mutex::new(state),
            connections: AtomicU64::new(0),
            levers: Mutex::default(),
        }
    }

    /// The number of a new connection, from 1.
    pub(super) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn play(&self, script: &Script) {
        let mut state = lock(&self.state);
        let log = std::mem::take(&mut state.log);
        *state = State {
            log,
            ..State::new(script.for_target(&self.options.name))
        };
    }

    pub(super) fn reset(&self) {
        let mut state = lock(&self.state);
        *state = State::new(std::mem::take(&mut state.script));
    }

    pub(super) fn log(&self) -> Vec<Seen> {
        lock(&self.state).log.iter().map(Entry::snapshot).collect()
    }

    pub(super) fn black_hole(&self) {
        for lever in lock(&self.levers)
            .drain(..)
            .filter_map(|lever| lever.upgrade())
        {
            lever.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.options.name
    }

    pub(super) fn elapsed_ms(&self) -> u64 {
        millis_since(lock(&self.state).epoch)
    }

    pub(super) fn watch(&self, lever: &Arc<AtomicBool>) {
        let mut levers = lock(&self.levers);
        levers.retain(|lever| lever.strong_count() > 0);
        levers.push(Arc::downgrade(lever));
    }

    /// Whether a new connection is one that is never read; it is in the log if so.
    pub(super) fn leaves_unread(&self, connection: u64) -> bool {
        let mut state = lock(&self.state);
        if !state
            .script
            .phases
            .iter()
            .any(|phase| phase.fault == Fault::NeverRead)
        {
            return false;
        }
        state.n += 1;
        let draw = rng_of(state.script.seed ^ self.options.seed, state.n).f64();
        let elapsed = state.epoch.elapsed();
        let Some(index) = state.script.decide_unread(&state.hits, elapsed, draw) else {
            return false;
        };
        state.hits[index] += 1;
        state.record(Seen {
            connection,
            fault: Some(Fault::NeverRead),
            ..Seen::default()
        });
        true
    }

    /// What is to be done with a request, and its record.
    pub(super) fn handle(&self, received: Received) -> (Vec<Step>, Entry) {
        if received.path.starts_with("/_chaos/") {
            let reply = control::answer(self, &received);
            return (
                of_reply(reply, self.name()),
                Entry::new(Instant::now(), Seen::default()),
            );
        }
        let header = |name: &str| {
            let value = received.headers.get(name).map(HeaderValue::as_bytes);
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let keep = self.options.keep_bodies;
        let mut seen = Seen {
            connection: received.connection,
            http2: received.http2,
            authorization: header("authorization").or_else(|| header("x-api-key")),
            retry_count: header("x-stainless-retry-count"),
            idempotency_key: header("idempotency-key"),
            body_bytes: received.body.len() as u64,
            body: keep.then(|| String::from_utf8_lossy(&received.body).into_owned()),
            method: received.method,
            path: received.path,
            ..Seen::default()
        };
        let api = Api::of_path(&seen.path);
        let refusal = match (seen.method.as_str(), api) {
            _ if !self.admits(seen.authorization.as_deref()) => {
                let api = api.unwrap_or(Api::Chat);
                Reply::of_fault(Fault::Error401, api, "", Duration::ZERO)
            }
            ("GET", None) if seen.path.ends_with("/models") => Some(self.models()),
            ("POST", Some(_)) => None,
            (method, _) => {
                let mut reply =
                    Reply::bad_request(Api::Chat, &format!("Invalid URL ({method} {})", seen.path));
                reply.status = StatusCode::NOT_FOUND;
                Some(reply)
            }
        };
        let mut state = lock(&self.state);
        let (api, ask) = match (refusal, api) {
            (None, Some(api)) => (api, Ask::parse(api, &received.body)),
            (refusal, api) => {
                let api = api.unwrap_or(Api::Chat);
                let reply = refusal.unwrap_or_else(|| Reply::bad_request(api, "Invalid URL"));
                return (of_reply(reply, self.name()), state.record(seen));
            }
        };
        let decided = ask.and_then(|ask| {
            seen.model = Some(ask.model.clone());
            seen.stream = ask.stream;
            seen.prefill = ask.prefill.is_some();
            let (phase, rng) = state.decide(self.options.seed, &ask)?;
            Ok((ask, phase, rng))
        });
        let (ask, phase, mut rng) = match decided {
            Ok(decided) => decided,
            Err(message) => {
                let reply = Reply::bad_request(api, &message);
                return (of_reply(reply, self.name()), state.record(seen));
            }
        };
        seen.fault = phase.as_ref().map(|phase| phase.fault);
        let plan = Plan {
            ask: &ask,
            server: self.name(),
            n: state.n,
            pace: state.script.pace.unwrap_or(self.options.pace),
            prefill: self.options.prefill,
            phase: phase.as_ref(),
        };
        let steps = plan.steps(&mut rng);
        (steps, state.record(seen))
    }

    fn admits(&self, authorization: Option<&str>) -> bool {
        let sent = authorization.map(|value| value.strip_prefix("Bearer ").unwrap_or(value));
        self.options
            .api_key
            .as_deref()
            .is_none_or(|key| sent == Some(key))
    }

    fn models(&self) -> Reply {
        let models = self.options.models.iter();
        let data: Vec<_> = models
            .map(|id| serde_json::json!({ "id": id, "object": "model", "created": 0, "owned_by": "llm-chaos" }))
            .collect();
        let body = serde_json::json!({ "object": "list", "data": data });
        Reply::new(200, crate::reply::JSON, body.to_string())
    }
}
