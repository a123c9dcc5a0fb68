//! The settler: one task a queue that ends attempts in batches.
//!
//! It takes whatever gathered while its last flush ran, so an idle system settles at once and a
//! busy one commits once for hundreds of jobs. A flush is one transaction: the queue's statements
//! end the jobs and tell which leases still held; the application's effects are then written for
//! exactly those. Nothing cancels this task while a transaction is open (ADR 0003).

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::{PgConnection, PgPool};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{debug, error, warn};

use super::ending::{Ending, Requeue};
use super::settle::{self, Burial, Settled};
use super::{
    ClaimedJob, DeadLetterHook, DeadLettered, DeadReason, EffectWriter, JobError, Lease, QueueError, Wake,
};

/// Most attempts that one flush settles.
const BATCH_MAX: usize = 500;
/// Most attempts that may wait for a flush; then whoever settles waits, which slows the claims.
const BACKLOG_MAX: usize = 2000;
/// How long a flush that failed for the database's sake waits before it is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

struct Pending<E> {
    job: ClaimedJob,
    ending: Ending<E>,
    context: Option<String>,
    done: oneshot::Sender<bool>,
}

/// Where workers hand in how their attempts ended.
#[derive(Debug)]
pub(crate) struct Settler<E> {
    sender: mpsc::Sender<Pending<E>>,
}

impl<E> Clone for Settler<E> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<E: Send + Sync + 'static> Settler<E> {
    /// Starts the task. It ends, everything flushed, when the last [`Settler`] is dropped.
    pub(crate) fn start<W>(
        pool: PgPool,
        writer: Arc<W>,
        hook: Arc<dyn DeadLetterHook>,
        wake: Wake,
    ) -> (Self, JoinHandle<()>)
    where
        W: EffectWriter<Effect = E>,
    {
        let (sender, receiver) = mpsc::channel(BACKLOG_MAX);
        let flusher = Flusher { pool, writer, hook, wake };
        let task = tokio::spawn(flusher.run(receiver));
        (Self { sender }, task)
    }

    /// Hands in an ending and waits until it is committed. Returns whether the lease still held.
    /// The slot is free again once the ending is handed in: while the backlog is full nothing more
    /// is claimed.
    ///
    /// # Cancellation safety
    /// The ending is settled even if this is dropped once it is handed in.
    pub(crate) async fn settle(
        &self,
        job: ClaimedJob,
        ending: Ending<E>,
        context: Option<String>,
        slot: OwnedSemaphorePermit,
    ) -> bool {
        let (done, settled) = oneshot::channel();
        let pending = Pending { job, ending, context, done };
        if self.sender.send(pending).await.is_err() {
            return false;
        }
        drop(slot);
        settled.await.unwrap_or(false)
    }
}

struct Flusher<W> {
    pool: PgPool,
    writer: Arc<W>,
    hook: Arc<dyn DeadLetterHook>,
    wake: Wake,
}

impl<W: EffectWriter> Flusher<W>
where
    W::Effect: Sync,
{
    async fn run(self, mut receiver: mpsc::Receiver<Pending<W::Effect>>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.flush(std::mem::take(&mut batch)).await;
        }
    }

    /// Settles a batch, whatever it takes: outages are waited out, a bad row is found by halving.
    async fn flush(&self, batch: Vec<Pending<W::Effect>>) {
        let mut todo = vec![batch];
        while let Some(mut batch) = todo.pop() {
            match self.flush_guarded(&batch).await {
                Ok(held) => {
                    if batch.iter().any(|one| matches!(one.ending, Ending::Succeeded(_))) {
                        self.writer.follow_up_queues().iter().for_each(|queue| self.wake.ring(queue));
                    }
                    report(batch, &held);
                }
                Err(fault) if fault.is_data_fault() && batch.len() > 1 => {
                    let second = batch.split_off(batch.len() / 2);
                    todo.push(second);
                    todo.push(batch);
                }
                Err(fault) if fault.is_data_fault() => todo.extend(condemn(batch, &fault)),
                Err(fault) => {
                    warn!(error = chain(&fault), jobs = batch.len(), "a flush failed and is tried again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    todo.push(batch);
                }
            }
        }
    }

    /// A panic of the application's code must not end this task: nothing would be settled any more
    /// while the claims went on.
    async fn flush_guarded(&self, batch: &[Pending<W::Effect>]) -> Result<HashSet<Lease>, QueueError> {
        let tried = AssertUnwindSafe(self.try_flush(batch)).catch_unwind().await;
        tried.unwrap_or(Err(QueueError::EffectPanicked))
    }

    async fn try_flush(&self, batch: &[Pending<W::Effect>]) -> Result<HashSet<Lease>, QueueError> {
        #[expect(clippy::disallowed_methods, reason = "this task is never cancelled while it begins")]
        let mut transaction = self.pool.begin().await.map_err(QueueError::during("begin a flush"))?;
        let (held, letters) = self.write(&mut transaction, batch).await?;
        transaction.commit().await.map_err(QueueError::during("commit a flush"))?;
        for letter in letters {
            announce(&letter);
        }
        Ok(held)
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        batch: &[Pending<W::Effect>],
    ) -> Result<(HashSet<Lease>, Vec<DeadLettered>), QueueError> {
        let mut held = HashSet::with_capacity(batch.len());
        let mut letters = Vec::new();
        let Verbs { succeeded, requeued, dead } = Verbs::of(batch);
        if !succeeded.is_empty() {
            held.extend(settle::succeed(connection, &succeeded).await?);
            let effects: Vec<_> = batch
                .iter()
                .filter(|one| held.contains(&one.job.lease))
                .filter_map(|one| match &one.ending {
                    Ending::Succeeded(effect) => Some((&one.job, effect)),
                    Ending::Requeued(_) | Ending::Dead(..) => None,
                })
                .collect();
            if !effects.is_empty() {
                self.writer.write(connection, &effects).await?;
            }
        }
        if !requeued.is_empty() {
            held.extend(settle::requeue(connection, &requeued).await?);
        }
        if !dead.is_empty() {
            let (leases, buried): (Vec<_>, Vec<_>) =
                settle::bury(connection, &dead).await?.into_iter().unzip();
            held.extend(leases);
            letters = buried;
        }
        if !letters.is_empty() {
            self.hook.dead_lettered(connection, &letters).await?;
        }
        Ok((held, letters))
    }
}

