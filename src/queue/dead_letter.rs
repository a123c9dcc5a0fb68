//! Dead letters: list, show, and replay as new, linked jobs.
//!
//! **Invariant:** a replay marks its letter and inserts its job in one statement; the letter is
//! never deleted, and a letter that is not open any more is not replayed again.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::{JobId, NewJob, QueueError};

/// A dead letter, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// Its id.
    pub dead_letter_id: Uuid,
    /// The job that died.
    pub job_id: Uuid,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Whose job it was.
    pub source: String,
    /// What it was about.
    pub subject_id: Uuid,
    /// One of the words of [`super::DeadReason`].
    pub reason: String,
    /// Class of the last failure.
    pub error_class: String,
    /// Text of the last failure.
    pub error: String,
    /// Attempts used.
    pub attempt: i16,
    /// Attempts allowed.
    pub attempts_max: i16,
    /// Processes that it took with it.
    pub crash_count: i16,
    /// The dead job that this job was a replay of.
    pub replay_of: Option<Uuid>,
    /// `open`, `replayed` or `discarded`.
    pub state: String,
    /// The job that it was replayed as.
    pub replayed_job_id: Option<Uuid>,
    /// When it was replayed.
    pub replayed_at: Option<DateTime<Utc>>,
    /// When the job was enqueued.
    pub job_created_at: DateTime<Utc>,
    /// When the job was first claimed.
    pub first_claimed_at: Option<DateTime<Utc>>,
    /// When it died.
    pub dead_at: DateTime<Utc>,
}

/// Which letters to list or to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only letters in this state.
    pub state: Option<String>,
    /// Only letters of this queue.
    pub queue: Option<String>,
    /// Only letters of this source.
    pub source: Option<String>,
    /// Only letters with this error class.
    pub error_class: Option<String>,
    /// Only letters with this reason.
    pub reason: Option<String>,
    /// Only letters that died at or after this time.
    pub dead_since: Option<DateTime<Utc>>,
    /// Only letters that died before this time.
    pub dead_until: Option<DateTime<Utc>>,
    /// Only letters made before this one: the cursor.
    pub before: Option<Uuid>,
}

/// Lists letters, newest first.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn list_dead_letters(
    pool: &PgPool,
    filter: &DeadLetterFilter,
    limit: i64,
) -> Result<Vec<DeadLetter>, QueueError> {
    sqlx::query_as!(
        DeadLetter,
        "select dead_letter_id, job_id, queue, kind, source, subject_id, reason, error_class, error, attempt,
                attempts_max, crash_count, replay_of, state, replayed_job_id, replayed_at, job_created_at,
                first_claimed_at, dead_at
           from dead_letter
          where ($1::text is null or state = $1) and ($2::text is null or queue = $2)
            and ($3::text is null or source = $3) and ($4::text is null or error_class = $4)
            and ($5::text is null or reason = $5) and ($6::timestamptz is null or dead_at >= $6)
            and ($7::timestamptz is null or dead_at < $7) and ($8::uuid is null or dead_letter_id < $8)
          order by dead_letter_id desc
          limit $9",
        filter.state.as_deref(),
        filter.queue.as_deref(),
        filter.source.as_deref(),
        filter.error_class.as_deref(),
        filter.reason.as_deref(),
        filter.dead_since,
        filter.dead_until,
        filter.before,
        limit,
    )
    .fetch_all(pool)
    .await
    .map_err(QueueError::during("list dead letters"))
}

/// Looks one letter up.
///
/// # Errors
/// [`QueueError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn find_dead_letter(pool: &PgPool, dead_letter_id: Uuid) -> Result<Option<DeadLetter>, QueueError> {
    sqlx::query_as!(
        DeadLetter,
        "select dead_letter_id, job_id, queue, kind, source, subject_id, reason, error_class, error, attempt,
                attempts_max, crash_count, replay_of, state, replayed_job_id, replayed_at, job_created_at,
                first_claimed_at, dead_at
           from dead_letter
          where dead_letter_id = $1",
        dead_letter_id,
    )
    .fetch_optional(pool)
    .await
    .map_err(QueueError::during("look up a dead letter"))
}

/// One letter that was replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The letter.
    pub dead_letter_id: Uuid,
    /// The new job.
    pub job_id: JobId,
    /// The queue that it waits in.
    pub queue: String,
}

/// Replays letters that are still open, each as a new job with a fresh budget of attempts that
/// names the dead one. Letters that are not open any more are left alone and not returned.
///
/// # Errors
/// [`QueueError::Database`]; then nothing was replayed.
///
/// # Cancellation safety
/// One autocommit statement.
pub async fn replay(pool: &PgPool, dead_letter_ids: &[Uuid]) -> Result<Vec<Replayed>, QueueError> {
    let new_ids: Vec<Uuid> = dead_letter_ids.iter().map(|_| JobId::new().0).collect();
    let rows = sqlx::query!(
        r#"with input as (
               select * from unnest($1::uuid[], $2::uuid[]) as t (letter_id, new_job_id)),
           marked as (
               update dead_letter
                  set state = 'replayed', replayed_at = now(), replayed_job_id = input.new_job_id
                 from input
                where dead_letter_id = input.letter_id and state = 'open'
            returning dead_letter.*),
           revived as (
               insert into job (job_id, queue, kind, source, subject_id, args, priority, attempts_max, replay_of)
               select replayed_job_id, queue, kind, source, subject_id, args, $3, attempts_max, job_id
                 from marked)
           select dead_letter_id as "dead_letter_id!", replayed_job_id as "job_id!", queue as "queue!"
             from marked"#,
        dead_letter_ids,
        &new_ids,
        NewJob::PRIORITY_REPLAY,
    )
    .fetch_all(pool)
    .await
    .map_err(QueueError::during("replay dead letters"))?;
    let replayed = rows.into_iter().map(|row| Replayed {
        dead_letter_id: row.dead_letter_id,
        job_id: JobId(row.job_id),
        queue: row.queue,
    });
    Ok(replayed.collect())
}
