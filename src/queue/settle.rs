//! Settle: the statements that end an attempt, each fenced by the lease.
//!
//! **Invariant:** every statement matches `(job_id, lease_id)` of a running job and returns the
//! leases for which that held. A lease that is not returned has been taken back; its result is
//! dropped. It is leases, not jobs: a batch may hold a lost and a live lease of the same job.

use sqlx::PgConnection;
use uuid::Uuid;

use super::ending::Requeue;
use super::job::storable;
use super::{DeadLettered, DeadReason, JobError, JobId, Lease, QueueError};

/// One attempt to settle: the lease, and the note for its row.
#[derive(Clone, Debug)]
pub(crate) struct Settled<T> {
    pub lease: Lease,
    pub context: Option<String>,
    pub what: T,
}

/// How a job dies.
#[derive(Clone, Debug)]
pub(crate) struct Burial {
    pub reason: DeadReason,
    pub error: JobError,
    /// The process died with the attempt: one more crash, and the attempt's row says so.
    pub crashed: bool,
}

struct Columns {
    job_ids: Vec<Uuid>,
    lease_ids: Vec<i64>,
    contexts: Vec<Option<String>>,
}

fn columns<T>(settled: &[Settled<T>]) -> Columns {
    Columns {
        job_ids: settled.iter().map(|one| one.lease.job_id.0).collect(),
        lease_ids: settled.iter().map(|one| one.lease.lease_id).collect(),
        contexts: settled.iter().map(|one| one.context.as_deref().map(storable)).collect(),
    }
}

/// Ends jobs as succeeded. Returns the leases that still held.
pub(crate) async fn succeed<T>(
    connection: &mut PgConnection,
    settled: &[Settled<T>],
) -> Result<Vec<Lease>, QueueError> {
    let Columns { job_ids, lease_ids, contexts } = columns(settled);
    let held = sqlx::query!(
        r#"with input as (
               select * from unnest($1::uuid[], $2::bigint[], $3::text[]) as t (job_id, lease_id, context)),
           ended as (
               delete from job using input
                where job.job_id = input.job_id and job.lease_id = input.lease_id and job.state = 'running'
            returning job.*, input.context),
           history as (
               insert into job_history (job_id, lease_id, created_at, first_claimed_at, subject_id, replay_of,
                                        attempt, attempts_max, crash_count, priority, state, queue, kind,
                                        source, args)
               select job_id, lease_id, created_at, first_claimed_at, subject_id, replay_of,
                      attempt, attempts_max, crash_count, priority, 'succeeded', queue, kind, source, args
                 from ended),
           tried as (
               insert into attempt (job_id, lease_id, attempt, worker_id, started_at, outcome, context)
               select job_id, lease_id, attempt, worker_id, claimed_at, 'succeeded', context from ended)
           select job_id as "job_id!", lease_id as "lease_id!" from ended"#,
        &job_ids,
        &lease_ids,
        &contexts as &[Option<String>],
    )
    .fetch_all(connection)
    .await
    .map_err(QueueError::during("settle succeeded jobs"))?;
    Ok(held.into_iter().map(|row| Lease { job_id: JobId(row.job_id), lease_id: row.lease_id }).collect())
}

/// Puts jobs back: due later, with the attempt used up or given back. Returns the leases that still
/// held.
pub(crate) async fn requeue(
    connection: &mut PgConnection,
    settled: &[Settled<Requeue>],
) -> Result<Vec<Lease>, QueueError> {
    let Columns { job_ids, lease_ids, contexts } = columns(settled);
    let delays: Vec<f64> = settled.iter().map(|one| one.what.delay.as_secs_f64()).collect();
    let refunds: Vec<i16> = settled.iter().map(|one| i16::from(one.what.refund)).collect();
    let outcomes: Vec<String> = settled.iter().map(|one| one.what.outcome.to_owned()).collect();
    let class = |one: &Settled<Requeue>| one.what.error.as_ref().map(|error| error.class.to_owned());
    let classes: Vec<Option<String>> = settled.iter().map(class).collect();
    let text = |one: &Settled<Requeue>| one.what.error.as_ref().map(JobError::stored_text);
    let errors: Vec<Option<String>> = settled.iter().map(text).collect();
    let held = sqlx::query!(
        r#"with input as (
               select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::float8[], $5::smallint[],
                                    $6::text[], $7::text[], $8::text[])
                   as t (job_id, lease_id, context, delay_seconds, refund, outcome, error_class, error)),
           held as materialized (
               select job.job_id, job.lease_id, job.attempt, job.worker_id, job.claimed_at
                 from job join input using (job_id, lease_id)
                where job.state = 'running'
                  for no key update of job),
           tried as (
               insert into attempt (job_id, lease_id, attempt, worker_id, started_at, outcome, error_class,
                                    error, context)
               select held.job_id, held.lease_id, held.attempt, held.worker_id, held.claimed_at, outcome,
                      error_class, error, context
                 from held join input using (job_id, lease_id))
           update job
              set state = 'queued', run_at = now() + make_interval(secs => input.delay_seconds),
                  attempt = job.attempt - input.refund, worker_id = null, claimed_at = null,
                  deadline_at = null, error_class = coalesce(input.error_class, job.error_class),
                  error = coalesce(input.error, job.error)
             from held join input using (job_id, lease_id)
            where job.job_id = held.job_id
        returning job.job_id, job.lease_id"#,
        &job_ids,
        &lease_ids,
        &contexts as &[Option<String>],
        &delays,
        &refunds,
        &outcomes,
        &classes as &[Option<String>],
        &errors as &[Option<String>],
    )
    .fetch_all(connection)
    .await
    .map_err(QueueError::during("put jobs back"))?;
    Ok(held.into_iter().map(|row| Lease { job_id: JobId(row.job_id), lease_id: row.lease_id }).collect())
}

