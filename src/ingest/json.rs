//! Reading foreign JSON gently: lazily, without floats, and without losing a ticket to one bad
//! character.
//!
//! A typed parse of the whole body fails on things that have nothing to do with the ticket: a lone
//! surrogate in a comment, an exponent that fits no float, a thousand nested arrays in a field
//! that nobody reads. Here the body is checked for its grammar once, objects are opened only on the
//! way to a wanted value, and numbers stay the text that the sender wrote.
//!
//! **Invariants**
//! - Of duplicate keys the last one counts, as in most readers.
//! - An escaped surrogate without its partner reads as U+FFFD.
//! - The depth of the input is no depth of our stack: descent is as deep as the pointer asked.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;

use serde_json::value::RawValue;
use thiserror::Error;

/// Why a body is not JSON at all. Safe to show: it holds positions, never content.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum JsonFault {
    #[error("the body is empty")]
    Empty,
    #[error("the body is not UTF-8 from byte {0} on")]
    NotUtf8(usize),
    #[error("the body is not JSON: {0}")]
    Grammar(String),
}

/// The body as text that every string in it can be decoded from.
///
/// Drops a byte order mark and replaces escaped lone surrogates by the replacement character. The
/// result is for reading only; what was signed stays as it came.
pub(super) fn readable(body: &[u8]) -> Result<Cow<'_, str>, JsonFault> {
    let text = std::str::from_utf8(body).map_err(|error| JsonFault::NotUtf8(error.valid_up_to()))?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(JsonFault::Empty);
    }
    Ok(without_lone_surrogates(text))
}

fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(offset) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += offset;
        let Some(unit) = escaped_unit(bytes, at) else {
            at += 2;
            continue;
        };
        let paired = is_high(unit) && escaped_unit(bytes, at + 6).is_some_and(is_low);
        if paired {
            at += 12;
            continue;
        }
        if is_high(unit) || is_low(unit) {
            out.push_str(&text[copied..at]);
            out.push_str("\\ufffd");
            copied = at + 6;
        }
        at += 6;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The code unit of a `\uXXXX` that begins at `at`.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_high(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// One JSON value, opened when somebody looks into it.
pub(super) struct Node<'a> {
    text: &'a str,
    inside: OnceCell<Inside<'a>>,
}

enum Inside<'a> {
    Object(HashMap<String, Node<'a>>),
    Array(Vec<Node<'a>>),
    Leaf,
}

impl<'a> Node<'a> {
    /// Checks the grammar of the whole text; opens nothing.
    pub(super) fn parse(text: &'a str) -> Result<Self, JsonFault> {
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| JsonFault::Grammar(error.to_string()))?;
        Ok(Self::new(raw))
    }

    fn new(raw: &'a RawValue) -> Self {
        Self { text: raw.get(), inside: OnceCell::new() }
    }

    fn inside(&self) -> &Inside<'a> {
        self.inside.get_or_init(|| self.open().unwrap_or(Inside::Leaf))
    }

    fn open(&self) -> Option<Inside<'a>> {
        match self.text.as_bytes().first()? {
            b'{' => {
                let members: HashMap<String, &'a RawValue> = serde_json::from_str(self.text).ok()?;
                Some(Inside::Object(members.into_iter().map(|(key, raw)| (key, Node::new(raw))).collect()))
            }
            b'[' => {
                let items: Vec<&'a RawValue> = serde_json::from_str(self.text).ok()?;
                Some(Inside::Array(items.into_iter().map(Node::new).collect()))
            }
            _ => None,
        }
    }

    /// The member of that name; nothing when this is no object.
    pub(super) fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self.inside() {
            Inside::Object(members) => members.get(key),
            Inside::Array(items) => items.get(key.parse::<usize>().ok()?),
            Inside::Leaf => None,
        }
    }

    /// The value that a pointer leads to.
    pub(super) fn at(&self, pointer: &Pointer) -> Option<&Node<'a>> {
        pointer.0.iter().try_fold(self, |node, step| node.get(step))
    }

    /// The items of an array; none for anything else.
    pub(super) fn items(&self) -> &[Node<'a>] {
        match self.inside() {
            Inside::Array(items) => items,
            _ => &[],
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.text == "null"
    }

    pub(super) fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// The decoded text of a string; nothing for any other kind of value.
    pub(super) fn string(&self) -> Option<String> {
        if !self.text.starts_with('"') {
            return None;
        }
        serde_json::from_str(self.text).ok()
    }

    /// The text of a string, or a number exactly as it was written.
    pub(super) fn scalar(&self) -> Option<String> {
        let is_number = self.text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        if is_number { Some(self.text.to_owned()) } else { self.string() }
    }

    /// A whole number exactly as it was written, however large.
    pub(super) fn integer(&self) -> Option<&'a str> {
        let digits = self.text.strip_prefix('-').unwrap_or(self.text);
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(self.text)
    }

    /// What may name an object: a string that is not blank, or a whole number.
    pub(super) fn id(&self) -> Option<String> {
        match self.integer() {
            Some(number) => Some(number.to_owned()),
            None => self.string().filter(|text| !text.trim().is_empty()),
        }
    }
}

