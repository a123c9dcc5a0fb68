//! Errors as `application/problem+json` (RFC 9457), each with a stable code that has a section in
//! `docs/ERRORS.md`.
//!
//! What a caller is told and what the log is told differ: a cause goes to the log, once, here.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::queue::QueueError;
use crate::store::StoreError;

/// The stable codes. `docs/ERRORS.md` has a section for each, by test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The bearer token is missing or wrong.
    Unauthorized,
    /// The signature of a delivery is missing, wrong or too old.
    SignatureRefused,
    /// No source of that name is configured.
    SourceUnknown,
    /// No job has that id.
    JobUnknown,
    /// No ticket has that id.
    TicketUnknown,
    /// No dead letter has that id.
    DeadLetterUnknown,
    /// No route has that path.
    RouteUnknown,
    /// The route does not know that method.
    MethodNotAllowed,
    /// A parameter cannot be read.
    ParameterInvalid,
    /// The body is not what the route takes.
    BodyInvalid,
    /// The same Idempotency-Key came with another body.
    IdempotencyKeyReused,
    /// The dead letter is not open any more.
    DeadLetterNotOpen,
    /// The body is larger than the cap.
    BodyTooLarge,
    /// The body took too long to arrive.
    BodyTooSlow,
    /// The body is compressed or of a kind that is not taken.
    MediaTypeUnsupported,
    /// The request cannot be committed now.
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 17] = [
        Self::Unauthorized,
        Self::SignatureRefused,
        Self::SourceUnknown,
        Self::JobUnknown,
        Self::TicketUnknown,
        Self::DeadLetterUnknown,
        Self::RouteUnknown,
        Self::MethodNotAllowed,
        Self::ParameterInvalid,
        Self::BodyInvalid,
        Self::IdempotencyKeyReused,
        Self::DeadLetterNotOpen,
        Self::BodyTooLarge,
        Self::BodyTooSlow,
        Self::MediaTypeUnsupported,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Code, status and title.
    const fn row(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::Unauthorized => {
                ("unauthorized", StatusCode::UNAUTHORIZED, "The bearer token is missing or wrong")
            }
            Self::SignatureRefused => {
                ("signature-refused", StatusCode::UNAUTHORIZED, "The signature was not accepted")
            }
            Self::SourceUnknown => ("source-unknown", StatusCode::NOT_FOUND, "There is no such source"),
            Self::JobUnknown => ("job-unknown", StatusCode::NOT_FOUND, "There is no such job"),
            Self::TicketUnknown => ("ticket-unknown", StatusCode::NOT_FOUND, "There is no such ticket"),
            Self::DeadLetterUnknown => {
                ("dead-letter-unknown", StatusCode::NOT_FOUND, "There is no such dead letter")
            }
            Self::RouteUnknown => ("route-unknown", StatusCode::NOT_FOUND, "There is no such route"),
            Self::MethodNotAllowed => {
                ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED, "The route does not know this method")
            }
            Self::ParameterInvalid => {
                ("parameter-invalid", StatusCode::BAD_REQUEST, "A parameter cannot be read")
            }
            Self::BodyInvalid => ("body-invalid", StatusCode::BAD_REQUEST, "The body cannot be read"),
            Self::IdempotencyKeyReused => (
                "idempotency-key-reused",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The Idempotency-Key was used with another body",
            ),
            Self::DeadLetterNotOpen => {
                ("dead-letter-not-open", StatusCode::CONFLICT, "The dead letter is not open any more")
            }
            Self::BodyTooLarge => {
                ("body-too-large", StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than the cap")
            }
            Self::BodyTooSlow => {
                ("body-too-slow", StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive")
            }
            Self::MediaTypeUnsupported => (
                "media-type-unsupported",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body is compressed or of a kind that is not taken",
            ),
            Self::Unavailable => {
                ("unavailable", StatusCode::SERVICE_UNAVAILABLE, "The request cannot be committed now")
            }
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR, "The service failed"),
        }
    }

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        self.row().1
    }
}

/// An error on its way to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// What happened this time and what to do, for a person. Nothing secret.
    pub detail: Option<String>,
    /// When to come back, in seconds; sent as `Retry-After`.
    pub retry_after: Option<u64>,
}

/// The body of an error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemBody {
    /// `urn:hooktriage:error:` and the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:hooktriage:error:job-unknown")]
    kind: String,
    /// The stable code; `docs/ERRORS.md` has a section for each.
    #[schema(example = "job-unknown")]
    code: &'static str,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// The same for every problem of this code.
    title: &'static str,
    /// What happened this time and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Problem {
    /// A problem that its code says all about.
    #[must_use]
    pub const fn new(code: Code) -> Self {
        Self { code, detail: None, retry_after: None }
    }

    /// A problem with what happened this time.
    #[must_use]
    pub fn with(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: Some(detail.into()), retry_after: None }
    }

    /// The request cannot be committed now; come back in `seconds`.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>, seconds: u64) -> Self {
        Self { code: Code::Unavailable, detail: Some(detail.into()), retry_after: Some(seconds) }
    }

    /// The body that is sent.
    #[must_use]
    pub fn body(&self) -> ProblemBody {
        let (code, status, title) = self.code.row();
        let kind = format!("urn:hooktriage:error:{code}");
        ProblemBody { kind, code, status: status.as_u16(), title, detail: self.detail.clone() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.code, Code::BodyTooLarge | Code::BodyTooSlow) {
            // The rest of the body is not read, so the connection cannot be used again.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<QueueError> for Problem {
    fn from(fault: QueueError) -> Self {
        database_failed(&fault)
    }
}

impl From<StoreError> for Problem {
    fn from(fault: StoreError) -> Self {
        database_failed(&fault)
    }
}

fn database_failed(fault: &dyn std::error::Error) -> Problem {
    let cause = fault.source().map(ToString::to_string).unwrap_or_default();
    tracing::error!(error = %fault, cause, "a request failed for the database's sake");
    Problem::unavailable("the database did not answer; try again", 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_and_is_a_kebab_case_word() {
        let words: std::collections::HashSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
    }

    #[test]
    fn a_problem_names_its_code_and_when_to_come_back() {
        let response = Problem::unavailable("the database is away", 2).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
