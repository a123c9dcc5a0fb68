//! Sending one signed webhook (Standard Webhooks 1.0.0), and reading what the answer means.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, Method, Uri, header};
use reqwest::StatusCode;

use super::Destination;
use crate::ingest::signature::{DeliveryId, Unsigned, sign};
use crate::ingest::source::Preset;
use crate::queue::{JobError, Outcome};

/// How long a destination that says "not now" without a time is left alone.
const PAUSE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest wait that a destination may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Sends `body` under `id`, the idempotency key: the same on every repetition.
pub(super) async fn send(
    destination: &Destination,
    id: &str,
    body: Vec<u8>,
    now: DateTime<Utc>,
) -> Outcome<()> {
    let headers = match signed(destination, id, &body, now) {
        Ok(headers) => headers,
        Err(text) => return Outcome::DeadLetter(JobError::new("delivery_unsignable", text)),
    };
    let request = destination.client.post(destination.url.clone()).headers(headers).body(body);
    match request.send().await {
        Ok(response) => of_answer(&destination.name.to_string(), response.status(), response.headers(), now),
        Err(fault) => {
            let text = format!("{} could not be reached: {}", destination.name, root_cause(&fault));
            Outcome::Retry { error: JobError::new("destination_unreachable", text), after: None }
        }
    }
}

fn signed(destination: &Destination, id: &str, body: &[u8], now: DateTime<Utc>) -> Result<HeaderMap, String> {
    let schemes = Preset::StandardWebhooks.schemes();
    let scheme = schemes.first().ok_or("Standard Webhooks has a scheme")?;
    let id = DeliveryId::new(id).ok_or_else(|| format!("{id:?} cannot be a delivery id"))?;
    let unsigned = Unsigned { id: &id, method: &Method::POST, uri: &Uri::from_static("/"), body };
    let mut headers = sign(scheme, &destination.secret, &unsigned, now).map_err(|fault| fault.to_string())?;
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    Ok(headers)
}

/// 2xx is taken; 408, 429 and 5xx may heal; everything else is a refusal that time does not mend.
/// What a destination asks to be left alone for costs no attempt. Source: Standard Webhooks 1.0.0,
/// "Consumer response".
fn of_answer(name: &str, status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> Outcome<()> {
    if status.is_success() {
        return Outcome::Complete(());
    }
    let after = retry_after(headers, now);
    let text = |what: &str| format!("{name} answered {}: {what}", status.as_u16());
    if status == StatusCode::TOO_MANY_REQUESTS {
        let error = JobError::new("destination_busy", text("it wants to be left alone for a while"));
        return Outcome::Snooze { error, delay: after.unwrap_or(PAUSE_DEFAULT) };
    }
    if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
        return Outcome::Retry { error: JobError::new("destination_failed", text("it may heal")), after };
    }
    let what = match status {
        StatusCode::GONE => "it is gone; take the destination out of the rules",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "it does not accept our signature; compare the secrets"
        }
        StatusCode::NOT_FOUND => "there is nothing at its url; mend the url",
        _ if status.is_redirection() => "redirects are not followed; configure the address it points to",
        _ => "it refuses this delivery",
    };
    Outcome::DeadLetter(JobError::new("destination_refused", text(what)))
}

/// RFC 9110 section 10.2.3: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = DateTime::<Utc>::from(httpdate::parse_http_date(value).ok()?);
            (date - now).to_std().ok()?
        }
    };
    Some(wait.min(PAUSE_MAX))
}

/// The innermost cause: the outer texts of reqwest only say that sending failed.
fn root_cause(fault: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = fault;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>) -> Outcome<()> {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(header::RETRY_AFTER, value.parse().expect("a header"));
        }
        of_answer("team", StatusCode::from_u16(status).expect("a status"), &headers, DateTime::UNIX_EPOCH)
    }

    fn seconds(outcome: Outcome<()>) -> Option<u64> {
        match outcome {
            Outcome::Snooze { delay, .. } => Some(delay.as_secs()),
            Outcome::Retry { after, .. } => after.map(|after| after.as_secs()),
            Outcome::Complete(()) | Outcome::DeadLetter(_) => None,
        }
    }

    #[test]
    fn only_2xx_is_taken_as_delivered() {
        for status in [200, 201, 202, 204] {
            assert_eq!(answer(status, None), Outcome::Complete(()));
        }
    }

    #[test]
    fn refusals_are_not_repeated() {
        for status in [301, 400, 401, 403, 404, 410, 422] {
            assert!(matches!(answer(status, None), Outcome::DeadLetter(_)), "{status}");
        }
    }

    #[test]
    fn what_may_heal_is_tried_again() {
        for status in [408, 500, 502, 503, 504] {
            assert!(matches!(answer(status, None), Outcome::Retry { .. }), "{status}");
        }
    }

    #[test]
    fn a_busy_destination_costs_no_attempt_and_says_when_to_come_back() {
        assert!(matches!(answer(429, None), Outcome::Snooze { .. }));
        assert_eq!(seconds(answer(429, Some("7"))), Some(7));
        assert_eq!(seconds(answer(503, Some("Thu, 01 Jan 1970 00:01:00 GMT"))), Some(60));
        assert_eq!(seconds(answer(429, Some("999999999"))), Some(3600));
        assert_eq!(seconds(answer(503, Some("-5"))), None);
    }
}
