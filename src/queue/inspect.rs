//! Reading: jobs and their attempts, wherever they stand. No lock, no count over history.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::{JobId, QueueError};

/// A job as people ask about it, queued or long ended.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Its id.
    pub job_id: Uuid,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// One of the words of [`super::JobState`].
    pub state: String,
    /// Whose job it is.
    pub source: String,
    /// What it is about.
    pub subject_id: Uuid,
    /// Its arguments.
    pub args: String,
    /// 1 first, 4 last.
    pub priority: i16,
    /// Attempts used.
    pub attempt: i16,
    /// Attempts allowed.
    pub attempts_max: i16,
    /// Class of the newest failure.
    pub error_class: Option<String>,
    /// Text of the newest failure.
    pub error: Option<String>,
    /// The dead job that was replayed as this one.
    pub replay_of: Option<Uuid>,
    /// Its dead letter, if it died.
    pub dead_letter_id: Option<Uuid>,
    /// Enqueued.
    pub created_at: DateTime<Utc>,
    /// Due; only of a queued or running job.
    pub run_at: Option<DateTime<Utc>>,
    /// Claimed by its current worker; only of a running job.
    pub claimed_at: Option<DateTime<Utc>>,
    /// Ended; only of an ended job.
    pub finished_at: Option<DateTime<Utc>>,
}

/// One finished attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptView {
    /// The job.
    pub job_id: Uuid,
    /// Its fence.
    pub lease_id: i64,
    /// Which try it was; a try that was given back is followed by one of the same number.
    pub attempt: i16,
    /// Who made it.
    pub worker_id: Uuid,
    /// Claimed.
    pub started_at: DateTime<Utc>,
    /// Settled or reaped.
    pub finished_at: DateTime<Utc>,
    /// How it ended.
    pub outcome: String,
    /// Class of the failure.
    pub error_class: Option<String>,
    /// Text of the failure.
    pub error: Option<String>,
    /// What the handler wanted remembered.
    pub context: Option<String>,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs in this state.
    pub state: Option<String>,
    /// Only jobs of this queue.
    pub queue: Option<String>,
    /// Only jobs of this source.
    pub source: Option<String>,
    /// Only jobs about this.
    pub subject_id: Option<Uuid>,
    /// Only jobs made before this one: the cursor.
    pub before: Option<Uuid>,
}

/// Lists jobs, newest first.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn list_jobs(pool: &PgPool, filter: &JobFilter, limit: i64) -> Result<Vec<JobView>, QueueError> {
    sqlx::query_as!(
        JobView,
        r#"select job_id as "job_id!", queue as "queue!", kind as "kind!", state as "state!",
                  source as "source!", subject_id as "subject_id!", args as "args!", priority as "priority!",
                  attempt as "attempt!", attempts_max as "attempts_max!", error_class, error, replay_of,
                  (select dead_letter_id from dead_letter where dead_letter.job_id = found.job_id),
                  created_at as "created_at!", run_at, claimed_at, finished_at
             from (
                 (select job_id, queue, kind, state, source, subject_id, args, priority, attempt, attempts_max,
                         error_class, error, replay_of, created_at, run_at, claimed_at,
                         null::timestamptz as finished_at
                    from job
                   where ($1::text is null or state = $1) and ($2::text is null or queue = $2)
                     and ($3::text is null or source = $3) and ($4::uuid is null or subject_id = $4)
                     and ($5::uuid is null or job_id < $5)
                   order by job_id desc limit $6)
                 union all
                 (select job_id, queue, kind, state, source, subject_id, args, priority, attempt, attempts_max,
                         error_class, error, replay_of, created_at, null, null, finished_at
                    from job_history
                   where ($1::text is null or state = $1) and ($2::text is null or queue = $2)
                     and ($3::text is null or source = $3) and ($4::uuid is null or subject_id = $4)
                     and ($5::uuid is null or job_id < $5)
                   order by job_id desc limit $6)
             ) found
            order by job_id desc
            limit $6"#,
        filter.state.as_deref(),
        filter.queue.as_deref(),
        filter.source.as_deref(),
        filter.subject_id,
        filter.before,
        limit,
    )
    .fetch_all(pool)
    .await
    .map_err(QueueError::during("list jobs"))
}

/// Looks one job up.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn find_job(pool: &PgPool, job_id: JobId) -> Result<Option<JobView>, QueueError> {
    sqlx::query_as!(
        JobView,
        r#"select job_id as "job_id!", queue as "queue!", kind as "kind!", state as "state!",
                  source as "source!", subject_id as "subject_id!", args as "args!", priority as "priority!",
                  attempt as "attempt!", attempts_max as "attempts_max!", error_class, error, replay_of,
                  (select dead_letter_id from dead_letter where dead_letter.job_id = found.job_id),
                  created_at as "created_at!", run_at, claimed_at, finished_at
             from (
                 select job_id, queue, kind, state, source, subject_id, args, priority, attempt, attempts_max,
                        error_class, error, replay_of, created_at, run_at, claimed_at,
                        null::timestamptz as finished_at
                   from job where job_id = $1
                 union all
                 select job_id, queue, kind, state, source, subject_id, args, priority, attempt, attempts_max,
                        error_class, error, replay_of, created_at, null, null, finished_at
                   from job_history where job_id = $1
             ) found
            limit 1"#,
        job_id.0,
    )
    .fetch_optional(pool)
    .await
    .map_err(QueueError::during("look up a job"))
}

/// The finished attempts of these jobs, in order.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn attempts(pool: &PgPool, job_ids: &[Uuid]) -> Result<Vec<AttemptView>, QueueError> {
    sqlx::query_as!(
        AttemptView,
        "select job_id, lease_id, attempt, worker_id, started_at, finished_at, outcome, error_class, error, context
           from attempt
          where job_id = any($1)
          order by job_id, lease_id",
        job_ids,
    )
    .fetch_all(pool)
    .await
    .map_err(QueueError::during("list attempts"))
}

/// How deep one queue is.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueDepth {
    /// Its name.
    pub queue: String,
    /// Jobs that are due.
    pub due: i64,
    /// Jobs that wait for their time.
    pub waiting: i64,
    /// Jobs that run.
    pub running: i64,
    /// How long the oldest due job has been due, in seconds; 0 when none is.
    pub oldest_due_seconds: f64,
}

/// The depth of every queue: what workers are scaled by. Reads the hot table only.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn depths(pool: &PgPool) -> Result<Vec<QueueDepth>, QueueError> {
    sqlx::query_as!(
        QueueDepth,
        r#"select queue,
                  count(*) filter (where state = 'queued' and run_at <= now()) as "due!",
                  count(*) filter (where state = 'queued' and run_at > now()) as "waiting!",
                  count(*) filter (where state = 'running') as "running!",
                  coalesce(extract(epoch from now() - min(run_at)
                           filter (where state = 'queued' and run_at <= now())), 0)::float8
                      as "oldest_due_seconds!"
             from job
            group by queue"#
    )
    .fetch_all(pool)
    .await
    .map_err(QueueError::during("measure the queues"))
}

/// Open dead letters, counted up to a cap so that the count stays cheap.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn open_dead_letters(pool: &PgPool, cap: i64) -> Result<i64, QueueError> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from (select from dead_letter where state = 'open' limit $1) capped"#,
        cap
    )
    .fetch_one(pool)
    .await
    .map_err(QueueError::during("count dead letters"))
}
