//! One verifier for every provider: a signature scheme is data, not code.
//!
//! Providers differ in header names, encodings, key formats and in what they sign, but every one
//! of them computes an HMAC over a template of the same few parts. Writing the rules once means
//! that constant-time comparison, both-sided time checks and strict decoding cannot be forgotten
//! in the seventh adapter.
//!
//! **Invariants**
//! - The MAC covers the exact bytes that came; nothing is decoded, trimmed or re-serialised first.
//! - The algorithm comes from the scheme alone, never from what a header says.
//! - Only a MAC of full length that equals ours passes, compared in constant time.
//! - No secret, no header, no usable entry: each of these refuses. There is no way to switch
//!   verification off.
//!
//! **Not here:** what the body means (`source`), and how a refusal is answered (`http`).

mod encoding;
mod mac;
mod refusal;
mod scheme;
mod secret;
mod sign;
mod spec;
mod template;
mod time;
mod verify;

pub use encoding::{KeyEncoding, SignatureEncoding};
pub use mac::Algorithm;
pub use refusal::Refusal;
pub use scheme::Scheme;
pub use secret::{Secret, SecretFault, SecretProblem, Secrets};
pub use sign::{SignFault, Unsigned, sign};
pub use spec::{SchemeFault, SchemeSpec};
pub use time::TimeFormat;
pub use verify::{Delivery, DeliveryId, Verified, verify};

pub(in crate::ingest) use scheme::{IdPlace, SignatureList, SignedTime, TimePlace};
pub(in crate::ingest) use spec::{FUTURE_MAX, PAST_MAX};
pub(in crate::ingest) use template::{Part, Template};

#[cfg(test)]
mod tests;
