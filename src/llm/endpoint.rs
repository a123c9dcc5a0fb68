//! From a base URL, however it was pasted, to the URL that is called.
//!
//! People paste the host, the `/v1` base, the base with a slash, or the whole endpoint; each has
//! sent somebody's calls to `/v1/v1/...`. There is one builder, so that a connection check calls
//! what the real call will call.

use thiserror::Error;
use url::{Host, Url};

use super::settings::LaneKind;

/// Why a base URL cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EndpointFault {
    /// Not a URL at all.
    #[error("base URL {0:?} is not a URL; write it as https://host/v1")]
    NotUrl(String),
    /// Neither http nor https.
    #[error("base URL has the scheme {0:?}; use https, or http for a server of your own")]
    Scheme(String),
    /// A key in the URL would end up in logs.
    #[error("base URL carries a user name or password; set the key as the lane's API key instead")]
    Credentials,
}

/// The URL that lanes of `kind` call for `base`, which may carry a query (`api-version` at Azure).
///
/// # Errors
/// A text that is no http or https URL, or one with credentials in it.
pub fn endpoint(kind: LaneKind, base: &str) -> Result<Url, EndpointFault> {
    let mut url = Url::parse(base.trim()).map_err(|_| EndpointFault::NotUrl(shown(base)))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(EndpointFault::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EndpointFault::Credentials);
    }
    let mut segments: Vec<String> =
        url.path().split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
    strip_endpoint(&mut segments);
    segments.dedup_by(|later, earlier| later == earlier && later == "v1");
    match kind {
        LaneKind::Anthropic => {
            // Anthropic's own clients append `/v1/messages` to any base, also to a gateway's path.
            if segments.last().map(String::as_str) != Some("v1") {
                segments.push("v1".to_owned());
            }
            segments.push("messages".to_owned());
        }
        LaneKind::OpenAi | LaneKind::Offline => {
            // A base with a path is taken at its word: Gemini's and Azure's have no `/v1`.
            if segments.is_empty() {
                segments.push("v1".to_owned());
            }
            segments.extend(["chat".to_owned(), "completions".to_owned()]);
        }
    }
    url.set_path(&segments.join("/"));
    url.set_fragment(None);
    Ok(url)
}

/// Whether a URL points at this very machine, where a proxy has no business.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        None => false,
    }
}

/// Takes a pasted endpoint off the end, whichever of the common ones it is.
fn strip_endpoint(segments: &mut Vec<String>) {
    const ENDPOINTS: [&[&str]; 6] = [
        &["chat", "completions"],
        &["completions"],
        &["responses"],
        &["messages"],
        &["models"],
        &["embeddings"],
    ];
    let ends_with = |tail: &[&str]| {
        segments.len() >= tail.len() && segments[segments.len() - tail.len()..].iter().eq(tail.iter())
    };
    if let Some(tail) = ENDPOINTS.into_iter().find(|tail| ends_with(tail)) {
        segments.truncate(segments.len() - tail.len());
    }
}

/// A wrong URL as an error may repeat it: without what could be a credential.
fn shown(base: &str) -> String {
    let without_credentials = base.rsplit('@').next().unwrap_or_default();
    crate::domain::text::clean_line(without_credentials, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_paste_a_base_url_ends_at_the_same_endpoint() -> Result<(), EndpointFault> {
        use LaneKind::{Anthropic, OpenAi};
        let table = [
            (OpenAi, "https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, "https://api.openai.com/", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, " https://api.openai.com/v1/ ", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, "https://api.openai.com/v1//", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, "https://api.openai.com/v1/v1", "https://api.openai.com/v1/chat/completions"),
            (
                OpenAi,
                "https://api.openai.com/v1/chat/completions",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                OpenAi,
                "https://api.openai.com/v1/chat/completions/",
                "https://api.openai.com/v1/chat/completions",
            ),
            (OpenAi, "https://api.openai.com/v1/responses", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, "https://api.openai.com/v1/models", "https://api.openai.com/v1/chat/completions"),
            (OpenAi, "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
            (OpenAi, "https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
            (
                OpenAi,
                "https://generativelanguage.googleapis.com/v1beta/openai/",
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            ),
            (
                OpenAi,
                "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
            (Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (Anthropic, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            (Anthropic, "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
            (Anthropic, "https://gateway.test/anthropic", "https://gateway.test/anthropic/v1/messages"),
        ];
        for (kind, base, expected) in table {
            assert_eq!(endpoint(kind, base)?.as_str(), expected, "{base}");
        }
        Ok(())
    }

    #[test]
    fn a_base_url_that_cannot_be_called_is_refused_without_repeating_a_password() {
        assert_eq!(
            endpoint(LaneKind::OpenAi, "api.openai.com/v1"),
            Err(EndpointFault::NotUrl("api.openai.com/v1".into()))
        );
        assert_eq!(endpoint(LaneKind::OpenAi, "ftp://host"), Err(EndpointFault::Scheme("ftp".into())));
        assert_eq!(endpoint(LaneKind::OpenAi, "https://u:secret@host"), Err(EndpointFault::Credentials));
        let fault = endpoint(LaneKind::OpenAi, "u:secret@host name");
        assert!(!format!("{fault:?}").contains("secret"), "{fault:?}");
    }

    #[test]
    fn loopback_is_known_in_all_its_spellings() -> Result<(), url::ParseError> {
        for near in [
            "http://localhost:1",
            "http://LOCALHOST",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://a.localhost",
        ] {
            assert!(is_loopback(&Url::parse(near)?), "{near}");
        }
        for far in ["http://10.0.0.1", "http://localhost.example.com", "http://[2001:db8::1]"] {
            assert!(!is_loopback(&Url::parse(far)?), "{far}");
        }
        Ok(())
    }
}
