//! The triage worker's handler: from a job to a verdict, top to bottom.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::Instant;

use super::clean::{CleanLimits, CleanTicket, clean};
use super::{parse, prompt, signs};
use crate::domain::verdict::TextSigns;
use crate::domain::{
    DestinationName, ReviewReason, RuleSet, Taxonomy, Ticket, TicketId, Verdict, VerdictPolicy,
};
use crate::llm::{Answer, Change, Disposition, Ending, Failure, Lane, Request, Setback, disposition};
use crate::queue::{ClaimedJob, Handler, JobError, Outcome, Ran, inspect};
use crate::store::{Alert, Alerts, VerdictRecord, ticket};

/// How long a job waits for a lane that does not say how long it is held.
const HELD_DEFAULT: Duration = Duration::from_secs(5);

/// Everything that a verdict depends on.
#[derive(Debug)]
pub struct TriageHandler {
    /// For reading tickets.
    pub pool: PgPool,
    /// Who classifies.
    pub lane: Arc<Lane>,
    /// Allowed labels.
    pub taxonomy: Taxonomy,
    /// How a verdict is drawn.
    pub policy: VerdictPolicy,
    /// Where verdicts go.
    pub rules: RuleSet,
    /// Whom to tell when the lane is parked.
    pub alerts: Alerts,
    /// Whether that has been told since the lane last answered.
    pub park_told: AtomicBool,
    /// The destinations that can be sent to.
    pub deliverable: HashSet<DestinationName>,
    /// Longest wait for a place at the lane inside an attempt. Jobs that wait here keep their slot,
    /// so that the others stay in the queue, in order, instead of being claimed and snoozed in turn.
    pub lane_wait_max: Duration,
}

/// A ticket as this attempt asks about it.
struct Question {
    ticket: Ticket,
    text: CleanTicket,
    signs: TextSigns,
    output_factor: u32,
    /// The classes of this job's earlier failures, also those with a pause between.
    failed: Vec<String>,
}

impl TriageHandler {
    async fn attempt(&self, job: &ClaimedJob) -> Outcome<VerdictRecord> {
        let question = match self.question(job).await {
            Ok(question) => question,
            Err(outcome) => return outcome,
        };
        let permit = match self.lane.acquire(self.lane_wait_max).await {
            Ok(permit) => permit,
            Err(wait) => return snooze("lane_held", "the lane is paused or at its limit", wait.0),
        };
        let rendered = prompt::render(&self.taxonomy, &question.text, &prompt::fresh_boundary());
        let request = Request {
            ticket: question.text.as_text(),
            taxonomy: &self.taxonomy,
            prompt: &rendered,
            output_factor: question.output_factor,
        };
        let answer = match self.lane.classify(permit, request).await {
            Ok(answer) => {
                self.park_told.store(false, Ordering::Relaxed);
                answer
            }
            Err(Setback { failure, disposition }) => {
                if let Disposition::ParkLane { cause, .. } = &disposition {
                    self.tell_of_park(job, cause.as_str(), &failure).await;
                }
                return self.after(job, &question, &failure, disposition, None);
            }
        };
        match parse::parse(&answer.completion, &self.taxonomy) {
            Ok(classification) => {
                let verdict = self.policy.decide(classification, &question.signs);
                Outcome::Complete(self.record(&question, verdict, Some(&answer)))
            }
            Err(fault) => {
                let failure = Failure::from(fault);
                let follows = disposition(&failure);
                self.after(job, &question, &failure, follows, Some(&answer))
            }
        }
    }

    /// Raises an alert, once until the lane answers again: a person has to act, and nobody reads logs
    /// at night.
    async fn tell_of_park(&self, job: &ClaimedJob, cause: &str, failure: &Failure) {
        if self.park_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let alert = Alert::LaneParked {
            lane: self.lane.name().to_owned(),
            cause: cause.to_owned(),
            error: JobError::new(failure.class(), failure.to_string()).stored_text(),
        };
        if let Err(fault) = self.alerts.raise(&self.pool, &alert, &job.source, job.lease.job_id.0).await {
            tracing::error!(error = %fault, "the alert about a parked lane could not be raised");
        }
    }

    /// Reads and cleans the ticket, in the way that earlier failures ask for.
    async fn question(&self, job: &ClaimedJob) -> Result<Question, Outcome<VerdictRecord>> {
        let found = ticket::find_ticket(&self.pool, TicketId(job.subject_id)).await;
        let found = found.map_err(|fault| database_failed(&fault))?;
        let gone = || Outcome::DeadLetter(JobError::new("subject_gone", "the ticket is not there any more"));
        let ticket = found.ok_or_else(gone)?;
        let failed = self.failures(job).await?;
        let has_failed = |class: &str| failed.iter().any(|one| one == class);
        let limits = CleanLimits::default();
        let limits = if has_failed("input_too_large") { limits.shorter() } else { limits };
        // Rendering a hostile mail takes a while, and nothing could cut it off here.
        let draft = ticket.draft.clone();
        let cleaning = tokio::task::spawn_blocking(move || {
            let text = clean(&draft, &limits);
            let signs = signs::read(&text.subject, &text.body);
            (text, signs)
        });
        let uncleanable =
            || Outcome::DeadLetter(JobError::new("ticket_unreadable", "cleaning the ticket's text panicked"));
        let (text, signs) = cleaning.await.map_err(|_| uncleanable())?;
        let output_factor = if has_failed("output_truncated") { 2 } else { 1 };
        Ok(Question { ticket, text, signs, output_factor, failed })
    }

