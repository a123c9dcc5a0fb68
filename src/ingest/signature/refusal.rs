//! Why a delivery was not believed.
//!
//! The sender learns nothing of this: every refusal is the same 401. Operators need the precise
//! word, because a wrong secret, a clock that is off and a proxy that drops a header look alike
//! from outside and are mended in different places.

use chrono::TimeDelta;
use http::HeaderName;
use thiserror::Error;

/// The precise reason, for logs, metrics and `hooktriage check`; never for the sender.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// A header that the scheme needs is not there.
    #[error("header `{0}` is missing")]
    MissingHeader(HeaderName),
    /// A header that must be single came more than once; which one the sender meant is a guess.
    #[error("header `{0}` came more than once")]
    RepeatedHeader(HeaderName),
    /// A header is there but not in the form that the scheme prescribes.
    #[error("header `{name}` {fault}")]
    MalformedHeader {
        /// The header.
        name: HeaderName,
        /// What is wrong with it. Never holds its value.
        fault: &'static str,
    },
    /// The signature list holds no entry of the right version, encoding and length.
    #[error("header `{0}` holds no signature of the expected form")]
    NoUsableSignature(HeaderName),
    /// Well-formed signatures, none of them made with a live secret over these bytes.
    #[error("no signature matches: wrong secret, or the body changed on its way")]
    NoMatch,
    /// The MAC is right, but the signed time in the body is missing or malformed.
    #[error("the signed time at `{0}` is missing or malformed")]
    NoSignedTime(String),
    /// The MAC is right, but the signed time lies too far in the past.
    #[error("signed {} s ago, which is too old", age.num_seconds())]
    TooOld {
        /// How long before now it was signed.
        age: TimeDelta,
    },
    /// The MAC is right, but the signed time lies too far in the future.
    #[error("signed {} s in the future, which is too new: compare the clocks", ahead.num_seconds())]
    TooNew {
        /// How long after now it claims to be signed.
        ahead: TimeDelta,
    },
}

impl Refusal {
    /// A stable word for a metric label.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::MissingHeader(_) => "missing_header",
            Self::RepeatedHeader(_) => "repeated_header",
            Self::MalformedHeader { .. } => "malformed_header",
            Self::NoUsableSignature(_) => "no_usable_signature",
            Self::NoMatch => "no_match",
            Self::NoSignedTime(_) => "no_signed_time",
            Self::TooOld { .. } => "too_old",
            Self::TooNew { .. } => "too_new",
        }
    }
}
