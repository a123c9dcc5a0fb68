//! An event: the fact in a verified delivery, unique by source and key.

use chrono::{DateTime, Utc};

use super::{EventId, TicketDraft};

/// What became of a verified event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// It carries a ticket, and a job was made for it.
    Accepted,
    /// A known type with a shape that we do not understand: kept for a person to look at.
    Quarantined,
}

impl EventState {
    /// The word used in SQL, in the API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Quarantined => "quarantined",
        }
    }
}

/// An event on its way into the database, verified and parsed.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Made by us; the answer for a repeated delivery names the first one's instead.
    pub event_id: EventId,
    /// Name of the configured source.
    pub source: String,
    /// Unique within the source: the sender's delivery or event id, or a key built from the body.
    pub dedupe_key: String,
    /// A second key of the same fact, unique within the source for a while: there when the first
    /// one is not covered by the signature, so that a captured body under a new delivery id is
    /// still told as a repeat.
    pub guard_key: Option<String>,
    /// The sender's word for what happened, for example `issues.opened`.
    pub event_type: String,
    /// The exact bytes that were signed. Kept as bytes: foreign JSON is never handed to `jsonb`.
    pub body: Vec<u8>,
    /// When the event happened by the sender's own clock, where the payload says so.
    pub occurred_at: Option<DateTime<Utc>>,
    /// The ticket in it, or why it could not be read.
    pub content: EventContent,
}

/// What a verified event turned out to hold.
#[derive(Clone, Debug)]
pub enum EventContent {
    /// A ticket to triage.
    Ticket(Box<TicketDraft>),
    /// A known type that could not be read; the text says where it stopped.
    Quarantined {
        /// The precise fault, safe to show to an operator.
        fault: String,
    },
}
