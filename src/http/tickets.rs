//! `POST /v1/tickets` for those who have no webhook, and reading tickets.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::Utc;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::extract::{Segment, filter_text};
use super::page::{Page, PageParams};
use super::problem::{Code, Problem, ProblemBody};
use super::wire::TicketBody;
use super::{ApiState, id_from_path};
use crate::domain::event::EventContent;
use crate::domain::{EventId, NewEvent, TicketDraft, TicketId};
use crate::ingest::{IntakeError, Receipt};
use crate::store::{classification, ticket};

/// The source of tickets that came by this route. No webhook source may have this name.
pub const API_SOURCE: &str = "api";
/// draft-ietf-httpapi-idempotency-key-header-07.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest Idempotency-Key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// A ticket to triage.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmittedTicket {
    /// Title; at least one of subject and body must say something.
    #[serde(default)]
    subject: String,
    /// Text; HTML is understood.
    #[serde(default)]
    body: String,
    /// Your id for it: a second ticket with the same one is a newer version of it.
    external_id: Option<String>,
    /// Who asked.
    #[serde(default)]
    requester: String,
    /// Labels that it already has.
    #[serde(default)]
    labels: Vec<String>,
    /// Priority in your words.
    #[serde(default)]
    priority: String,
    /// Where a person opens it.
    #[serde(default)]
    url: String,
}

/// What became of a submitted ticket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Submitted {
    /// `accepted` or `duplicate`.
    status: &'static str,
    /// The job that triages it.
    job_id: Uuid,
    /// The ticket.
    ticket_id: Uuid,
}

/// Submits a ticket. Repeat it with the same `Idempotency-Key` as often as you like.
#[utoipa::path(post, path = "/v1/tickets", operation_id = "submit_ticket", tag = "tickets", request_body = SubmittedTicket,
    params(("Idempotency-Key" = Option<String>, Header)),
    responses((status = 202, body = Submitted), (status = "4XX", body = ProblemBody),
        (status = 503, body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn submit(
    State(state): State<ApiState>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let submitted: SubmittedTicket =
        serde_json::from_slice(&body).map_err(|fault| Problem::with(Code::BodyInvalid, fault.to_string()))?;
    let event = event(submitted, idempotency_key(&headers)?, body)?;
    let (status, job_id, ticket_id) = match state.intake.submit(event).await.map_err(refusal)? {
        Receipt::Accepted { job_id, ticket_id, .. } => ("accepted", job_id, ticket_id),
        Receipt::Duplicate { same_body: false, .. } => return Err(Problem::new(Code::IdempotencyKeyReused)),
        Receipt::Duplicate { job_id: Some(job_id), ticket_id: Some(ticket_id), .. } => {
            ("duplicate", job_id, ticket_id)
        }
        Receipt::Duplicate { .. } | Receipt::Quarantined { .. } => return Err(Problem::new(Code::Internal)),
    };
    let location = format!("/v1/jobs/{job_id}");
    let answer = Submitted { status, job_id: job_id.0, ticket_id: ticket_id.0 };
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(answer)).into_response())
}

/// The problem of an event that could not be committed.
pub(super) fn refusal(fault: IntakeError) -> Problem {
    match fault {
        IntakeError::Overloaded => {
            Problem::unavailable("too much is waiting to be written; send it again", 5)
        }
        IntakeError::TooSlow(_) | IntakeError::Refused(_) => {
            Problem::unavailable("the database did not commit it; send it again", 2)
        }
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    let detail = "Idempotency-Key must be 1 to 255 visible ASCII characters";
    key.map(|key| Some(key.to_owned())).ok_or_else(|| Problem::with(Code::ParameterInvalid, detail))
}

/// # Errors
/// [`Code::BodyInvalid`] for a ticket without words, and for an id that would not be kept whole: cut
/// or emptied, it could be another ticket's.
fn event(submitted: SubmittedTicket, key: Option<String>, body: Bytes) -> Result<NewEvent, Problem> {
    let event_id = EventId::new();
    let dedupe_key = key.unwrap_or_else(|| event_id.to_string());
    let draft = TicketDraft {
        external_id: submitted.external_id.unwrap_or_else(|| dedupe_key.clone()),
        subject: submitted.subject,
        body: submitted.body,
        requester: submitted.requester,
        labels: submitted.labels,
        external_priority: submitted.priority,
        url: submitted.url,
    };
    let id_chars = draft.external_id.chars().count();
    let draft = draft.cleaned();
    if draft.external_id.is_empty() || id_chars > TicketDraft::FIELD_CHARS_MAX {
        let detail =
            format!("external_id must be 1 to {} printable characters", TicketDraft::FIELD_CHARS_MAX);
        return Err(Problem::with(Code::BodyInvalid, detail));
    }
    if draft.subject.is_empty() && draft.body.is_empty() {
        let detail = "subject and body are both empty; say what the ticket is about";
        return Err(Problem::with(Code::BodyInvalid, detail));
    }
    Ok(NewEvent {
        event_id,
        source: API_SOURCE.to_owned(),
        dedupe_key,
        event_type: "ticket.submitted".to_owned(),
        body: body.into(),
        guard_key: None,
        occurred_at: Some(Utc::now()),
        content: EventContent::Ticket(Box::new(draft)),
    })
}

/// Which tickets to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TicketParams {
    /// Name of a source.
    #[serde(default, deserialize_with = "filter_text")]
    source: Option<String>,
    /// Rows on the page, 1 to 200; 50 when absent.
    limit: Option<i64>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists tickets, those first seen last at the top.
#[utoipa::path(get, path = "/v1/tickets", operation_id = "list_tickets", tag = "tickets", params(TicketParams),
    responses((status = 200, body = Page<TicketBody>), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn list(
    State(state): State<ApiState>,
    params: Result<Query<TicketParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Page<TicketBody>>, Problem> {
    let Query(params) = params?;
    let page = PageParams { limit: params.limit, cursor: params.cursor.clone() };
    let limit = page.limit()?;
    let filter = ticket::TicketFilter { source: params.source, before: page.before()? };
    let tickets = ticket::list_tickets(&state.pool, &filter, limit + 1).await?;
    let ids: Vec<TicketId> = tickets.iter().map(|ticket| ticket.ticket_id).collect();
    let verdicts = classification::newest_of_tickets(&state.pool, &ids).await?;
    let verdict_of = |id: Uuid| verdicts.iter().find(|verdict| verdict.ticket_id == id).cloned();
    let body = |ticket: crate::domain::Ticket| {
        let verdict = verdict_of(ticket.ticket_id.0);
        // Two hundred bodies of a hundred thousand characters are no list.
        TicketBody { body: None, ..TicketBody::new(ticket, verdict) }
    };
    Ok(Json(Page::of(tickets, limit, |ticket| ticket.ticket_id.0, body)))
}

/// Shows one ticket with its newest verdict.
#[utoipa::path(get, path = "/v1/tickets/{ticket_id}", operation_id = "show_ticket", tag = "tickets", params(("ticket_id" = Uuid, Path)),
    responses((status = 200, body = TicketBody), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn show(
    State(state): State<ApiState>,
    Segment(id): Segment,
) -> Result<Json<TicketBody>, Problem> {
    let ticket_id = TicketId(id_from_path(&id, Code::TicketUnknown)?);
    let found =
        ticket::find_ticket(&state.pool, ticket_id).await?.ok_or(Problem::new(Code::TicketUnknown))?;
    let verdict = classification::newest_of_tickets(&state.pool, &[ticket_id]).await?.pop();
    Ok(Json(TicketBody::new(found, verdict)))
}
