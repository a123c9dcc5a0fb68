//! `generic`: any sender whose signature and body can be described in configuration.
//!
//! The type of the event is read where there is one. A body without a type counts as a ticket: a
//! sender that has but one kind of event does not name it.

use super::reading::{Reading, read_json};
use super::{EventFilter, FieldMap};

/// The type of an event whose body names none.
const UNTYPED: &str = "ticket";

pub(super) fn read(body: &[u8], events: &EventFilter, fields: &FieldMap) -> Reading {
    read_json(body, |root| match fields.event_type(root) {
        Some(event_type) if !events.carries_ticket(&event_type) => Reading::ignored(&event_type),
        event_type => {
            let event_type = event_type.as_deref().unwrap_or(UNTYPED);
            Reading::event(event_type, fields.occurred_at(root), fields.ticket(root))
        }
    })
}
