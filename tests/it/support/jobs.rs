//! What the tests of the queue are made of: jobs to enqueue, a handler that does as it is told,
//! effects that can be counted, and gates instead of sleeps.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hooktriage::postgres::{ConnectTo, PoolSettings, connect};
use hooktriage::queue::claim::{ClaimRequest, claim};
use hooktriage::queue::inspect::{self, AttemptView, JobView};
use hooktriage::queue::reap::{Reaped, reap};
use hooktriage::queue::{
    Backoff, ClaimedJob, DeadLetterHook, DeadLettered, EffectWriter, Handler, JobError, JobId, JobTemplate,
    Lease, Liveness, NewJob, Outcome, QueueError, Ran, ReapPolicy, Wake, Worker, WorkerIdentity,
    WorkerPolicy, enqueue,
};
use sqlx::{PgConnection, PgPool};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::database::TestDatabase;
use super::wait::eventually;

/// Long enough for a busy machine; a test that gets here has failed.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const QUEUE: &str = "work";
pub(crate) const STEP: JobTemplate = JobTemplate { queue: QUEUE, kind: "step", attempts_max: 3 };
pub(crate) const FOLLOW_UP: JobTemplate = JobTemplate { queue: "after", kind: "follow_up", attempts_max: 1 };
pub(crate) const AT_ONCE: Backoff = Backoff { base: Duration::from_millis(1), cap: Duration::from_millis(1) };
pub(crate) const REAP: ReapPolicy =
    ReapPolicy { dead_after: Duration::from_secs(30), crashes_max: 3, backoff: AT_ONCE, batch_max: 500 };

/// A database in which effects can be seen: a note each, and none may say "bad". Nothing keeps a
/// job from having two notes but the queue.
pub(crate) async fn database() -> TestDatabase {
    let database = TestDatabase::new().await;
    let table = "create table note (job_id uuid, lease_id bigint, text text check (text <> 'bad'))";
    run(database.pool(), table).await;
    database
}

/// The pool of another process.
pub(crate) async fn second_pool(database: &TestDatabase) -> PgPool {
    let to = ConnectTo::from_url(&database.url().into()).unwrap();
    connect(&to, &PoolSettings::default()).await.unwrap()
}

pub(crate) async fn run(pool: &PgPool, statement: &'static str) -> u64 {
    sqlx::query(statement)
        .execute(pool)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"))
        .rows_affected()
}

