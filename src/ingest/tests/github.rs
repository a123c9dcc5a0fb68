//! Deliveries of GitHub.

use super::*;

const GUID: &str = "72d3162e-cc78-11e3-81ab-4c9367dc0958";

fn github(event: &str, body: &[u8]) -> Received {
    let source = source(Preset::Github);
    receive_with(&source, &signed(&source, GUID, body, &[("x-github-event", event)]), body)
}

#[test]
fn an_opened_issue_becomes_a_ticket() {
    let received = event(github("issues", fixture!("github-issues-opened.json")));
    assert_eq!((received.event_type.as_str(), received.dedupe_key.as_str()), ("issues.opened", GUID));
    assert_eq!(received.occurred_at.map(|time| time.to_rfc3339()), Some("2025-05-06T07:08:09+00:00".into()));
    let EventContent::Ticket(ticket) = received.content else { panic!("quarantined") };
    assert_eq!(ticket.external_id, "orchard-tools/press#7");
    assert_eq!(ticket.subject, "Export button does nothing on \"Archive\" <b>pages</b> 🧯");
    assert!(ticket.body.starts_with("### What happens\n\nNothing.") && ticket.body.contains("Señor Núñez"));
    assert_eq!((ticket.requester.as_str(), ticket.labels.len()), ("hana-k", 2));
    assert_eq!(ticket.url, "https://github.com/orchard-tools/press/issues/7");
}

#[test]
fn an_issue_without_a_text_is_a_ticket() {
    let ticket = ticket(github("issues", fixture!("github-issues-edited-null-body.json")));
    assert_eq!((ticket.external_id.as_str(), ticket.body.as_str()), ("orchard-tools/press#8", ""));
}

#[test]
fn a_ping_is_answered_as_a_handshake() {
    assert!(matches!(github("ping", fixture!("github-ping.json")), Received::Handshake { .. }));
}

#[test]
fn form_encoding_carries_the_same_ticket() {
    let source = source(Preset::Github);
    let json = std::str::from_utf8(fixture!("github-issues-opened.json")).expect("utf-8");
    let form = url::form_urlencoded::Serializer::new(String::new()).append_pair("payload", json).finish();
    for content_type in
        ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=utf-8"]
    {
        let more = [("x-github-event", "issues"), ("content-type", content_type)];
        let headers = signed(&source, GUID, form.as_bytes(), &more);
        let ticket = ticket(receive_with(&source, &headers, form.as_bytes()));
        assert_eq!(ticket.external_id, "orchard-tools/press#7");
    }
    let more = [("x-github-event", "issues"), ("content-type", "application/x-www-form-urlencoded")];
    let headers = signed(&source, GUID, b"other=1", &more);
    assert!(fault(receive_with(&source, &headers, b"other=1")).contains("`payload`"));
}

#[test]
fn other_types_and_actions_are_ignored() {
    for (event, body) in [
        ("issue_comment", fixture!("github-issue-comment.json")),
        ("issues", br#"{"action":"labeled","issue":{}}"#),
        ("push", br#"{"ref":"refs/heads/main"}"#),
        ("star", b"not json"),
    ] {
        assert!(matches!(github(event, body), Received::Ignored { .. }), "{event}");
    }
}

#[test]
fn a_known_type_of_unknown_shape_is_quarantined() {
    for (body, word) in [
        (r#"{"action":"opened"}"#, "`issue` is missing"),
        (r#"{"action":"opened","issue":[]}"#, "`issue` is missing"),
        (r#"{"issue":{}}"#, "`action`"),
        (r#"{"action":"opened","issue":{"number":1,"title":"x"}}"#, "full_name"),
        (
            r#"{"action":"opened","issue":{"number":"1","title":"x"},"repository":{"full_name":"a/b"}}"#,
            "number",
        ),
        (r#"{"action":"opened","issue":{"number":1,"title":5},"repository":{"full_name":"a/b"}}"#, "title"),
        (
            r#"{"action":"opened","issue":{"number":1,"title":"x","body":[]},"repository":{"full_name":"a/b"}}"#,
            "body",
        ),
        ("{", "not JSON"),
        ("", "empty"),
    ] {
        assert!(fault(github("issues", body.as_bytes())).contains(word), "{body}");
    }
}

#[test]
fn a_missing_event_header_loses_nothing() {
    let source = source(Preset::Github);
    let body = fixture!("github-issues-opened.json");
    let received = event(receive_with(&source, &signed(&source, GUID, body, &[]), body));
    assert_eq!((received.event_type.as_str(), received.dedupe_key.as_str()), ("unreadable", GUID));
}

#[test]
fn a_comment_under_a_forged_event_header_does_not_overwrite_its_ticket() {
    assert!(fault(github("issues", fixture!("github-issue-comment.json"))).contains("comment"));
}

#[test]
fn a_captured_body_under_a_new_guid_meets_the_same_guard() {
    let source = source(Preset::Github);
    let guard = |guid: &str, body: &[u8]| {
        let headers = signed(&source, guid, body, &[("x-github-event", "issues")]);
        let received = event(receive_with(&source, &headers, body));
        assert_eq!(received.dedupe_key, guid);
        received.guard_key.expect("an unsigned id has a guard")
    };
    for body in [fixture!("github-issues-opened.json"), fixture!("github-issues-edited-null-body.json"), b"{"]
    {
        assert_eq!(guard("guid-1", body), guard("guid-2", body));
    }
}

#[test]
fn an_organisation_and_a_repository_that_both_report_an_opening_name_one_fact() {
    let repository = fixture!("github-issues-opened.json");
    let text = std::str::from_utf8(repository).expect("utf-8");
    let organisation = text.replace("\"private\": true", "\"private\": true, \"custom_properties\": {}");
    let guard = |body: &[u8]| event(github("issues", body)).guard_key;
    assert_eq!(guard(repository).as_deref(), Some("opened:2417730551"));
    assert_eq!(guard(repository), guard(organisation.as_bytes()));
}

#[test]
fn edits_are_facts_of_their_own() {
    let body = fixture!("github-issues-edited-null-body.json");
    let later = std::str::from_utf8(body).expect("utf-8").replace("08:00:00Z", "08:00:05Z");
    assert_ne!(event(github("issues", body)).guard_key, event(github("issues", later.as_bytes())).guard_key);
}

#[test]
fn an_unusable_guid_is_replaced_by_the_bytes() {
    let source = source(Preset::Github);
    let body = fixture!("github-issues-opened.json");
    let long = "g".repeat(300);
    let headers = signed(&source, GUID, body, &[("x-github-event", "issues"), ("x-github-delivery", &long)]);
    assert!(event(receive_with(&source, &headers, body)).dedupe_key.starts_with("sha256:"));
}

#[test]
fn the_allow_list_can_be_widened() {
    let settings =
        SourceSettings { events: Some(vec!["issue_comment.*".into()]), ..settings(Preset::Github) };
    let source = settings.build().expect("valid");
    let body = fixture!("github-issue-comment.json");
    let headers = signed(&source, GUID, body, &[("x-github-event", "issue_comment")]);
    assert_eq!(ticket(receive_with(&source, &headers, body)).external_id, "orchard-tools/press#7");
    let headers = signed(&source, GUID, b"{", &[("x-github-event", "issue_comment")]);
    assert!(fault(receive_with(&source, &headers, b"{")).contains("not JSON"));
}
