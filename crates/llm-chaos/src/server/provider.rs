//! The provider: listener, script, log.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::ask::Ask;
use super::plan::{Plan, Prefill, of_reply};
use super::seen::{Entry, Seen, lock, millis_since};
use super::switch::Switch;
use super::wire::Step;
use super::{Pace, Phase, Script, control, http1, http2};
use crate::window::{pick, rng_of};
use crate::{Api, Fault, Reply};

/// A fake LLM provider on a real socket.
///
/// It runs on the tokio runtime it was started on. Dropping it closes the listener and every
/// connection.
///
/// # Clone and shared state
///
/// It is not `Clone`: the handle owns the server. Put it in an `Arc` to share it.
#[derive(Debug)]
pub struct ChaosProvider {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What a provider is before it starts.
#[derive(Clone, Debug)]
pub struct ChaosProviderBuilder {
    name: String,
    pace: Pace,
    seed: u64,
    prefill: Prefill,
    script: Script,
    models: Vec<String>,
    api_key: Option<String>,
    keep_bodies: bool,
}

impl Default for ChaosProviderBuilder {
    fn default() -> Self {
        Self {
            name: "chaos".to_owned(),
            pace: Pace::default(),
            seed: 0,
            prefill: Prefill::default(),
            script: Script::default(),
            models: vec!["chaos-1".to_owned()],
            api_key: None,
            keep_bodies: false,
        }
    }
}

impl ChaosProviderBuilder {
    /// The name in answers, and the target of scripts that it plays; default `chaos`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How fast and how long healthy answers are, unless the script says otherwise.
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Mixed with the script's own seed; default 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What to do with a trailing assistant message; default [`Prefill::Continue`].
    #[must_use]
    pub fn prefill(mut self, prefill: Prefill) -> Self {
        self.prefill = prefill;
        self
    }

    /// The script to start with; default a healthy provider.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// What `GET /v1/models` lists; any model is answered. Default `chaos-1`.
    #[must_use]
    pub fn models(mut self, models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// The only key that is not answered with 401; default any, or none.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Whether the log keeps request bodies; default no.
    #[must_use]
    pub fn keep_bodies(mut self, keep: bool) -> Self {
        self.keep_bodies = keep;
        self
    }

    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub async fn start(self) -> io::Result<ChaosProvider> {
        self.start_on(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts on an address.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub async fn start_on(self, addr: SocketAddr) -> io::Result<ChaosProvider> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let state = State::new(self.script.for_target(&self.name));
        let shared = Arc::new(Shared {
            options: self,
            state: Mutex::new(state),
            connections: AtomicU64::new(0),
            levers: Mutex::default(),
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "a server spawns a task that accepts connections"
        )]
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(ChaosProvider {
            addr,
            shared,
            accepting,
        })
    }
}

impl ChaosProvider {
    /// A provider that is yet to be named and started.
    #[must_use]
    pub fn builder() -> ChaosProviderBuilder {
        ChaosProviderBuilder::default()
    }

    /// A healthy provider on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// The address it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Plays its part of a script from now on; the log stays, times in it start again.
    pub fn script(&self, script: &Script) {
        self.shared.play(script);
    }

    /// Empties the log and restarts the script: clock, counts and draws.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Every request since the start or the last reset, in the order of arrival.
    #[must_use]
    pub fn log(&self) -> Vec<Seen> {
        self.shared.log()
    }

    /// Turns every open connection into a black hole for good; new connections are healthy.
    pub fn black_hole(&self) {
        self.shared.black_hole();
    }
}

impl Drop for ChaosProvider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
                // Out of file descriptors: a connection that ends gives one back.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let connection = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    if shared.leaves_unread(connection) {
        // The socket stays open, and full, until the provider goes.
        return std::future::pending().await;
    }
    // A connection that breaks is the client's business: what it sent is in the log.
    let _broken = stream.set_nodelay(true);
    let io = Switch::new(stream);
    shared.watch(&io.lever());
    match io.speaks_http2().await {
        Ok(true) => {
            let _broken = http2::serve(io, connection, &shared).await;
        }
        Ok(false) => {
            let _broken = http1::serve(io, connection, &shared).await;
        }
        Err(_) => {}
    }
}

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
            let hits = self.model_hits.entry(ask.model.clone()).or_default();
            let taken = pick([(0, &phase.window())], &[*hits], elapsed, draw).is_some();
            *hits += u64::from(taken);
            return Ok((taken.then_some(phase), rng));
        }
        let phase = self
            .script
            .decide(&self.hits, elapsed, draw, ask)
            .map(|index| {
                self.hits[index] += 1;
                self.script.phases[index].clone()
            });
        Ok((phase, rng))
    }
}

impl Shared {
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

    fn watch(&self, lever: &Arc<AtomicBool>) {
        let mut levers = lock(&self.levers);
        levers.retain(|lever| lever.strong_count() > 0);
        levers.push(Arc::downgrade(lever));
    }

    /// Whether a new connection is one that is never read; it is in the log if so.
    fn leaves_unread(&self, connection: u64) -> bool {
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
                Reply::of_fault(Fault::Error401, api, "", std::time::Duration::ZERO)
            }
            ("GET", None) if seen.path.ends_with("/models") => Some(self.models()),
            ("POST", Some(_)) => None,
            (method, _) => {
                let mut reply =
                    Reply::bad_request(Api::Chat, &format!("Invalid URL ({method} {})", seen.path));
                reply.status = http::StatusCode::NOT_FOUND;
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
