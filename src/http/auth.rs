//! The bearer token that `/v1` asks for. Tickets are sensitive: there is no anonymous reading.

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::{Code, Problem};

/// A token, kept as its SHA-256 so that comparing takes the same time however long a guess is.
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl TokenHash {
    /// Hashes a token.
    #[must_use]
    pub fn of(token: &SecretString) -> Self {
        Self(Sha256::digest(token.expose_secret()).into())
    }

    fn admits(&self, presented: &str) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented).into();
        self.0.ct_eq(&presented).into()
    }
}

/// Lets a request with the token pass, and answers every other with 401.
pub(super) async fn require_token(State(token): State<TokenHash>, request: Request, next: Next) -> Response {
    let presented = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    match presented {
        Some(presented) if token.admits(presented) => next.run(request).await,
        _ => {
            let detail =
                "send the header `Authorization: Bearer TOKEN` with the value of HOOKTRIAGE_ADMIN_TOKEN";
            Problem::with(Code::Unauthorized, detail).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_is_admitted() {
        let hash = TokenHash::of(&SecretString::from("a-token-of-some-length"));
        assert!(hash.admits("a-token-of-some-length"));
        for guess in ["", "a-token-of-some-lengt", "a-token-of-some-length ", "A-token-of-some-length"] {
            assert!(!hash.admits(guess), "{guess:?}");
        }
    }
}
