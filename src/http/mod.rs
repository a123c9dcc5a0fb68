//! The HTTP side: webhooks in, REST for people and programs, probes and metrics.
//!
//! **Invariants.** A 2xx for an event or a ticket leaves only after its commit. Every error is
//! `application/problem+json` with a stable code. Routes and the OpenAPI document are one thing, so
//! they cannot drift apart.
//!
//! **Not here:** no SQL, no signature arithmetic, no decision about tickets.

mod auth;
mod dead_letters;
mod extract;
mod health;
mod jobs;
pub mod listen;
mod page;
pub mod problem;
mod request_id;
mod tickets;
mod webhook;
pub mod wire;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::rejection::QueryRejection;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

pub use auth::TokenHash;
pub use health::DepthCache;
use problem::{Code, Problem};
pub use tickets::API_SOURCE;

use crate::ingest::Intake;
use crate::ingest::source::Source;
use crate::queue::Wake;
use crate::store::Alerts;

/// Longest a request may take as a whole.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(15);
/// Largest body of the `/v1` routes, in bytes.
const API_BODY_BYTES_MAX: usize = 1024 * 1024;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    /// For reading, and for replays: a few sessions of its own, so that a dashboard which asks for
    /// too much starves neither intake nor heartbeat.
    pub pool: PgPool,
    /// What intake and workers use: the service is ready when this one answers.
    pub work_pool: PgPool,
    /// The way into the database for events.
    pub intake: Intake,
    /// The configured sources by name.
    pub sources: Arc<HashMap<String, Source>>,
    /// Whom to tell of events that cannot be read.
    pub alerts: Alerts,
    /// Rings workers when a replay made jobs.
    pub wake: Wake,
    /// The queues that exist.
    pub queues: Arc<[&'static str]>,
    /// What `/v1` asks for.
    pub token: TokenHash,
    /// Largest delivery, in bytes.
    pub body_bytes_max: usize,
    /// Room for bodies that are being read, in KiB.
    pub body_room: Arc<Semaphore>,
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// When the queues were last measured.
    pub depths: Arc<DepthCache>,
    /// Cancelled when the process is about to stop.
    pub stopping: CancellationToken,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "hooktriage",
        description = "Signed help-desk webhooks in, triaged tickets out.",
        license(name = "MIT", identifier = "MIT")
    ),
    modifiers(&Security)
)]
struct ApiDoc;

struct Security;

impl utoipa::Modify for Security {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        openapi.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

fn open_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(webhook::receive, webhook::probe)).merge(probe_routes())
}

fn probe_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

fn token_routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(tickets::list, tickets::submit))
        .routes(routes!(tickets::show))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::show))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::replay_one))
        .routes(routes!(dead_letters::replay_many))
}

/// The OpenAPI 3.1 document of all routes.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let routes = OpenApiRouter::with_openapi(ApiDoc::openapi()).merge(open_routes()).merge(token_routes());
    let mut document = routes.into_openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document
}

/// Probes and metrics only, for a process that takes no deliveries.
pub fn probe_router(state: ApiState) -> Router {
    let (probes, _) = probe_routes().split_for_parts();
    layered(probes, state)
}

/// All routes.
pub fn router(state: ApiState) -> Router {
    let guard = axum::middleware::from_fn_with_state(state.token.clone(), auth::require_token);
    let (open, _) = open_routes().split_for_parts();
    let (guarded, _) = token_routes().split_for_parts();
    // The layer added last runs first: no body is read before the token is seen.
    let guarded = guarded.layer(axum::middleware::from_fn(cap_api_body)).layer(guard);
    layered(open.merge(guarded).route("/openapi.json", get(document)), state)
}

/// What holds for every route: an id, a deadline, and a problem for whatever goes wrong.
fn layered(routes: Router<ApiState>, state: ApiState) -> Router {
    routes
        .fallback(|| async { Problem::new(Code::RouteUnknown) })
        .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
        .layer(CatchPanicLayer::custom(|_| Problem::new(Code::Internal).into_response()))
        .layer(axum::middleware::from_fn_with_state(REQUEST_TIME_MAX, limit_time))
        .layer(axum::middleware::from_fn(request_id::identify))
        .with_state(state)
}

/// The document, put together once.
async fn document() -> impl IntoResponse {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| serde_json::json!(openapi()).to_string());
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// Answers for a request that takes too long, so that nobody waits for ever.
async fn limit_time(
    State(time_max): State<Duration>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    match tokio::time::timeout(time_max, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::unavailable("the request took too long; try again", 5).into_response(),
    }
}

/// Reads the body of a `/v1` request under its cap, so that a handler finds it whole or not at all.
async fn cap_api_body(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let (parts, body) = request.into_parts();
    match webhook::read_capped(&parts.headers, body, API_BODY_BYTES_MAX).await {
        Ok(bytes) => next.run(axum::extract::Request::from_parts(parts, bytes.into())).await,
        Err(problem) => problem.into_response(),
    }
}

/// An id out of a path. What is no UUID names nothing, so it is answered like an unknown one.
fn id_from_path(text: &str, unknown: Code) -> Result<Uuid, Problem> {
    text.parse()
        .map_err(|_| Problem::with(unknown, "ids are UUIDs, such as 01a22499-f800-7000-8000-000000000000"))
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::with(Code::ParameterInvalid, rejection.body_text())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, header};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_request_that_takes_too_long_ends_as_a_problem() {
        let limit = axum::middleware::from_fn_with_state(Duration::from_millis(10), limit_time);
        let router = Router::new().route("/", get(std::future::pending::<String>)).layer(limit);

        let response = router.oneshot(Request::new(Body::empty())).await.expect("an answer");

        assert_eq!(response.status(), Code::Unavailable.status());
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        assert!(response.headers().contains_key(header::RETRY_AFTER));
    }
}
