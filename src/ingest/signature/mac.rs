//! The three HMACs that providers use, behind one call.
//!
//! SHA-1 is here because Intercom, Help Scout and Zammad sign with it; as an HMAC it is still
//! unforgeable in practice. Which one applies is fixed by the scheme: a sender cannot choose.

use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

/// The hash inside the HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-SHA-256, the usual choice.
    Sha256,
    /// HMAC-SHA-1, for providers that offer nothing else.
    Sha1,
    /// HMAC-SHA-512.
    Sha512,
}

impl Algorithm {
    pub(super) const WORDS: &str = "`sha256`, `sha1` or `sha512`";

    /// Length of a whole MAC, in bytes.
    #[must_use]
    pub fn mac_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha1 => 20,
            Self::Sha512 => 64,
        }
    }

    /// The MAC over the pieces, one after another, without copying them together.
    pub(super) fn mac(self, key: &[u8], pieces: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha256 => compute::<Hmac<Sha256>>(key, pieces),
            Self::Sha1 => compute::<Hmac<Sha1>>(key, pieces),
            Self::Sha512 => compute::<Hmac<Sha512>>(key, pieces),
        }
    }
}

#[expect(clippy::expect_used, reason = "an HMAC takes a key of any length (RFC 2104, section 2)")]
fn compute<M: Mac + KeyInit>(key: &[u8], pieces: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("an HMAC takes a key of any length");
    pieces.iter().for_each(|piece| mac.update(piece));
    mac.finalize().into_bytes().to_vec()
}

impl FromStr for Algorithm {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "sha256" => Ok(Self::Sha256),
            "sha1" => Ok(Self::Sha1),
            "sha512" => Ok(Self::Sha512),
            _ => Err(()),
        }
    }
}
