//! A team's inbox: takes signed verdicts and alerts as a destination would, checks each signature,
//! and counts. With it the demo can tell what was really delivered.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::post;
use chrono::Utc;
use tokio::net::TcpListener;

use crate::ingest::signature::{Delivery, Secret, verify};
use crate::ingest::source::Preset;

/// What arrived so far. Cheap to clone; all clones see the same.
#[derive(Clone, Debug)]
pub struct Inbox {
    secret: Arc<Secret>,
    seen: Arc<Mutex<Seen>>,
}

/// Counts of what arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Deliveries with a good signature and a new idempotency key, by destination.
    pub taken: BTreeMap<String, usize>,
    /// Deliveries whose key was seen before: repeated, and harmless.
    pub repeated: usize,
    /// Deliveries whose signature was not good.
    pub refused: usize,
    keys: HashSet<String>,
}

impl Inbox {
    /// An inbox that checks with this secret.
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self { secret: Arc::new(secret), seen: Arc::default() }
    }

    /// What arrived so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes deliveries under `/{destination}` until `shutdown` resolves.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let router = Router::new().route("/{destination}", post(take)).with_state(self);
        axum::serve(listener, router).with_graceful_shutdown(shutdown).await
    }
}

async fn take(
    State(inbox): State<Inbox>,
    Path(destination): Path<String>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let delivery = Delivery { method: &Method::POST, uri: &uri, headers: &headers, body: &body };
    let secrets = std::slice::from_ref(inbox.secret.as_ref());
    let schemes = Preset::StandardWebhooks.schemes();
    let verified = schemes.first().map(|scheme| verify(scheme, secrets, &delivery, Utc::now()));
    let mut seen = inbox.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Ok(verified)) = verified else {
        seen.refused += 1;
        return StatusCode::UNAUTHORIZED;
    };
    let key = verified.delivery_id.map(|id| id.as_str().to_owned()).unwrap_or_default();
    if seen.keys.insert(key) {
        *seen.taken.entry(destination).or_default() += 1;
    } else {
        seen.repeated += 1;
    }
    StatusCode::OK
}
