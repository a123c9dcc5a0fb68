//! The composition root: builds every part from the configuration, runs the roles, and shuts down
//! in order.
//!
//! The order of a stop: readiness goes off, no connection and no job is taken any more, open
//! requests and attempts end or are handed back, everything is flushed, and the embedded Postgres
//! stops last.

mod database;
mod token;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use database::{Database, open_database};
pub use token::{admin_token, known_admin_token};

use crate::config::Config;
use crate::http::listen::Limits;
use crate::http::{self, ApiState, DepthCache, TokenHash};
use crate::ingest::Intake;
use crate::llm::Lane;
use crate::queue::maintain::maintain;
use crate::queue::{
    Backoff, DeadLetterHook, JobTemplate, Liveness, NoEffects, ReapPolicy, Wake, Worker, WorkerIdentity, wake,
};
use crate::routing::{Destination, RoutingHandler};
use crate::store::{AlertHook, VerdictWriter};
use crate::triage::TriageHandler;
use crate::{routing, telemetry, triage};

/// The queues of this service.
const QUEUES: [&str; 2] = [triage::QUEUE, routing::QUEUE];
/// Most alerts of one kind are worth trying this often.
const ALERT_ATTEMPTS_MAX: i16 = 12;

/// What this process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes deliveries and works on jobs.
    All,
    /// Takes deliveries and serves the API.
    Ingest,
    /// Works on jobs; serves probes and metrics only.
    Worker,
}

/// A running service.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    stopping: CancellationToken,
    worker: Option<Worker>,
    tasks: Vec<JoinHandle<()>>,
    background: CancellationToken,
}

impl Service {
    /// Starts everything that `role` needs, on a listener that is already bound.
    ///
    /// # Errors
    /// A destination or lane that cannot be built, or a database that does not answer.
    pub async fn start(
        config: &Config,
        role: Role,
        pool: PgPool,
        listener: TcpListener,
        token: TokenHash,
    ) -> anyhow::Result<Self> {
        let metrics = telemetry::metrics::install().context("the metrics could not be set up")?;
        let address = listener.local_addr().context("the listener has no address")?;
        let stopping = CancellationToken::new();
        let background = CancellationToken::new();
        let (wake, remote) = Wake::new(&QUEUES);
        let mut tasks = vec![
            tokio::spawn(wake::carry(pool.clone(), remote, background.clone())),
            spawn_until(&background, telemetry::metrics::keep_up(metrics.clone())),
        ];
        let worker = match role {
            Role::Ingest => None,
            Role::All | Role::Worker => {
                Some(start_worker(config, &pool, &wake, &background, &mut tasks).await?)
            }
        };
        let template = JobTemplate {
            queue: triage::QUEUE,
            kind: triage::KIND_TRIAGE,
            attempts_max: config.triage.attempts_max,
        };
        let (intake, writer) = Intake::start(pool.clone(), template, wake.clone(), config.commit_patience);
        tasks.push(writer);
        let state = api_state(config, pool, intake, wake, token, metrics, stopping.clone());
        let router = if role == Role::Worker { http::probe_router(state) } else { http::router(state) };
        tasks.push(tokio::spawn(http::listen::serve(listener, router, stopping.clone(), Limits::default())));
        Ok(Self { address, stopping, worker, tasks, background })
    }

    /// Where the service listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops in order; running attempts get `drain` to end by themselves.
    pub async fn stop(self, drain: Duration) {
        self.stopping.cancel();
        if let Some(worker) = self.worker
            && let Err(fault) = worker.stop(drain).await
        {
            tracing::warn!(error = %fault, "this worker could not resign; it will be seen as dead");
        }
        self.background.cancel();
        for task in self.tasks {
            if let Err(fault) = task.await {
                tracing::error!(%fault, "a task of the service ended by a panic");
            }
        }
    }
}

fn api_state(
    config: &Config,
    pool: PgPool,
    intake: Intake,
    wake: Wake,
    token: TokenHash,
    metrics: PrometheusHandle,
    stopping: CancellationToken,
) -> ApiState {
    let sources: HashMap<_, _> =
        config.sources.iter().map(|source| (source.name().to_owned(), source.clone())).collect();
    ApiState {
        pool,
        intake,
        sources: Arc::new(sources),
        wake,
        queues: Arc::new(QUEUES),
        token,
        body_bytes_max: config.body_bytes_max,
        metrics,
        depths: Arc::new(DepthCache::default()),
        stopping,
    }
}

async fn start_worker(
    config: &Config,
    pool: &PgPool,
    wake: &Wake,
    background: &CancellationToken,
    tasks: &mut Vec<JoinHandle<()>>,
) -> anyhow::Result<Worker> {
    let delivery = JobTemplate {
        queue: routing::QUEUE,
        kind: routing::KIND_DELIVER,
        attempts_max: config.routing.attempts_max,
    };
    let alert = JobTemplate { kind: routing::KIND_ALERT, attempts_max: ALERT_ATTEMPTS_MAX, ..delivery };
    let hook: Arc<dyn DeadLetterHook> = Arc::new(AlertHook { alert: config.alerts.as_ref().map(|_| alert) });
    let triage_handler = Arc::new(triage_handler(config, pool)?);
    let routing_handler = Arc::new(routing_handler(config, pool)?);

    let liveness = Liveness::default();
    let worker = Worker::start(pool.clone(), identity(), liveness).await?;
    let writer = Arc::new(VerdictWriter { delivery });
    worker.work(triage::QUEUE, config.triage.worker, triage_handler, writer, Arc::clone(&hook), wake.clone());
    let none = Arc::new(NoEffects);
    worker.work(
        routing::QUEUE,
        config.routing.worker,
        routing_handler,
        none,
        Arc::clone(&hook),
        wake.clone(),
    );

    let policy = ReapPolicy {
        dead_after: liveness.dead_after,
        crashes_max: 3,
        backoff: Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(60) },
        batch_max: 500,
    };
    tasks.push(tokio::spawn(maintain(
        pool.clone(),
        policy,
        hook,
        wake.clone(),
        QUEUES.to_vec(),
        background.clone(),
    )));
    tasks.push(tokio::spawn(wake::listen(pool.clone(), wake.clone(), background.clone())));
    Ok(worker)
}

fn triage_handler(config: &Config, pool: &PgPool) -> anyhow::Result<TriageHandler> {
    let deliverable: HashSet<_> =
        config.destinations.iter().map(|destination| destination.name.clone()).collect();
    Ok(TriageHandler {
        pool: pool.clone(),
        lane: Arc::new(Lane::build(&config.lane)?),
        taxonomy: config.taxonomy.clone(),
        policy: config.policy,
        rules: config.rules.clone(),
        deliverable,
    })
}

fn routing_handler(config: &Config, pool: &PgPool) -> anyhow::Result<RoutingHandler> {
    let mut destinations = Vec::new();
    for settings in &config.destinations {
        let built = Destination::build(settings).map_err(|faults| {
            let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("destination {}: {}", settings.name, texts.join("; "))
        })?;
        destinations.push(built);
    }
    Ok(RoutingHandler::new(pool.clone(), destinations, config.alerts.clone()))
}

/// Fresh at every start: a reused identity would make a dead process look alive.
fn identity() -> WorkerIdentity {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    WorkerIdentity { worker_id: Uuid::now_v7(), host, version: env!("CARGO_PKG_VERSION") }
}

fn spawn_until(stop: &CancellationToken, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let stop = stop.clone();
    tokio::spawn(async move { _ = stop.run_until_cancelled(work).await })
}
