//! Reap: take back the jobs of dead workers and overdue leases.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::settle::{Burial, Settled, bury};
use super::settler::announce;
use super::{Backoff, DeadLetterHook, DeadLettered, DeadReason, JobError, JobId, Lease, QueueError};

/// How the reaper judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapPolicy {
    /// A worker that was not seen for this long is dead.
    pub dead_after: Duration,
    /// A job that took this many processes with it is poison.
    pub crashes_max: i16,
    /// When a reaped job is due again.
    pub backoff: Backoff,
    /// Most jobs in one go.
    pub batch_max: i64,
}

/// What one reaping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Jobs that went back to the queue.
    pub requeued: usize,
    /// Jobs that became dead letters.
    pub dead: usize,
}

struct Lost {
    lease: Lease,
    attempt: i16,
    attempts_max: i16,
    crash_count: i16,
}

/// Takes back one batch of lost jobs. Any number of processes may do this at once: rows that
/// another one holds are skipped, and every write repeats the condition that chose the row.
///
/// # Errors
/// [`QueueError::Database`]; then nothing was reaped.
///
/// # Cancellation safety
/// Not cancellation safe: run it in a task that nothing cancels (it opens a transaction).
pub async fn reap(
    pool: &PgPool,
    policy: &ReapPolicy,
    hook: &dyn DeadLetterHook,
) -> Result<Reaped, QueueError> {
    #[expect(clippy::disallowed_methods, reason = "the maintenance task is never cancelled while it reaps")]
    let mut transaction = pool.begin().await.map_err(QueueError::during("begin to reap"))?;
    let lost = find_lost(&mut transaction, policy).await?;
    if lost.is_empty() {
        transaction.rollback().await.map_err(QueueError::during("end a reaping"))?;
        return Ok(Reaped::default());
    }
    let is_over = |one: &Lost| one.crash_count + 1 >= policy.crashes_max || one.attempt >= one.attempts_max;
    let (over, back): (Vec<Lost>, Vec<Lost>) = lost.into_iter().partition(is_over);
    requeue_lost(&mut transaction, &back, &policy.backoff).await?;
    let letters = bury_lost(&mut transaction, &over, policy.crashes_max).await?;
    if !letters.is_empty() {
        hook.dead_lettered(&mut transaction, &letters).await?;
    }
    transaction.commit().await.map_err(QueueError::during("commit a reaping"))?;
    letters.iter().for_each(announce);
    metrics::counter!("hooktriage_jobs_reaped_total").increment((back.len() + over.len()) as u64);
    Ok(Reaped { requeued: back.len(), dead: over.len() })
}

async fn find_lost(connection: &mut PgConnection, policy: &ReapPolicy) -> Result<Vec<Lost>, QueueError> {
    let rows = sqlx::query!(
        r#"select job.job_id, job.lease_id, job.attempt, job.attempts_max, job.crash_count
             from job
            where state = 'running'
              and (deadline_at < now()
                   or not exists (select from worker
                                   where worker.worker_id = job.worker_id
                                     and worker.seen_at >= now() - make_interval(secs => $1)))
            limit $2
              for no key update of job skip locked"#,
        policy.dead_after.as_secs_f64(),
        policy.batch_max,
    )
    .fetch_all(connection)
    .await
    .map_err(QueueError::during("look for lost jobs"))?;
    let lost = rows.into_iter().map(|row| Lost {
        lease: Lease { job_id: JobId(row.job_id), lease_id: row.lease_id },
        attempt: row.attempt,
        attempts_max: row.attempts_max,
        crash_count: row.crash_count,
    });
    Ok(lost.collect())
}

/// The attempt stays used and one crash is counted, so that a job that kills its worker cannot
/// walk through the fleet for ever.
async fn requeue_lost(
    connection: &mut PgConnection,
    lost: &[Lost],
    backoff: &Backoff,
) -> Result<(), QueueError> {
    let ids: Vec<Uuid> = lost.iter().map(|one| one.lease.job_id.0).collect();
    let leases: Vec<i64> = lost.iter().map(|one| one.lease.lease_id).collect();
    let delays: Vec<f64> = lost.iter().map(|one| backoff.delay(one.attempt, None).as_secs_f64()).collect();
    sqlx::query!(
        "with input as (
             select * from unnest($1::uuid[], $2::bigint[], $3::float8[]) as t (job_id, lease_id, delay_seconds)),
         tried as (
             insert into attempt (job_id, lease_id, attempt, worker_id, started_at, outcome, error_class, error)
             select job.job_id, job.lease_id, job.attempt, job.worker_id, job.claimed_at, 'crashed',
                    'worker_lost', 'the worker died or the lease ran out before the attempt ended'
               from job join input using (job_id)
              where job.lease_id = input.lease_id and job.state = 'running')
         update job
            set state = 'queued', run_at = now() + make_interval(secs => input.delay_seconds),
                crash_count = job.crash_count + 1, worker_id = null, claimed_at = null, deadline_at = null,
                error_class = 'worker_lost',
                error = 'the worker died or the lease ran out before the attempt ended'
           from input
          where job.job_id = input.job_id and job.lease_id = input.lease_id and job.state = 'running'",
        &ids,
        &leases,
        &delays,
    )
    .execute(connection)
    .await
    .map_err(QueueError::during("take lost jobs back"))?;
    Ok(())
}

async fn bury_lost(
    connection: &mut PgConnection,
    lost: &[Lost],
    crashes_max: i16,
) -> Result<Vec<DeadLettered>, QueueError> {
    if lost.is_empty() {
        return Ok(vec![]);
    }
    let settled: Vec<_> = lost
        .iter()
        .map(|one| {
            let crashes = one.crash_count + 1;
            let reason = if crashes >= crashes_max { DeadReason::Poison } else { DeadReason::Exhausted };
            let text = format!("the worker died or the lease ran out in {crashes} attempts");
            let error = JobError::new("worker_lost", text);
            Settled { lease: one.lease, context: None, what: Burial { reason, error, crashed: true } }
        })
        .collect();
    let buried = bury(connection, &settled).await?;
    Ok(buried.into_iter().map(|(_, letter)| letter).collect())
}
