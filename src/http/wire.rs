//! The JSON shapes of the API. Others rely on them: within `/v1` they only grow.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::Ticket;
use crate::queue::dead_letter::DeadLetter;
use crate::queue::inspect::{AttemptView, JobView};
use crate::store::StoredClassification;

/// One try at a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Attempt {
    /// Which try, from 1. A try that was given back (snoozed, handed back) is followed by one of
    /// the same number.
    pub attempt: i16,
    /// `succeeded`, `retried`, `snoozed`, `dead`, `crashed`, `handed_back`, `cancelled`, or
    /// `running`.
    pub outcome: String,
    /// When it was claimed.
    pub started_at: DateTime<Utc>,
    /// When it ended; null while it runs.
    pub finished_at: Option<DateTime<Utc>>,
    /// How long it took, in milliseconds; null while it runs.
    pub duration_ms: Option<i64>,
    /// The kind of failure.
    pub error_class: Option<String>,
    /// What happened, in words.
    pub error: Option<String>,
    /// What the attempt used, such as lane and model.
    pub context: Option<String>,
}

impl From<AttemptView> for Attempt {
    fn from(view: AttemptView) -> Self {
        Self {
            attempt: view.attempt,
            outcome: view.outcome,
            started_at: view.started_at,
            finished_at: Some(view.finished_at),
            duration_ms: Some((view.finished_at - view.started_at).num_milliseconds()),
            error_class: view.error_class,
            error: view.error,
            context: view.context,
        }
    }
}

/// What was decided about a ticket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Verdict {
    /// The classification that it was drawn from.
    pub classification_id: Uuid,
    /// The version of the ticket that it is about.
    pub ticket_version: i32,
    /// A key of the taxonomy; null when no usable answer came and a person has to look.
    pub category: Option<String>,
    /// `low`, `normal`, `high` or `urgent`, after the rules.
    pub priority: String,
    /// `negative`, `neutral` or `positive`.
    pub sentiment: Option<String>,
    /// BCP 47 primary subtag, `und` when unknown.
    pub language: String,
    /// One sentence.
    pub summary: String,
    /// 0 to 1.
    pub confidence: f64,
    /// Grounds.
    pub reasons: Vec<String>,
    /// Whether a person should look before anything happens.
    pub needs_review: bool,
    /// Why.
    pub review_reasons: Vec<String>,
    /// Where it went.
    pub destination: Option<String>,
    /// The lane that answered.
    pub lane: String,
    /// The model that answered.
    pub model: String,
    /// The prompt that was used.
    pub prompt_version: String,
    /// The taxonomy that was used.
    pub taxonomy_version: String,
    /// As the provider counted; null when it did not say.
    pub input_tokens: Option<i32>,
    /// As the provider counted; null when it did not say.
    pub output_tokens: Option<i32>,
    /// How long the answer took, in milliseconds.
    pub latency_ms: i32,
    /// The ticket was cut before the lane saw it.
    pub truncated: bool,
    /// When it was recorded.
    pub decided_at: DateTime<Utc>,
}

impl From<StoredClassification> for Verdict {
    fn from(stored: StoredClassification) -> Self {
        Self {
            classification_id: stored.classification_id,
            ticket_version: stored.ticket_version,
            category: stored.category,
            priority: stored.priority,
            sentiment: stored.sentiment,
            language: stored.language,
            summary: stored.summary,
            confidence: stored.confidence,
            reasons: stored.reasons,
            needs_review: !stored.review.is_empty(),
            review_reasons: stored.review,
            destination: stored.destination,
            lane: stored.lane,
            model: stored.model,
            prompt_version: stored.prompt_version,
            taxonomy_version: stored.taxonomy_version,
            input_tokens: stored.input_tokens,
            output_tokens: stored.output_tokens,
            latency_ms: stored.latency_ms,
            truncated: stored.truncated,
            decided_at: stored.created_at,
        }
    }
}

/// A job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Job {
    /// Its id.
    pub job_id: Uuid,
    /// `triage`, `deliver` or `alert`.
    pub kind: String,
    /// The queue that it stands in.
    pub queue: String,
    /// `queued`, `running`, `succeeded`, `dead` or `cancelled`.
    pub state: String,
    /// The source that it came from.
    pub source: String,
    /// The ticket that it is about; null for an alert.
    pub ticket_id: Option<Uuid>,
    /// Every try, in order.
    pub attempts: Vec<Attempt>,
    /// Tries that were used up.
    pub attempts_used: i16,
    /// Tries that it has.
    pub attempts_max: i16,
    /// What came of it; null until a triage job succeeded.
    pub verdict: Option<Verdict>,
    /// Its dead letter, if it died.
    pub dead_letter_id: Option<Uuid>,
    /// The dead job that it is a replay of.
    pub replay_of: Option<Uuid>,
    /// The kind of its newest failure.
    pub error_class: Option<String>,
    /// Its newest failure in words.
    pub error: Option<String>,
    /// When it was enqueued.
    pub created_at: DateTime<Utc>,
    /// When it is due; null when it has ended.
    pub run_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Where to look further.
    pub links: JobLinks,
}

/// Where to look further, as paths on this service.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobLinks {
    /// The job.
    #[serde(rename = "self")]
    pub itself: String,
    /// Its ticket.
    pub ticket: Option<String>,
    /// Its dead letter.
    pub dead_letter: Option<String>,
}