pub(crate) async fn count(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// Waits until so many sessions of this database wait for a lock.
pub(crate) async fn blocked_sessions(pool: &PgPool, sessions: i64) {
    let waiting = "select count(*) from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock'";
    eventually(SOON, || async { (count(pool, waiting).await == sessions).then_some(()) }).await;
}

pub(crate) fn step() -> NewJob {
    STEP.job("desk", Uuid::now_v7(), "{}")
}

pub(crate) async fn put(pool: &PgPool, jobs: &[NewJob]) {
    let mut session = pool.acquire().await.unwrap();
    enqueue::enqueue(&mut session, jobs).await.unwrap();
}

pub(crate) async fn put_one(pool: &PgPool) -> JobId {
    put_many(pool, 1).await[0]
}

pub(crate) async fn put_many(pool: &PgPool, count: usize) -> Vec<JobId> {
    let jobs: Vec<NewJob> = (0..count).map(|_| step()).collect();
    put(pool, &jobs).await;
    jobs.iter().map(|job| job.job_id).collect()
}

/// Claims as a worker that has no heartbeat row.
pub(crate) async fn claim_some(pool: &PgPool, jobs_max: i64) -> Vec<ClaimedJob> {
    claim_as(pool, Uuid::now_v7(), jobs_max).await
}

pub(crate) async fn claim_as(pool: &PgPool, worker_id: Uuid, jobs_max: i64) -> Vec<ClaimedJob> {
    let request = ClaimRequest {
        queue: QUEUE,
        kinds: &[STEP.kind.to_owned()],
        worker_id,
        jobs_max,
        lease_for: Duration::from_secs(60),
        age_max: Duration::from_secs(3600),
    };
    claim(pool, &request).await.unwrap()
}

pub(crate) fn leases(jobs: &[ClaimedJob]) -> Vec<Lease> {
    jobs.iter().map(|job| job.lease).collect()
}

/// Lets the time pass that a lease lasts, but for jobs that are being settled right now.
pub(crate) async fn make_overdue(pool: &PgPool) {
    let overdue = "update job set deadline_at = now() - interval '1 s'
                    where job_id in (select job_id from job where state = 'running' for update skip locked)";
    run(pool, overdue).await;
}

pub(crate) async fn reap_now(pool: &PgPool) -> Reaped {
    reap(pool, &REAP, &Quiet).await.unwrap()
}

pub(crate) async fn find(pool: &PgPool, job_id: JobId) -> JobView {
    inspect::find_job(pool, job_id).await.unwrap().expect("the job stands somewhere")
}

pub(crate) async fn attempts(pool: &PgPool, job_id: JobId) -> Vec<AttemptView> {
    inspect::attempts(pool, &[job_id.0]).await.unwrap()
}

pub(crate) async fn outcomes(pool: &PgPool, job_id: JobId) -> Vec<String> {
    attempts(pool, job_id).await.into_iter().map(|attempt| attempt.outcome).collect()
}

/// The notes of a job: what was written of it, by which lease.
pub(crate) async fn notes(pool: &PgPool, job_id: JobId) -> Vec<(i64, String)> {
    let notes = sqlx::query_as("select lease_id, text from note where job_id = $1 order by lease_id");
    notes.bind(job_id.0).fetch_all(pool).await.unwrap()
}

/// A place where a test and its actors meet: who passes has arrived, and waits until it is open.
pub(crate) struct Gate {
    arrived: Semaphore,
    open: Semaphore,
}

impl Gate {
    pub(crate) fn closed() -> Arc<Self> {
        Arc::new(Self { arrived: Semaphore::new(0), open: Semaphore::new(0) })
    }

    pub(crate) async fn pass(&self) {
        self.arrived.add_permits(1);
        drop(self.open.acquire().await.unwrap());
    }

    /// Waits for one more arrival.
    pub(crate) async fn arrival(&self) {
        let arrived = tokio::time::timeout(SOON, self.arrived.acquire()).await;
        arrived.expect("somebody arrives at the gate").unwrap().forget();
    }

    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

type Script = dyn Fn(ClaimedJob) -> BoxFuture<'static, Ran<String>> + Send + Sync;

/// A handler that does what a closure says.
pub(crate) struct Scripted(Box<Script>);

pub(crate) fn handler<Fut, R>(script: impl Fn(ClaimedJob) -> Fut + Send + Sync + 'static) -> Arc<Scripted>
where
    Fut: Future<Output = R> + Send + 'static,
    R: Into<Ran<String>>,
{
    Arc::new(Scripted(Box::new(move |job| {
        let running = script(job);
        Box::pin(async move { running.await.into() })
    })))
}

impl Handler for Scripted {
    type Effect = String;

    fn kinds(&self) -> Vec<String> {
        vec![STEP.kind.to_owned()]
    }

    fn run(&self, job: &ClaimedJob) -> impl Future<Output = Ran<String>> + Send {
        (self.0)(job.clone())
    }
}

pub(crate) fn complete(note: &str) -> Outcome<String> {
    Outcome::Complete(note.to_owned())
}

pub(crate) fn retry(class: &'static str, text: &str) -> Outcome<String> {
    Outcome::Retry { error: JobError::new(class, text), after: None }
}

/// Writes a note and a follow-up job for each completed job. The note "panic" makes it panic, the
/// note "plug" makes it wait at the gate, inside its transaction.
pub(crate) struct Notes {
    pub(crate) gate: Arc<Gate>,
}

impl EffectWriter for Notes {
    type Effect = String;

    fn write<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        completed: &'a [(&'a ClaimedJob, &'a String)],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            for (job, text) in completed {
                assert_ne!(text.as_str(), "panic", "as it was told");
                sqlx::query("insert into note values ($1, $2, $3)")
                    .bind(job.lease.job_id.0)
                    .bind(job.lease.lease_id)
                    .bind(text.as_str())
                    .execute(&mut *connection)
                    .await
                    .map_err(|source| QueueError::Database { verb: "write a note", source })?;
                enqueue::enqueue(connection, &[FOLLOW_UP.job("desk", job.lease.job_id.0, "{}")]).await?;
                if *text == "plug" {
                    self.gate.pass().await;
                }
            }
            Ok(())
        })
    }
}

