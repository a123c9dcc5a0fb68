//! The cases of the official Standard Webhooks suites, and how other receivers failed open.

use super::*;

const NOW: i64 = 1_700_000_000;
const BODY: &str = r#"{"type":"ticket.created","data":{"id":1,"subject":"hi"}}"#;

fn good() -> Request {
    Request::signed(&standard(), &secret(1), BODY, at(NOW))
}

fn check(request: &Request) -> Result<Verified, Refusal> {
    request.check(&standard(), &[secret(1)], at(NOW))
}

fn signature_of(request: &Request) -> String {
    request.headers["webhook-signature"].to_str().expect("ascii").to_owned()
}

/// A well-formed signature by somebody else.
fn foreign(body: &str) -> String {
    signature_of(&Request::signed(&standard(), &secret(9), body, at(NOW)))
}

#[test]
fn each_header_is_needed() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let refused = check(&good().without(name));
        assert_eq!(refused, Err(Refusal::MissingHeader(HeaderName::from_static(name))));
    }
}

#[test]
fn a_header_that_came_twice_is_refused() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut request = good();
        let value = request.headers[name].clone();
        request.headers.append(name, value);
        assert_eq!(check(&request), Err(Refusal::RepeatedHeader(HeaderName::from_static(name))));
    }
}

#[test]
fn a_time_that_is_no_whole_number_is_refused() {
    for time in ["yesterday", "", "1700000000.0", "+1700000000", "1.7e9", "17000000000000000000"] {
        let refused = check(&good().with("webhook-timestamp", time));
        assert!(matches!(refused, Err(Refusal::MalformedHeader { .. })), "{time:?}");
    }
}

#[test]
fn the_signed_time_is_bounded_on_both_sides() {
    let request = good();
    let check_at = |seconds| request.check(&standard(), &[secret(1)], at(NOW + seconds));
    assert!(check_at(300).is_ok() && check_at(-60).is_ok());
    assert!(matches!(check_at(301), Err(Refusal::TooOld { age }) if age.num_seconds() == 301));
    assert!(matches!(check_at(-61), Err(Refusal::TooNew { ahead }) if ahead.num_seconds() == 61));
    assert!(matches!(check_at(-301), Err(Refusal::TooNew { .. })));
}

#[test]
fn the_limits_on_the_signed_time_can_be_changed() {
    let scheme = standard().with_tolerance(Some(chrono::TimeDelta::hours(1)), None);
    let request = good();
    assert!(request.check(&scheme, &[secret(1)], at(NOW + 3600)).is_ok());
    assert!(request.check(&scheme, &[secret(1)], at(NOW + 3601)).is_err());
    assert!(request.check(&scheme, &[secret(1)], at(NOW - 61)).is_err());
}

#[test]
fn a_stale_delivery_with_a_wrong_signature_is_told_apart_from_a_stale_one() {
    let wrong = good().with("webhook-signature", &foreign(BODY));
    assert_eq!(wrong.check(&standard(), &[secret(1)], at(NOW + 9999)), Err(Refusal::NoMatch));
}

#[test]
fn wrong_empty_truncated_and_longer_signatures_are_refused() {
    let signature = signature_of(&good());
    let none = Err(Refusal::NoUsableSignature(HeaderName::from_static("webhook-signature")));
    let mut long = signature.clone();
    long.insert_str(3, "AAAA");
    let cut = &signature[..signature.len() - 5];
    let unpadded = signature.trim_end_matches('=');
    for value in ["", "v1", "v1,", cut, unpadded, &long, "v1,====", "v1,AAAA", &signature[3..]] {
        assert_eq!(check(&good().with("webhook-signature", value)), none, "{value:?}");
    }
    assert_eq!(check(&good().with("webhook-signature", &foreign(BODY))), Err(Refusal::NoMatch));
}

#[test]
fn a_valid_signature_is_found_among_wrong_and_malformed_ones() {
    let list = format!(
        "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,{} nonsense  v1 ,, v1a,AAAA {} v1,",
        &foreign(BODY)[3..],
        signature_of(&good())
    );
    assert!(check(&good().with("webhook-signature", &list)).is_ok());
}

#[test]
fn the_right_mac_under_another_version_is_refused() {
    let mac = signature_of(&good())[3..].to_owned();
    for version in ["v2", "v1a", "V1", "v0", ""] {
        assert!(check(&good().with("webhook-signature", &format!("{version},{mac}"))).is_err(), "{version}");
    }
}

