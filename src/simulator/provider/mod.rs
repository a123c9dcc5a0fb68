//! A model provider that runs on this machine and fails on request.
//!
//! It speaks the `openai` and `anthropic` dialects well enough for the real client, answers
//! plausibly (by words shared with the labels in the prompt), and rations, fails, hangs, cuts off
//! and garbles as it is told to. Runs can be repeated: what happens to the n-th call depends on
//! the seed and on n alone.
//!
//! **Not here:** the command line (`cli::simulate`), signed sample deliveries.

mod answer;
mod decision;
mod dialect;
mod stats;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use decision::{Decision, decide};
use dialect::{Dialect, Fault};
use stats::Stats;

/// What the provider does beside answering. The default answers every call at once and well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderSettings {
    /// Makes runs repeatable.
    pub seed: u64,
    /// Time before every answer.
    pub latency: Duration,
    /// Up to this much more, evenly spread.
    pub jitter: Duration,
    /// Share of calls (0 to 1) answered with 429.
    pub rate_limited: f64,
    /// The `Retry-After` of those.
    pub retry_after: Duration,
    /// Share of calls answered with 500.
    pub failing: f64,
    /// Share of calls never answered.
    pub hanging: f64,
    /// Share of answers cut off at the output limit.
    pub truncated: f64,
    /// Share of answers that are no usable classification.
    pub malformed: f64,
    /// A period in which every call is answered with 429.
    pub burst: Option<Burst>,
    /// Tickets that hold a phrase are refused with 400.
    pub refuse: Option<Refusal>,
}

/// A period of 429s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// It begins after so many calls.
    pub after_calls: u64,
    /// How long it lasts.
    pub lasts: BurstLength,
    /// The `Retry-After` in it.
    pub retry_after: Duration,
}

/// How long a burst lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BurstLength {
    /// For so many calls.
    Calls(u64),
    /// For so long.
    Time(Duration),
}

/// Which tickets are refused, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The phrase, in any case.
    pub phrase: String,
    /// As what.
    pub kind: RefusalKind,
}

/// The two kinds of 400 that concern one ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The ticket does not fit into the context.
    ContextLength,
    /// An objection without a code.
    InvalidRequest,
}

/// What thinks for the provider. Without one, it goes by words shared with the labels.
pub trait Mind: Send + Sync + 'static {
    /// Sorts the text of a ticket: a JSON object as a model would answer, or nothing.
    fn sort<'a>(&'a self, ticket: &'a str) -> BoxFuture<'a, Option<Value>>;
}

struct Provider {
    settings: ProviderSettings,
    mind: Option<Arc<dyn Mind>>,
    /// Whether tickets with the phrase are still refused.
    refusing: AtomicBool,
    stats: Stats,
    /// Lets hung calls go when the server stops.
    closing: CancellationToken,
}

/// The provider as a router, for tests and for other servers. Each router counts for itself.
pub fn router(settings: ProviderSettings) -> Router {
    routes(settings, None, CancellationToken::new())
}

/// Serves the provider until `shutdown` resolves; calls that hang are let go then.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    settings: ProviderSettings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_with(listener, settings, None, shutdown).await
}

/// [`serve`] with something that thinks.
///
/// # Errors
/// When the listener fails.
pub async fn serve_with(
    listener: TcpListener,
    settings: ProviderSettings,
    mind: Option<Arc<dyn Mind>>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let closing = CancellationToken::new();
    let app = routes(settings, mind, closing.clone());
    let stop = async move {
        shutdown.await;
        closing.cancel();
    };
    axum::serve(listener, app).with_graceful_shutdown(stop).await
}

fn routes(settings: ProviderSettings, mind: Option<Arc<dyn Mind>>, closing: CancellationToken) -> Router {
    let provider = Arc::new(Provider {
        settings,
        mind,
        refusing: AtomicBool::new(true),
        stats: Stats::default(),
        closing,
    });
    Router::new()
        .route(
            "/",
            get(|| async { Json(json!({"status": "ok", "service": "hooktriage provider simulator"})) }),
        )
        .route("/v1/chat/completions", post(openai))
        .route("/v1/messages", post(anthropic))
        .route("/_simulator/stats", get(statistics))
        .route("/_simulator/mend", post(mend))
        .with_state(provider)
}

async fn openai(State(provider): State<Arc<Provider>>, body: Bytes) -> Response {
    provider.call(Dialect::OpenAi, &body).await
}

async fn anthropic(State(provider): State<Arc<Provider>>, body: Bytes) -> Response {
    provider.call(Dialect::Anthropic, &body).await
}

/// Ends the refusals, as if the cause had been mended: what was refused before then succeeds.
async fn mend(State(provider): State<Arc<Provider>>) -> Json<Value> {
    provider.refusing.store(false, Ordering::Relaxed);
    Json(json!({"status": "mended"}))
}

async fn statistics(State(provider): State<Arc<Provider>>) -> Json<Value> {
    Json(provider.stats.shown())
}

impl Provider {
    async fn call(&self, dialect: Dialect, body: &[u8]) -> Response {
        let (number, in_burst) = self.stats.begin(Instant::now(), self.settings.burst.as_ref());
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            self.stats.ended("bad_request");
            return dialect
                .fault(&Fault::InvalidRequest("We could not parse the JSON body."))
                .into_response();
        };
        let decision = match in_burst {
            Some(retry_after) => Decision::RateLimited(retry_after),
            None => decide(&self.settings, number),
        };
        let decision = match &self.settings.refuse {
            Some(refusal)
                if self.refusing.load(Ordering::Relaxed)
                    && dialect
                        .ticket_text(&request)
                        .to_lowercase()
                        .contains(&refusal.phrase.to_lowercase()) =>
            {
                Decision::Refused(refusal.kind)
            }
            _ => decision,
        };
        self.stats.ended(decision.as_str());
        if !matches!(decision, Decision::RateLimited(_)) {
            tokio::time::sleep(decision::latency(&self.settings, number)).await;
        }
        match decision {
            Decision::RateLimited(after) => {
                self.stats.refused_until(Instant::now(), after);
                dialect.fault(&Fault::RateLimited(after)).into_response()
            }
            Decision::Failed => dialect.fault(&Fault::Server).into_response(),
            Decision::Refused(RefusalKind::ContextLength) => {
                dialect.fault(&Fault::ContextLength).into_response()
            }
            Decision::Refused(RefusalKind::InvalidRequest) => {
                dialect.fault(&Fault::InvalidRequest("The request was refused.")).into_response()
            }
            Decision::Hung => {
                self.closing.cancelled().await;
                dialect.fault(&Fault::Server).into_response()
            }
            Decision::Answered => self.answer(dialect, &request, number, dialect::Finish::Whole).await,
            Decision::Truncated => self.answer(dialect, &request, number, dialect::Finish::Truncated).await,
            Decision::Malformed => self.answer(dialect, &request, number, dialect::Finish::Malformed).await,
        }
    }

    async fn answer(
        &self,
        dialect: Dialect,
        request: &Value,
        number: u64,
        finish: dialect::Finish,
    ) -> Response {
        let ticket = dialect.ticket_text(request);
        let thought = match &self.mind {
            Some(mind) => mind.sort(&ticket).await,
            None => None,
        };
        let classification = thought.unwrap_or_else(|| answer::classify(&ticket, &dialect.labels(request)));
        Json(dialect.envelope(request, &classification, number, finish)).into_response()
    }
}

#[cfg(test)]
mod tests;
