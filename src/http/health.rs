//! `/healthz`, `/readyz` and `/metrics`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiState;
use crate::queue::inspect;

/// How long the database may take to show that it is there.
const PROBE_TIME_MAX: Duration = Duration::from_millis(300);
/// How old measured depths may be when they are shown again.
const DEPTHS_AGE_MAX: Duration = Duration::from_secs(5);
/// Dead letters are counted up to this many.
const LETTERS_COUNT_MAX: i64 = 10_000;

/// What a probe is told.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, or why not.
    status: &'static str,
}

/// The process lives. Never asks the database: a restart would not mend that.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Health)))]
pub(super) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The process can take work: it is not stopping, and the database answers.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(super) async fn ready(State(state): State<ApiState>) -> (StatusCode, Json<Health>) {
    if state.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "stopping" }));
    }
    match tokio::time::timeout(PROBE_TIME_MAX, inspect::open_dead_letters(&state.work_pool, 1)).await {
        Ok(Ok(_)) => (StatusCode::OK, Json(Health { status: "ok" })),
        Ok(Err(_)) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "database_away" })),
    }
}

/// When the queues were last measured.
#[derive(Debug, Default)]
pub struct DepthCache(Mutex<Option<Instant>>);

impl DepthCache {
    /// Whether it is time to measure again; then marks it as done.
    fn is_due(&self) -> bool {
        let mut measured = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = measured.is_none_or(|at| at.elapsed() >= DEPTHS_AGE_MAX);
        if due {
            *measured = Some(Instant::now());
        }
        due
    }
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn metrics(State(state): State<ApiState>) -> Response {
    if state.depths.is_due() {
        let measured = tokio::time::timeout(PROBE_TIME_MAX, measure(&state)).await;
        if !matches!(measured, Ok(Ok(()))) {
            metrics::counter!("hooktriage_scrape_errors_total").increment(1);
        }
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, state.metrics.render()).into_response()
}

async fn measure(state: &ApiState) -> Result<(), crate::queue::QueueError> {
    let depths = inspect::depths(&state.pool).await?;
    for name in state.queues.iter() {
        let depth = depths.iter().find(|depth| depth.queue == *name);
        let of = |count: fn(&inspect::QueueDepth) -> i64| depth.map_or(0.0, |depth| count(depth) as f64);
        metrics::gauge!("hooktriage_jobs", "queue" => *name, "state" => "due").set(of(|depth| depth.due));
        metrics::gauge!("hooktriage_jobs", "queue" => *name, "state" => "waiting")
            .set(of(|depth| depth.waiting));
        metrics::gauge!("hooktriage_jobs", "queue" => *name, "state" => "running")
            .set(of(|depth| depth.running));
        let oldest = depth.map_or(0.0, |depth| depth.oldest_due_seconds);
        metrics::gauge!("hooktriage_oldest_due_job_seconds", "queue" => *name).set(oldest);
    }
    let letters = inspect::open_dead_letters(&state.pool, LETTERS_COUNT_MAX).await?;
    metrics::gauge!("hooktriage_dead_letters_open").set(letters as f64);
    Ok(())
}
