//! Reading what stands around a completion: the error shapes of all dialects in one place.
//!
//! Servers that copy a dialect copy it loosely: `error` is an object, a text or absent, `code` a
//! text, a number or null, the envelope may be wrapped in an array, and an error may come with a
//! 200. So every field is optional, and no foreign text leaves here uncleaned.

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::rejection::Rejection;
use super::request::Usage;
use super::retry_after;
use crate::domain::text;

/// How much of a provider's words is kept. Edge proxies answer with pages of 200 kB.
pub(super) const MESSAGE_BYTES_MAX: usize = 512;
/// Longest code, type, parameter or id kept, in characters.
const WORD_CHARS_MAX: usize = 80;

/// What an envelope held.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    /// The raw text of the model.
    pub(super) completion: String,
    /// The model's own name for itself.
    pub(super) model: Option<String>,
    /// Token counts where they were given in full.
    pub(super) usage: Option<Usage>,
}

/// One HTTP answer, read whole.
pub(super) struct RawAnswer {
    /// The status.
    pub(super) status: u16,
    /// The headers.
    pub(super) headers: HeaderMap,
    /// The body, within the lane's limit.
    pub(super) body: Vec<u8>,
}

impl RawAnswer {
    /// The provider's id of this call, for its support desk.
    pub(super) fn request_id(&self) -> Option<String> {
        let named = ["x-request-id", "request-id", "apim-request-id"].into_iter();
        let mut values = named.filter_map(|name| self.headers.get(name)?.to_str().ok());
        values.next().map(word).filter(|id| !id.is_empty())
    }

    /// The body as JSON where the status is a success and no error hides in it.
    ///
    /// # Errors
    /// [`Failure::Rejected`] for any other status and for an error inside a 200,
    /// [`Failure::AnswerUnreadable`] for a success that is no JSON object.
    pub(super) fn into_json(self, now: DateTime<Utc>) -> Result<Value, Failure> {
        let parsed: Option<Value> = serde_json::from_slice(&self.body).ok();
        if !(200..300).contains(&self.status) {
            let body = parsed.unwrap_or(Value::Null);
            let mut rejection = read_error(self.status, &self.headers, &body, now);
            if rejection.message.is_empty() {
                rejection.message = prose(&self.body);
            }
            return Err(Failure::Rejected(Box::new(rejection)));
        }
        let Some(body) = parsed.filter(Value::is_object) else {
            let shown = prose(&self.body);
            let shown = if shown.is_empty() { "an empty body".to_owned() } else { shown };
            return Err(Failure::AnswerUnreadable(format!("no JSON object but {shown}")));
        };
        if body.get("error").is_some_and(is_error) || body.get("type").is_some_and(|kind| kind == "error") {
            return Err(in_band(&body, &self.headers, now));
        }
        Ok(body)
    }
}

/// The failure for an error that came inside a 200.
pub(super) fn in_band(body: &Value, headers: &HeaderMap, now: DateTime<Utc>) -> Failure {
    let mut rejection = read_error(200, headers, body, now);
    rejection.in_band = true;
    rejection.status = implied_status(body, &rejection);
    Failure::Rejected(Box::new(rejection))
}

/// Whether a text is one complete JSON object: then nothing was cut off it.
pub(super) fn is_whole_object(text: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

/// Foreign text made safe for a log line and capped in bytes.
pub(super) fn safe(foreign: &str) -> String {
    let line = text::clean_line(foreign, MESSAGE_BYTES_MAX);
    let end = line.floor_char_boundary(MESSAGE_BYTES_MAX);
    line[..end].to_owned()
}

/// `null`, `false`, an empty text and an empty object are no error: some servers always send the
/// field.
fn is_error(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

fn read_error(status: u16, headers: &HeaderMap, body: &Value, now: DateTime<Utc>) -> Rejection {
    // Gemini's compatibility URL wraps its error in an array.
    let body = body.get(0).unwrap_or(body);
    // Mistral and others send the fields without the `error` around them.
    let error = body.get("error").filter(|error| error.is_object()).unwrap_or(body);
    let lower = |field: &str| error.get(field).and_then(scalar).map(|text| word(&text.to_lowercase()));
    let message = ["message", "detail", "error", "msg"]
        .into_iter()
        .find_map(|field| error.get(field).and_then(Value::as_str))
        .or_else(|| body.as_str())
        .map(safe)
        .unwrap_or_default();
    let inner = [("details", "error_code"), ("innererror", "code"), ("inner_error", "code")];
    let detail_code = inner.into_iter().find_map(|(outer, field)| error.get(outer)?.get(field)?.as_str());
    let should_retry = match headers.get("x-should-retry").map(|value| value.as_bytes()) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    };
    Rejection {
        status,
        in_band: false,
        code: lower("code"),
        kind: lower("type").or_else(|| lower("status")),
        param: lower("param"),
        detail_code: detail_code.map(|code| word(&code.to_lowercase())),
        quota_ids: quota_ids(error),
        retry_after: retry_after::delay(headers, body, &message, now),
        message,
        should_retry,
    }
}

/// `error.details[].violations[].quotaId` of `google.rpc.QuotaFailure`.
fn quota_ids(error: &Value) -> Vec<String> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let violations =
        details.filter_map(|detail| detail.get("violations").and_then(Value::as_array)).flatten();
    violations.filter_map(|violation| violation.get("quotaId")?.as_str()).map(word).take(10).collect()
}

