//! From a failure to what follows from it. The one table of this kind in the program.
//!
//! Three budgets are kept apart: attempts of a job are for faults that may be the job's own; a
//! pause of the lane costs no job anything; what only a person can mend parks the lane and
//! raises an alert, so that no ten thousand tickets become dead letters within a minute.
//!
//! **Invariants**
//! - The mapping is exhaustive: a new failure does not compile until it has its row here.
//! - A delay asked for by the provider is a floor and is never shortened.
//!
//! **Not here:** what only several calls together can tell (`guard`), and the schedule (`queue`).

use std::time::Duration;

use super::failure::Failure;
use super::rejection::{Meaning, Rejection};
use crate::domain::ReviewReason;

/// A rate limit that lasts longer than this is a quota: the lane is parked and a person is told.
pub const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);
/// Fewer tries than the queue's own limit for calls that may have been paid for.
const TIMEOUT_TRIES_MAX: u32 = 3;

/// What follows from a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    /// The job tries again later, which uses up an attempt.
    Retry {
        /// The provider's delay, a floor for the queue's own backoff.
        after: Option<Duration>,
        /// A limit below the job's own, where trying is costly.
        times_max: Option<u32>,
    },
    /// The lane waits and the job with it; no attempt is used up.
    PauseLane {
        /// The provider's delay; `None` lets the lane's own growing delay decide.
        at_least: Option<Duration>,
    },
    /// The lane waits for a person, probing now and then; no attempt is used up, whoever runs the lane raises an alert.
    ParkLane {
        /// What the person has to mend.
        cause: ParkCause,
        /// No probe before this.
        at_least: Option<Duration>,
    },
    /// The lane now asks for the schema in a weaker way: ask again at once; no attempt is used up.
    StepDown,
    /// Ask again with a change, at most so often for this job; then end it.
    ReAsk {
        /// What to change.
        change: Change,
        /// How often in all.
        times_max: u32,
        /// What follows when that did not help.
        then: Ending,
    },
    /// A person looks at the ticket; the job has done its work.
    Review {
        /// Why.
        reason: ReviewReason,
        /// The ground, safe to show.
        detail: String,
    },
    /// Trying again cannot help.
    DeadLetter {
        /// The class under which the dead letter is filed.
        class: &'static str,
    },
}

/// What a person has to mend before a parked lane can work again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkCause {
    /// Credit, budget or quota of the account.
    Quota,
    /// The key or its rights.
    Credential,
    /// Base URL, model name or a parameter.
    Configuration,
}

impl ParkCause {
    /// The word used in alerts, metrics and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Credential => "credential",
            Self::Configuration => "configuration",
        }
    }
}

/// How the next question differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The same question; earlier answers are never appended to it.
    Nothing,
    /// A shorter body.
    ShorterInput,
    /// A larger output limit.
    MoreOutput,
}

/// How a job ends when asking again did not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As a dead letter of the failure's class.
    DeadLetter,
    /// With a verdict that asks for a person.
    Review,
}

/// What follows from `failure`, seen by itself.
#[must_use]
pub fn disposition(failure: &Failure) -> Disposition {
    match failure {
        Failure::ConnectFailed(_) | Failure::ConnectionLost(_) => {
            Disposition::Retry { after: None, times_max: None }
        }
        Failure::TimedOut(_) => Disposition::Retry { after: None, times_max: Some(TIMEOUT_TRIES_MAX) },
        Failure::Rejected(rejection) => of_rejection(rejection),
        Failure::AnswerTooLarge(_) => re_ask(Change::Nothing, 1, Ending::DeadLetter),
        Failure::AnswerUnreadable(_) => {
            Disposition::Retry { after: None, times_max: Some(TIMEOUT_TRIES_MAX) }
        }
        Failure::OutputTruncated => re_ask(Change::MoreOutput, 1, Ending::DeadLetter),
        Failure::OutputEmpty(_) => re_ask(Change::Nothing, 2, Ending::DeadLetter),
        Failure::Refused(_) | Failure::ContentFiltered(_) => {
            Disposition::Review { reason: ReviewReason::Refused, detail: failure.to_string() }
        }
        Failure::BadOutput(_) => re_ask(Change::Nothing, 1, Ending::Review),
        Failure::EncoderFailed(_) => Disposition::DeadLetter { class: failure.class() },
    }
}

fn of_rejection(rejection: &Rejection) -> Disposition {
    let after = rejection.retry_after;
    let meaning = rejection.meaning();
    match meaning {
        Meaning::RateLimited if after.is_some_and(|delay| delay > PAUSE_MAX) => {
            Disposition::ParkLane { cause: ParkCause::Quota, at_least: after }
        }
        // A limit that the provider says not to retry, without a time at which it ends.
        Meaning::RateLimited if rejection.should_retry == Some(false) && after.is_none() => {
            Disposition::ParkLane { cause: ParkCause::Quota, at_least: None }
        }
        Meaning::RateLimited | Meaning::Overloaded => Disposition::PauseLane { at_least: after },
        Meaning::QuotaExhausted => Disposition::ParkLane { cause: ParkCause::Quota, at_least: after },
        Meaning::ProviderError if rejection.should_retry == Some(false) => {
            Disposition::DeadLetter { class: meaning.class() }
        }
        Meaning::ProviderError => Disposition::Retry { after, times_max: None },
        Meaning::CredentialRefused => Disposition::ParkLane { cause: ParkCause::Credential, at_least: None },
        Meaning::NotFound | Meaning::Redirected | Meaning::Misconfigured => {
            Disposition::ParkLane { cause: ParkCause::Configuration, at_least: None }
        }
        Meaning::InputTooLarge => re_ask(Change::ShorterInput, 1, Ending::DeadLetter),
        Meaning::SchemaRefused => Disposition::StepDown,
        Meaning::ContentFiltered => Disposition::Review {
            reason: ReviewReason::Refused,
            detail: format!("the provider's filter blocked the ticket: {}", rejection.message),
        },
        Meaning::RequestRefused if rejection.should_retry == Some(true) => {
            Disposition::Retry { after, times_max: None }
        }
        Meaning::RequestRefused => Disposition::DeadLetter { class: meaning.class() },
    }
}

fn re_ask(change: Change, times_max: u32, then: Ending) -> Disposition {
    Disposition::ReAsk { change, times_max, then }
}

#[cfg(test)]
mod tests;
