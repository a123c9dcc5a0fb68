//! Dead letters: reading, and replaying one or many.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::extract::{Segment, filter_text};
use super::page::{Page, PageParams};
use super::problem::{Code, Problem, ProblemBody};
use super::wire::DeadLetterBody;
use super::{ApiState, id_from_path};
use crate::queue::dead_letter::{self, DeadLetterFilter, Replayed};
use crate::queue::inspect;

/// Most letters that one request replays.
const REPLAYS_MAX: i64 = 1000;

/// Which letters to list or to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LetterFilter {
    /// `triage` or `routing`.
    #[serde(default, deserialize_with = "filter_text")]
    queue: Option<String>,
    /// Name of a source.
    #[serde(default, deserialize_with = "filter_text")]
    source: Option<String>,
    /// The kind of the last failure, such as `request_refused`.
    #[serde(default, deserialize_with = "filter_text")]
    error_class: Option<String>,
    /// `permanent`, `exhausted`, `expired` or `poison`.
    #[serde(default, deserialize_with = "filter_text")]
    reason: Option<String>,
    /// Only letters that died at or after this time, RFC 3339.
    dead_since: Option<DateTime<Utc>>,
    /// Only letters that died before this time, RFC 3339.
    dead_until: Option<DateTime<Utc>>,
}

impl LetterFilter {
    fn in_state(&self, state: Option<String>, before: Option<Uuid>) -> DeadLetterFilter {
        DeadLetterFilter {
            state,
            queue: self.queue.clone(),
            source: self.source.clone(),
            error_class: self.error_class.clone(),
            reason: self.reason.clone(),
            dead_since: self.dead_since,
            dead_until: self.dead_until,
            before,
        }
    }
}

/// The list's parameters.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LetterParams {
    /// `open`, `replayed`, `discarded` or `all`; `open` when absent.
    #[serde(default, deserialize_with = "filter_text")]
    state: Option<String>,
    /// `triage` or `routing`.
    #[serde(default, deserialize_with = "filter_text")]
    queue: Option<String>,
    /// Name of a source.
    #[serde(default, deserialize_with = "filter_text")]
    source: Option<String>,
    /// The kind of the last failure, such as `request_refused`.
    #[serde(default, deserialize_with = "filter_text")]
    error_class: Option<String>,
    /// `permanent`, `exhausted`, `expired` or `poison`.
    #[serde(default, deserialize_with = "filter_text")]
    reason: Option<String>,
    /// Rows on the page, 1 to 200; 50 when absent.
    limit: Option<i64>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists dead letters, newest first.
