//! Every request gets an id: in its span, in its answer, and so in the log beside what went wrong.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument, debug, info_span};
use uuid::Uuid;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives the request an id of ours; one that the caller sent is not trusted to be unique.
pub(super) async fn identify(request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().to_string();
    let span =
        info_span!("request", request_id = id, method = %request.method(), path = request.uri().path());
    let mut response = async {
        let response = next.run(request).await;
        debug!(status = response.status().as_u16(), "a request was answered");
        response
    }
    .instrument(span)
    .await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}
