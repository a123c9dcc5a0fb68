//! The secrets that senders sign with, read strictly and never shown.
//!
//! There is one loader, so no two places can disagree about trimming (getsentry/junior#1008). What
//! people really get wrong is met with a text that says what to do: a newline from a file, the
//! whole `v1,whsec_…` pasted, a secret too short to withstand guessing.
//!
//! **Which whitespace a secret may hold.** One newline at the very end is dropped, since files and
//! shells add it. Text secrets may hold plain spaces *inside*: GitHub's own documentation signs
//! with `It's a Secret to Everybody`. A space at either end, a tab, a further newline or any other
//! control character comes from copying and is refused. Encoded secrets hold no whitespace at all.
//!
//! **Invariants**
//! - [`Secrets`] is never empty, so no source can run without one.
//! - Neither `Debug` nor any fault shows a byte of a secret.

use std::fmt;
use std::ops::Deref;

use secrecy::{ExposeSecret, SecretSlice};
use thiserror::Error;

use super::KeyEncoding;

/// Fewest bytes that a key may have; below that, guessing offline becomes thinkable.
const KEY_BYTES_MIN: usize = 16;

/// Fewest bytes that Standard Webhooks 1.0.0 asks for.
const KEY_BYTES_ADVISED: usize = 24;

/// Zendesk signs test requests of webhooks that do not exist yet with this value, which its
/// documentation prints ("Verifying webhook authenticity"). Anybody can sign with it.
const ZENDESK_PUBLIC_TEST_SECRET: &str = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==";

/// One key, ready to use.
#[derive(Clone)]
pub struct Secret {
    key: SecretSlice<u8>,
}

impl Secret {
    /// Reads one secret from its text. A single newline at the end is dropped.
    ///
    /// # Errors
    ///
    /// The [`SecretProblem`] with the way out of it.
    pub fn parse(text: &str, encoding: KeyEncoding) -> Result<Self, SecretProblem> {
        Self::parse_exact(without_newline(text), encoding)
    }

    fn parse_exact(text: &str, encoding: KeyEncoding) -> Result<Self, SecretProblem> {
        refuse_mistakes(text, encoding)?;
        let key = encoding.decode(text).ok_or(SecretProblem::NotEncoded { encoding })?;
        if key.len() < KEY_BYTES_MIN {
            return Err(SecretProblem::TooShort { bytes: key.len(), encoding });
        }
        Ok(Self { key: key.into() })
    }

    /// Whether the key is shorter than the 24 bytes that Standard Webhooks asks for: usable, but
    /// worth a warning.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.key().len() < KEY_BYTES_ADVISED
    }

    pub(super) fn key(&self) -> &[u8] {
        self.key.expose_secret()
    }

    /// A key from bytes that the loader would refuse, for vectors printed in documentation.
    #[cfg(test)]
    pub(in crate::ingest) fn unchecked(key: &[u8]) -> Self {
        Self { key: key.to_vec().into() }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The live secrets of one source, at least one, in the order of their writing.
#[derive(Clone, Debug)]
pub struct Secrets(Vec<Secret>);

impl Secrets {
    /// Reads the value of a variable or a file: one secret, or several with commas between them
    /// while one is being replaced by another.
    ///
    /// A secret that itself holds a comma cannot be given; none of the supported providers makes
    /// such secrets.
    ///
    /// # Errors
    ///
    /// Every fault of every secret in the list.
    pub fn parse(text: &str, encoding: KeyEncoding) -> Result<Self, Vec<SecretFault>> {
        let texts: Vec<&str> = without_newline(text).split(',').collect();
        let count = texts.len();
        let fault = |position: usize, problem| SecretFault { position, count, problem };
        if let Some(at) = texts.windows(2).position(|pair| is_versioned(pair[0], pair[1])) {
            return Err(vec![fault(at + 1, SecretProblem::Versioned)]);
        }
        let (mut secrets, mut faults) = (Vec::new(), Vec::new());
        for (index, text) in texts.into_iter().enumerate() {
            match Secret::parse_exact(text, encoding) {
                Ok(secret) => secrets.push(secret),
                Err(problem) => faults.push(fault(index + 1, problem)),
            }
        }
        if faults.is_empty() { Ok(Self(secrets)) } else { Err(faults) }
    }

    /// The secret to sign with: the first.
    #[must_use]
    pub fn first(&self) -> &Secret {
        &self.0[0]
    }
}

impl Deref for Secrets {
    type Target = [Secret];

    fn deref(&self) -> &[Secret] {
        &self.0
    }
}

impl From<Secret> for Secrets {
    fn from(secret: Secret) -> Self {
        Self(vec![secret])
    }
}

/// What is wrong with one secret of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFault {
    /// Which one, from 1.
    pub position: usize,
    /// How many there are.
    pub count: usize,
    /// What is wrong with it.
    pub problem: SecretProblem,
}

