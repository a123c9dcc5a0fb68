//! Dead letters raise alerts: one waiting alert an error class, however many letters there are.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::queue::{DeadLetterHook, DeadLettered, JobTemplate, QueueError, enqueue};

/// The arguments of an alert job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertArgs {
    /// The queue whose job died.
    pub queue: String,
    /// The class of its failure.
    pub error_class: String,
}

/// Enqueues an alert for dead letters, unless one for the same failure already waits.
#[derive(Clone, Copy, Debug)]
pub struct AlertHook {
    /// What alert jobs have in common; `None` raises no alert but the line in the log.
    pub alert: Option<JobTemplate>,
}

impl AlertHook {
    /// How long an alert gathers further letters before it is sent, in seconds.
    const GATHER_SECONDS: f64 = 2.0;
}

impl DeadLetterHook for AlertHook {
    fn dead_lettered<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        letters: &'a [DeadLettered],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            let Some(template) = self.alert else { return Ok(()) };
            // An alert that cannot be delivered must not raise an alert about itself.
            for letter in letters.iter().filter(|letter| letter.kind != template.kind) {
                let args = AlertArgs { queue: letter.queue.clone(), error_class: letter.error_class.clone() };
                let args = serde_json::json!(args).to_string();
                let mut job = template.job(letter.source.clone(), letter.dead_letter_id, args);
                job.priority = 1;
                enqueue::enqueue_unless_waiting(connection, &job, Self::GATHER_SECONDS).await?;
            }
            Ok(())
        })
    }
}
