//! From a delivery to a decision: believed or not, and if so, what it holds.

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::signature::{Delivery, Refusal, Verified, verify};
use super::source::{ReadEvent, Reading, Source};
use crate::domain::{EventContent, EventId, NewEvent, TicketDraft};

/// What a believed delivery holds. Each of these is answered with 200.
#[derive(Clone, Debug)]
pub enum Received {
    /// The sender tried the connection. Nothing is stored.
    Handshake {
        /// The JSON to answer with.
        answer: String,
    },
    /// A type of event that carries no ticket. Counted, not stored.
    Ignored {
        /// The sender's word for it, cleaned and capped. Chosen by the sender: fit for a log line,
        /// not for a metric label.
        event_type: String,
    },
    /// An event to store: with a ticket, or quarantined.
    Event(Box<NewEvent>),
}

impl Source {
    /// Proves the sender of a delivery, without looking at what it says.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; the answer is 401 without detail.
    pub fn verify(&self, delivery: &Delivery<'_>, now: DateTime<Utc>) -> Result<Verified, Refusal> {
        verify(self.scheme_for(delivery.headers), self.secrets(), delivery, now)
    }

    /// Proves the sender of a delivery and reads it.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; the answer is 401 without detail. A delivery that was believed is never
    /// refused for its content.
    pub fn receive(&self, delivery: &Delivery<'_>, now: DateTime<Utc>) -> Result<Received, Refusal> {
        let verified = self.verify(delivery, now)?;
        Ok(self.interpret(delivery, &verified))
    }

    /// Reads a delivery whose sender has been proven by [`Source::verify`].
    #[must_use]
    pub fn interpret(&self, delivery: &Delivery<'_>, verified: &Verified) -> Received {
        match self.read(delivery.headers, delivery.body) {
            Reading::Handshake { answer } => Received::Handshake { answer },
            Reading::Ignored { event_type } => Received::Ignored { event_type },
            Reading::Event(event) => Received::Event(Box::new(self.new_event(*event, delivery, verified))),
        }
    }

    fn new_event(&self, event: ReadEvent, delivery: &Delivery<'_>, verified: &Verified) -> NewEvent {
        let (dedupe_key, guard_key) = keys(&event, delivery.body, verified);
        NewEvent {
            event_id: EventId::new(),
            source: self.name().to_owned(),
            dedupe_key,
            guard_key,
            event_type: event.event_type,
            body: delivery.body.to_vec(),
            occurred_at: event.occurred_at,
            content: match event.ticket.and_then(storable) {
                Ok(ticket) => EventContent::Ticket(Box::new(ticket)),
                Err(fault) => EventContent::Quarantined { fault },
            },
        }
    }
}

/// The ticket cleaned and capped. Its id must come through that whole: a cut id could be another
/// ticket's.
fn storable(ticket: TicketDraft) -> Result<TicketDraft, String> {
    let id_chars = ticket.external_id.chars().count();
    let ticket = ticket.cleaned();
    if ticket.external_id.is_empty() || id_chars > TicketDraft::FIELD_CHARS_MAX {
        return Err(format!(
            "the ticket id must be 1 to {} printable characters",
            TicketDraft::FIELD_CHARS_MAX
        ));
    }
    Ok(ticket)
}

/// The key that makes repeats one event, and the second one for when the first can be forged.
///
/// An id outside the signature can be replaced by whoever captured a delivery, so the bytes (or a
/// name for the fact in them) stand guard beside it. Where there is no id, the bytes are the key:
/// any of it that a sender changes in a retry makes a new event, so a configured id is better.
fn keys(event: &ReadEvent, body: &[u8], verified: &Verified) -> (String, Option<String>) {
    let body_key = || format!("sha256:{}", hex::encode(Sha256::digest(body)));
    if let Some(id) = &event.event_id {
        return (id.as_str().to_owned(), None);
    }
    match &verified.delivery_id {
        None => (body_key(), event.fact.clone()),
        Some(id) if verified.id_is_signed => (id.as_str().to_owned(), None),
        Some(id) => (id.as_str().to_owned(), Some(event.fact.clone().unwrap_or_else(body_key))),
    }
}
