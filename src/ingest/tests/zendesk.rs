//! Deliveries of Zendesk.

use super::*;

fn zendesk(body: &[u8]) -> Received {
    receive(&source(Preset::Zendesk), body)
}

#[test]
fn a_created_ticket_keeps_ids_beyond_the_reach_of_a_float() {
    let received = event(zendesk(fixture!("zendesk-ticket-created.json")));
    assert_eq!(received.event_type, "ticket.created");
    assert_eq!(received.dedupe_key, "cbe4028c-7239-495d-b020-f22348516046");
    assert_eq!(received.guard_key, None, "the id in the body is signed");
    assert_eq!(received.occurred_at.map(|time| time.timestamp()), Some(1_746_526_273));
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!(ticket.external_id, "9007199254740993");
    assert_eq!(ticket.requester, "90071992547409931");
    assert_eq!(ticket.subject, "Kiosk in the lobby: license expired");
    assert_eq!((ticket.external_priority.as_str(), ticket.labels.len()), ("high", 2));
}

#[test]
fn the_link_to_a_ticket_comes_from_the_configured_pattern() {
    let pattern = Some("https://acme.zendesk.com/agent/tickets/{id}".to_owned());
    let source = SourceSettings { ticket_url: pattern, ..settings(Preset::Zendesk) }.build().expect("valid");
    let ticket = ticket(receive(&source, fixture!("zendesk-ticket-created.json")));
    assert_eq!(ticket.url, "https://acme.zendesk.com/agent/tickets/9007199254740993");
}

#[test]
fn our_own_tags_coming_back_are_ignored() {
    let received = zendesk(fixture!("zendesk-tags-changed.json"));
    assert!(matches!(received, Received::Ignored { event_type } if event_type == "ticket.tags_changed"));
}

#[test]
fn a_trigger_with_a_body_of_its_own_is_read_by_the_field_table() {
    let received = event(zendesk(fixture!("zendesk-trigger.json")));
    assert_eq!(received.dedupe_key, "msg_1", "the invocation, not the ticket, names the event");
    assert!(received.guard_key.is_some(), "the invocation id is not signed");
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!(
        (ticket.external_id.as_str(), ticket.requester.as_str()),
        ("5160", "lotte.maas@mailbox.example")
    );
    assert_eq!(ticket.labels, ["parcel", "web_form"]);
}

#[test]
fn a_subject_that_names_another_ticket_is_quarantined() {
    let body = std::str::from_utf8(fixture!("zendesk-ticket-created.json")).expect("utf-8");
    let mixed = body.replace("zen:ticket:9007199254740993", "zen:ticket:9007199254740992");
    assert!(fault(zendesk(mixed.as_bytes())).contains("another ticket"));
}

#[test]
fn a_known_type_of_unknown_shape_is_quarantined() {
    for (body, word) in [
        (r#"{"type":"zen:event-type:ticket.created"}"#, "`detail` is missing"),
        (r#"{"type":"zen:event-type:ticket.created","detail":{"subject":"x"}}"#, "`detail.id`"),
        (r#"{"type":"zen:event-type:ticket.created","detail":{"id":1,"subject":{}}}"#, "subject"),
        (r#"{"event":"ticket.updated","id":123}"#, "neither a subject"),
        ("[]", "no ticket id"),
        ("null", "no ticket id"),
    ] {
        assert!(fault(zendesk(body.as_bytes())).contains(word), "{body}");
    }
}