/// The status that an error inside a 200 stands for; 502 where it does not say.
fn implied_status(body: &Value, rejection: &Rejection) -> u16 {
    let error = body.get("error").unwrap_or(body);
    let numeric = ["code", "status", "raw_status_code", "status_code"].into_iter().find_map(|field| {
        let number: u16 = scalar(error.get(field)?)?.parse().ok()?;
        (300..600).contains(&number).then_some(number)
    });
    numeric.unwrap_or_else(|| {
        let named = [&rejection.code, &rejection.kind].into_iter().flatten();
        let table = [
            ("rate_limit", 429),
            ("resource_exhausted", 429),
            ("overloaded", 529),
            ("unavailable", 503),
            ("invalid_request", 400),
            ("invalid_argument", 400),
            ("authentication", 401),
            ("permission", 403),
            ("not_found", 404),
        ];
        let mut known = named
            .filter_map(|name| table.into_iter().find(|(part, _)| name.contains(part)).map(|(_, code)| code));
        known.next().unwrap_or(502)
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A body that is no JSON: an HTML page without its tags, or what it is.
fn prose(body: &[u8]) -> String {
    // Enough for any message, so that a page of 200 kB costs nothing to clean.
    let head = String::from_utf8_lossy(&body[..body.len().min(8 * MESSAGE_BYTES_MAX)]);
    let mut is_tag = false;
    let without_tags = head.chars().map(|c| {
        match c {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                return ' ';
            }
            _ => {}
        }
        if is_tag { ' ' } else { c }
    });
    safe(&without_tags.collect::<String>())
}

fn word(foreign: &str) -> String {
    text::clean_line(foreign, WORD_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::rejection::Meaning;

    fn read(status: u16, body: &str) -> Result<Value, Failure> {
        let raw = RawAnswer { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        raw.into_json(DateTime::UNIX_EPOCH)
    }

    fn rejection(status: u16, body: &str) -> Rejection {
        match read(status, body) {
            Err(Failure::Rejected(rejection)) => *rejection,
            other => panic!("expected a rejection, got {other:?}"),
        }
    }

    #[test]
    fn every_error_shape_gives_its_message_and_code() {
        let shapes = [
            (r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#, Some("c"), Some("t")),
            (r#"{"error":{"message":"m","code":429,"status":"T"}}"#, Some("429"), Some("t")),
            (r#"{"object":"error","message":"m","type":"t","code":"1300"}"#, Some("1300"), Some("t")),
            (r#"[{"error":{"message":"m","code":429,"status":"T"}}]"#, Some("429"), Some("t")),
            (r#"{"error":"m"}"#, None, None),
            (r#"{"detail":"m"}"#, None, None),
        ];
        for (body, code, kind) in shapes {
            let read = rejection(429, body);
            assert_eq!(read.message, "m", "{body}");
            assert_eq!((read.code.as_deref(), read.kind.as_deref()), (code, kind), "{body}");
        }
    }

    #[test]
    fn an_html_page_is_reduced_to_its_words_and_to_512_bytes() {
        let page = format!("<html><h1>Web server\0 is down</h1>{}</html>", "<p>ä</p>".repeat(30_000));
        let read = rejection(520, &page);
        assert!(read.message.starts_with("Web server is down ä"), "{}", read.message);
        assert!(read.message.len() <= MESSAGE_BYTES_MAX, "{}", read.message.len());
        assert_eq!(read.meaning(), Meaning::ProviderError);
    }

    #[test]
    fn an_error_inside_a_success_counts_as_the_status_that_it_names() {
        let table = [
            (r#"{"error":{"message":"m","code":429}}"#, 429),
            (r#"{"error":{"message":"m","code":"503"}}"#, 503),
            (r#"{"error":{"message":"m","type":"overloaded_error"}}"#, 529),
            (r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#, 429),
            (r#"{"error":"upstream went away"}"#, 502),
        ];
        for (body, status) in table {
            let read = rejection(200, body);
            assert_eq!((read.status, read.in_band), (status, true), "{body}");
        }
    }

    #[test]
    fn an_empty_error_field_is_no_error() {
        for body in [r#"{"error":null,"choices":[]}"#, r#"{"error":"","choices":[]}"#, r#"{"error":{}}"#] {
            assert!(read(200, body).is_ok(), "{body}");
        }
    }

    #[test]
    fn a_success_that_is_no_json_object_is_unreadable() {
        for body in ["", "data: {}\n\ndata: [DONE]", "<html>login</html>", "[]", "\"text\""] {
            assert!(matches!(read(200, body), Err(Failure::AnswerUnreadable(_))), "{body}");
        }
    }
}
