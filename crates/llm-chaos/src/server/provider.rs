//! The provider: listener, script, log.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::plan::Prefill;
use super::seen::Seen;
use super::shared::Shared;
use super::switch::Switch;
use super::{Pace, Script, http1, http2};

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
    pub(super) name: String,
    pub(super) pace: Pace,
    pub(super) seed: u64,
    pub(super) prefill: Prefill,
    pub(super) script: Script,
    pub(super) models: Vec<String>,
    pub(super) api_key: Option<String>,
    pub(super) keep_bodies: bool,
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
        let shared = Arc::new(Shared::new(self));
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
    let connection = shared.next_connection();
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