/// A JSON pointer (RFC 6901), parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// A pointer through these member names, none of them escaped.
    pub(super) fn to(steps: &[&str]) -> Self {
        Self(steps.iter().map(|step| (*step).to_owned()).collect())
    }

    /// Parses `/data/id`. The root (the empty pointer) is refused: nothing here wants all of it.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err("a JSON pointer begins with `/`, for example `/data/id`");
        };
        Ok(Self(rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string_at(body: &str, pointer: &str) -> Option<String> {
        let text = readable(body.as_bytes()).expect("utf-8");
        let pointer = Pointer::parse(pointer).expect("pointer");
        Node::parse(&text).expect("json").at(&pointer)?.string()
    }

    #[test]
    fn a_lone_surrogate_reads_as_the_replacement_character() {
        assert_eq!(string_at(r#"{"a":"x\ud800y"}"#, "/a").as_deref(), Some("x\u{FFFD}y"));
        assert_eq!(string_at(r#"{"a":"x\uDC00\uD83D"}"#, "/a").as_deref(), Some("x\u{FFFD}\u{FFFD}"));
        assert_eq!(string_at(r#"{"\ud800":"x","a":"y"}"#, "/a").as_deref(), Some("y"));
    }

    #[test]
    fn a_pair_of_surrogates_and_an_escaped_backslash_are_left_alone() {
        assert_eq!(string_at(r#"{"a":"\ud83d\ude00"}"#, "/a").as_deref(), Some("😀"));
        assert_eq!(string_at(r#"{"a":"\\ud800"}"#, "/a").as_deref(), Some(r"\ud800"));
    }

    #[test]
    fn nul_and_escaped_slashes_are_decoded() {
        assert_eq!(string_at(r#"{"a":"x\u0000\/y"}"#, "/a").as_deref(), Some("x\0/y"));
    }

    #[test]
    fn the_last_of_duplicate_keys_counts() {
        assert_eq!(string_at(r#"{"a":"first","a":"last"}"#, "/a").as_deref(), Some("last"));
    }

    #[test]
    fn numbers_stay_the_text_that_was_sent() {
        let text = r#"{"big":90071992547409931234,"huge":1e131071,"one":1.0}"#;
        let root = Node::parse(text).expect("json");
        let member = |key: &str| root.get(key).expect("present");
        assert_eq!(member("big").id().as_deref(), Some("90071992547409931234"));
        assert_eq!(member("huge").scalar().as_deref(), Some("1e131071"));
        assert_eq!((member("huge").id(), member("one").id()), (None, None));
    }

    #[test]
    fn deep_nesting_elsewhere_does_not_hide_a_value() {
        let deep = format!(r#"{{"a":{}{},"b":"here"}}"#, "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(string_at(&deep, "/b").as_deref(), Some("here"));
        assert!(Node::parse(&"[".repeat(1_000_000)).is_err());
    }

    #[test]
    fn a_byte_order_mark_is_dropped_and_other_encodings_are_named() {
        assert_eq!(string_at("\u{FEFF}{\"a\":\"b\"}", "/a").as_deref(), Some("b"));
        assert_eq!(readable(b"{\"a\":\"\xf1\"}"), Err(JsonFault::NotUtf8(6)));
        assert_eq!(readable(b" \n"), Err(JsonFault::Empty));
    }

    #[test]
    fn pointers_follow_rfc_6901() {
        assert_eq!(string_at(r#"{"a/b":{"m~n":["x","y"]}}"#, "/a~1b/m~0n/1").as_deref(), Some("y"));
        assert_eq!(Pointer::parse("/a~1b/m~0n").expect("pointer").to_string(), "/a~1b/m~0n");
        assert!(Pointer::parse("data/id").is_err() && Pointer::parse("").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(text) = readable(&body) && let Ok(root) = Node::parse(&text) {
                let _ = (root.get("a").is_some(), root.items().len(), root.id(), root.scalar());
            }
        }

        #[test]
        fn any_run_of_escapes_reads_to_the_end(units in proptest::collection::vec(any::<u16>(), 0..20)) {
            let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let read = string_at(&format!(r#"{{"a":"{escapes}"}}"#), "/a");
            prop_assert_eq!(read, Some(String::from_utf16_lossy(&units)));
        }
    }
}
