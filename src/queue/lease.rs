//! Liveness: one heartbeat row a process, and the duty to stop when it can no longer be beaten.
//!
//! The database is the authority on who is alive. Our own clock may only make us stop *earlier*:
//! a process that could not beat for [`Liveness::fence_after`] stops its work before anybody may
//! take it over, which others do after [`Liveness::dead_after`].

use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};
use uuid::Uuid;

use super::settler::chain;
use super::{QueueError, Worker};

/// The times of the heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Between two beats.
    pub beat_every: Duration,
    /// A process that could not beat for this long stops its own work.
    pub fence_after: Duration,
    /// A process that nobody heard of for this long is dead. Longer than `fence_after`.
    pub dead_after: Duration,
}

impl Default for Liveness {
    fn default() -> Self {
        Self {
            beat_every: Duration::from_secs(5),
            fence_after: Duration::from_secs(20),
            dead_after: Duration::from_secs(30),
        }
    }
}

/// Who this process is, for its heartbeat row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerIdentity {
    /// Fresh at every start: a reused name would make a dead process look alive.
    pub worker_id: Uuid,
    /// For people.
    pub host: String,
    /// Version of the program.
    pub version: &'static str,
}

/// Beats once: makes the row or renews it.
///
/// # Errors
/// [`QueueError::Database`] when the row could not be written.
///
/// # Cancellation safety
/// One autocommit statement.
pub async fn beat(pool: &PgPool, identity: &WorkerIdentity) -> Result<(), QueueError> {
    sqlx::query!(
        "insert into worker (worker_id, host, version) values ($1, $2, $3)
         on conflict (worker_id) do update set seen_at = now()",
        identity.worker_id,
        identity.host,
        identity.version,
    )
    .execute(pool)
    .await
    .map_err(QueueError::during("beat the heart of this worker"))?;
    Ok(())
}

/// Takes the row away after a clean stop, so that nobody waits for this process.
///
/// # Errors
/// [`QueueError::Database`]; the row then ages until the reaper calls the process dead.
///
/// # Cancellation safety
/// One autocommit statement.
pub async fn resign(pool: &PgPool, worker_id: Uuid) -> Result<(), QueueError> {
    sqlx::query!("delete from worker where worker_id = $1", worker_id)
        .execute(pool)
        .await
        .map_err(QueueError::during("resign this worker"))?;
    Ok(())
}

/// Beats until `stop` is cancelled, and tells through `alive` whether this process may work.
pub(super) async fn keep_beating(
    pool: PgPool,
    identity: WorkerIdentity,
    liveness: Liveness,
    alive: watch::Sender<bool>,
    stop: CancellationToken,
) {
    let mut ticks = tokio::time::interval(liveness.beat_every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // A beat that hangs must not keep us from noticing that it hangs.
        let limit = liveness.fence_after.saturating_sub(heard.elapsed()).max(Duration::from_millis(100));
        let started = Instant::now();
        let beaten = tokio::time::timeout(limit, beat(&pool, &identity)).await;
        match beaten {
            Ok(Ok(())) => heard = started,
            Ok(Err(fault)) => error!(error = chain(&fault), "the heartbeat failed"),
            Err(_) => error!("the heartbeat hangs"),
        }
        let mut may_work = heard.elapsed() < liveness.fence_after;
        if may_work && !*alive.borrow() {
            may_work = took_back(&pool, identity.worker_id).await;
        }
        let changed = alive.send_if_modified(|state| std::mem::replace(state, may_work) != may_work);
        if changed && may_work {
            info!("the heart beats again: claims go on");
        } else if changed {
            error!(
                limit_s = liveness.fence_after.as_secs(),
                "no heartbeat reached the database in time: this process stops its jobs"
            );
        }
    }
}

/// Gives the jobs of a fenced time back before new ones are claimed: their attempts were dropped, and
/// under a beating heart nobody else would take them before their deadline.
async fn took_back(pool: &PgPool, worker_id: Uuid) -> bool {
    match hand_back_all(pool, worker_id).await {
        Ok(jobs) => {
            info!(jobs, "the jobs that were dropped without a heartbeat are handed back");
            true
        }
        Err(fault) => {
            error!(error = chain(&fault), "the dropped jobs could not be handed back; no job is claimed yet");
            false
        }
    }
}

/// Puts every job of a worker back, ready and refunded. Only for a worker that has dropped them all.
async fn hand_back_all(pool: &PgPool, worker_id: Uuid) -> Result<u64, QueueError> {
    let done = sqlx::query!(
        "with held as materialized (
             select job_id, lease_id, attempt, worker_id, claimed_at
               from job
              where worker_id = $1 and state = 'running'
                for no key update skip locked),
         tried as (
             insert into attempt (job_id, lease_id, attempt, worker_id, started_at, outcome)
             select job_id, lease_id, attempt, worker_id, claimed_at, 'handed_back' from held)
         update job
            set state = 'queued', run_at = now(), attempt = job.attempt - 1, worker_id = null,
                claimed_at = null, deadline_at = null
           from held
          where job.job_id = held.job_id",
        worker_id,
    )
    .execute(pool)
    .await
    .map_err(QueueError::during("hand dropped jobs back"))?;
    Ok(done.rows_affected())
}

impl Worker {
    /// The id under which this process claims.
    #[must_use]
    pub fn worker_id(&self) -> Uuid {
        self.identity.worker_id
    }
}
