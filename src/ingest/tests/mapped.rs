//! Deliveries of senders whose body is read by a field table.

use super::*;

fn table(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(name, pointer)| ((*name).to_owned(), (*pointer).to_owned())).collect()
}

#[test]
fn a_ticket_of_standard_webhooks_is_read_from_data() {
    let received =
        event(receive(&source(Preset::StandardWebhooks), fixture!("standard-ticket-created.json")));
    assert_eq!(received.event_type, "ticket.created");
    assert_eq!(received.occurred_at.map(|time| time.timestamp_millis()), Some(1_746_522_000_500));
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!((ticket.external_id.as_str(), ticket.requester.as_str()), ("TCK-77", "ada@engine.example"));
    assert_eq!((ticket.external_priority.as_str(), ticket.url.as_str()), ("2", "https://desk.example/t/77"));
}

#[test]
fn other_types_are_ignored_and_a_missing_one_is_looked_at() {
    let source = source(Preset::StandardWebhooks);
    let ignored = receive(&source, br#"{"type":"invoice.paid","data":{"id":1,"body":"x"}}"#);
    assert!(matches!(ignored, Received::Ignored { event_type } if event_type == "invoice.paid"));
    assert!(fault(receive(&source, br#"{"data":{"id":1,"body":"x"}}"#)).contains("no type"));
}

#[test]
fn an_ignored_type_is_made_fit_for_a_log_line() {
    let body = format!(r#"{{"type":"a\n\u001b[31m{}","data":{{}}}}"#, "x".repeat(500));
    let Received::Ignored { event_type } = receive(&source(Preset::Generic), body.as_bytes()) else {
        panic!("not ignored")
    };
    assert!(event_type.chars().count() <= 100 && !event_type.contains(['\n', '\u{1b}']));
}

#[test]
fn a_generic_body_without_a_type_is_a_ticket() {
    let received = event(receive(&source(Preset::Generic), fixture!("generic-flat.json")));
    assert_eq!(received.event_type, "ticket");
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!((ticket.external_id.as_str(), ticket.external_priority.as_str()), ("42", "P1"));
}

#[test]
fn a_generic_body_of_any_shape_is_read_by_pointers() {
    let settings = SourceSettings {
        events: Some(vec!["case.*".into()]),
        fields: table(&[
            ("type", "/event/kind"),
            ("occurred_at", "/event/at"),
            ("id", "/case/no"),
            ("subject", "/case/head"),
            ("body", "/case/text"),
            ("requester", "/case/by"),
            ("labels", "/a~1b"),
            ("url", "/case/link"),
        ]),
        ..settings(Preset::Generic)
    };
    let received = event(receive(&settings.build().expect("valid"), fixture!("generic-mapped.json")));
    assert_eq!(received.event_type, "case.escalated");
    assert!(received.occurred_at.is_some());
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!((ticket.external_id.as_str(), ticket.requester.as_str()), ("C-9/2025", "7"));
    assert_eq!(ticket.labels, ["finance"]);
}

#[test]
fn a_configured_id_outside_the_signature_gets_a_guard_and_one_inside_none() {
    let spec =
        SchemeSpec { header: "X-Signature".into(), id: Some("header:X-Id".into()), ..SchemeSpec::default() };
    let inside = SchemeSpec { template: Some("{id}.{body}".into()), ..spec.clone() };
    for (spec, guarded) in [(spec, true), (inside, false)] {
        let settings = SourceSettings { scheme: Some(spec), ..settings(Preset::Generic) };
        let received = event(receive(&settings.build().expect("valid"), fixture!("generic-flat.json")));
        assert_eq!((received.dedupe_key.as_str(), received.guard_key.is_some()), ("msg_1", guarded));
    }
}

#[test]
fn an_id_in_the_body_is_the_key() {
    let spec = SchemeSpec {
        header: "X-Signature".into(),
        id: Some("body:/event_id".into()),
        ..SchemeSpec::default()
    };
    let source = SourceSettings { scheme: Some(spec), ..settings(Preset::Generic) }.build().expect("valid");
    let key = |body: &[u8]| event(receive(&source, body)).dedupe_key;
    assert_eq!(key(br#"{"event_id":12345678901234567890123,"id":1,"body":"x"}"#), "12345678901234567890123");
    assert!(key(br#"{"id":1,"body":"x"}"#).starts_with("sha256:"));
}
