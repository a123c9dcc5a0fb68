//! Wake-up: workers learn of new jobs at once, without asking all the time.
//!
//! In this process a [`Wake`] rings directly. Other processes hear a Postgres notification, sent
//! stand-alone from its own task and at most every 50 ms: a NOTIFY inside the inserting transaction
//! would take a database-wide lock at commit (measured: 9,204 → 233 inserts a second). Polling with
//! jitter always remains, so a lost wake-up costs a second, never a job.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::QueueError;
use super::settler::chain;

/// Channel of the notifications; the payload is the name of the queue.
const CHANNEL: &str = "hooktriage_wake";
/// Least time between two notifications of one queue.
const NOTIFY_EVERY: Duration = Duration::from_millis(50);
/// Between two polls of an idle worker, before jitter.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to reach the database for listening.
const RECONNECT_EVERY: Duration = Duration::from_secs(1);

/// Rings the workers of this process, and of others.
#[derive(Clone, Debug)]
pub struct Wake {
    bells: Arc<HashMap<&'static str, Arc<Notify>>>,
    remote: Arc<Remote>,
}

/// The queues that other processes have not been told of yet. A set, so that the rings of a busy
/// queue become one notification and cannot hold up those of another.
#[derive(Debug, Default)]
struct Remote {
    unsent: Mutex<BTreeSet<&'static str>>,
    some: Notify,
}

impl Remote {
    fn add(&self, queue: &'static str) {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner).insert(queue);
        self.some.notify_one();
    }

    fn take(&self) -> BTreeSet<&'static str> {
        std::mem::take(&mut *self.unsent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The other end of a [`Wake`]: what [`carry`] sends to other processes.
#[derive(Debug)]
pub struct RemoteWakes(Arc<Remote>);

impl Wake {
    /// A wake-up for these queues.
    #[must_use]
    pub fn new(queues: &[&'static str]) -> (Self, RemoteWakes) {
        let bells = queues.iter().map(|queue| (*queue, Arc::new(Notify::new()))).collect();
        let remote = Arc::new(Remote::default());
        (Self { bells: Arc::new(bells), remote: Arc::clone(&remote) }, RemoteWakes(remote))
    }

    /// Says that `queue` has new jobs. Call it after the commit. Never waits.
    pub fn ring(&self, queue: &'static str) {
        self.ring_here(queue);
        self.remote.add(queue);
    }

    fn ring_here(&self, queue: &str) {
        if let Some(bell) = self.bells.get(queue) {
            bell.notify_one();
        }
    }

    fn ring_all_here(&self) {
        self.bells.values().for_each(|bell| bell.notify_one());
    }

    /// Waits for a ring of `queue`, a second with jitter at most.
    ///
    /// # Cancellation safety
    /// Cancellation safe: a ring is kept for the next call.
    pub async fn wait(&self, queue: &str) {
        let poll = POLL_EVERY.mul_f64(rand::rng().random_range(0.75..1.25));
        match self.bells.get(queue) {
            Some(bell) => _ = tokio::time::timeout(poll, bell.notified()).await,
            None => tokio::time::sleep(poll).await,
        }
    }
}

/// Sends rings to other processes until `stop`. A failure is logged and forgotten: they poll.
pub async fn carry(pool: PgPool, RemoteWakes(remote): RemoteWakes, stop: CancellationToken) {
    while stop.run_until_cancelled(remote.some.notified()).await.is_some() {
        for queue in remote.take() {
            if let Err(fault) = notify(&pool, queue).await {
                debug!(error = chain(&fault), "a wake-up was not sent; other processes poll");
            }
        }
        tokio::time::sleep(NOTIFY_EVERY).await;
    }
}

async fn notify(pool: &PgPool, queue: &str) -> Result<(), QueueError> {
    sqlx::query_scalar!("select pg_notify($1, $2)::text", CHANNEL, queue)
        .fetch_one(pool)
        .await
        .map_err(QueueError::during("notify other workers"))?;
    Ok(())
}

/// Listens for rings of other processes until `stop`. After every (re)connection all queues are
/// rung, because what was sent in between is lost.
pub async fn listen(pool: PgPool, wake: Wake, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Some(Err(fault)) = stop.run_until_cancelled(listen_once(&pool, &wake)).await {
            warn!(error = chain(&fault), "listening for wake-ups was interrupted; polling goes on");
            _ = stop.run_until_cancelled(tokio::time::sleep(RECONNECT_EVERY)).await;
        }
    }
}

async fn listen_once(pool: &PgPool, wake: &Wake) -> Result<(), QueueError> {
    let during = || QueueError::during("listen for wake-ups");
    let mut listener = PgListener::connect_with(pool).await.map_err(during())?;
    listener.listen(CHANNEL).await.map_err(during())?;
    wake.ring_all_here();
    loop {
        match listener.try_recv().await.map_err(during())? {
            Some(notification) => wake.ring_here(notification.payload()),
            None => wake.ring_all_here(),
        }
    }
}
