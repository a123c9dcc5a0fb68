//! `zendesk`: event subscriptions, and trigger or automation webhooks.
//!
//! Signed is the timestamp followed by the body, without anything between. The secret looks like
//! base64 and is used as it stands. Source: Zendesk Developer Docs, "Verifying webhooks", "Ticket
//! events" (the `detail` object), "Anatomy of a webhook request".

use chrono::TimeDelta;
use http::HeaderName;

use super::reading::{Reading, labels_of, optional_text, read_json, time_of};
use super::{EventFilter, FieldMap};
use crate::domain::TicketDraft;
use crate::ingest::json::Node;
use crate::ingest::signature::{
    Algorithm, DeliveryId, FUTURE_MAX, IdPlace, KeyEncoding, Part, Scheme, SignatureEncoding, SignatureList,
    SignedTime, Template, TimeFormat, TimePlace,
};

/// Types that carry a ticket worth a verdict. Tags, priority and group are left out on purpose:
/// our own write-backs come back as these.
pub(super) const EVENTS: &[&str] =
    &["ticket.created", "ticket.subject_changed", "ticket.description_changed"];

/// Zendesk documents no replay window, and not whether a retry gets a fresh timestamp. Its five
/// retries after time-outs, twelve seconds each with a pause between, end well within this.
const PAST_MAX: TimeDelta = TimeDelta::minutes(15);

/// What the type of every event subscription begins with.
const EVENT_PREFIX: &str = "zen:event-type:";
/// The type given to what a trigger or an automation sends: its conditions are the allow-list.
const TRIGGER: &str = "trigger";
/// What the URN of a ticket begins with; it stands in the top-level `subject`.
const TICKET_URN: &str = "zen:ticket:";

pub(super) fn scheme() -> Scheme {
    Scheme {
        header: HeaderName::from_static("x-zendesk-webhook-signature"),
        list: SignatureList::Single { prefix: String::new() },
        algorithm: Algorithm::Sha256,
        encoding: SignatureEncoding::Base64,
        key_encoding: KeyEncoding::Utf8,
        template: Template(vec![Part::Timestamp, Part::Body]),
        time: Some(SignedTime {
            place: TimePlace::Header(HeaderName::from_static("x-zendesk-webhook-signature-timestamp")),
            format: TimeFormat::Iso8601,
            past_max: PAST_MAX,
            future_max: FUTURE_MAX,
        }),
        id: IdPlace::Header(HeaderName::from_static("x-zendesk-webhook-invocation-id")),
    }
}

/// An event subscription has an id of its own in the signed body. What a trigger sends is written
/// by an administrator: an `id` there is the ticket's and would make every later event a
/// duplicate of the first, so only the (unsigned) invocation id can name it.
pub(super) fn read(body: &[u8], events: &EventFilter, fields: &FieldMap) -> Reading {
    read_json(body, |root| {
        let subscribed = root.get("type").and_then(Node::string);
        let Some(event_type) = subscribed.as_deref().and_then(|text| text.strip_prefix(EVENT_PREFIX)) else {
            return Reading::event(TRIGGER, fields.occurred_at(root), fields.ticket(root));
        };
        if !events.carries_ticket(event_type) {
            return Reading::ignored(event_type);
        }
        let event_id = root.get("id").and_then(Node::id).and_then(|id| DeliveryId::new(&id));
        Reading::event(event_type, time_of(root.get("time")), ticket(root)).with_event_id(event_id)
    })
}

fn ticket(root: &Node<'_>) -> Result<TicketDraft, String> {
    let detail = root.get("detail").filter(|detail| detail.is_object()).ok_or("`detail` is missing")?;
    let external_id = detail.get("id").and_then(Node::id).ok_or("`detail.id` names no ticket")?;
    let urn = root.get("subject").and_then(Node::string).unwrap_or_default();
    if urn.strip_prefix(TICKET_URN).is_some_and(|id| id != external_id) {
        return Err("`subject` names another ticket than `detail.id`".to_owned());
    }
    let text = |key: &str| optional_text(detail.get(key), key);
    Ok(TicketDraft {
        external_id,
        subject: text("subject")?,
        body: text("description")?,
        requester: detail.get("requester_id").and_then(Node::scalar).unwrap_or_default(),
        labels: labels_of(detail.get("tags")),
        external_priority: text("priority")?.to_ascii_lowercase(),
        url: String::new(),
    })
}
