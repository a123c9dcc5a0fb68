//! Alerts: one waiting job a cause, however often the cause occurs.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::StoreError;
use crate::queue::{DeadLetterHook, DeadLettered, JobTemplate, QueueError, enqueue};

/// What an alert is about: the arguments of its job. What it says is read when it is sent, so that
/// it also tells of what came after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum Alert {
    /// Jobs of a queue died of one kind of failure.
    DeadLetters {
        /// The queue whose jobs died.
        queue: String,
        /// The class of their failure.
        error_class: String,
    },
    /// A lane waits for a person.
    LaneParked {
        /// Its name.
        lane: String,
        /// What the person has to mend.
        cause: String,
        /// What the provider said.
        error: String,
    },
    /// A source sends events of a known type that cannot be read.
    Quarantined {
        /// The source.
        source: String,
    },
}

/// How long an alert gathers before it is sent, in seconds.
const GATHER_SECONDS: f64 = 2.0;

/// Raises alerts.
#[derive(Clone, Copy, Debug)]
pub struct Alerts {
    /// What alert jobs have in common; `None` leaves it at the line in the log.
    pub template: Option<JobTemplate>,
}

impl Alerts {
    /// Raises an alert, unless one about the same already waits. `source` is whose doing it was, and
    /// `subject_id` what to look at first.
    ///
    /// # Errors
    /// [`StoreError::Database`]; then there is none.
    ///
    /// # Cancellation safety
    /// One autocommit statement.
    pub async fn raise(
        &self,
        pool: &PgPool,
        alert: &Alert,
        source: &str,
        subject_id: Uuid,
    ) -> Result<(), StoreError> {
        let during = "raise an alert";
        let mut session = pool.acquire().await.map_err(StoreError::during(during))?;
        self.raise_in(&mut session, alert, source, subject_id).await.map_err(|fault| match fault {
            QueueError::Database { source, .. } => StoreError::Database { verb: during, source },
            QueueError::EffectPanicked => {
                StoreError::Database { verb: during, source: sqlx::Error::WorkerCrashed }
            }
        })
    }

    async fn raise_in(
        &self,
        connection: &mut PgConnection,
        alert: &Alert,
        source: &str,
        subject_id: Uuid,
    ) -> Result<(), QueueError> {
        let Some(template) = self.template else { return Ok(()) };
        let mut job = template.job(source, subject_id, serde_json::json!(alert).to_string());
        job.priority = 1;
        enqueue::enqueue_unless_waiting(connection, &job, GATHER_SECONDS).await.map(|_| ())
    }
}

impl DeadLetterHook for Alerts {
    fn dead_lettered<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        letters: &'a [DeadLettered],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            let kind = self.template.map(|template| template.kind);
            let mut raised = BTreeSet::new();
            // An alert that cannot be delivered must not raise an alert about itself.
            for letter in letters.iter().filter(|letter| Some(letter.kind.as_str()) != kind) {
                let (queue, error_class) = (letter.queue.clone(), letter.error_class.clone());
                let alert = Alert::DeadLetters { queue, error_class };
                if raised.insert(alert.clone()) {
                    self.raise_in(connection, &alert, &letter.source, letter.dead_letter_id).await?;
                }
            }
            Ok(())
        })
    }
}
