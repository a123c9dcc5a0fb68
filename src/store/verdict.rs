//! Recording verdicts, in the transaction that ends their jobs.

use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{ClassificationId, DestinationName, TicketId, Verdict};
use crate::queue::{ClaimedJob, EffectWriter, JobTemplate, NewJob, QueueError, enqueue};

/// A verdict with everything that is stored beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictRecord {
    /// The ticket.
    pub ticket_id: TicketId,
    /// The version of the snapshot that was read.
    pub ticket_version: i32,
    /// What was decided.
    pub verdict: Verdict,
    /// Where it goes; none records it and sends nothing.
    pub destination: Option<DestinationName>,
    /// Whether the destination can be sent to; a name alone is recorded and shown.
    pub deliver: bool,
    /// The lane that answered.
    pub lane: String,
    /// The model that answered.
    pub model: String,
    /// The prompt that was used.
    pub prompt_version: String,
    /// The taxonomy that was used.
    pub taxonomy_version: String,
    /// As the provider counted.
    pub input_tokens: Option<u32>,
    /// As the provider counted.
    pub output_tokens: Option<u32>,
    /// How long the answer took, in milliseconds.
    pub latency_ms: u32,
    /// The ticket was cut before the lane saw it.
    pub truncated: bool,
}

/// Writes verdicts, points tickets at them and enqueues their deliveries.
#[derive(Clone, Copy, Debug)]
pub struct VerdictWriter {
    delivery: JobTemplate,
    queues: [&'static str; 1],
}

impl VerdictWriter {
    /// A writer; `delivery` is what the jobs that carry verdicts to destinations have in common.
    #[must_use]
    pub const fn new(delivery: JobTemplate) -> Self {
        Self { delivery, queues: [delivery.queue] }
    }
}

impl EffectWriter for VerdictWriter {
    type Effect = VerdictRecord;

    fn follow_up_queues(&self) -> &[&'static str] {
        &self.queues
    }

    fn write<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        completed: &'a [(&'a ClaimedJob, &'a VerdictRecord)],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            let ids: Vec<ClassificationId> = completed.iter().map(|_| ClassificationId::new()).collect();
            insert(connection, &ids, completed).await?;
            point_tickets(connection, &ids, completed).await?;
            let deliveries: Vec<NewJob> = ids
                .iter()
                .zip(completed)
                .filter(|(_, (_, record))| record.deliver)
                .filter_map(|(id, (job, record))| {
                    let destination = record.destination.as_ref()?;
                    let args = delivery_args(destination, *id);
                    Some(self.delivery.job(job.source.clone(), record.ticket_id.0, args))
                })
                .collect();
            enqueue::enqueue(connection, &deliveries).await
        })
    }
}

/// The arguments of a delivery job; `routing` reads them back.
fn delivery_args(destination: &DestinationName, id: ClassificationId) -> String {
    serde_json::json!({ "destination": destination.as_str(), "classification_id": id.0 }).to_string()
}

async fn insert(
    connection: &mut PgConnection,
    ids: &[ClassificationId],
    completed: &[(&ClaimedJob, &VerdictRecord)],
) -> Result<(), QueueError> {
    for (id, (job, record)) in ids.iter().zip(completed) {
        let verdict = &record.verdict;
        let review: Vec<String> = verdict.review.iter().map(ToString::to_string).collect();
        sqlx::query!(
            "insert into classification (
                 classification_id, ticket_id, job_id, ticket_version, category, priority, sentiment, language, summary,
                 confidence, reasons, review, destination, lane, model, prompt_version, taxonomy_version,
                 input_tokens, output_tokens, latency_ms, truncated)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)",
            id.0,
            record.ticket_id.0,
            job.lease.job_id.0,
            record.ticket_version,
            verdict.category.as_deref(),
            verdict.priority.as_str(),
            verdict.sentiment.map(|sentiment| sentiment.as_str()),
            verdict.language,
            verdict.summary,
            verdict.confidence,
            &verdict.reasons,
            &review,
            record.destination.as_ref().map(DestinationName::as_str),
            record.lane,
            record.model,
            record.prompt_version,
            record.taxonomy_version,
            record.input_tokens.map(saturate),
            record.output_tokens.map(saturate),
            saturate(record.latency_ms),
            record.truncated,
        )
        .execute(&mut *connection)
        .await
        .map_err(QueueError::during("record a verdict"))?;
    }
    Ok(())
}

/// Points each ticket at the classification of its newest snapshot: a slow verdict about an older
/// one stays in the history. Among those of one snapshot the later id, and so the later one, counts.
/// Tickets are locked in the order in which ingest writes them (`ingest/write.rs`), or else a flush
/// and a batch of events could wait for each other.
async fn point_tickets(
    connection: &mut PgConnection,
    ids: &[ClassificationId],
    completed: &[(&ClaimedJob, &VerdictRecord)],
) -> Result<(), QueueError> {
    let classifications: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let tickets: Vec<Uuid> = completed.iter().map(|(_, record)| record.ticket_id.0).collect();
    let versions: Vec<i32> = completed.iter().map(|(_, record)| record.ticket_version).collect();
    sqlx::query!(
        "with newest as (
             select distinct on (ticket_id) ticket_id, classification_id, version
               from unnest($1::uuid[], $2::uuid[], $3::int[]) as t (ticket_id, classification_id, version)
              order by ticket_id, version desc, classification_id desc),
         locked as materialized (
             select ticket_id from ticket join newest using (ticket_id)
              order by ticket.source, ticket.external_id for no key update of ticket)
         update ticket
            set classification_id = newest.classification_id, classified_version = newest.version,
                updated_at = now()
           from newest join locked using (ticket_id)
          where ticket.ticket_id = newest.ticket_id
            and (ticket.classification_id is null
                 or (newest.version, newest.classification_id)
                    > (ticket.classified_version, ticket.classification_id))",
        &tickets,
        &classifications,
        &versions,
    )
    .execute(connection)
    .await
    .map_err(QueueError::during("point tickets at their verdicts"))?;
    Ok(())
}

fn saturate(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
