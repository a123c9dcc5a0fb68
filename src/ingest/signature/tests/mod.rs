//! The verifier against published vectors, an outside oracle, and what went wrong elsewhere.

mod bytes;
mod cases;
mod oracle;
mod properties;
mod vectors;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::{Delivery, DeliveryId, Refusal, Scheme, SchemeSpec, Secret, Unsigned, Verified, sign, verify};
use crate::ingest::source::Preset;

/// A request that owns its parts.
#[derive(Clone)]
struct Request {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Request {
    fn new(headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("name"), HeaderValue::from_str(value).expect("value"))
        });
        Self {
            method: Method::POST,
            uri: Uri::from_static("/webhooks/test"),
            headers: headers.collect(),
            body: body.as_ref().to_vec(),
        }
    }

    /// Signed by our own signer.
    fn signed(scheme: &Scheme, secret: &Secret, body: impl AsRef<[u8]>, now: DateTime<Utc>) -> Self {
        let mut request = Self::new(&[], body);
        let id = DeliveryId::new("msg_test_1").expect("id");
        let unsigned = Unsigned { id: &id, method: &request.method, uri: &request.uri, body: &request.body };
        request.headers = sign(scheme, secret, &unsigned, now).expect("signed");
        request
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, HeaderValue::from_str(value).expect("value"));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    fn check(&self, scheme: &Scheme, secrets: &[Secret], now: DateTime<Utc>) -> Result<Verified, Refusal> {
        let Self { method, uri, headers, body } = self;
        verify(scheme, secrets, &Delivery { method, uri, headers, body }, now)
    }
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).expect("in range")
}

fn preset(preset: Preset) -> Scheme {
    preset.schemes().remove(0)
}

fn standard() -> Scheme {
    preset(Preset::StandardWebhooks)
}

/// A secret of 24 bytes that no other test uses.
fn secret(seed: u8) -> Secret {
    Secret::unchecked(&[seed; 24])
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Slack's scheme, spelled out as an operator would.
fn slack_spec() -> SchemeSpec {
    SchemeSpec {
        header: "X-Slack-Signature".into(),
        prefix: text("v0="),
        template: text("v0:{timestamp}:{body}"),
        timestamp: text("header:X-Slack-Request-Timestamp"),
        future_max: text("300s"),
        id: text("body:/event_id"),
        ..SchemeSpec::default()
    }
}