/// A batch, sorted by the statement that each ending needs.
struct Verbs {
    succeeded: Vec<Settled<()>>,
    requeued: Vec<Settled<Requeue>>,
    dead: Vec<Settled<Burial>>,
}

impl Verbs {
    fn of<E>(batch: &[Pending<E>]) -> Self {
        let mut verbs = Self { succeeded: vec![], requeued: vec![], dead: vec![] };
        for one in batch {
            let (lease, context) = (one.job.lease, one.context.clone());
            match &one.ending {
                Ending::Succeeded(_) => verbs.succeeded.push(Settled { lease, context, what: () }),
                Ending::Requeued(requeue) => {
                    verbs.requeued.push(Settled { lease, context, what: requeue.clone() });
                }
                Ending::Dead(reason, error) => {
                    let what = Burial { reason: *reason, error: error.clone(), crashed: false };
                    verbs.dead.push(Settled { lease, context, what });
                }
            }
        }
        verbs
    }
}

fn report<E>(batch: Vec<Pending<E>>, held: &HashSet<Lease>) {
    for one in batch {
        let kept = held.contains(&one.job.lease);
        let outcome = match &one.ending {
            _ if !kept => "lease_lost",
            Ending::Succeeded(_) => "succeeded",
            Ending::Requeued(requeue) => requeue.outcome,
            Ending::Dead(..) => "dead",
        };
        let queue = one.job.queue.clone();
        metrics::counter!("hooktriage_attempts_total", "queue" => queue, "outcome" => outcome).increment(1);
        if !kept {
            warn!(job_id = %one.job.lease.job_id, lease_id = one.job.lease.lease_id,
                "the lease was lost before the attempt could be settled; its result is dropped");
        }
        if one.done.send(kept).is_err() {
            debug!("whoever settled does not wait for the answer");
        }
    }
}

/// An effect that the database refuses for its content, or that makes its writer panic, will do so
/// for ever: the job becomes a dead letter. An ending that cannot even be buried is dropped, and the reaper takes the job.
fn condemn<E>(batch: Vec<Pending<E>>, fault: &QueueError) -> Option<Vec<Pending<E>>> {
    let class = match fault {
        QueueError::EffectPanicked => "effect_panicked",
        QueueError::Database { .. } => "effect_refused",
    };
    let condemned: Vec<Pending<E>> = batch
        .into_iter()
        .filter_map(|one| {
            if matches!(one.ending, Ending::Dead(..)) {
                error!(job_id = %one.job.lease.job_id, error = chain(fault), "a dead letter could not be written");
                return None;
            }
            let error = JobError::new(class, format!("the effect could not be written: {}", chain(fault)));
            Some(Pending { ending: Ending::Dead(DeadReason::Permanent, error), ..one })
        })
        .collect();
    (!condemned.is_empty()).then_some(condemned)
}

/// Logs a dead letter, once, when it is committed.
pub(crate) fn announce(letter: &DeadLettered) {
    metrics::counter!("hooktriage_dead_letters_total",
        "queue" => letter.queue.clone(), "reason" => letter.reason.as_str())
    .increment(1);
    error!(dead_letter_id = %letter.dead_letter_id, job_id = %letter.job_id, kind = letter.kind,
        source = letter.source, reason = letter.reason.as_str(), error_class = letter.error_class,
        error = letter.error, "a job became a dead letter");
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
