//! Maintenance: reaping, partitions, old heartbeat rows. Every duty is idempotent, so it does no
//! harm when several processes do it at once.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::reap::{ReapPolicy, Reaped, reap};
use super::settler::chain;
use super::{DeadLetterHook, QueueError, Wake};

/// Between two reapings, before jitter.
const REAP_EVERY: Duration = Duration::from_secs(5);
/// Between two rounds of the slow duties.
const TIDY_EVERY: Duration = Duration::from_secs(3600);
/// Partitions are made this many days ahead.
const PARTITION_DAYS_AHEAD: i32 = 7;

/// Maintains until `stop`. A failure is logged, and the next round tries again.
pub async fn maintain(
    pool: PgPool,
    policy: ReapPolicy,
    hook: Arc<dyn DeadLetterHook>,
    wake: Wake,
    queues: Vec<&'static str>,
    stop: CancellationToken,
) {
    let mut tidied: Option<Instant> = None;
    loop {
        if tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
            tidied = Some(Instant::now());
            log_failure(tidy(&pool).await);
        }
        match reap_all(&pool, &policy, &*hook).await {
            Ok(reaped) if reaped != Reaped::default() => {
                info!(requeued = reaped.requeued, dead = reaped.dead, "jobs of lost workers were reaped");
                queues.iter().for_each(|queue| wake.ring(queue));
            }
            result => log_failure(result.map(|_| ())),
        }
        let pause = REAP_EVERY.mul_f64(rand::rng().random_range(0.8..1.2));
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

async fn reap_all(
    pool: &PgPool,
    policy: &ReapPolicy,
    hook: &dyn DeadLetterHook,
) -> Result<Reaped, QueueError> {
    let mut all = Reaped::default();
    loop {
        let batch = reap(pool, policy, hook).await?;
        all.requeued += batch.requeued;
        all.dead += batch.dead;
        if i64::try_from(batch.requeued + batch.dead).unwrap_or(i64::MAX) < policy.batch_max {
            return Ok(all);
        }
    }
}

/// Makes the partitions of the coming days and forgets workers that died long ago.
async fn tidy(pool: &PgPool) -> Result<(), QueueError> {
    make_partitions(pool).await?;
    sqlx::query!("delete from worker where seen_at < now() - interval '1 day'")
        .execute(pool)
        .await
        .map_err(QueueError::during("forget dead workers"))?;
    Ok(())
}

/// Makes the partitions of the coming days, where they are not there yet.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// One autocommit statement.
pub async fn make_partitions(pool: &PgPool) -> Result<(), QueueError> {
    sqlx::query_scalar!("select ensure_job_partitions($1)", PARTITION_DAYS_AHEAD)
        .fetch_one(pool)
        .await
        .map_err(QueueError::during("make partitions"))?;
    Ok(())
}

fn log_failure(result: Result<(), QueueError>) {
    if let Err(fault) = result {
        warn!(error = chain(&fault), "a round of maintenance failed and is tried again");
    }
}
