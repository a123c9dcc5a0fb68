//! The samples against the product's own ingest.

use std::collections::HashSet;

use chrono::TimeDelta;
use http::{Method, Uri};

use super::*;
use crate::domain::{EventContent, NewEvent};
use crate::ingest::Received;
use crate::ingest::signature::{Delivery, SchemeSpec};
use crate::ingest::source::{Preset, SourceSettings};

fn source(preset: Preset) -> Source {
    let secret = match preset {
        Preset::StandardWebhooks => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        _ => "a secret for samples only",
    };
    let mut settings = SourceSettings::of_preset(preset, secret.into());
    if preset == Preset::Generic {
        settings.scheme = Some(SchemeSpec {
            header: "X-Signature".into(),
            template: Some("{timestamp}.{method}.{uri}.{body}".into()),
            timestamp: Some("header:X-Time".into()),
            id: Some("header:X-Id".into()),
            public_url: Some("https://hooks.example.com".into()),
            ..SchemeSpec::default()
        });
    }
    settings.build().expect("valid settings")
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_750_000_000, 0).expect("in range")
}

fn receive(source: &Source, sent: &SampleDelivery, at: DateTime<Utc>) -> NewEvent {
    let uri: Uri = sent.path.parse().expect("path");
    let delivery = Delivery { method: &Method::POST, uri: &uri, headers: &sent.headers, body: &sent.body };
    match source.receive(&delivery, at).expect("believed") {
        Received::Event(event) => *event,
        other => panic!("{}: {other:?}", sent.label),
    }
}

#[test]
fn every_sample_arrives_as_its_ticket_through_every_preset() {
    for preset in Preset::ALL {
        let source = source(preset);
        let mut keys = HashSet::new();
        for (number, ticket) in (1..).zip(tickets()) {
            let sent = sample_delivery(&source, ticket, number, now()).expect("prepared");
            let event = receive(&source, &sent, now() + TimeDelta::seconds(2));
            assert!(keys.insert(event.dedupe_key), "{preset} {}: a key of its own", ticket.label);
            assert_eq!(event.occurred_at, Some(now()));
            let EventContent::Ticket(draft) = event.content else { panic!("{preset} {}", ticket.label) };
            assert!(draft.external_id.ends_with(&number.to_string()));
            assert_eq!(draft.body.is_empty(), ticket.body.is_empty());
            assert!(ticket.subject.starts_with(draft.subject.chars().next().expect("a subject")));
        }
    }
}

#[test]
fn a_sample_is_refused_by_a_source_with_another_secret() {
    for preset in [Preset::Github, Preset::Zendesk] {
        let other = SourceSettings::of_preset(preset, "quite another secret".into()).build().expect("valid");
        let sent = sample_delivery(&source(preset), &tickets()[0], 1, now()).expect("prepared");
        let uri: Uri = sent.path.parse().expect("path");
        let delivery =
            Delivery { method: &Method::POST, uri: &uri, headers: &sent.headers, body: &sent.body };
        assert!(other.receive(&delivery, now()).is_err());
    }
}

#[test]
fn a_repeat_has_the_same_key_and_a_new_delivery_another() {
    for preset in Preset::ALL {
        let source = source(preset);
        let [first, second] =
            [1, 1].map(|number| sample_delivery(&source, &tickets()[0], number, now()).expect("prepared"));
        let key = |sent: &SampleDelivery| receive(&source, sent, now()).dedupe_key;
        assert_eq!(key(&first), key(&first));
        assert_ne!(key(&first), key(&second), "{preset}");
    }
}

#[test]
fn the_corpus_is_varied() {
    let all = tickets();
    assert!(all.len() >= 44);
    let labels: HashSet<&str> = all.iter().map(|ticket| ticket.label.as_str()).collect();
    assert_eq!(labels.len(), all.len(), "every label is unique");
    for language in ["en", "de", "fr", "es", "pt", "ja"] {
        assert!(all.iter().any(|ticket| ticket.language == language), "{language}");
    }
    assert!(all.iter().any(|ticket| ticket.body.is_empty()));
    assert!(all.iter().any(|ticket| ticket.body.len() > 10_000));
    assert!(all.iter().any(|ticket| ticket.body.starts_with("<html>")));
    assert!(all.iter().all(|ticket| ticket.requester.email.ends_with(".example")));
}

#[test]
fn exactly_one_sample_cannot_be_classified() {
    let with_phrase = tickets().iter().filter(|ticket| {
        ticket.subject.contains(UNCLASSIFIABLE_PHRASE) || ticket.body.contains(UNCLASSIFIABLE_PHRASE)
    });
    let labels: Vec<&str> = with_phrase.map(|ticket| ticket.label.as_str()).collect();
    assert_eq!(labels, ["data-ledger-export"]);
    let subject = &tickets().iter().find(|ticket| ticket.label == labels[0]).expect("found").subject;
    assert!(subject.contains(UNCLASSIFIABLE_PHRASE));
}

#[test]
fn a_users_own_file_is_sent_under_the_given_event_and_id() {
    let source = source(Preset::Github);
    let outgoing = Outgoing {
        preset: Preset::Github,
        target: "/webhooks/github",
        body: br#"{"zen":"Keep it small.","hook_id":7}"#,
        event_type: Some("ping"),
        delivery_id: Some("72d3162e-cc78-11e3-81ab-4c9367dc0958"),
    };
    let headers = prepare(source.scheme(), source.secrets().first(), &outgoing, now()).expect("prepared");
    assert_eq!(headers["x-github-event"], "ping");
    assert_eq!(headers["x-github-delivery"], "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    let uri = Uri::from_static("/webhooks/github");
    let delivery = Delivery { method: &Method::POST, uri: &uri, headers: &headers, body: outgoing.body };
    assert!(matches!(source.receive(&delivery, now()), Ok(Received::Handshake { .. })));
    let labelled = Outgoing { event_type: Some("issues.labeled"), ..outgoing };
    let headers = prepare(source.scheme(), source.secrets().first(), &labelled, now()).expect("prepared");
    assert_eq!(headers["x-github-event"], "issues");
    let unfit = Outgoing { delivery_id: Some("two words"), ..outgoing };
    let refused = prepare(source.scheme(), source.secrets().first(), &unfit, now());
    assert!(matches!(refused, Err(PrepareFault::DeliveryId)));
}