/// Ends jobs as dead letters. Returns the letters of those whose lease still held, with that lease.
pub(crate) async fn bury(
    connection: &mut PgConnection,
    settled: &[Settled<Burial>],
) -> Result<Vec<(Lease, DeadLettered)>, QueueError> {
    let Columns { job_ids, lease_ids, contexts } = columns(settled);
    let letter_ids: Vec<Uuid> = settled.iter().map(|_| Uuid::now_v7()).collect();
    let reasons: Vec<String> = settled.iter().map(|one| one.what.reason.as_str().to_owned()).collect();
    let classes: Vec<String> = settled.iter().map(|one| one.what.error.class.to_owned()).collect();
    let errors: Vec<String> = settled.iter().map(|one| one.what.error.stored_text()).collect();
    let rows = sqlx::query!(
        r#"with input as (
               select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::uuid[], $5::text[], $6::text[],
                                    $7::text[], $8::smallint[])
                   as t (job_id, lease_id, context, letter_id, reason, class, text, crash)),
           ended as (
               delete from job using input
                where job.job_id = input.job_id and job.lease_id = input.lease_id and job.state = 'running'
            returning job.*, input.context, input.letter_id, input.reason, input.class, input.text, input.crash),
           history as (
               insert into job_history (job_id, lease_id, created_at, first_claimed_at, subject_id, replay_of,
                                        attempt, attempts_max, crash_count, priority, state, queue, kind,
                                        source, args, error_class, error)
               select job_id, lease_id, created_at, first_claimed_at, subject_id, replay_of,
                      attempt, attempts_max, crash_count + crash, priority, 'dead', queue, kind,
                      source, args, class, text
                 from ended),
           tried as (
               insert into attempt (job_id, lease_id, attempt, worker_id, started_at, outcome, error_class,
                                    error, context)
               select job_id, lease_id, attempt, worker_id, claimed_at,
                      case when crash > 0 then 'crashed' else 'dead' end, class, text, context
                 from ended),
           letter as (
               insert into dead_letter (dead_letter_id, job_id, lease_id, queue, kind, source, subject_id,
                                        args, priority, attempts_max, reason, error_class, error, attempt,
                                        crash_count, replay_of, job_created_at, first_claimed_at)
               select letter_id, job_id, lease_id, queue, kind, source, subject_id, args, priority,
                      attempts_max, reason, class, text, attempt, crash_count + crash, replay_of, created_at,
                      first_claimed_at
                 from ended)
           select job_id as "job_id!", lease_id as "lease_id!", letter_id as "letter_id!", queue as "queue!", kind as "kind!",
                  source as "source!", subject_id as "subject_id!"
             from ended"#,
        &job_ids,
        &lease_ids,
        &contexts as &[Option<String>],
        &letter_ids,
        &reasons,
        &classes,
        &errors,
        &settled.iter().map(|one| i16::from(one.what.crashed)).collect::<Vec<i16>>(),
    )
    .fetch_all(connection)
    .await
    .map_err(QueueError::during("bury dead jobs"))?;
    let letters = rows.into_iter().filter_map(|row| {
        let lease = Lease { job_id: JobId(row.job_id), lease_id: row.lease_id };
        let what = &settled.iter().find(|one| one.lease == lease)?.what;
        let letter = DeadLettered {
            dead_letter_id: row.letter_id,
            job_id: lease.job_id,
            queue: row.queue,
            kind: row.kind,
            source: row.source,
            subject_id: row.subject_id,
            reason: what.reason,
            error_class: what.error.class.to_owned(),
            error: what.error.stored_text(),
        };
        Some((lease, letter))
    });
    Ok(letters.collect())
}
