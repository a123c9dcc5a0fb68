//! Whole deliveries through whole sources, signed by our own signer.

mod github;
mod hostile;
mod mapped;
mod zendesk;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderValue, Method, Uri};

use super::Received;
use super::signature::{Delivery, DeliveryId, Refusal, SchemeSpec, Unsigned, sign};
use super::source::{Preset, Source, SourceSettings};
use crate::domain::{EventContent, NewEvent, TicketDraft};

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/deliveries/", $name)).as_slice()
    };
}
use fixture;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_746_530_000, 0).expect("in range")
}

fn settings(preset: Preset) -> SourceSettings {
    let secret = match preset {
        Preset::StandardWebhooks => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        _ => "0123456789abcdef0123",
    };
    let mut settings = SourceSettings::of_preset(preset, secret.into());
    if preset == Preset::Generic {
        settings.scheme = Some(SchemeSpec { header: "X-Signature".into(), ..SchemeSpec::default() });
    }
    settings
}

fn source(preset: Preset) -> Source {
    settings(preset).build().expect("valid settings")
}

/// The headers of a delivery with this id, and these beside the signature.
fn signed(source: &Source, id: &str, body: &[u8], more: &[(&'static str, &str)]) -> HeaderMap {
    let id = DeliveryId::new(id).expect("id");
    let unsigned = Unsigned { id: &id, method: &Method::POST, uri: &Uri::from_static("/"), body };
    let mut headers = sign(source.scheme(), source.secrets().first(), &unsigned, now()).expect("signed");
    for (name, value) in more {
        headers.insert(*name, HeaderValue::from_str(value).expect("value"));
    }
    headers
}

fn receive_with(source: &Source, headers: &HeaderMap, body: &[u8]) -> Received {
    let delivery = Delivery { method: &Method::POST, uri: &Uri::from_static("/"), headers, body };
    source.receive(&delivery, now()).expect("believed")
}

fn receive(source: &Source, body: &[u8]) -> Received {
    receive_with(source, &signed(source, "msg_1", body, &[]), body)
}

fn event(received: Received) -> NewEvent {
    match received {
        Received::Event(event) => *event,
        other => panic!("no event: {other:?}"),
    }
}

fn ticket(received: Received) -> TicketDraft {
    match event(received).content {
        EventContent::Ticket(ticket) => *ticket,
        EventContent::Quarantined { fault } => panic!("quarantined: {fault}"),
    }
}

fn fault(received: Received) -> String {
    match event(received).content {
        EventContent::Quarantined { fault } => fault,
        EventContent::Ticket(ticket) => panic!("a ticket: {ticket:?}"),
    }
}

#[test]
fn a_refused_delivery_is_not_read() {
    let source = source(Preset::Generic);
    let headers = signed(&source, "msg_1", b"{}", &[]);
    let delivery =
        Delivery { method: &Method::POST, uri: &Uri::from_static("/"), headers: &headers, body: b"{ }" };
    assert!(matches!(source.receive(&delivery, now()), Err(Refusal::NoMatch)));
}

#[test]
fn svix_headers_are_accepted_beside_those_of_the_specification() {
    let source = source(Preset::StandardWebhooks);
    let body = fixture!("standard-ticket-created.json");
    let own = signed(&source, "msg_1", body, &[]);
    let mut svix = HeaderMap::new();
    for (from, to) in [
        ("webhook-id", "svix-id"),
        ("webhook-timestamp", "svix-timestamp"),
        ("webhook-signature", "svix-signature"),
    ] {
        svix.insert(to, own[from].clone());
    }
    assert_eq!(event(receive_with(&source, &svix, body)).dedupe_key, "msg_1");
    svix.remove("svix-id");
    svix.insert("webhook-id", own["webhook-id"].clone());
    let delivery = Delivery { method: &Method::POST, uri: &Uri::from_static("/"), headers: &svix, body };
    assert!(
        matches!(source.receive(&delivery, now()), Err(Refusal::MissingHeader(_))),
        "families do not mix"
    );
}

#[test]
fn an_id_within_the_signature_is_the_key_alone() {
    let received =
        event(receive(&source(Preset::StandardWebhooks), fixture!("standard-ticket-created.json")));
    assert_eq!((received.dedupe_key.as_str(), received.guard_key), ("msg_1", None));
}

#[test]
fn without_an_id_the_bytes_are_the_key() {
    let source = source(Preset::Generic);
    let key = |body: &[u8]| event(receive(&source, body)).dedupe_key;
    let body = fixture!("generic-flat.json");
    assert!(key(body).starts_with("sha256:") && key(body) == key(body));
    assert_ne!(key(body), key(br#"{"id":43,"title":"x"}"#));
    assert!(key(b"not json").starts_with("sha256:"), "also for a body that cannot be read");
}

#[test]
fn the_event_keeps_the_exact_bytes() {
    let body = fixture!("standard-ticket-created.json");
    assert_eq!(event(receive(&source(Preset::StandardWebhooks), body)).body, body);
}
