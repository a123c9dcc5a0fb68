//! The headers that a provider puts on a delivery, signature included.
//!
//! Used for the samples and for `hooktriage send`, which sends a user's own file as a given
//! provider would.

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use thiserror::Error;
use uuid::Uuid;

use crate::ingest::signature::{DeliveryId, Scheme, Secret, SignFault, Unsigned, sign};
use crate::ingest::source::Preset;

/// A body on its way to a server.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Whose headers it gets.
    pub preset: Preset,
    /// Path and query on the receiving server; counts only for schemes that sign it.
    pub target: &'a str,
    /// The exact bytes to sign.
    pub body: &'a [u8],
    /// What happened, for providers that say so in a header: for GitHub `issues` or
    /// `issues.opened` (the part before the dot is sent). Default: the preset's ticket event.
    pub event_type: Option<&'a str>,
    /// The delivery's id. Default: a new one.
    pub delivery_id: Option<&'a str>,
}

/// Why a delivery could not be prepared.
#[derive(Debug, Error)]
pub enum PrepareFault {
    /// The target is no path.
    #[error("the target is no path such as `/webhooks/github`")]
    Target(#[source] http::uri::InvalidUri),
    /// The id cannot be sent.
    #[error("a delivery id must be 1 to 256 visible ASCII characters")]
    DeliveryId,
    /// The event type cannot be sent.
    #[error("the event type must be visible ASCII")]
    EventType(#[source] http::header::InvalidHeaderValue),
    /// The signature cannot be sent.
    #[error(transparent)]
    Sign(#[from] SignFault),
}

/// Every header of the delivery, signed at `now`.
///
/// # Errors
///
/// The [`PrepareFault`] when something given does not fit into a header.
pub fn prepare(
    scheme: &Scheme,
    secret: &Secret,
    outgoing: &Outgoing<'_>,
    now: DateTime<Utc>,
) -> Result<HeaderMap, PrepareFault> {
    let fresh = Uuid::now_v7().to_string();
    let id = match (outgoing.delivery_id, outgoing.preset) {
        (Some(given), _) => given.to_owned(),
        (None, Preset::StandardWebhooks) => format!("msg_{}", fresh.replace('-', "")),
        (None, _) => fresh,
    };
    let id = DeliveryId::new(&id).ok_or(PrepareFault::DeliveryId)?;
    let uri: Uri = outgoing.target.parse().map_err(PrepareFault::Target)?;
    let unsigned = Unsigned { id: &id, method: &Method::POST, uri: &uri, body: outgoing.body };
    let mut headers = sign(scheme, secret, &unsigned, now)?;
    for (name, value) in fixed_headers(outgoing.preset) {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if outgoing.preset == Preset::Github {
        let given = outgoing.event_type.unwrap_or("issues");
        let event = given.split_once('.').map_or(given, |(event, _)| event);
        let value = HeaderValue::from_str(event).map_err(PrepareFault::EventType)?;
        headers.insert("x-github-event", value);
    }
    Ok(headers)
}

fn fixed_headers(preset: Preset) -> &'static [(&'static str, &'static str)] {
    match preset {
        Preset::Github => &[
            ("content-type", "application/json"),
            ("user-agent", "GitHub-Hookshot/hooktriage"),
            ("x-github-hook-id", "441000217"),
            ("x-github-hook-installation-target-type", "repository"),
            ("x-github-hook-installation-target-id", "610044217"),
        ],
        Preset::Zendesk => &[
            ("content-type", "application/json; charset=utf-8"),
            ("user-agent", "Zendesk Webhook"),
            ("x-zendesk-account-id", "22129848"),
            ("x-zendesk-webhook-id", "01J0SAMPLEWEBHOOK000000000"),
        ],
        Preset::StandardWebhooks | Preset::Generic => {
            &[("content-type", "application/json"), ("user-agent", "hooktriage")]
        }
    }
}
