//! The routing worker's handler: from a job to a delivery.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::payload::LETTERS_SHOWN_MAX;
use super::{Destination, KIND_ALERT, KIND_DELIVER, payload, webhook};
use crate::domain::{ClassificationId, DestinationName, TicketId};
use crate::queue::dead_letter::{DeadLetterFilter, list_dead_letters};
use crate::queue::{ClaimedJob, Handler, JobError, Outcome, QueueError, Ran};
use crate::store::{Alert, StoreError, classification, ticket};

/// Carries verdicts and alerts.
#[derive(Debug)]
pub struct RoutingHandler {
    pool: PgPool,
    destinations: HashMap<String, Destination>,
    alerts: Option<DestinationName>,
}

#[derive(Deserialize)]
struct DeliveryArgs {
    destination: String,
    classification_id: Uuid,
}

/// Why a job could not even be sent.
enum Obstacle {
    Permanent(JobError),
    Passing(JobError),
}

impl From<StoreError> for Obstacle {
    fn from(fault: StoreError) -> Self {
        Self::Passing(JobError::caused_by("database_failed", &fault))
    }
}

impl From<QueueError> for Obstacle {
    fn from(fault: QueueError) -> Self {
        Self::Passing(JobError::caused_by("database_failed", &fault))
    }
}

impl RoutingHandler {
    /// A handler for these destinations; alerts go to `alerts`.
    #[must_use]
    pub fn new(pool: PgPool, destinations: Vec<Destination>, alerts: Option<DestinationName>) -> Self {
        let by_name = destinations.into_iter().map(|one| (one.name.to_string(), one));
        Self { pool, destinations: by_name.collect(), alerts }
    }

    async fn deliver(&self, job: &ClaimedJob) -> Result<Outcome<()>, Obstacle> {
        let args: DeliveryArgs = read_args(&job.args)?;
        let destination = self.destination(&args.destination)?;
        let id = ClassificationId(args.classification_id);
        let stored = classification::find(&self.pool, id).await?;
        let ticket = ticket::find_ticket(&self.pool, TicketId(job.subject_id)).await?;
        let (Some(stored), Some(ticket)) = (stored, ticket) else {
            return Err(gone("the ticket or its verdict is not there any more"));
        };
        let body = payload::verdict(&ticket, &stored).to_string().into_bytes();
        // Named after the effect, not after the job: a replay of this delivery carries the same key.
        let key = format!("verdict_{}_{}", args.classification_id.simple(), destination.name);
        Ok(webhook::send(destination, &key, body, Utc::now()).await)
    }

    async fn alert(&self, job: &ClaimedJob) -> Result<Outcome<()>, Obstacle> {
        let alert: Alert = read_args(&job.args)?;
        let Some(name) = &self.alerts else {
            return Err(gone("no destination for alerts is configured any more"));
        };
        let destination = self.destination(name.as_str())?;
        let now = Utc::now();
        let Some(body) = self.alert_body(job, &alert, now).await? else { return Ok(Outcome::Complete(())) };
        let key = format!("alert_{}", job.lease.job_id.0.simple());
        Ok(webhook::send(destination, &key, body.to_string().into_bytes(), now).await)
    }

    /// What an alert says; nothing when its cause is gone by now.
    async fn alert_body(
        &self,
        job: &ClaimedJob,
        alert: &Alert,
        now: DateTime<Utc>,
    ) -> Result<Option<Value>, Obstacle> {
        match alert {
            Alert::LaneParked { lane, cause, error } => {
                Ok(Some(payload::lane_parked(lane, cause, error, now)))
            }
            Alert::Quarantined { source } => Ok(Some(payload::quarantined(source, job.subject_id, now))),
            Alert::DeadLetters { queue, error_class } => {
                let filter = DeadLetterFilter {
                    state: Some("open".to_owned()),
                    queue: Some(queue.clone()),
                    error_class: Some(error_class.clone()),
                    ..DeadLetterFilter::default()
                };
                let mut letters = list_dead_letters(&self.pool, &filter, LETTERS_SHOWN_MAX + 1).await?;
                let shown = usize::try_from(LETTERS_SHOWN_MAX).unwrap_or(0);
                let more = letters.len() > shown;
                letters.truncate(shown);
                let body = payload::dead_letters(error_class, queue, &letters, more, now);
                Ok((!letters.is_empty()).then_some(body))
            }
        }
    }

    fn destination(&self, name: &str) -> Result<&Destination, Obstacle> {
        let text = format!("destination {name:?} is not configured any more; add it, then replay");
        self.destinations.get(name).ok_or(Obstacle::Permanent(JobError::new("destination_unknown", text)))
    }
}

impl Handler for RoutingHandler {
    type Effect = ();

    fn kinds(&self) -> Vec<String> {
        vec![KIND_DELIVER.to_owned(), KIND_ALERT.to_owned()]
    }

    async fn run(&self, job: &ClaimedJob) -> Ran<()> {
        let result = match job.kind.as_str() {
            KIND_ALERT => self.alert(job).await,
            _ => self.deliver(job).await,
        };
        match result {
            Ok(outcome) => outcome.into(),
            Err(Obstacle::Permanent(error)) => Outcome::DeadLetter(error).into(),
            Err(Obstacle::Passing(error)) => Outcome::Retry { error, after: None }.into(),
        }
    }
}

fn read_args<T: serde::de::DeserializeOwned>(args: &str) -> Result<T, Obstacle> {
    let unreadable = |fault: serde_json::Error| {
        Obstacle::Permanent(JobError::new(
            "args_unreadable",
            format!("the job's arguments cannot be read: {fault}"),
        ))
    };
    serde_json::from_str(args).map_err(unreadable)
}

fn gone(text: &str) -> Obstacle {
    Obstacle::Permanent(JobError::new("subject_gone", text))
}
