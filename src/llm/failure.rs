//! What can go wrong with a call, precisely enough to decide what to do about it.

use std::time::Duration;

use thiserror::Error;

use super::rejection::{Meaning, Rejection};

/// What happened to a call. What follows from it is decided by [`super::disposition()`].
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Failure {
    /// No connection: DNS, TCP or TLS. Nothing was sent.
    #[error("no connection to the provider: {0}; check the base URL and the network")]
    ConnectFailed(String),
    /// The connection broke after the request was on its way; the call may have been paid for.
    #[error("the connection to the provider broke: {0}")]
    ConnectionLost(String),
    /// No complete answer in time; the call may have been paid for.
    #[error("no complete answer within {0:?}; a longer total timeout helps if the model is merely slow")]
    TimedOut(Duration),
    /// The provider refused the call.
    #[error("the provider answered {status}{code}: {message}",
        status = .0.status,
        code = .0.code.as_ref().or(.0.kind.as_ref()).map(|code| format!(" ({code})")).unwrap_or_default(),
        message = if .0.message.is_empty() { "no explanation" } else { &.0.message })]
    Rejected(Box<Rejection>),
    /// The answer did not end before the byte limit.
    #[error("the answer is longer than {0} bytes and was dropped")]
    AnswerTooLarge(usize),
    /// A 200 whose body is not the JSON that the dialect promises.
    #[error("the answer is not what the dialect promises: {0}; check the base URL and the kind of the lane")]
    AnswerUnreadable(String),
    /// The model stopped at its output limit.
    #[error("the answer was cut off at the output limit; allow more output tokens or less reasoning")]
    OutputTruncated,
    /// A good envelope with nothing in it.
    #[error("the answer is empty (finish reason {0})")]
    OutputEmpty(String),
    /// The model declined.
    #[error("the model declined: {0}")]
    Refused(String),
    /// A filter of the provider blocked the answer.
    #[error("the provider's filter blocked the answer ({0})")]
    ContentFiltered(String),
    /// The completion is no usable classification. Reported by `triage`, which reads it.
    #[error("the answer cannot be used: {0}")]
    BadOutput(String),
    /// The encoder of the offline lane failed.
    #[error("the offline encoder failed: {0}")]
    EncoderFailed(String),
}

/// Every error class: the words in attempts, dead letters and metrics. `docs/ERRORS.md` has a
/// section for each.
pub const CLASSES: &[&str] = &[
    "connect_failed",
    "connection_lost",
    "timed_out",
    "rate_limited",
    "quota_exhausted",
    "overloaded",
    "provider_error",
    "credential_refused",
    "not_found",
    "redirected",
    "input_too_large",
    "schema_refused",
    "misconfigured",
    "content_filtered",
    "request_refused",
    "answer_too_large",
    "answer_unreadable",
    "output_truncated",
    "empty_output",
    "refused",
    "bad_output",
    "encoder_failed",
];

impl Failure {
    /// The stable word for this failure, one of [`CLASSES`].
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::ConnectFailed(_) => "connect_failed",
            Self::ConnectionLost(_) => "connection_lost",
            Self::TimedOut(_) => "timed_out",
            Self::Rejected(rejection) => rejection.meaning().class(),
            Self::AnswerTooLarge(_) => "answer_too_large",
            Self::AnswerUnreadable(_) => "answer_unreadable",
            Self::OutputTruncated => "output_truncated",
            Self::OutputEmpty(_) => "empty_output",
            Self::Refused(_) => "refused",
            Self::ContentFiltered(_) => "content_filtered",
            Self::BadOutput(_) => "bad_output",
            Self::EncoderFailed(_) => "encoder_failed",
        }
    }
}

impl Meaning {
    /// Every meaning.
    pub const ALL: [Self; 12] = [
        Self::RateLimited,
        Self::QuotaExhausted,
        Self::Overloaded,
        Self::ProviderError,
        Self::CredentialRefused,
        Self::NotFound,
        Self::Redirected,
        Self::InputTooLarge,
        Self::SchemaRefused,
        Self::Misconfigured,
        Self::ContentFiltered,
        Self::RequestRefused,
    ];

    /// The stable word for it, one of [`CLASSES`].
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Overloaded => "overloaded",
            Self::ProviderError => "provider_error",
            Self::CredentialRefused => "credential_refused",
            Self::NotFound => "not_found",
            Self::Redirected => "redirected",
            Self::InputTooLarge => "input_too_large",
            Self::SchemaRefused => "schema_refused",
            Self::Misconfigured => "misconfigured",
            Self::ContentFiltered => "content_filtered",
            Self::RequestRefused => "request_refused",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_failure_has_a_class_of_the_list_and_every_class_has_a_failure() {
        let mut seen: BTreeSet<&str> = Meaning::ALL.into_iter().map(Meaning::class).collect();
        let text = String::new;
        let others = [
            Failure::ConnectFailed(text()),
            Failure::ConnectionLost(text()),
            Failure::TimedOut(Duration::ZERO),
            Failure::AnswerTooLarge(0),
            Failure::AnswerUnreadable(text()),
            Failure::OutputTruncated,
            Failure::OutputEmpty(text()),
            Failure::Refused(text()),
            Failure::ContentFiltered(text()),
            Failure::BadOutput(text()),
            Failure::EncoderFailed(text()),
        ];
        seen.extend(others.iter().map(Failure::class));
        assert_eq!(seen, CLASSES.iter().copied().collect());
        assert_eq!(seen.len(), CLASSES.len());
    }

    #[test]
    fn the_text_of_a_rejection_names_status_code_and_words() {
        let rejection = Rejection {
            status: 429,
            code: Some("insufficient_quota".into()),
            message: "You exceeded your current quota.".into(),
            ..Rejection::default()
        };
        assert_eq!(
            Failure::Rejected(Box::new(rejection)).to_string(),
            "the provider answered 429 (insufficient_quota): You exceeded your current quota."
        );
    }
}
