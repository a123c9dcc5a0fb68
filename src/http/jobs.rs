//! `GET /v1/jobs` and `GET /v1/jobs/{job_id}`.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use sqlx::PgPool;
use utoipa::IntoParams;
use uuid::Uuid;

use super::extract::{Segment, filter_text};
use super::page::{Page, PageParams};
use super::problem::{Code, Problem, ProblemBody};
use super::wire::Job;
use super::{ApiState, id_from_path};
use crate::queue::inspect::{self, JobFilter, JobView};
use crate::queue::{JobId, JobState};
use crate::store::classification;

/// Which jobs to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobParams {
    /// `queued`, `running`, `succeeded`, `dead` or `cancelled`.
    #[serde(default, deserialize_with = "filter_text")]
    state: Option<String>,
    /// `triage` or `routing`.
    #[serde(default, deserialize_with = "filter_text")]
    queue: Option<String>,
    /// Name of a source.
    #[serde(default, deserialize_with = "filter_text")]
    source: Option<String>,
    /// Only jobs about this ticket.
    ticket_id: Option<Uuid>,
    /// Rows on the page, 1 to 200; 50 when absent.
    limit: Option<i64>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Lists jobs, newest first.
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs", params(JobParams),
    responses((status = 200, body = Page<Job>), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn list(
    State(state): State<ApiState>,
    params: Result<Query<JobParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Page<Job>>, Problem> {
    let Query(params) = params?;
    let page = PageParams { limit: params.limit, cursor: params.cursor.clone() };
    if let Some(word) = params.state.as_deref().filter(|word| !is_state(word)) {
        let words = JobState::ALL.map(JobState::as_str).join(", ");
        return Err(Problem::with(
            Code::ParameterInvalid,
            format!("state is {word:?}; it must be one of {words}"),
        ));
    }
    let limit = page.limit()?;
    let filter = JobFilter {
        state: params.state,
        queue: params.queue,
        source: params.source,
        subject_id: params.ticket_id,
        before: page.before()?,
    };
    let views = inspect::list_jobs(&state.pool, &filter, limit + 1).await?;
    let page = Page::of(views, limit, |view| view.job_id, |view| view);
    let items = assemble(&state.pool, page.items).await?;
    Ok(Json(Page { items, next_cursor: page.next_cursor }))
}

/// Shows one job with its attempts and its verdict.
#[utoipa::path(get, path = "/v1/jobs/{job_id}", operation_id = "show_job", tag = "jobs", params(("job_id" = Uuid, Path)),
    responses((status = 200, body = Job), (status = "4XX", body = ProblemBody)),
    security(("token" = [])))]
pub(super) async fn show(State(state): State<ApiState>, Segment(id): Segment) -> Result<Json<Job>, Problem> {
    let job_id = id_from_path(&id, Code::JobUnknown)?;
    let view = inspect::find_job(&state.pool, JobId(job_id)).await?.ok_or(Problem::new(Code::JobUnknown))?;
    let mut jobs = assemble(&state.pool, vec![view]).await?;
    jobs.pop().map(Json).ok_or(Problem::new(Code::JobUnknown))
}

/// Adds attempts and verdicts to jobs, in two reads however many they are.
async fn assemble(pool: &PgPool, views: Vec<JobView>) -> Result<Vec<Job>, Problem> {
    let ids: Vec<Uuid> = views.iter().map(|view| view.job_id).collect();
    let attempts = inspect::attempts(pool, &ids).await?;
    let verdicts = classification::of_jobs(pool, &ids).await?;
    let jobs = views.into_iter().map(|view| {
        let tried = attempts.iter().filter(|attempt| attempt.job_id == view.job_id).cloned().collect();
        let verdict = verdicts.iter().find(|verdict| verdict.job_id == view.job_id).cloned();
        Job::new(view, tried, verdict)
    });
    Ok(jobs.collect())
}

fn is_state(word: &str) -> bool {
    JobState::ALL.iter().any(|state| state.as_str() == word)
}
