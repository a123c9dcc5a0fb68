//! `POST|HEAD /webhooks/{source}`: the door for deliveries.
//!
//! The order is part of the contract: source → content-encoding and type → streaming size cap →
//! signature over the raw bytes → reading → commit. Nothing parses the body before its signature
//! is proven, and 200 leaves only after the commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::Utc;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;
use uuid::Uuid;

use super::ApiState;
use super::extract::Segment;
use super::problem::{Code, Problem, ProblemBody};
use super::tickets::refusal;
use crate::domain::NewEvent;
use crate::ingest::signature::Delivery;
use crate::ingest::source::Source;
use crate::ingest::{Receipt, Received};
use crate::store::Alert;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// The answer to a delivery that was understood; always with status 200.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Acknowledgement {
    /// `accepted`, `duplicate`, `ignored` or `quarantined`.
    status: &'static str,
    /// The job that triages the ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<Uuid>,
    /// The ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket_id: Option<Uuid>,
    /// The event.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<Uuid>,
}

/// Tells a sender that checks the address whether there is a source behind it.
#[utoipa::path(head, path = "/webhooks/{source}", operation_id = "probe_source", tag = "webhooks", params(("source" = String, Path)),
    responses((status = 200), (status = 404)))]
pub(super) async fn probe(
    State(state): State<ApiState>,
    Segment(name): Segment,
) -> Result<StatusCode, Problem> {
    find_source(&state, &name).map(|_| StatusCode::OK)
}

/// Takes a signed delivery. The body is whatever the sender of that source sends.
#[utoipa::path(post, path = "/webhooks/{source}", operation_id = "receive_delivery", tag = "webhooks", params(("source" = String, Path)),
    responses((status = 200, body = Acknowledgement), (status = "4XX", body = ProblemBody),
        (status = 503, body = ProblemBody)))]
pub(super) async fn receive(
    State(state): State<ApiState>,
    Segment(name): Segment,
    request: Request,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let source = find_source(&state, &name)?;
    let counted = |outcome: &'static str| {
        let source = source.name().to_owned();
        metrics::counter!("hooktriage_deliveries_total", "source" => source, "outcome" => outcome)
            .increment(1);
    };
    let result = accept(&state, source, request).await;
    match &result {
        Ok((outcome, _)) => counted(outcome),
        Err(problem) => counted(problem.code.as_str()),
    }
    metrics::histogram!("hooktriage_acknowledge_seconds").record(started.elapsed().as_secs_f64());
    result.map(|(_, response)| response)
}

async fn accept(
    state: &ApiState,
    source: &Source,
    request: Request,
) -> Result<(&'static str, Response), Problem> {
    let (parts, body) = request.into_parts();
    refuse_encodings(&parts.headers)?;
    let _room = reserve_room(state, &parts.headers)?;
    let body = read_capped(&parts.headers, body, state.body_bytes_max).await?;
    let delivery = Delivery { method: &parts.method, uri: &parts.uri, headers: &parts.headers, body: &body };
    let received = source.receive(&delivery, Utc::now()).map_err(|why| {
        let (name, reason) = (source.name().to_owned(), why.as_str());
        tracing::warn!(source = name, reason, %why, "a delivery was refused for its signature");
        metrics::counter!("hooktriage_signature_refusals_total", "source" => name, "reason" => reason)
            .increment(1);
        Problem::new(Code::SignatureRefused)
    })?;
    match received {
        Received::Handshake { answer } => {
            Ok(("handshake", ([(header::CONTENT_TYPE, "application/json")], answer).into_response()))
        }
        Received::Ignored { event_type } => {
            tracing::debug!(source = source.name(), event_type, "an event without a ticket was ignored");
            let answer = Acknowledgement { status: "ignored", job_id: None, ticket_id: None, event_id: None };
            Ok(("ignored", Json(answer).into_response()))
        }
        Received::Event(event) => {
            let answer = commit(state, *event).await?;
            Ok((answer.status, Json(answer).into_response()))
        }
    }
}

async fn commit(state: &ApiState, event: NewEvent) -> Result<Acknowledgement, Problem> {
    let (source, event_type) = (event.source.clone(), event.event_type.clone());
    let receipt = state.intake.submit(event).await.map_err(refusal)?;
    Ok(match receipt {
        Receipt::Accepted { event_id, job_id, ticket_id } => {
            tracing::info!(source, event_type, %job_id, %ticket_id, "a ticket was accepted");
            let (job_id, ticket_id) = (Some(job_id.0), Some(ticket_id.0));
            Acknowledgement { status: "accepted", job_id, ticket_id, event_id: Some(event_id.0) }
        }
        Receipt::Quarantined { event_id } => {
            tracing::error!(source, event_type, %event_id, "an event of a known type could not be read; it is kept");
            let alert = Alert::Quarantined { source: source.clone() };
            if let Err(fault) = state.alerts.raise(&state.pool, &alert, &source, event_id.0).await {
                tracing::error!(error = %fault, "the alert about a quarantined event could not be raised");
            }
            Acknowledgement {
                status: "quarantined",
                job_id: None,
                ticket_id: None,
                event_id: Some(event_id.0),
            }
        }
        Receipt::Duplicate { event_id, job_id, ticket_id, same_body } => {
            if !same_body {
                // Ordinary where a retry carries its own time; telling where an id names too much.
                tracing::info!(source, event_type, %event_id, "a known id came with another body; it is a repeat");
            }
            let (job_id, ticket_id) = (job_id.map(|id| id.0), ticket_id.map(|id| id.0));
            Acknowledgement { status: "duplicate", job_id, ticket_id, event_id: Some(event_id.0) }
        }
    })
}

fn find_source<'a>(state: &'a ApiState, name: &str) -> Result<&'a Source, Problem> {
    state.sources.get(name).ok_or(Problem::new(Code::SourceUnknown))
}

/// Bodies are held in memory before anybody is proven to be a sender, so together they may take
/// only so much. A body whose length was not announced counts with the cap.
fn reserve_room(state: &ApiState, headers: &HeaderMap) -> Result<OwnedSemaphorePermit, Problem> {
    let bytes =
        announced_length(headers).unwrap_or(state.body_bytes_max as u64).min(state.body_bytes_max as u64);
    let kibibytes = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
    let room = Arc::clone(&state.body_room).try_acquire_many_owned(kibibytes);
    room.map_err(|_| Problem::unavailable("too many deliveries are being read; send it again", 1))
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A signature covers the bytes on the wire, so nothing is decompressed; and a form that could
/// name files is never looked at.
fn refuse_encodings(headers: &HeaderMap) -> Result<(), Problem> {
    let is_identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(is_identity) {
        let detail = "send the body without Content-Encoding";
        return Err(Problem::with(Code::MediaTypeUnsupported, detail));
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let taken = essence.ends_with("json")
        || matches!(essence, "application/x-www-form-urlencoded" | "text/plain" | "application/octet-stream");
    if taken {
        return Ok(());
    }
    Err(Problem::with(Code::MediaTypeUnsupported, "send JSON, with Content-Type: application/json"))
}

/// Reads a body up to `bytes_max`, whether or not its length was announced.
pub(super) async fn read_capped(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let too_large = || Problem::with(Code::BodyTooLarge, format!("the cap is {bytes_max} bytes"));
    if announced_length(headers).is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(fault)) if fault.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(fault)) => Err(Problem::with(Code::BodyInvalid, format!("the body broke off: {fault}"))),
        Err(_) => Err(Problem::with(Code::BodyTooSlow, format!("it must arrive within {BODY_TIME_MAX:?}"))),
    }
}
