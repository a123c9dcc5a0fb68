//! The words of the queue as types: a job, its lease, and how an attempt can end.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::settler::chain;

/// Names one job; a UUIDv7, so that its day of birth can be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub Uuid);

impl JobId {
    /// A fresh id.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default that differs each time surprises")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the jobs of one kind have in common, for whoever makes them in a statement of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTemplate {
    /// Which workers serve them.
    pub queue: &'static str,
    /// What is to be done.
    pub kind: &'static str,
    /// How often one may be tried.
    pub attempts_max: i16,
}

impl JobTemplate {
    /// A job of this kind with the default priority.
    #[must_use]
    pub fn job(&self, source: impl Into<String>, subject_id: Uuid, args: impl Into<String>) -> NewJob {
        NewJob {
            job_id: JobId::new(),
            queue: self.queue,
            kind: self.kind,
            source: source.into(),
            subject_id,
            args: args.into(),
            priority: NewJob::PRIORITY_DEFAULT,
            attempts_max: self.attempts_max,
        }
    }
}

/// A job to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Its id, made by the caller so that the caller can name it in its answer.
    pub job_id: JobId,
    /// Which workers serve it.
    pub queue: &'static str,
    /// What is to be done; a handler lists the kinds that it knows.
    pub kind: &'static str,
    /// Whose job it is, for fairness and for filters: the name of the configured source.
    pub source: String,
    /// What it is about. The queue does not look inside.
    pub subject_id: Uuid,
    /// Small arguments, at most [`NewJob::ARGS_BYTES_MAX`] bytes. Payloads stand elsewhere.
    pub args: String,
    /// 1 is served first, 4 last.
    pub priority: i16,
    /// How often it may be tried.
    pub attempts_max: i16,
}

impl NewJob {
    /// Longest [`NewJob::args`], in bytes; the table has the same CHECK.
    pub const ARGS_BYTES_MAX: usize = 4096;
    /// The priority of a job that nobody marked.
    pub const PRIORITY_DEFAULT: i16 = 2;
    /// The priority of a replay: new work goes first.
    pub const PRIORITY_REPLAY: i16 = 4;
}

/// The states of a job. `docs/JOB_LIFECYCLE.md`, the CHECK constraints and this enum agree by test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Due at `run_at`, now or later.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended as a dead letter.
    Dead,
    /// Ended by a person.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Succeeded, Self::Dead, Self::Cancelled];

    /// The word used in SQL, the API and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the job has left the queue for good.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead | Self::Cancelled)
    }
}

/// The right to work on a job, as long as the database still says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The job.
    pub job_id: JobId,
    /// The fence: every claim of a job gets a higher one.
    pub lease_id: i64,
}

/// A job that this process has claimed.
#[derive(Clone, Debug)]
pub struct ClaimedJob {
    /// The right to settle it.
    pub lease: Lease,
    /// Which queue it came from.
    pub queue: String,
    /// What is to be done.
    pub kind: String,
    /// Whose job it is.
    pub source: String,
    /// What it is about.
    pub subject_id: Uuid,
    /// Small arguments.
    pub args: String,
    /// Which try this is, from 1.
    pub attempt: i16,
    /// How many tries there are.
    pub attempts_max: i16,
    /// Class of the last failed attempt, if there was one.
    pub last_error_class: Option<String>,
    /// The job outlived its age budget: it is not to be run again.
    pub expired: bool,
    /// When it was enqueued.
    pub created_at: DateTime<Utc>,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// Stable word for the kind of failure: filters, metrics and groups use it.
    pub class: &'static str,
    /// For an operator: what happened and what to do. At most [`JobError::TEXT_CHARS_MAX`]
    /// characters are kept, without control characters.
    pub text: String,
}

impl JobError {
    /// Longest text kept, in characters; the table has the same CHECK.
    pub const TEXT_CHARS_MAX: usize = 500;

    /// A failure.
    #[must_use]
    pub fn new(class: &'static str, text: impl Into<String>) -> Self {
        Self { class, text: text.into() }
    }

    /// A failure with the causes of an error in its text.
    #[must_use]
    pub fn caused_by(class: &'static str, fault: &dyn std::error::Error) -> Self {
        Self::new(class, chain(fault))
    }

    /// The text as it is stored: one line, no control characters, capped.
    #[must_use]
    pub fn stored_text(&self) -> String {
        storable(&self.text)
    }
}

/// One line without control characters (Postgres refuses NUL in `text`), capped.
pub(super) fn storable(text: &str) -> String {
    let spaced = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    spaced.take(JobError::TEXT_CHARS_MAX).collect()
}

/// Why a job became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// It cannot succeed, however often it is tried.
    Permanent,
    /// It used up its attempts.
    Exhausted,
    /// It outlived its age budget.
    Expired,
    /// The processes that worked on it kept dying.
    Poison,
}

impl DeadReason {
    /// The word used in SQL, the API and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Poison => "poison",
        }
    }
}

/// How an attempt ended, in the words of the handler.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<E> {
    /// Done. The effect is written in the transaction that ends the job.
    Complete(E),
    /// Failed, may heal. Uses the attempt up; the queue's backoff decides when, but not before
    /// `after` (a server's Retry-After).
    Retry {
        /// What went wrong.
        error: JobError,
        /// Floor of the delay.
        after: Option<Duration>,
    },
    /// Not the job's fault (rate limit, outage of a provider): later, and the attempt is given back.
    Snooze {
        /// Why.
        error: JobError,
        /// How long, before jitter.
        delay: Duration,
    },
    /// Cannot succeed: parked for a person.
    DeadLetter(JobError),
}

/// An outcome with what should be remembered of the attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran<E> {
    /// How it ended.
    pub outcome: Outcome<E>,
    /// Small note for the attempt's row, such as lane and model. Cleaned and capped like the text
    /// of a [`JobError`]: it may repeat what a provider said.
    pub context: Option<String>,
}

impl<E> From<Outcome<E>> for Ran<E> {
    fn from(outcome: Outcome<E>) -> Self {
        Self { outcome, context: None }
    }
}

/// A job that just became a dead letter, for whoever wants to raise an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLettered {
    /// The letter.
    pub dead_letter_id: Uuid,
    /// The job that died.
    pub job_id: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Its source.
    pub source: String,
    /// What it was about.
    pub subject_id: Uuid,
    /// Why it died.
    pub reason: DeadReason,
    /// Class of the last failure.
    pub error_class: String,
    /// Text of the last failure.
    pub error: String,
}
