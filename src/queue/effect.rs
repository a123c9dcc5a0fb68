//! The seam through which the application writes what an attempt achieved.
//!
//! The queue knows nothing of tickets, yet a verdict and the end of its job must be one commit.
//! So the application hands in an effect with the outcome, and implements these two traits; the
//! queue calls them inside its own transaction, for exactly the jobs whose lease still held.

use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use super::{ClaimedJob, DeadLettered, QueueError};

/// Writes the effects of completed jobs.
pub trait EffectWriter: Send + Sync + 'static {
    /// What a handler of this queue hands in with [`super::Outcome::Complete`].
    type Effect: Send + 'static;

    /// The queues whose workers are rung after a flush with completed jobs: those that the effects
    /// enqueue further jobs into.
    fn follow_up_queues(&self) -> &[&'static str] {
        &[]
    }

    /// Writes the effects, in the transaction that ends the jobs.
    ///
    /// # Errors
    /// A data fault makes the queue search for the job that causes it; that one becomes a dead
    /// letter and the others are settled. Any other failure is tried again as a whole.
    fn write<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        completed: &'a [(&'a ClaimedJob, &'a Self::Effect)],
    ) -> BoxFuture<'a, Result<(), QueueError>>;
}

/// Is told of every new dead letter, in the transaction that makes it.
pub trait DeadLetterHook: Send + Sync + 'static {
    /// Raises alerts, for example by enqueueing jobs.
    ///
    /// # Errors
    /// As for [`EffectWriter::write`].
    fn dead_lettered<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        letters: &'a [DeadLettered],
    ) -> BoxFuture<'a, Result<(), QueueError>>;
}

/// For queues whose jobs leave nothing behind in this database but their own end.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl EffectWriter for NoEffects {
    type Effect = ();

    fn write<'a>(
        &'a self,
        _connection: &'a mut PgConnection,
        _completed: &'a [(&'a ClaimedJob, &'a ())],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
