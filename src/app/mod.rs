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
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use database::{Database, open_database};
pub use token::{admin_token, known_admin_token};

use crate::config::Config;
use crate::http::listen::Limits;
use crate::http::{self, ApiState, DepthCache, TokenHash};
use crate::ingest::Intake;
use crate::llm::Lane;
use crate::postgres::{PoolSettings, sibling};
use crate::queue::maintain::{maintain, make_partitions};
use crate::queue::{
    DeadLetterHook, JobTemplate, Liveness, NoEffects, ReapPolicy, Wake, Worker, WorkerIdentity, wake,
};
use crate::routing::{Destination, RoutingHandler};
use crate::store::{Alerts, VerdictWriter};
use crate::triage::TriageHandler;
use crate::{routing, telemetry, triage};

/// The queues of this service.
const QUEUES: [&str; 2] = [triage::QUEUE, routing::QUEUE];

/// What an attempt needs to read the ticket and to judge the answer.
const READING_TIME: Duration = Duration::from_secs(5);
/// Room for bodies that are being read, in KiB: a quarter of a gibibyte.
const BODY_ROOM_KIB: usize = 256 * 1024;

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
    closing: CancellationToken,
    reads: PgPool,
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
        let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
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
        let reads = sibling(&pool, &read_settings());
        let pools = Pools { reads: reads.clone(), work: pool };
        let state = api_state(config, pools, intake, wake, token, metrics, stopping.clone());
        let router = if role == Role::Worker { http::probe_router(state) } else { http::router(state) };
        tasks.push(tokio::spawn(http::listen::serve(listener, router, closing.clone(), Limits::default())));
        Ok(Self { address, stopping, worker, tasks, background, closing, reads })
    }

    /// Where the service listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resolves when a part of the service ended that never should, after which it is no whole
    /// service any more: the only cure is a new process.
    ///
    /// # Cancellation safety
    /// Cancellation safe.
    pub async fn broken(&mut self) {
        let worker = async {
            match &self.worker {
                Some(worker) => worker.broken().await,
                None => std::future::pending().await,
            }
        };
        let (ended, at) = tokio::select! {
            () = worker => return,
            (ended, at, _) = futures_util::future::select_all(self.tasks.iter_mut()) => (ended, at),
        };
        // It has been awaited to its end here, which can be done only once.
        drop(self.tasks.swap_remove(at));
        log_panic(ended);
    }

    /// Turns readiness off and waits for `notice`, so that a balancer stops sending before the door
    /// closes.
    pub async fn announce_stop(&self, notice: Duration) {
        self.stopping.cancel();
        tokio::time::sleep(notice).await;
    }

    /// Stops in order; running attempts get `drain` to end by themselves.
    pub async fn stop(self, drain: Duration) {
        self.stopping.cancel();
        self.closing.cancel();
        if let Some(worker) = self.worker
            && let Err(fault) = worker.stop(drain).await
        {
            tracing::warn!(error = %fault, "this worker could not resign; it will be seen as dead");
        }
        self.background.cancel();
        for task in self.tasks {
            log_panic(task.await);
        }
        self.reads.close().await;
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(fault) = ended {
        tracing::error!(%fault, "a task of the service ended by a panic");
    }
}

/// Few sessions, and short statements: what takes longer is not waited for any more either.
fn read_settings() -> PoolSettings {
    PoolSettings {
        connections_max: 4,
        acquire_timeout: Duration::from_secs(2),
        statement_timeout: Duration::from_secs(5),
        application_name: "hooktriage api".to_owned(),
        ..PoolSettings::default()
    }
}

struct Pools {
    reads: PgPool,
    work: PgPool,
}

fn api_state(
    config: &Config,
    pools: Pools,
    intake: Intake,
    wake: Wake,
    token: TokenHash,
    metrics: PrometheusHandle,
    stopping: CancellationToken,
) -> ApiState {
    let sources: HashMap<_, _> =
        config.sources.iter().map(|source| (source.name().to_owned(), source.clone())).collect();
    ApiState {
        pool: pools.reads,
        work_pool: pools.work,
        intake,
        sources: Arc::new(sources),
        alerts: alerts(config),
        wake,
        queues: Arc::new(QUEUES),
        token,
        body_bytes_max: config.body_bytes_max,
        body_room: Arc::new(Semaphore::new(BODY_ROOM_KIB)),
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
    let delivery = delivery_template(config);
    let hook: Arc<dyn DeadLetterHook> = Arc::new(alerts(config));
    let triage_handler = Arc::new(triage_handler(config, pool)?);
    let routing_handler = Arc::new(routing_handler(config, pool)?);

    // Before anything can end: what ends on a day without a partition cannot move there later.
    make_partitions(pool).await?;
    let liveness = Liveness::default();
    let worker = Worker::start(pool.clone(), identity(), liveness).await?;
    let writer = Arc::new(VerdictWriter::new(delivery));
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
        backoff: config.triage.worker.backoff,
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

fn delivery_template(config: &Config) -> JobTemplate {
    let attempts_max = config.routing.attempts_max;
    JobTemplate { queue: routing::QUEUE, kind: routing::KIND_DELIVER, attempts_max }
}

/// Alerts go to the destination that is configured for them; without one, the log has to do.
fn alerts(config: &Config) -> Alerts {
    let delivery = delivery_template(config);
    let alert = JobTemplate { kind: routing::KIND_ALERT, ..delivery };
    Alerts { template: config.alerts.as_ref().map(|_| alert) }
}

fn triage_handler(config: &Config, pool: &PgPool) -> anyhow::Result<TriageHandler> {
    let deliverable: HashSet<_> =
        config.destinations.iter().map(|destination| destination.name.clone()).collect();
    // What an attempt may wait for the lane is what its timeout leaves beside the call itself.
    let beside_the_call = config.triage.worker.job_timeout.saturating_sub(config.lane.total_timeout);
    Ok(TriageHandler {
        lane_wait_max: beside_the_call.saturating_sub(READING_TIME),
        pool: pool.clone(),
        lane: Arc::new(Lane::build(&config.lane)?),
        taxonomy: config.taxonomy.clone(),
        policy: config.policy,
        rules: config.rules.clone(),
        alerts: alerts(config),
        park_told: AtomicBool::new(false),
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