#[utoipa::path(get, path = "/v1/dead-letters", operation_id = "list_dead_letters", tag = "dead letters", params(LetterParams),
    responses((status = 200, body = Page<DeadLetterBody>), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn list(
    State(state): State<ApiState>,
    params: Result<Query<LetterParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Page<DeadLetterBody>>, Problem> {
    let Query(params) = params?;
    let page = PageParams { limit: params.limit, cursor: params.cursor.clone() };
    let in_state = match params.state.as_deref() {
        None => Some("open".to_owned()),
        Some("all") => None,
        Some(word @ ("open" | "replayed" | "discarded")) => Some(word.to_owned()),
        Some(word) => {
            let detail = format!("state is {word:?}; it must be one of open, replayed, discarded, all");
            return Err(Problem::with(Code::ParameterInvalid, detail));
        }
    };
    let limit = page.limit()?;
    let filter = DeadLetterFilter {
        state: in_state,
        queue: params.queue,
        source: params.source,
        error_class: params.error_class,
        reason: params.reason,
        before: page.before()?,
        ..DeadLetterFilter::default()
    };
    let letters = dead_letter::list_dead_letters(&state.pool, &filter, limit + 1).await?;
    Ok(Json(Page::of(
        letters,
        limit,
        |letter| letter.dead_letter_id,
        |letter| DeadLetterBody::new(letter, None),
    )))
}

/// Shows one dead letter with every attempt.
#[utoipa::path(get, path = "/v1/dead-letters/{dead_letter_id}", operation_id = "show_dead_letter", tag = "dead letters",
    params(("dead_letter_id" = Uuid, Path)),
    responses((status = 200, body = DeadLetterBody), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn show(
    State(state): State<ApiState>,
    Segment(id): Segment,
) -> Result<Json<DeadLetterBody>, Problem> {
    let id = id_from_path(&id, Code::DeadLetterUnknown)?;
    let letter = dead_letter::find_dead_letter(&state.pool, id).await?;
    let letter = letter.ok_or(Problem::new(Code::DeadLetterUnknown))?;
    let attempts = inspect::attempts(&state.pool, &[letter.job_id]).await?;
    Ok(Json(DeadLetterBody::new(letter, Some(attempts))))
}

/// One letter and the job that it was replayed as.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ReplayedLetter {
    /// The letter.
    dead_letter_id: Uuid,
    /// The new job.
    job_id: Uuid,
}

impl From<&Replayed> for ReplayedLetter {
    fn from(replayed: &Replayed) -> Self {
        Self { dead_letter_id: replayed.dead_letter_id, job_id: replayed.job_id.0 }
    }
}

/// Replays one dead letter as a new job that names the dead one. The letter is marked, not deleted.
#[utoipa::path(post, path = "/v1/admin/dead-letters/{dead_letter_id}/replay", operation_id = "replay_dead_letter", tag = "admin",
    params(("dead_letter_id" = Uuid, Path)),
    responses((status = 202, body = ReplayedLetter), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn replay_one(
    State(state): State<ApiState>,
    Segment(id): Segment,
) -> Result<Response, Problem> {
    let id = id_from_path(&id, Code::DeadLetterUnknown)?;
    let replayed = dead_letter::replay(&state.pool, &[id]).await?;
    let Some(one) = replayed.first() else { return Err(why_not_replayed(&state, id).await?) };
    ring(&state, &replayed);
    let location = format!("/v1/jobs/{}", one.job_id);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(ReplayedLetter::from(one)))
        .into_response())
}

async fn why_not_replayed(state: &ApiState, id: Uuid) -> Result<Problem, Problem> {
    let Some(letter) = dead_letter::find_dead_letter(&state.pool, id).await? else {
        return Ok(Problem::new(Code::DeadLetterUnknown));
    };
    let detail = match letter.replayed_job_id {
        Some(job_id) => format!("it was replayed as job {job_id}; if that died, replay its own dead letter"),
        None => format!("it is {}", letter.state),
    };
    Ok(Problem::with(Code::DeadLetterNotOpen, detail))
}

/// What to replay.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayRequest {
    /// Which open letters.
    #[serde(default)]
    filter: LetterFilter,
    /// Must be true when the filter is empty: then every open letter is meant.
    #[serde(default)]
    all: bool,
    /// Only count.
    #[serde(default)]
    dry_run: bool,
    /// Most letters to replay, 1 to 1000; 1000 when absent. The oldest are left for the next time.
    limit: Option<i64>,
}

/// What was replayed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ReplayReport {
    /// Whether this was only a count.
    dry_run: bool,
    /// Open letters that match, up to the limit.
    matched: usize,
    /// Whether more match than the limit takes.
    more: bool,
    /// The letters with their new jobs; empty on a dry run.
    replayed: Vec<ReplayedLetter>,
}

/// Replays the open dead letters that match a filter, or counts them.
#[utoipa::path(post, path = "/v1/admin/replays", operation_id = "replay_dead_letters", tag = "admin", request_body = ReplayRequest,
    responses((status = 200, body = ReplayReport), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn replay_many(
    State(state): State<ApiState>,
    body: Bytes,
) -> Result<Json<ReplayReport>, Problem> {
    let request: ReplayRequest =
        serde_json::from_slice(&body).map_err(|fault| Problem::with(Code::BodyInvalid, fault.to_string()))?;
    if request.filter == LetterFilter::default() && !request.all {
        let detail = "the filter is empty; narrow it, or set \"all\": true to mean every open dead letter";
        return Err(Problem::with(Code::BodyInvalid, detail));
    }
    let limit = request.limit.unwrap_or(REPLAYS_MAX);
    if !(1..=REPLAYS_MAX).contains(&limit) {
        return Err(Problem::with(
            Code::BodyInvalid,
            format!("limit is {limit}; it must be 1 to {REPLAYS_MAX}"),
        ));
    }
    let filter = request.filter.in_state(Some("open".to_owned()), None);
    let mut letters = dead_letter::list_dead_letters(&state.pool, &filter, limit + 1).await?;
    let limit = usize::try_from(limit).unwrap_or(0);
    let more = letters.len() > limit;
    letters.truncate(limit);
    let mut replayed = vec![];
    if !request.dry_run {
        let ids: Vec<Uuid> = letters.iter().map(|letter| letter.dead_letter_id).collect();
        replayed = dead_letter::replay(&state.pool, &ids).await?;
        ring(&state, &replayed);
    }
    let replayed: Vec<ReplayedLetter> = replayed.iter().map(ReplayedLetter::from).collect();
    Ok(Json(ReplayReport { dry_run: request.dry_run, matched: letters.len(), more, replayed }))
}

fn ring(state: &ApiState, replayed: &[Replayed]) {
    for queue in state.queues.iter().filter(|queue| replayed.iter().any(|one| one.queue == **queue)) {
        state.wake.ring(queue);
    }
}
