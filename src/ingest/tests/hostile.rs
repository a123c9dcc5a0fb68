//! Bodies that broke other receivers. A verified delivery is never lost and never panics.

use proptest::prelude::*;

use super::*;

fn standard(data: &str) -> Received {
    let body = format!(r#"{{"type":"ticket.created","data":{data}}}"#);
    receive(&source(Preset::StandardWebhooks), body.as_bytes())
}

#[test]
fn a_ticket_with_a_lone_surrogate_is_still_triaged() {
    let read = ticket(receive(&source(Preset::StandardWebhooks), fixture!("standard-ticket-created.json")));
    assert_eq!(read.subject, "Half an emoji \u{FFFD} in the title");
    let read = ticket(standard(r#"{"id":"\udc00","subject":"x\ud800","body":"\ud83d\ude00"}"#));
    assert_eq!((read.subject.as_str(), read.body.as_str()), ("x\u{FFFD}", "😀"));
}

#[test]
fn nul_and_other_control_characters_do_not_reach_the_columns() {
    let read = ticket(standard(r#"{"id":"a\u0000b","subject":"s\u0000\u0007","body":"b\u0000\r\nc"}"#));
    assert_eq!((read.external_id.as_str(), read.subject.as_str(), read.body.as_str()), ("ab", "s", "b\nc"));
}

#[test]
fn the_last_of_duplicate_keys_counts() {
    assert_eq!(ticket(standard(r#"{"id":1,"id":2,"subject":"a","subject":"b"}"#)).subject, "b");
}

#[test]
fn numbers_too_large_for_any_type_are_no_reason_to_lose_a_ticket() {
    let read = ticket(standard(r#"{"id":1,"subject":"x","size":1e131071,"priority":1e999}"#));
    assert_eq!(read.external_priority, "1e999");
    assert!(fault(standard(r#"{"id":1e131071,"subject":"x"}"#)).contains("ticket id"));
    let digits = "9".repeat(200);
    assert_eq!(ticket(standard(&format!(r#"{{"id":{digits},"subject":"x"}}"#))).external_id, digits);
}

#[test]
fn an_id_that_would_be_cut_or_vanish_is_quarantined() {
    let long = format!(r#"{{"id":"{}","subject":"x"}}"#, "i".repeat(301));
    assert!(fault(standard(&long)).contains("ticket id"));
    assert!(fault(standard(r#"{"id":"\u0000","subject":"x"}"#)).contains("ticket id"));
    assert!(fault(standard(r#"{"id":" ","subject":"x"}"#)).contains("ticket id"));
}

#[test]
fn deep_nesting_beside_the_ticket_does_not_matter() {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(ticket(standard(&format!(r#"{{"x":{open}{close},"id":1,"subject":"x"}}"#))).subject, "x");
    assert!(fault(standard(&format!(r#"{{"id":{open}{close},"subject":"x"}}"#))).contains("ticket id"));
}

#[test]
fn a_byte_order_mark_is_read_over() {
    let body = "\u{FEFF}{\"id\":1,\"subject\":\"x\"}";
    assert_eq!(ticket(receive(&source(Preset::Generic), body.as_bytes())).subject, "x");
}

#[test]
fn what_cannot_be_read_at_all_is_quarantined_with_its_place() {
    for (body, word) in [
        (b"".as_slice(), "empty"),
        (b"\r\n", "empty"),
        (b"\xEF\xBB\xBF", "empty"),
        (b"{\"id\":1,\"subject\":\"se\xf1or\"}", "not UTF-8 from byte 21"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 from byte 0"),
        (b"{\"id\":1", "line 1 column 7"),
        (b"{\"id\":1}{\"id\":2}", "trailing"),
        (b"{\"id\":01}", "not JSON"),
        (b"{\"id\":\"\\x\"}", "not JSON"),
        (b"{\"id\":\"\\ud8\"}", "not JSON"),
        (b"id=1&subject=x", "not JSON"),
        (b"\"text\"", "no ticket id"),
    ] {
        let received = event(receive(&source(Preset::Generic), body));
        let EventContent::Quarantined { fault } = received.content else { panic!("{body:?}") };
        assert!(fault.contains(word), "{body:?}: {fault}");
        assert_eq!(received.body, body);
    }
}

#[test]
fn a_fault_never_repeats_what_the_body_says() {
    let faults = [
        fault(standard(r#"{"id":{"hunter2":1},"subject":"hunter2"}"#)),
        fault(receive(&source(Preset::Generic), b"{\"hunter2\":hunter2}")),
    ];
    assert!(faults.iter().all(|fault| !fault.contains("hunter2")), "{faults:?}");
}

#[test]
fn a_very_large_ticket_is_capped_and_its_event_is_whole() {
    let body = format!(r#"{{"id":1,"subject":"{}","body":"{}"}}"#, "s".repeat(9_000), "b".repeat(1_900_000));
    let received = event(receive(&source(Preset::Generic), body.as_bytes()));
    assert_eq!(received.body.len(), body.len());
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!(ticket.subject.len(), TicketDraft::SUBJECT_CHARS_MAX);
    assert_eq!(ticket.body.len(), TicketDraft::BODY_CHARS_MAX);
}

/// Bodies near enough to the real shapes to reach every branch.
fn near_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = proptest::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "null",
        "1e999",
        "-",
        "\\ud800",
        "\\u0000",
        "\\",
        "\u{FEFF}",
        " ",
        "é",
        "\"type\":",
        "\"ticket.created\"",
        "\"zen:event-type:ticket.created\"",
        "\"data\":{",
        "\"detail\":{",
        "\"id\":1",
        "\"subject\":\"x\"",
        "\"action\":\"opened\"",
        "\"issue\":{\"number\":1,\"title\":\"x\"}",
    ]);
    proptest::collection::vec(piece, 0..25).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_verified_body_ends_as_something(
        body in prop_oneof![near_json(), proptest::collection::vec(any::<u8>(), 0..80)],
        form in any::<bool>(),
    ) {
        for preset in Preset::ALL {
            let source = source(preset);
            let content_type = if form { "application/x-www-form-urlencoded" } else { "application/json" };
            let headers =
                signed(&source, "msg_1", &body, &[("x-github-event", "issues"), ("content-type", content_type)]);
            if let Received::Event(event) = receive_with(&source, &headers, &body) {
                prop_assert!(!event.dedupe_key.is_empty() && event.body == body);
            }
        }
    }
}
