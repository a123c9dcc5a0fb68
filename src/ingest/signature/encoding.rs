//! How signatures and keys are written as text.
//!
//! Strictness matters here: a lenient base64 decoder turns a mistyped secret into an empty or
//! one-byte key, and a key that anybody can guess signs anything (openai/openai-node#1887).

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD};

/// How a signature is written in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureEncoding {
    /// Hexadecimal digits, either case.
    Hex,
    /// Base64 with the standard alphabet, padded, no stray bits.
    Base64,
}

impl SignatureEncoding {
    pub(super) const WORDS: &str = "`hex` or `base64`";

    pub(super) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex => hex::decode(text).ok(),
            Self::Base64 => STANDARD.decode(text).ok(),
        }
    }

    pub(super) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => hex::encode(bytes),
            Self::Base64 => STANDARD.encode(bytes),
        }
    }
}

impl FromStr for SignatureEncoding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "hex" => Ok(Self::Hex),
            "base64" => Ok(Self::Base64),
            _ => Err(()),
        }
    }
}

/// How the bytes of the key come out of the secret's text.
///
/// The provider decides, and appearances deceive: Zendesk's secrets look like base64 and are used
/// as they stand; `whsec_` means base64 for Standard Webhooks and plain text for Stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEncoding {
    /// The text itself, byte for byte.
    Utf8,
    /// Base64, padded or not.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// Base64 after an optional `whsec_` (Standard Webhooks 1.0.0, "Signature scheme").
    Whsec,
}

/// Senders print keys with and without padding; stray bits at the end are still refused.
const KEY_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl KeyEncoding {
    /// Every way to write a key.
    pub const ALL: [Self; 4] = [Self::Utf8, Self::Base64, Self::Hex, Self::Whsec];

    pub(super) const WORDS: &str = "`utf8`, `base64`, `hex` or `whsec`";

    /// The word used in configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Base64 => "base64",
            Self::Hex => "hex",
            Self::Whsec => "whsec",
        }
    }

    /// A command that makes a fresh secret of this form.
    #[must_use]
    pub fn recipe(self) -> &'static str {
        match self {
            Self::Utf8 | Self::Hex => "openssl rand -hex 32",
            Self::Base64 => "openssl rand -base64 32",
            Self::Whsec => "echo whsec_$(openssl rand -base64 32)",
        }
    }

    pub(super) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(text.as_bytes().to_vec()),
            Self::Base64 => KEY_BASE64.decode(text).ok(),
            Self::Hex => hex::decode(text).ok(),
            Self::Whsec => KEY_BASE64.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok(),
        }
    }
}

impl FromStr for KeyEncoding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Utf8, Self::Base64, Self::Hex, Self::Whsec]
            .into_iter()
            .find(|it| it.as_str() == text)
            .ok_or(())
    }
}

impl fmt::Display for KeyEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
