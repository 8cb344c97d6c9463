//! The play: both arms get the same requests at the same moments.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use llm_call::BoxError;
use llm_chaos::ChaosProvider;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tower::Service;

use crate::{
    arm::{Record, ask, question},
    circuit::{Circuit, breakers},
    client::HttpClient,
    clocks::{Clocks, Limits},
    figures,
    incident::{Incident, PRIMARY, Phase, SECONDARY},
    screen::Screen,
    stack::stack,
};

/// Requests per second and arm.
pub(crate) const RATE: u32 = 24;

/// What is played.
pub(crate) struct Play<'a> {
    pub(crate) incident: &'a Incident,
    pub(crate) phases: &'a [Phase],
    pub(crate) clocks: Clocks,
    pub(crate) limits: Limits,
    pub(crate) seconds: u32,
    pub(crate) seed: u64,
}

/// What came of one arm.
pub(crate) struct Played {
    pub(crate) name: &'static str,
    pub(crate) records: Vec<Record>,
    pub(crate) upstream_calls: u64,
    /// The primary's circuit, in the arm that has one.
    pub(crate) circuit: Option<Circuit>,
}

/// How far an arm is, for the eyes of those who wait.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Play<'_> {
    /// Plays it, and returns the bare arm and the stack's.
    pub(crate) async fn run(&self, screen: &mut Screen) -> Result<[Played; 2], BoxError> {
        let [primary, secondary] = self.providers().await?;
        let bare_client = HttpClient::new(self.limits.connect);
        let stack_client = HttpClient::new(self.limits.connect);
        let breakers = breakers(self.limits, self.clocks.request)?;
        let stack = stack(
            stack_client.clone(),
            self.limits,
            &breakers,
            &primary.base_url(),
            &secondary.base_url(),
        )?;
        let url = format!("{}/chat/completions", primary.base_url());
        let (mut bare_arm, mut stack_arm) = (Arm::default(), Arm::default());
        let tallies = [bare_arm.tally.clone(), stack_arm.tally.clone()];

        let script = self.incident.on(self.clocks);
        let began = Instant::now();
        primary.script(&script);
        secondary.script(&script);
        let sending = async {
            let mut dice = fastrand::Rng::with_seed(self.seed);
            for n in 0..self.seconds * RATE {
                // Each has its slot and comes at any moment of it, so that every second has as many.
                let slot = (f64::from(n) + dice.f64()) / f64::from(RATE);
                let due = Duration::from_secs_f64(slot);
                sleep_until(began + due).await;
                let total = Some(self.limits.bare_total);
                bare_arm.send(bare_client.clone(), question(n, &url)?, (began, due), total);
                stack_arm.send(stack.clone(), question(n, &url)?, (began, due), None);
            }
            Ok::<_, BoxError>(())
        };
        let watching = self.watch(screen, began, &tallies);
        tokio::try_join!(sending, async { watching.await.map_err(BoxError::from) })?;
        screen.line("The play is over; the last requests are still on their way.")?;
        let (bare_records, stack_records) = (bare_arm.records().await, stack_arm.records().await);
        let played = [
            Played {
                name: "bare",
                records: bare_records,
                upstream_calls: bare_client.sent(),
                circuit: None,
            },
            Played {
                name: "stack",
                records: stack_records,
                upstream_calls: stack_client.sent(),
                circuit: Some(Circuit::of_primary(&breakers.history(), began)),
            },
        ];
        cross_check(&played, &[primary, secondary], screen)?;
        Ok(played)
    }

    /// How long it takes.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(u64::from(self.seconds))
    }

    /// A moment of the incident, in the play's time.
    pub(crate) fn in_play(&self, at: Duration) -> Duration {
        at.div_f64(self.clocks.incident)
    }

    /// When the outage begins and ends, in the play's time, if there is one.
    pub(crate) fn outage(&self) -> Option<(Duration, Duration)> {
        let (from, to) = figures::outage(self.phases)?;
        Some((self.in_play(from), self.in_play(to)))
    }

    /// When a phase begins and ends, in the play's time.
    pub(crate) fn span_of(&self, phase: &Phase) -> (Duration, Duration) {
        (self.in_play(phase.from), self.in_play(phase.to))
    }

    async fn providers(&self) -> io::Result<[ChaosProvider; 2]> {
        let start = async |name: &str, salt: u64| {
            let provider = ChaosProvider::builder().name(name);
            provider.seed(self.seed ^ salt).start().await
        };
        Ok([start(PRIMARY, 0).await?, start(SECONDARY, 1 << 32).await?])
    }

    /// One line a second until the play ends, and one for each phase that begins.
    async fn watch(
        &self,
        screen: &mut Screen,
        began: Instant,
        tallies: &[Arc<Tally>; 2],
    ) -> io::Result<()> {
        let mut phases = self.phases.iter().peekable();
        for second in 0..=self.seconds {
            sleep_until(began + Duration::from_secs(u64::from(second))).await;
            let now = Duration::from_secs(u64::from(second)).mul_f64(self.clocks.incident);
            while let Some(phase) = phases.next_if(|phase| phase.from <= now) {
                screen.phase(phase)?;
            }
            screen.progress(second, now, tallies)?;
        }
        Ok(())
    }
}

/// The requests of one arm that are on their way.
#[derive(Default)]
struct Arm {
    under_way: JoinSet<Record>,
    tally: Arc<Tally>,
}

impl Arm {
    fn send<S, B>(
        &mut self,
        service: S,
        request: Request<Full<Bytes>>,
        (began, due): (Instant, Duration),
        limit: Option<Duration>,
    ) where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Future: Send> + Send + 'static,
        S::Error: Into<BoxError> + Send,
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let tally = self.tally.clone();
        self.under_way.spawn(async move {
            let record = ask(service, request, began, due, limit).await;
            let counter = match record.outcome {
                Ok(()) => &tally.answered,
                Err(_) => &tally.failed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            record
        });
    }

    /// Waits for all of them; in the order in which they were sent.
    async fn records(self) -> Vec<Record> {
        let mut records = self.under_way.join_all().await;
        records.sort_by_key(|record| record.sent);
        records
    }
}

/// What the clients counted must be what the providers saw.
fn cross_check(
    played: &[Played; 2],
    providers: &[ChaosProvider; 2],
    screen: &mut Screen,
) -> io::Result<()> {
    let sent: u64 = played.iter().map(|arm| arm.upstream_calls).sum();
    let seen: u64 = providers
        .iter()
        .map(|provider| provider.log().len() as u64)
        .sum();
    screen.line(&match sent.checked_sub(seen) {
        Some(0) => format!("The clients sent {sent} requests upstream, and the providers saw all."),
        Some(lost) => format!(
            "The clients sent {sent} requests upstream; {lost} were given up before a provider saw them."
        ),
        None => format!(
            "The providers saw {seen} requests and the clients counted only {sent}: something below the \
             layers sends again."
        ),
    })
}