impl std::error::Error for SecretFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "the secret {}", self.problem),
            count => write!(f, "secret {} of {count} {}", self.position, self.problem),
        }
    }
}

/// What is wrong with a secret, worded to follow "the secret".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SecretProblem {
    /// Nothing there.
    #[error("is empty; make one with `{}`", encoding.recipe())]
    Empty {
        /// How it should have been written.
        encoding: KeyEncoding,
    },
    /// `whsec_` and nothing behind it.
    #[error("is only the prefix `whsec_`; the base64 text behind it is missing")]
    BarePrefix,
    /// An entry of a signature header, or a secret with its version in front.
    #[error("begins with a version (`v1,whsec_…`); leave out everything before `whsec_`")]
    Versioned,
    /// `whpk_` or `whsk_`: a key pair, which this scheme does not use.
    #[error("is one half of a key pair (`whpk_`, `whsk_`); take the symmetric secret, `whsec_…`")]
    KeyPair,
    /// Whitespace that came along when it was copied.
    #[error("{0}; copy it again without it")]
    Whitespace(&'static str),
    /// The text is not what its encoding says.
    #[error("is not valid {encoding}; copy it whole, or correct `key_encoding`")]
    NotEncoded {
        /// How it should have been written.
        encoding: KeyEncoding,
    },
    /// Too few bytes.
    #[error("has only {bytes} bytes; at least 16 are needed, make one with `{}`", encoding.recipe())]
    TooShort {
        /// How many it has.
        bytes: usize,
        /// How it should have been written.
        encoding: KeyEncoding,
    },
    /// Zendesk's published secret.
    #[error(
        "is Zendesk's public test secret, with which anybody can sign; create the webhook and copy \
         its own from \"Show secret\""
    )]
    PublicTestSecret,
}

