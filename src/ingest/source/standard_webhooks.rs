//! `standard-webhooks`: the open specification, and Svix, from which it came.
//!
//! Signed is `id.timestamp.body`; id and time are both covered, so a replay is told by its id and
//! a capture ages. Source: Standard Webhooks 1.0.0, sections "Signature scheme" and "Webhook
//! headers (sent to consumers)"; Svix documentation, "Verifying webhooks manually", for the
//! `svix-` names of the same headers.

use http::HeaderName;

use super::reading::{Reading, read_json};
use super::{EventFilter, FieldMap};
use crate::ingest::signature::{
    Algorithm, FUTURE_MAX, IdPlace, KeyEncoding, PAST_MAX, Part, Scheme, SignatureEncoding, SignatureList,
    SignedTime, Template, TimeFormat, TimePlace,
};

/// The specification's header names first, then those of Svix.
pub(super) fn schemes() -> Vec<Scheme> {
    let from_static = HeaderName::from_static;
    vec![
        scheme(from_static("webhook-id"), from_static("webhook-timestamp"), from_static("webhook-signature")),
        scheme(from_static("svix-id"), from_static("svix-timestamp"), from_static("svix-signature")),
    ]
}

fn scheme(id: HeaderName, timestamp: HeaderName, signature: HeaderName) -> Scheme {
    let stop = || Part::Literal(".".to_owned());
    Scheme {
        header: signature,
        list: SignatureList::Spaced { version: "v1".to_owned() },
        algorithm: Algorithm::Sha256,
        encoding: SignatureEncoding::Base64,
        key_encoding: KeyEncoding::Whsec,
        template: Template(vec![Part::Id, stop(), Part::Timestamp, stop(), Part::Body]),
        time: Some(SignedTime {
            place: TimePlace::Header(timestamp),
            format: TimeFormat::UnixSeconds,
            past_max: PAST_MAX,
            future_max: FUTURE_MAX,
        }),
        id: IdPlace::Header(id),
    }
}

/// A body without a type is kept for a person to look at: the specification asks for one, so
/// silence about it is a shape that we do not understand.
pub(super) fn read(body: &[u8], events: &EventFilter, fields: &FieldMap) -> Reading {
    read_json(body, |root| match fields.event_type(root) {
        None => Reading::unreadable(&"the body names no type of event"),
        Some(event_type) if !events.carries_ticket(&event_type) => Reading::ignored(&event_type),
        Some(event_type) => Reading::event(&event_type, fields.occurred_at(root), fields.ticket(root)),
    })
}