#[test]
fn repeated_and_very_many_signatures_neither_confuse_nor_exhaust() {
    let (mine, wrong) = (signature_of(&good()), foreign(BODY));
    assert!(check(&good().with("webhook-signature", &format!("{mine} {mine}"))).is_ok());
    let thousand = vec![wrong.as_str(); 1000].join(" ");
    assert_eq!(check(&good().with("webhook-signature", &thousand)), Err(Refusal::NoMatch));
    assert!(check(&good().with("webhook-signature", &format!("{thousand} {mine}"))).is_ok());
    let endless = vec![wrong.as_str(); 2000].join(" ");
    assert!(matches!(
        check(&good().with("webhook-signature", &endless)),
        Err(Refusal::MalformedHeader { fault: "is too long", .. })
    ));
}

#[test]
fn old_and_new_secret_are_live_together_and_a_removed_one_is_not() {
    let request = good();
    let check_with = |live: &[Secret]| request.check(&standard(), live, at(NOW)).map(|it| it.secret_index);
    assert_eq!(check_with(&[secret(1), secret(2)]), Ok(0));
    assert_eq!(check_with(&[secret(2), secret(1)]), Ok(1));
    assert_eq!(check_with(&[secret(2)]), Err(Refusal::NoMatch));
}

#[test]
fn without_any_secret_nothing_is_believed() {
    assert_eq!(good().check(&standard(), &[], at(NOW)), Err(Refusal::NoMatch));
}

#[test]
fn a_mac_made_with_an_empty_key_is_refused() {
    for scheme in Preset::ALL.into_iter().flat_map(Preset::schemes) {
        let forged = Request::signed(&scheme, &Secret::unchecked(b""), BODY, at(NOW));
        assert_eq!(forged.check(&scheme, &[secret(1)], at(NOW)), Err(Refusal::NoMatch));
    }
}

#[test]
fn a_request_without_any_header_is_refused_by_every_preset() {
    for scheme in Preset::ALL.into_iter().flat_map(Preset::schemes) {
        let bare = Request::new(&[], BODY);
        assert!(matches!(bare.check(&scheme, &[secret(1)], at(NOW)), Err(Refusal::MissingHeader(_))));
    }
}

#[test]
fn a_sender_cannot_choose_a_weaker_algorithm() {
    let github = preset(Preset::Github);
    let sha1 = SchemeSpec {
        header: "X-Hub-Signature".into(),
        prefix: text("sha1="),
        algorithm: text("sha1"),
        ..SchemeSpec::default()
    };
    let weak = Request::signed(&sha1.parse().expect("valid"), &secret(1), BODY, at(NOW));
    assert!(matches!(weak.check(&github, &[secret(1)], at(NOW)), Err(Refusal::MissingHeader(_))));
    let value = weak.headers["x-hub-signature"].to_str().expect("ascii").to_owned();
    for value in [value.clone(), value.replace("sha1", "sha256")] {
        let moved = weak.clone().with("x-hub-signature-256", &value);
        assert!(moved.check(&github, &[secret(1)], at(NOW)).is_err(), "{value}");
    }
}

#[test]
fn an_id_is_visible_ascii_of_bounded_length() {
    let longest = "m".repeat(256);
    for (id, fits) in [(longest.as_str(), true), ("m", true), ("", false), ("a b", false), ("a\tb", false)] {
        assert_eq!(DeliveryId::new(id).is_some(), fits, "{id:?}");
    }
    assert!(DeliveryId::new(&"m".repeat(257)).is_none() && DeliveryId::new("é").is_none());
    let refused = check(&good().with("webhook-id", &"m".repeat(257)));
    assert!(matches!(refused, Err(Refusal::MalformedHeader { .. })));
}

#[test]
fn an_unfit_id_outside_the_signature_is_dropped_not_refused() {
    let github = preset(Preset::Github);
    let request = Request::signed(&github, &secret(1), BODY, at(NOW)).with("x-github-delivery", "two words");
    assert_eq!(request.check(&github, &[secret(1)], at(NOW)).expect("believed").delivery_id, None);
}

#[test]
fn a_non_ascii_signature_header_is_refused() {
    let mut request = good();
    request.headers.insert("webhook-signature", HeaderValue::from_bytes(b"v1,\xff\xfe").expect("opaque"));
    assert!(matches!(check(&request), Err(Refusal::MalformedHeader { .. })));
}

#[test]
fn an_empty_body_can_be_signed() {
    let request = Request::signed(&standard(), &secret(1), "", at(NOW));
    assert!(check(&request).is_ok());
    let filled = Request { body: b" ".to_vec(), ..request };
    assert_eq!(check(&filled), Err(Refusal::NoMatch));
}

#[test]
fn every_refusal_has_its_own_word_and_no_secret_or_header_value_in_it() {
    let request = good().with("webhook-signature", "v1,c2VjcmV0LWxvb2tpbmc=");
    let refusal = check(&request).expect_err("refused");
    assert_eq!(refusal.as_str(), "no_usable_signature");
    assert!(!refusal.to_string().contains("c2Vj"));
}
