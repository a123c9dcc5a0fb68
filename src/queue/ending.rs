//! From outcome to ending: which of the queue's verbs an attempt comes to. Pure.

use std::time::Duration;

use rand::RngExt;

use super::{Backoff, ClaimedJob, DeadReason, JobError, Outcome};

/// What is to be written for a job whose attempt is over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending<E> {
    /// It succeeded, with this effect.
    Succeeded(E),
    /// It goes back to the queue.
    Requeued(Requeue),
    /// It becomes a dead letter.
    Dead(DeadReason, JobError),
}

/// How a job goes back to the queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requeue {
    /// Due this long after now, by the database's clock.
    pub delay: Duration,
    /// Whether the attempt is given back.
    pub refund: bool,
    /// The word for the attempt's row.
    pub outcome: &'static str,
    /// What went wrong, if anything did.
    pub error: Option<JobError>,
}

impl<E> Ending<E> {
    /// Every way back to the queue passes here, so that no path goes around the cap of attempts.
    pub(crate) fn of(outcome: Outcome<E>, job: &ClaimedJob, backoff: &Backoff) -> Self {
        match outcome {
            Outcome::Complete(effect) => Self::Succeeded(effect),
            Outcome::DeadLetter(error) => {
                let reason = if job.expired { DeadReason::Expired } else { DeadReason::Permanent };
                Self::Dead(reason, error)
            }
            Outcome::Retry { error, .. } if job.attempt >= job.attempts_max => {
                Self::Dead(DeadReason::Exhausted, error)
            }
            Outcome::Retry { error, after } => Self::Requeued(Requeue {
                delay: backoff.delay(job.attempt, after),
                refund: false,
                outcome: "retried",
                error: Some(error),
            }),
            Outcome::Snooze { error, delay } => Self::Requeued(Requeue {
                delay: spread(delay),
                refund: true,
                outcome: "snoozed",
                error: Some(error),
            }),
        }
    }

    /// A clean stop: the job is ready at once for somebody else, and the attempt is given back.
    pub(crate) fn handed_back() -> Self {
        Self::Requeued(Requeue { delay: Duration::ZERO, refund: true, outcome: "handed_back", error: None })
    }
}

/// Most that is added to a snooze.
const SPREAD_MAX: Duration = Duration::from_secs(60);

/// Up to a quarter more, so that jobs that were snoozed together do not wake together.
fn spread(delay: Duration) -> Duration {
    let more = delay.mul_f64(0.25).min(SPREAD_MAX);
    delay + more.mul_f64(rand::rng().random_range(0.0..1.0))
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use uuid::Uuid;

    use super::super::{JobId, Lease};
    use super::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(60) };

    fn job(attempt: i16) -> ClaimedJob {
        ClaimedJob {
            lease: Lease { job_id: JobId::new(), lease_id: 1 },
            queue: "q".into(),
            kind: "k".into(),
            source: "s".into(),
            subject_id: Uuid::now_v7(),
            args: "{}".into(),
            attempt,
            attempts_max: 3,
            last_error_class: None,
            expired: false,
            created_at: Utc::now(),
        }
    }

    fn error() -> JobError {
        JobError::new("http_500", "the provider failed")
    }

    #[test]
    fn a_retry_of_the_last_attempt_ends_as_exhausted() {
        let ending = Ending::<()>::of(Outcome::Retry { error: error(), after: None }, &job(3), &BACKOFF);
        assert_eq!(ending, Ending::Dead(DeadReason::Exhausted, error()));
    }

    #[test]
    fn a_snooze_gives_the_attempt_back_even_on_the_last_one() {
        let snooze = Outcome::<()>::Snooze { error: error(), delay: Duration::from_secs(4) };
        let Ending::Requeued(requeue) = Ending::of(snooze, &job(3), &BACKOFF) else {
            panic!("a snooze goes back to the queue")
        };
        assert!(requeue.refund);
        assert!(requeue.delay >= Duration::from_secs(4) && requeue.delay <= Duration::from_secs(5));
    }

    #[test]
    fn a_retry_waits_at_least_as_long_as_the_server_said() {
        let after = Some(Duration::from_secs(7));
        let Ending::Requeued(requeue) =
            Ending::<()>::of(Outcome::Retry { error: error(), after }, &job(1), &BACKOFF)
        else {
            panic!("a retry goes back to the queue")
        };
        assert!(requeue.delay >= Duration::from_secs(7) && !requeue.refund);
    }
}
