//! Classifications with their verdicts: reading.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::StoreError;
use crate::domain::{ClassificationId, TicketId};

/// A classification as it is stored, with the verdict that was drawn from it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredClassification {
    /// Its id.
    pub classification_id: Uuid,
    /// The ticket.
    pub ticket_id: Uuid,
    /// The job that made it.
    pub job_id: Uuid,
    /// The version of the ticket that it is about.
    pub ticket_version: i32,
    /// A key of the taxonomy; none when no usable answer came.
    pub category: Option<String>,
    /// After the rules.
    pub priority: String,
    /// None when no usable answer came.
    pub sentiment: Option<String>,
    /// BCP 47 primary subtag.
    pub language: String,
    /// One sentence.
    pub summary: String,
    /// 0 to 1.
    pub confidence: f64,
    /// Grounds.
    pub reasons: Vec<String>,
    /// Why a person should look.
    pub review: Vec<String>,
    /// Where it was sent.
    pub destination: Option<String>,
    /// The lane that answered.
    pub lane: String,
    /// The model that answered.
    pub model: String,
    /// The prompt that was used.
    pub prompt_version: String,
    /// The taxonomy that was used.
    pub taxonomy_version: String,
    /// As the provider counted; none when it did not say.
    pub input_tokens: Option<i32>,
    /// As the provider counted; none when it did not say.
    pub output_tokens: Option<i32>,
    /// How long the answer took, in milliseconds.
    pub latency_ms: i32,
    /// The ticket was cut before the lane saw it.
    pub truncated: bool,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
}

/// The classifications that these jobs made; at most one a job.
///
/// # Errors
/// [`StoreError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn of_jobs(pool: &PgPool, job_ids: &[Uuid]) -> Result<Vec<StoredClassification>, StoreError> {
    sqlx::query_as!(StoredClassification, "select classification_id, ticket_id, job_id, ticket_version, category, priority, sentiment, language, summary,
                confidence, reasons, review, destination, lane, model, prompt_version, taxonomy_version,
                input_tokens, output_tokens, latency_ms, truncated, created_at
           from classification
          where job_id = any($1)", job_ids)
        .fetch_all(pool)
        .await
        .map_err(StoreError::during("read the classifications of jobs"))
}

/// The newest classification of each of these tickets.
///
/// # Errors
/// [`StoreError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn newest_of_tickets(
    pool: &PgPool,
    tickets: &[TicketId],
) -> Result<Vec<StoredClassification>, StoreError> {
    let ids: Vec<Uuid> = tickets.iter().map(|ticket| ticket.0).collect();
    sqlx::query_as!(
        StoredClassification,
        "select classification.classification_id, classification.ticket_id, job_id, ticket_version, category, priority, sentiment,
                language, summary, confidence, reasons, review, destination, lane, model, prompt_version,
                taxonomy_version, input_tokens, output_tokens, latency_ms, truncated,
                classification.created_at
           from ticket join classification using (classification_id)
          where ticket.ticket_id = any($1)",
        &ids,
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::during("read the newest classifications of tickets"))
}

/// Reads one classification.
///
/// # Errors
/// [`StoreError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn find(pool: &PgPool, id: ClassificationId) -> Result<Option<StoredClassification>, StoreError> {
    sqlx::query_as!(StoredClassification, "select classification_id, ticket_id, job_id, ticket_version, category, priority, sentiment, language, summary,
                confidence, reasons, review, destination, lane, model, prompt_version, taxonomy_version,
                input_tokens, output_tokens, latency_ms, truncated, created_at
           from classification
          where classification_id = $1", id.0,)
        .fetch_optional(pool)
        .await
        .map_err(StoreError::during("read a classification"))
}
