//! What handlers take out of a request, so that whatever a caller sends ends as one of our problems
//! and not as a framework's plain text or as a fault of the database.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde::{Deserialize, Deserializer, de};

/// The one variable segment of a route's path, decoded. It is empty where the decoded bytes are no
/// UTF-8, which names nothing, just as any other unknown name.
#[derive(Clone, Debug)]
pub(super) struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let decoded = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(decoded.map(|Path(text)| text).unwrap_or_default()))
    }
}

/// A text that stored ones are compared with. Postgres refuses a NUL character as if the database
/// were at fault, so it is refused here, as the caller's.
///
/// # Errors
/// The text holds a NUL character, or is no text.
pub(super) fn filter_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text {
        Some(text) if text.contains('\0') => Err(de::Error::custom("a filter must not hold a NUL character")),
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Filter {
        #[serde(default, deserialize_with = "filter_text")]
        source: Option<String>,
    }

    fn read(json: &str) -> Result<Option<String>, String> {
        serde_json::from_str(json).map(|filter: Filter| filter.source).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_filter_is_a_text_without_nul_or_absent() {
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read(r#"{"source":null}"#), Ok(None));
        assert_eq!(read(r#"{"source":"github"}"#), Ok(Some("github".to_owned())));
        assert!(read(r#"{"source":"git\u0000hub"}"#).unwrap_err().contains("NUL"));
    }
}