    /// The classes of this job's earlier failures. A pause is none: it was not the job's fault.
    async fn failures(&self, job: &ClaimedJob) -> Result<Vec<String>, Outcome<VerdictRecord>> {
        if job.last_error_class.is_none() {
            return Ok(vec![]);
        }
        let attempts = inspect::attempts(&self.pool, &[job.lease.job_id.0]).await;
        let attempts = attempts.map_err(|fault| database_failed(&fault))?;
        let failed = attempts.into_iter().filter(|attempt| attempt.outcome == "retried");
        Ok(failed.filter_map(|attempt| attempt.error_class).collect())
    }

    /// What follows from a failure, in the words of the queue. No wildcard: this is the policy.
    fn after(
        &self,
        job: &ClaimedJob,
        question: &Question,
        failure: &Failure,
        disposition: Disposition,
        answer: Option<&Answer>,
    ) -> Outcome<VerdictRecord> {
        let error = JobError::new(failure.class(), failure.to_string());
        match disposition {
            Disposition::Retry { after, times_max: None } => Outcome::Retry { error, after },
            Disposition::Retry { after, times_max: Some(max) } => {
                if question.failed_as(failure) + 1 < max {
                    Outcome::Retry { error, after }
                } else {
                    Outcome::DeadLetter(error)
                }
            }
            Disposition::PauseLane { at_least } | Disposition::ParkLane { at_least, .. } => {
                Outcome::Snooze { error, delay: at_least.unwrap_or_else(|| self.hold()) }
            }
            Disposition::StepDown => Outcome::Snooze { error, delay: Duration::ZERO },
            Disposition::ReAsk { change, times_max, then } => {
                // A person can still look when the attempts are used up.
                let is_last = then == Ending::Review && job.attempt >= job.attempts_max;
                let may_ask = question.failed_as(failure) < times_max && is_possible(change, question);
                if may_ask && !is_last {
                    return Outcome::Retry { error, after: None };
                }
                match then {
                    Ending::DeadLetter => Outcome::DeadLetter(error),
                    Ending::Review => {
                        self.review(question, ReviewReason::UnusableAnswer, failure.to_string(), answer)
                    }
                }
            }
            Disposition::Review { reason, detail } => self.review(question, reason, detail, answer),
            Disposition::DeadLetter { class } => Outcome::DeadLetter(JobError { class, ..error }),
        }
    }

    fn hold(&self) -> Duration {
        let hold = self.lane.status().hold;
        hold.and_then(|hold| hold.remaining(Instant::now())).unwrap_or(HELD_DEFAULT)
    }

    fn review(
        &self,
        question: &Question,
        reason: ReviewReason,
        detail: String,
        answer: Option<&Answer>,
    ) -> Outcome<VerdictRecord> {
        let verdict = self.policy.review_only(reason, detail, &question.signs);
        // An unusable answer was paid for all the same.
        Outcome::Complete(self.record(question, verdict, answer))
    }

    fn record(&self, question: &Question, verdict: Verdict, answer: Option<&Answer>) -> VerdictRecord {
        let destination = self.rules.destination(&question.ticket.source, &verdict).cloned();
        let usage = answer.and_then(|answer| answer.usage);
        let tokens = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let latency = answer.map_or(0, |answer| answer.latency.as_millis());
        VerdictRecord {
            ticket_id: question.ticket.ticket_id,
            ticket_version: question.ticket.version,
            deliver: destination.as_ref().is_some_and(|name| self.deliverable.contains(name)),
            destination,
            verdict,
            lane: self.lane.name().to_owned(),
            model: answer.map_or(self.lane.model(), |answer| &answer.model).to_owned(),
            prompt_version: prompt::PROMPT_VERSION.to_owned(),
            taxonomy_version: self.taxonomy.version().to_owned(),
            input_tokens: usage.map(|usage| tokens(usage.input_tokens)),
            output_tokens: usage.map(|usage| tokens(usage.output_tokens)),
            latency_ms: u32::try_from(latency).unwrap_or(u32::MAX),
            truncated: question.text.truncated,
        }
    }
}

impl Question {
    /// How often this job has failed in this way before.
    fn failed_as(&self, failure: &Failure) -> u32 {
        let same = self.failed.iter().filter(|class| class.as_str() == failure.class());
        u32::try_from(same.count()).unwrap_or(u32::MAX)
    }
}

/// Asking for the same again with a shorter body helps only if there is something to shorten.
fn is_possible(change: Change, question: &Question) -> bool {
    match change {
        Change::Nothing | Change::MoreOutput => true,
        Change::ShorterInput => {
            question.text.body.chars().count() > CleanLimits::default().shorter().body_chars_max
        }
    }
}

fn database_failed(fault: &dyn std::error::Error) -> Outcome<VerdictRecord> {
    Outcome::Retry { error: JobError::caused_by("database_failed", fault), after: None }
}

fn snooze(class: &'static str, text: &str, delay: Duration) -> Outcome<VerdictRecord> {
    Outcome::Snooze { error: JobError::new(class, text), delay }
}

impl Handler for TriageHandler {
    type Effect = VerdictRecord;

    fn kinds(&self) -> Vec<String> {
        vec![super::KIND_TRIAGE.to_owned()]
    }

    async fn ready(&self) {
        self.lane.ready().await;
    }

    async fn run(&self, job: &ClaimedJob) -> Ran<VerdictRecord> {
        let started = Instant::now();
        let outcome = self.attempt(job).await;
        metrics::histogram!("hooktriage_triage_attempt_seconds").record(started.elapsed().as_secs_f64());
        // The offline lane has no model to name.
        let model = match self.lane.model() {
            "" => self.lane.kind().as_str(),
            named => named,
        };
        let (lane, taxonomy) = (self.lane.name(), self.taxonomy.version());
        let context =
            format!("lane={lane} model={model} prompt={} taxonomy={taxonomy}", prompt::PROMPT_VERSION);
        Ran { outcome, context: Some(context) }
    }
}
