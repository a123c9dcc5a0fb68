//! Claim: the `skip locked` statement, and nothing else.

use std::time::Duration;

use sqlx::PgPool;
use uuid::Uuid;

use super::{ClaimedJob, JobId, Lease, QueueError};

/// What a claim asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    /// The queue to claim from.
    pub queue: &'a str,
    /// Kinds that the handler knows; jobs of other kinds are left alone for a worker that does.
    pub kinds: &'a [String],
    /// This process.
    pub worker_id: Uuid,
    /// How many jobs at most: the free slots.
    pub jobs_max: i64,
    /// How long the lease lasts without a sign of progress: job timeout plus a margin.
    pub lease_for: Duration,
    /// How old a job may get, counted from its first claim.
    pub age_max: Duration,
}

/// Claims due jobs, oldest first within a priority, and commits at once.
///
/// The select is a materialized CTE because a plain sub-select may be run again by the planner and
/// then locks more rows than the limit (seen by three other queues). `no key update` is the weakest
/// lock that keeps two claims apart.
///
/// # Errors
/// [`QueueError::Database`]; then nothing was claimed, or the claim is unknown and the reaper
/// brings the jobs back.
///
/// # Cancellation safety
/// One autocommit statement. Dropped halfway, jobs may be claimed that nobody runs; they come back
/// when the worker's heartbeat ends or their deadline passes.
pub async fn claim(pool: &PgPool, request: &ClaimRequest<'_>) -> Result<Vec<ClaimedJob>, QueueError> {
    let rows = sqlx::query!(
        r#"with due as materialized (
               select job_id from job
                where state = 'queued' and queue = $1 and kind = any($2) and run_at <= now()
                order by priority, run_at, job_id
                limit $3
                  for no key update skip locked)
           update job j
              set state = 'running', attempt = j.attempt + 1, lease_id = j.lease_id + 1,
                  worker_id = $4, claimed_at = now(), deadline_at = now() + make_interval(secs => $5),
                  first_claimed_at = coalesce(j.first_claimed_at, now())
             from due
            where j.job_id = due.job_id
        returning j.job_id, j.lease_id, j.queue, j.kind, j.source, j.subject_id, j.args, j.attempt,
                  j.attempts_max, j.error_class, j.created_at,
                  (now() > j.first_claimed_at + make_interval(secs => $6)) as "expired!""#,
        request.queue,
        request.kinds,
        request.jobs_max,
        request.worker_id,
        request.lease_for.as_secs_f64(),
        request.age_max.as_secs_f64(),
    )
    .fetch_all(pool)
    .await
    .map_err(QueueError::during("claim jobs"))?;
    let claimed = rows.into_iter().map(|row| ClaimedJob {
        lease: Lease { job_id: JobId(row.job_id), lease_id: row.lease_id },
        queue: row.queue,
        kind: row.kind,
        source: row.source,
        subject_id: row.subject_id,
        args: row.args,
        attempt: row.attempt,
        attempts_max: row.attempts_max,
        last_error_class: row.error_class,
        expired: row.expired,
        created_at: row.created_at,
    });
    Ok(claimed.collect())
}