impl Job {
    /// Puts a job together from what the queue and the store say of it.
    #[must_use]
    pub fn new(view: JobView, attempts: Vec<AttemptView>, verdict: Option<StoredClassification>) -> Self {
        let ticket_id = (view.kind != "alert").then_some(view.subject_id);
        let mut attempts: Vec<Attempt> = attempts.into_iter().map(Attempt::from).collect();
        attempts.extend(view.claimed_at.map(|started_at| Attempt {
            attempt: view.attempt,
            outcome: "running".to_owned(),
            started_at,
            finished_at: None,
            duration_ms: None,
            error_class: None,
            error: None,
            context: None,
        }));
        Self {
            links: JobLinks {
                itself: format!("/v1/jobs/{}", view.job_id),
                ticket: ticket_id.map(|id| format!("/v1/tickets/{id}")),
                dead_letter: view.dead_letter_id.map(|id| format!("/v1/dead-letters/{id}")),
            },
            job_id: view.job_id,
            kind: view.kind,
            queue: view.queue,
            state: view.state,
            source: view.source,
            ticket_id,
            attempts,
            attempts_used: view.attempt,
            attempts_max: view.attempts_max,
            verdict: verdict.map(Verdict::from),
            dead_letter_id: view.dead_letter_id,
            replay_of: view.replay_of,
            error_class: view.error_class,
            error: view.error,
            created_at: view.created_at,
            run_at: view.run_at,
            finished_at: view.finished_at,
        }
    }
}

/// A ticket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TicketBody {
    /// Its id.
    pub ticket_id: Uuid,
    /// The source that it came from.
    pub source: String,
    /// The help desk's own id.
    pub external_id: String,
    /// Title.
    pub subject: String,
    /// First text, as the help desk sent it; only when one ticket is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Who asked.
    pub requester: String,
    /// Labels of the help desk.
    pub labels: Vec<String>,
    /// Priority in the help desk's words.
    pub external_priority: String,
    /// Where a person opens it.
    pub url: String,
    /// One more with every event that changed the ticket, from 1.
    pub version: i32,
    /// The verdict about its newest version that has one.
    pub verdict: Option<Verdict>,
    /// First seen.
    pub created_at: DateTime<Utc>,
    /// Last changed.
    pub updated_at: DateTime<Utc>,
}

impl TicketBody {
    /// Puts a ticket together with its newest verdict.
    #[must_use]
    pub fn new(ticket: Ticket, verdict: Option<StoredClassification>) -> Self {
        Self {
            ticket_id: ticket.ticket_id.0,
            source: ticket.source,
            external_id: ticket.draft.external_id,
            subject: ticket.draft.subject,
            body: Some(ticket.draft.body),
            requester: ticket.draft.requester,
            labels: ticket.draft.labels,
            external_priority: ticket.draft.external_priority,
            url: ticket.draft.url,
            version: ticket.version,
            verdict: verdict.map(Verdict::from),
            created_at: ticket.created_at,
            updated_at: ticket.updated_at,
        }
    }
}

/// A dead letter.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DeadLetterBody {
    /// Its id.
    pub dead_letter_id: Uuid,
    /// The job that died.
    pub job_id: Uuid,
    /// `triage`, `deliver` or `alert`.
    pub kind: String,
    /// The queue that it stood in.
    pub queue: String,
    /// The source that it came from.
    pub source: String,
    /// The ticket that it was about; null for an alert.
    pub ticket_id: Option<Uuid>,
    /// `permanent`, `exhausted`, `expired` or `poison`.
    pub reason: String,
    /// The kind of the last failure.
    pub error_class: String,
    /// The last failure in words.
    pub error: String,
    /// Every try, in order; only when one letter is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
    /// Tries that were used up.
    pub attempts_used: i16,
    /// Tries that it had.
    pub attempts_max: i16,
    /// Processes that it took with it.
    pub crashes: i16,
    /// `open`, `replayed` or `discarded`.
    pub state: String,
    /// The job that it was replayed as.
    pub replayed_job_id: Option<Uuid>,
    /// When it was replayed.
    pub replayed_at: Option<DateTime<Utc>>,
    /// The dead job that its job was a replay of.
    pub replay_of: Option<Uuid>,
    /// When its job was enqueued.
    pub job_created_at: DateTime<Utc>,
    /// When it died.
    pub dead_at: DateTime<Utc>,
}

impl DeadLetterBody {
    /// Puts a letter together with its attempts.
    #[must_use]
    pub fn new(letter: DeadLetter, attempts: Option<Vec<AttemptView>>) -> Self {
        Self {
            dead_letter_id: letter.dead_letter_id,
            job_id: letter.job_id,
            ticket_id: (letter.kind != "alert").then_some(letter.subject_id),
            kind: letter.kind,
            queue: letter.queue,
            source: letter.source,
            reason: letter.reason,
            error_class: letter.error_class,
            error: letter.error,
            attempts: attempts.map(|views| views.into_iter().map(Attempt::from).collect()),
            attempts_used: letter.attempt,
            attempts_max: letter.attempts_max,
            crashes: letter.crash_count,
            state: letter.state,
            replayed_job_id: letter.replayed_job_id,
            replayed_at: letter.replayed_at,
            replay_of: letter.replay_of,
            job_created_at: letter.job_created_at,
            dead_at: letter.dead_at,
        }
    }
}