/// A hook that raises nothing.
pub(crate) struct Quiet;

impl DeadLetterHook for Quiet {
    fn dead_lettered<'a>(
        &'a self,
        _connection: &'a mut PgConnection,
        _letters: &'a [DeadLettered],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How a worker is to be set up.
pub(crate) struct Plan {
    pub(crate) policy: WorkerPolicy,
    pub(crate) liveness: Liveness,
    pub(crate) gate: Arc<Gate>,
    pub(crate) hook: Arc<dyn DeadLetterHook>,
}

impl Plan {
    pub(crate) fn slots(slots: usize) -> Self {
        let policy =
            WorkerPolicy { slots, job_timeout: SOON, age_max: Duration::from_secs(3600), backoff: AT_ONCE };
        Self { policy, liveness: Liveness::default(), gate: Gate::closed(), hook: Arc::new(Quiet) }
    }

    pub(crate) async fn start<H>(self, pool: &PgPool, handler: Arc<H>) -> Crew
    where
        H: Handler<Effect = String>,
    {
        let (wake, _remote) = Wake::new(&[QUEUE]);
        self.start_with(pool, handler, wake).await
    }

    pub(crate) async fn start_with<H>(self, pool: &PgPool, handler: Arc<H>, wake: Wake) -> Crew
    where
        H: Handler<Effect = String>,
    {
        let worker = Worker::start(pool.clone(), identity(), self.liveness).await.unwrap();
        let writer = Arc::new(Notes { gate: self.gate });
        worker.work(QUEUE, self.policy, handler, writer, self.hook, wake.clone());
        Crew { worker, wake, pool: pool.clone() }
    }
}

pub(crate) fn identity() -> WorkerIdentity {
    WorkerIdentity { worker_id: Uuid::now_v7(), host: "test".to_owned(), version: "0" }
}

/// A worker at work.
pub(crate) struct Crew {
    pub(crate) worker: Worker,
    pub(crate) wake: Wake,
    pool: PgPool,
}

impl Crew {
    pub(crate) async fn start(pool: &PgPool, handler: Arc<Scripted>) -> Self {
        Plan::slots(8).start(pool, handler).await
    }

    /// Waits until a job has ended. Rings meanwhile, so that a retry is not left to the polls.
    pub(crate) async fn ended(&self, job_id: JobId) -> JobView {
        eventually(SOON, || async {
            self.wake.ring(QUEUE);
            let job = find(&self.pool, job_id).await;
            job.finished_at.is_some().then_some(job)
        })
        .await
    }

    /// Waits until no job of the queue is left.
    pub(crate) async fn all_ended(&self) {
        eventually(SOON, || async {
            self.wake.ring(QUEUE);
            (count(&self.pool, "select count(*) from job where queue = 'work'").await == 0).then_some(())
        })
        .await;
    }

    /// Stops cleanly; when this returns, everything that was handed in is settled.
    pub(crate) async fn stop(self) {
        self.worker.stop(SOON).await.unwrap();
    }
}
