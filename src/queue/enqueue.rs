//! Enqueue: jobs enter in the caller's transaction, or not at all.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{NewJob, QueueError};

/// Inserts jobs, due at once. The caller's transaction decides whether they exist.
///
/// # Errors
/// [`QueueError::Database`] when the insert fails; a data fault when arguments exceed their cap.
///
/// # Cancellation safety
/// Part of the caller's transaction: dropped halfway, the transaction is rolled back.
pub async fn enqueue(connection: &mut PgConnection, jobs: &[NewJob]) -> Result<(), QueueError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.job_id.0).collect();
    let queues: Vec<String> = jobs.iter().map(|job| job.queue.to_owned()).collect();
    let kinds: Vec<String> = jobs.iter().map(|job| job.kind.to_owned()).collect();
    let sources: Vec<String> = jobs.iter().map(|job| job.source.clone()).collect();
    let subjects: Vec<Uuid> = jobs.iter().map(|job| job.subject_id).collect();
    let args: Vec<String> = jobs.iter().map(|job| job.args.clone()).collect();
    let priorities: Vec<i16> = jobs.iter().map(|job| job.priority).collect();
    let attempts_max: Vec<i16> = jobs.iter().map(|job| job.attempts_max).collect();
    sqlx::query!(
        "insert into job (job_id, queue, kind, source, subject_id, args, priority, attempts_max)
         select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::text[],
                              $7::smallint[], $8::smallint[])",
        &ids,
        &queues,
        &kinds,
        &sources,
        &subjects,
        &args,
        &priorities,
        &attempts_max,
    )
    .execute(connection)
    .await
    .map_err(QueueError::during("enqueue jobs"))?;
    Ok(())
}

/// Inserts one job unless a queued one of the same kind and arguments already waits: the way to
/// make ten thousand causes into one effect. Returns whether it was inserted.
///
/// # Errors
/// [`QueueError::Database`] when the insert fails.
///
/// # Cancellation safety
/// Part of the caller's transaction.
pub async fn enqueue_unless_waiting(
    connection: &mut PgConnection,
    job: &NewJob,
    delay_seconds: f64,
) -> Result<bool, QueueError> {
    let done = sqlx::query!(
        "insert into job (job_id, queue, kind, source, subject_id, args, priority, attempts_max, run_at)
         select $1, $2, $3, $4, $5, $6, $7, $8, now() + make_interval(secs => $9)
          where not exists (
              select from job where state = 'queued' and queue = $2 and kind = $3 and args = $6)",
        job.job_id.0,
        job.queue,
        job.kind,
        job.source,
        job.subject_id,
        job.args,
        job.priority,
        job.attempts_max,
        delay_seconds,
    )
    .execute(connection)
    .await
    .map_err(QueueError::during("enqueue a job"))?;
    Ok(done.rows_affected() == 1)
}
