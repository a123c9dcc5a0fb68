//! The worker: claims what it has room for, runs it, hands in how it ended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::PgPool;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info, info_span};

use super::claim::{ClaimRequest, claim};
use super::ending::Ending;
use super::settler::{Settler, chain};
use super::{
    Backoff, ClaimedJob, DeadLetterHook, EffectWriter, JobError, Liveness, Outcome, QueueError, Ran, Wake,
    WorkerIdentity, lease,
};

/// Does the work of one queue.
pub trait Handler: Send + Sync + 'static {
    /// What a completed job wants written.
    type Effect: Send + Sync + 'static;

    /// The kinds of job that this handler knows. Others are left in the queue.
    fn kinds(&self) -> Vec<String>;

    /// Resolves when it makes sense to claim: a handler whose provider is paused waits here, so
    /// that jobs stay in the queue instead of going round.
    ///
    /// # Cancellation safety
    /// Must be cancellation safe.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Runs one attempt. It may be dropped at any await (timeout, shutdown, lost lease) and may be
    /// run again after it had effects outside: every such effect carries an idempotency key.
    fn run(&self, job: &ClaimedJob) -> impl Future<Output = Ran<Self::Effect>> + Send;
}

/// The settings of one queue's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPolicy {
    /// How many jobs this process works on at once.
    pub slots: usize,
    /// How long one attempt may take.
    pub job_timeout: Duration,
    /// How old a job may get, counted from its first claim.
    pub age_max: Duration,
    /// When a failed job is tried again.
    pub backoff: Backoff,
}

impl WorkerPolicy {
    /// The lease outlasts the timeout by this much, so that an attempt that times out can still be
    /// settled by its own worker.
    const LEASE_MARGIN: Duration = Duration::from_secs(30);
}

/// This process as a worker: its identity and whether it may work.
#[derive(Debug)]
pub struct Worker {
    pub(super) identity: WorkerIdentity,
    pool: PgPool,
    alive: watch::Receiver<bool>,
    tasks: TaskTracker,
    /// Cancelled when no new job may be claimed.
    stop: CancellationToken,
    /// Cancelled when running attempts must give their jobs back.
    hand_back: CancellationToken,
    beating: CancellationToken,
    heart: JoinHandle<()>,
    /// Cancelled when a part of this worker ended by a panic.
    broken: CancellationToken,
}

impl Worker {
    /// How long the last flush may take when the database does not answer.
    const FLUSH_LIMIT: Duration = Duration::from_secs(5);

    /// Introduces this process to the database and starts its heartbeat.
    ///
    /// # Errors
    /// [`QueueError::Database`] when the first beat fails.
    pub async fn start(
        pool: PgPool,
        identity: WorkerIdentity,
        liveness: Liveness,
    ) -> Result<Self, QueueError> {
        lease::beat(&pool, &identity).await?;
        let (alive, receiver) = watch::channel(true);
        let beating = CancellationToken::new();
        let heart = lease::keep_beating(pool.clone(), identity.clone(), liveness, alive, beating.clone());
        let heart = tokio::spawn(heart);
        Ok(Self {
            identity,
            pool,
            alive: receiver,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            hand_back: CancellationToken::new(),
            beating,
            heart,
            broken: CancellationToken::new(),
        })
    }

    /// Starts to work on `queue`.
    pub fn work<H, W>(
        &self,
        queue: &'static str,
        policy: WorkerPolicy,
        handler: Arc<H>,
        writer: Arc<W>,
        hook: Arc<dyn DeadLetterHook>,
        wake: Wake,
    ) where
        H: Handler,
        W: EffectWriter<Effect = H::Effect>,
    {
        let (settler, flusher) = Settler::start(self.pool.clone(), writer, hook, wake.clone());
        let broken = self.broken.clone();
        self.tasks.spawn(async move {
            if let Err(fault) = flusher.await {
                error!(%fault, "the settler ended by a panic; its jobs come back through the reaper");
                broken.cancel();
            }
        });
        let serving = QueueWorker {
            queue,
            policy,
            handler,
            settler,
            wake,
            worker_id: self.identity.worker_id,
            pool: self.pool.clone(),
            slots: Arc::new(Semaphore::new(policy.slots)),
            alive: self.alive.clone(),
            tasks: self.tasks.clone(),
            stop: self.stop.clone(),
            hand_back: self.hand_back.clone(),
        };
        let broken = self.broken.clone();
        self.tasks.spawn(async move {
            if AssertUnwindSafe(serving.run()).catch_unwind().await.is_err() {
                error!(queue, "a worker ended by a panic; nobody here serves its queue any more");
                broken.cancel();
            }
        });
    }

    /// Resolves when a part of this worker ended by a panic: the only cure is a new process.
    ///
    /// # Cancellation safety
    /// Cancellation safe.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Stops cleanly: claims nothing more, lets running attempts finish for up to `drain`, hands
    /// the rest back with their attempt refunded, flushes everything and resigns.
    ///
    /// # Errors
    /// [`QueueError::Database`] when resigning fails; all attempts are settled by then.
    pub async fn stop(self, drain: Duration) -> Result<(), QueueError> {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(drain, self.tasks.wait()).await.is_err() {
            info!(drain_s = drain.as_secs(), "some attempts did not end in time: their jobs are handed back");
            self.hand_back.cancel();
            if tokio::time::timeout(Self::FLUSH_LIMIT, self.tasks.wait()).await.is_err() {
                error!("the last attempts could not be settled; the reaper takes their jobs back");
            }
        }
        self.beating.cancel();
        // A beat that is under way would put the row back.
        if tokio::time::timeout(Self::FLUSH_LIMIT, self.heart).await.is_err() {
            error!("the last heartbeat hangs; this worker may be shown until it is seen as dead");
        }
        lease::resign(&self.pool, self.identity.worker_id).await
    }
}

