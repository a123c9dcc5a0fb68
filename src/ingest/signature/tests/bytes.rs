//! The MAC is over bytes: whatever a sender writes passes, and whatever a proxy tidies does not.

use super::*;

const NOW: i64 = 1_700_000_000;

/// Bodies that other receivers could not verify, and the same after a well-meant change.
fn bodies() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let pair =
        |name, sent: &str, changed: &str| (name, sent.as_bytes().to_vec(), changed.as_bytes().to_vec());
    vec![
        pair("odd spacing", "{ \"a\" :1,\n\t\"b\":  2 }\r\n", r#"{"a":1,"b":2}"#),
        pair("trailing newline", "{\"a\":1}\n", "{\"a\":1}"),
        pair("key order", r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        pair("duplicate keys", r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        pair("number form", r#"{"a":1.0,"b":1e2}"#, r#"{"a":1,"b":100}"#),
        pair("escaped slash", r#"{"u":"https:\/\/x.example\/"}"#, r#"{"u":"https://x.example/"}"#),
        pair("raw line separator", "{\"a\":\"x\u{2028}y\u{2029}\"}", r#"{"a":"x\u2028y\u2029"}"#),
        pair("escaped line separator", r#"{"a":"x\u2028y"}"#, "{\"a\":\"x\u{2028}y\"}"),
        pair("emoji", "{\"a\":\"🧯🔥\"}", r#"{"a":"\ud83e\uddef\ud83d\udd25"}"#),
        pair("latin letters", "{\"a\":\"señor Müller\"}", "{\"a\":\"senor Muller\"}"),
        pair("composed accent", "{\"a\":\"\u{e9}\"}", "{\"a\":\"e\u{301}\"}"),
        pair("lone surrogate", r#"{"a":"\ud800"}"#, r#"{"a":"\ufffd"}"#),
        pair("escaped nul", r#"{"a":"\u0000"}"#, r#"{"a":""}"#),
        pair("html", r#"{"a":"<p class=\"x\">It&#39;s</p>"}"#, r#"{"a":"<p class=\"x\">It's</p>"}"#),
        pair("byte order mark", "\u{FEFF}{\"a\":1}", "{\"a\":1}"),
        ("not utf-8", b"{\"a\":\"\xf1\xff\"}".to_vec(), "{\"a\":\"\u{FFFD}\u{FFFD}\"}".as_bytes().to_vec()),
        ("not json", vec![0, 159, 146, 150, 13, 10], vec![0, 159, 146, 150, 10]),
        ("two megabytes", vec![b'x'; 1_900_000], vec![b'x'; 1_899_999]),
    ]
}

#[test]
fn any_bytes_verify_as_they_were_sent_and_not_after_a_change() {
    for scheme in Preset::ALL.into_iter().flat_map(Preset::schemes) {
        for (name, sent, changed) in bodies() {
            let request = Request::signed(&scheme, &secret(1), &sent, at(NOW));
            assert!(request.check(&scheme, &[secret(1)], at(NOW)).is_ok(), "{name}");
            let tidied = Request { body: changed, ..request };
            assert_eq!(tidied.check(&scheme, &[secret(1)], at(NOW)), Err(Refusal::NoMatch), "{name}");
        }
    }
}

#[test]
fn a_secret_beyond_ascii_is_used_as_its_bytes() {
    let scheme = preset(Preset::Github);
    let emoji = Secret::parse("pässwörter mit 🔑 sind lang", scheme.key_encoding()).expect("valid");
    let request = Request::signed(&scheme, &emoji, "{}", at(NOW));
    assert!(request.check(&scheme, &[emoji], at(NOW)).is_ok());
    let ascii = Secret::parse("passworter mit ? sind lang", scheme.key_encoding()).expect("valid");
    assert_eq!(request.check(&scheme, &[ascii], at(NOW)), Err(Refusal::NoMatch));
}

#[test]
fn a_secret_from_a_file_with_a_newline_verifies_what_the_bare_one_signed() {
    let scheme = preset(Preset::Github);
    let bare = Secret::parse("0123456789abcdef0123", scheme.key_encoding()).expect("valid");
    let from_file = Secret::parse("0123456789abcdef0123\n", scheme.key_encoding()).expect("valid");
    let request = Request::signed(&scheme, &bare, "{}", at(NOW));
    assert!(request.check(&scheme, &[from_file], at(NOW)).is_ok());
}