/// Drops one newline, as a file or a shell leaves it.
fn without_newline(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

fn is_versioned(first: &str, second: &str) -> bool {
    matches!(first.trim(), "v1" | "v1a") && second.starts_with("wh")
}

fn refuse_mistakes(text: &str, encoding: KeyEncoding) -> Result<(), SecretProblem> {
    if text.is_empty() {
        return Err(SecretProblem::Empty { encoding });
    }
    if text == ZENDESK_PUBLIC_TEST_SECRET {
        return Err(SecretProblem::PublicTestSecret);
    }
    if text.split_once(',').is_some_and(|(first, second)| is_versioned(first, second)) {
        return Err(SecretProblem::Versioned);
    }
    if text.chars().any(|c| c.is_control() || (c.is_whitespace() && c != ' ') || c == '\u{FEFF}') {
        return Err(SecretProblem::Whitespace("holds a newline, a tab or another invisible character"));
    }
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err(SecretProblem::Whitespace("has a space at its beginning or end"));
    }
    if encoding != KeyEncoding::Utf8 && text.contains(' ') {
        return Err(SecretProblem::Whitespace("holds a space"));
    }
    if encoding == KeyEncoding::Whsec {
        if text == "whsec_" {
            return Err(SecretProblem::BarePrefix);
        }
        if text.starts_with("whpk_") || text.starts_with("whsk_") {
            return Err(SecretProblem::KeyPair);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn problem(text: &str, encoding: KeyEncoding) -> SecretProblem {
        Secret::parse(text, encoding).expect_err("refused")
    }

    #[test]
    fn a_secret_is_read_with_and_without_its_prefix_and_padding() {
        let key = |text| Secret::parse(text, KeyEncoding::Whsec).expect(text).key().to_vec();
        assert_eq!(key(GOOD), key("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        assert_eq!(key("whsec_AAECAwQFBgcICQoLDA0ODxA="), key("whsec_AAECAwQFBgcICQoLDA0ODxA"));
    }

    #[test]
    fn an_empty_secret_and_a_bare_prefix_are_refused() {
        assert!(matches!(problem("", KeyEncoding::Utf8), SecretProblem::Empty { .. }));
        assert!(matches!(problem("\n", KeyEncoding::Whsec), SecretProblem::Empty { .. }));
        assert_eq!(problem("whsec_", KeyEncoding::Whsec), SecretProblem::BarePrefix);
        assert!(Secrets::parse("", KeyEncoding::Utf8).is_err());
    }

    #[test]
    fn exactly_one_trailing_newline_is_dropped() {
        let key = |text| Secret::parse(text, KeyEncoding::Utf8).map(|secret| secret.key().to_vec());
        let plain = key("0123456789abcdef0123");
        assert!(plain.is_ok());
        assert_eq!(key("0123456789abcdef0123\n"), plain);
        assert_eq!(key("0123456789abcdef0123\r\n"), plain);
        assert!(matches!(key("0123456789abcdef0123\n\n"), Err(SecretProblem::Whitespace(_))));
    }

    #[test]
    fn inner_spaces_belong_to_a_text_secret_and_other_whitespace_to_none() {
        assert!(Secret::parse("It's a Secret to Everybody", KeyEncoding::Utf8).is_ok());
        for text in [" 0123456789abcdef", "0123456789abcdef ", "01234567\t89abcdef", "01234567\n89abcdef"] {
            assert!(matches!(problem(text, KeyEncoding::Utf8), SecretProblem::Whitespace(_)), "{text:?}");
        }
        let spaced = "whsec_MfKQ9r8GKYqr TwjUPD8ILPZIo2LaLaSw";
        assert!(matches!(problem(spaced, KeyEncoding::Whsec), SecretProblem::Whitespace(_)));
    }

    #[test]
    fn a_secret_of_other_characters_than_ascii_is_taken_as_its_bytes() {
        let secret = Secret::parse("clé secrète 🔑 de test", KeyEncoding::Utf8).expect("valid");
        assert_eq!(secret.key(), "clé secrète 🔑 de test".as_bytes());
    }

    #[test]
    fn a_bad_encoding_never_becomes_a_short_key() {
        for text in ["whsec_not-base64-at-all!!", "whsec_====", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS_"] {
            assert!(matches!(problem(text, KeyEncoding::Whsec), SecretProblem::NotEncoded { .. }), "{text}");
        }
        assert!(matches!(
            problem("00112233445566778899aabbccddeefg", KeyEncoding::Hex),
            SecretProblem::NotEncoded { .. }
        ));
        assert!(matches!(
            problem("whsec_AAECAw==", KeyEncoding::Whsec),
            SecretProblem::TooShort { bytes: 4, .. }
        ));
        assert!(matches!(
            problem("fifteen-letters", KeyEncoding::Utf8),
            SecretProblem::TooShort { bytes: 15, .. }
        ));
    }

    #[test]
    fn a_short_secret_is_told_how_to_grow() {
        assert!(problem("short", KeyEncoding::Utf8).to_string().contains("openssl rand -hex 32"));
        assert!(Secret::parse("0123456789abcdef", KeyEncoding::Utf8).expect("16 bytes").is_short());
        assert!(!Secret::parse(GOOD, KeyEncoding::Whsec).expect("24 bytes").is_short());
    }

    #[test]
    fn a_pasted_version_is_recognised_in_a_list_and_alone() {
        let pasted = format!("v1,{GOOD}");
        assert_eq!(problem(&pasted, KeyEncoding::Whsec), SecretProblem::Versioned);
        let faults = Secrets::parse(&pasted, KeyEncoding::Whsec).expect_err("refused");
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().contains("leave out everything before `whsec_`"));
        assert_eq!(
            problem("whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", KeyEncoding::Whsec),
            SecretProblem::KeyPair
        );
    }

    #[test]
    fn zendesks_public_test_secret_is_refused() {
        assert_eq!(problem(ZENDESK_PUBLIC_TEST_SECRET, KeyEncoding::Utf8), SecretProblem::PublicTestSecret);
    }

    #[test]
    fn a_list_reports_every_fault_with_its_place() {
        let two = Secrets::parse("0123456789abcdef0123,fedcba98765432100123\n", KeyEncoding::Utf8);
        assert_eq!(two.expect("both valid").len(), 2);
        let faults = Secrets::parse("short,0123456789abcdef0123, 0123456789abcdef,", KeyEncoding::Utf8)
            .expect_err("three faults");
        let places: Vec<usize> = faults.iter().map(|fault| fault.position).collect();
        assert_eq!(places, [1, 3, 4]);
        assert!(faults[0].to_string().starts_with("secret 1 of 4 has only 5 bytes"));
    }

    #[test]
    fn nothing_of_a_secret_is_ever_shown() {
        let secrets = Secrets::parse(GOOD, KeyEncoding::Whsec).expect("valid");
        assert_eq!(format!("{secrets:?}"), "Secrets([Secret(hidden)])");
        let fault = problem("hunter2-hunter2-\t", KeyEncoding::Utf8);
        assert!(!format!("{fault:?} {fault}").contains("hunter"));
    }
}