struct QueueWorker<H: Handler> {
    queue: &'static str,
    policy: WorkerPolicy,
    handler: Arc<H>,
    settler: Settler<H::Effect>,
    wake: Wake,
    worker_id: uuid::Uuid,
    pool: PgPool,
    slots: Arc<Semaphore>,
    alive: watch::Receiver<bool>,
    tasks: TaskTracker,
    stop: CancellationToken,
    hand_back: CancellationToken,
}

impl<H: Handler> QueueWorker<H> {
    async fn run(mut self) {
        let stop = self.stop.clone();
        let kinds = self.handler.kinds();
        loop {
            let Some(permits) = stop.run_until_cancelled(self.room()).await else { return };
            // Once sent, a claim is awaited to its end, also when the stop comes meanwhile.
            let claimed = self.claim(&kinds, permits.len()).await;
            let full = claimed.len() == permits.len();
            for (job, permit) in claimed.into_iter().zip(permits) {
                self.spawn(job, permit);
            }
            if !full && stop.run_until_cancelled(self.wake.wait(self.queue)).await.is_none() {
                return;
            }
        }
    }

    /// Waits until this process may work, the handler is ready and a slot is free; takes all that are.
    async fn room(&mut self) -> Vec<OwnedSemaphorePermit> {
        loop {
            if self.alive.wait_for(|alive| *alive).await.is_err() {
                std::future::pending::<()>().await;
            }
            self.handler.ready().await;
            let Ok(first) = Arc::clone(&self.slots).acquire_owned().await else {
                return std::future::pending().await;
            };
            if !*self.alive.borrow() {
                continue;
            }
            let mut permits = vec![first];
            while let Ok(next) = Arc::clone(&self.slots).try_acquire_owned() {
                permits.push(next);
            }
            return permits;
        }
    }

    async fn claim(&self, kinds: &[String], room: usize) -> Vec<ClaimedJob> {
        let request = ClaimRequest {
            queue: self.queue,
            kinds,
            worker_id: self.worker_id,
            jobs_max: i64::try_from(room).unwrap_or(i64::MAX),
            lease_for: self.policy.job_timeout + WorkerPolicy::LEASE_MARGIN,
            age_max: self.policy.age_max,
        };
        match claim(&self.pool, &request).await {
            Ok(jobs) => jobs,
            Err(fault) => {
                error!(queue = self.queue, error = chain(&fault), "a claim failed");
                vec![]
            }
        }
    }

    fn spawn(&self, job: ClaimedJob, permit: OwnedSemaphorePermit) {
        let span = info_span!("attempt", job_id = %job.lease.job_id, kind = job.kind, attempt = job.attempt);
        let attempt = Attempt {
            handler: Arc::clone(&self.handler),
            settler: self.settler.clone(),
            policy: self.policy,
            alive: self.alive.clone(),
            hand_back: self.hand_back.clone(),
        };
        self.tasks.spawn(attempt.run(job, permit).instrument(span));
    }
}

/// One attempt, from claim to settlement.
struct Attempt<H: Handler> {
    handler: Arc<H>,
    settler: Settler<H::Effect>,
    policy: WorkerPolicy,
    alive: watch::Receiver<bool>,
    hand_back: CancellationToken,
}

impl<H: Handler> Attempt<H> {
    async fn run(mut self, job: ClaimedJob, permit: OwnedSemaphorePermit) {
        let ran = tokio::select! {
            biased;
            ran = run_guarded(&*self.handler, &job, self.policy.job_timeout) => Some(ran),
            () = self.hand_back.cancelled() => None,
            // The heart stopped: others may take this job over, so nothing is settled.
            _ = self.alive.wait_for(|alive| !alive) => return,
        };
        let (ending, context) = match ran {
            Some(ran) => (Ending::of(ran.outcome, &job, &self.policy.backoff), ran.context),
            None => (Ending::handed_back(), None),
        };
        self.settler.settle(job, ending, context, permit).await;
    }
}

/// Runs a handler with a timeout, and turns a panic into an ordinary failure.
async fn run_guarded<H: Handler>(handler: &H, job: &ClaimedJob, timeout: Duration) -> Ran<H::Effect> {
    if job.expired {
        let text = "the job outlived its age budget; replay it if it still matters";
        return Outcome::DeadLetter(JobError::new("expired", text)).into();
    }
    // Inside a block of its own, so that a panic before the first await is caught, too.
    let guarded = AssertUnwindSafe(async { handler.run(job).await }).catch_unwind();
    match tokio::time::timeout(timeout, guarded).await {
        Ok(Ok(ran)) => ran,
        Ok(Err(_panic)) => {
            let error = JobError::new("handler_panicked", "the handler panicked; the log has the place");
            Outcome::Retry { error, after: None }.into()
        }
        Err(_) => {
            let text = format!("the attempt took longer than its {} s", timeout.as_secs());
            Outcome::Retry { error: JobError::new("job_timeout", text), after: None }.into()
        }
    }
}
