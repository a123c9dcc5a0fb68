//! A signature scheme as a value.
//!
//! The fields span everything that the providers surveyed do (Trigger.dev and Convoy model it
//! alike). A preset is one such value; `generic` builds one from configuration.

use chrono::TimeDelta;
use http::HeaderName;

use super::{Algorithm, KeyEncoding, SignatureEncoding, Template, TimeFormat};
use crate::ingest::json::Pointer;

/// Everything that must be known to check, or to make, a provider's signature.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub(in crate::ingest) header: HeaderName,
    pub(in crate::ingest) list: SignatureList,
    pub(in crate::ingest) algorithm: Algorithm,
    pub(in crate::ingest) encoding: SignatureEncoding,
    pub(in crate::ingest) key_encoding: KeyEncoding,
    pub(in crate::ingest) template: Template,
    pub(in crate::ingest) time: Option<SignedTime>,
    pub(in crate::ingest) id: IdPlace,
}

impl Scheme {
    /// The header that carries the signature.
    #[must_use]
    pub fn header(&self) -> &HeaderName {
        &self.header
    }

    /// How the key comes out of the secret's text.
    #[must_use]
    pub fn key_encoding(&self) -> KeyEncoding {
        self.key_encoding
    }

    /// Whether the scheme has a signed time; without one a captured delivery stays valid for
    /// ever, and only the dedupe keys stand against its replay.
    #[must_use]
    pub fn has_signed_time(&self) -> bool {
        self.time.is_some()
    }

    /// Whether the delivery id is covered by the MAC, so that nobody can put on another one.
    #[must_use]
    pub fn id_is_signed(&self) -> bool {
        match self.id {
            IdPlace::Nowhere => false,
            IdPlace::Header(_) => self.template.has_id(),
            IdPlace::Body(_) => true,
        }
    }

    /// The same scheme with other limits on the signed time; no change where it has none.
    #[must_use]
    pub fn with_tolerance(mut self, past_max: Option<TimeDelta>, future_max: Option<TimeDelta>) -> Self {
        if let Some(time) = &mut self.time {
            time.past_max = past_max.unwrap_or(time.past_max);
            time.future_max = future_max.unwrap_or(time.future_max);
        }
        self
    }
}

/// How the signature header holds one signature or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest) enum SignatureList {
    /// One signature after a fixed prefix, which may be empty: `sha256=<sig>`.
    Single { prefix: String },
    /// Entries `version,<sig>` with spaces between; other versions are skipped.
    Spaced { version: String },
    /// Entries `key=value` with commas between; signatures stand under `version`.
    Pairs { version: String },
}

/// Where the delivery id stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest) enum IdPlace {
    Nowhere,
    Header(HeaderName),
    Body(Pointer),
}

/// The time that the sender signed, and how far from now it may lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest) struct SignedTime {
    pub(in crate::ingest) place: TimePlace,
    pub(in crate::ingest) format: TimeFormat,
    pub(in crate::ingest) past_max: TimeDelta,
    pub(in crate::ingest) future_max: TimeDelta,
}

/// Where the signed time stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ingest) enum TimePlace {
    Header(HeaderName),
    /// In the body, so read only after the MAC has matched.
    Body(Pointer),
    /// Under this key in the signature header itself (`t=…`).
    Pair(String),
}
