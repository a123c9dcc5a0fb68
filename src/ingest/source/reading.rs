//! What a preset makes of a verified body, and the small steps that all of them share.

use chrono::{DateTime, Utc};

use crate::domain::{TicketDraft, text};
use crate::ingest::json::{Node, readable};
use crate::ingest::signature::DeliveryId;

/// The type of an event whose body does not even say what it is.
pub(in crate::ingest) const UNREADABLE: &str = "unreadable";

/// Longest type of event that is kept, in characters.
const EVENT_TYPE_CHARS_MAX: usize = 100;

/// What the body turned out to be.
#[derive(Debug)]
pub(in crate::ingest) enum Reading {
    /// The sender tries the connection; this JSON is the answer.
    Handshake { answer: String },
    /// A type that carries no ticket.
    Ignored { event_type: String },
    /// A type that carries a ticket, readable or not.
    Event(Box<ReadEvent>),
}

/// An event as the preset read it, before it gets its keys.
#[derive(Debug)]
pub(in crate::ingest) struct ReadEvent {
    pub(in crate::ingest) event_type: String,
    pub(in crate::ingest) occurred_at: Option<DateTime<Utc>>,
    /// The ticket, or where reading it stopped.
    pub(in crate::ingest) ticket: Result<TicketDraft, String>,
    /// The id that the signed body gives the event; it counts before any id in a header.
    pub(in crate::ingest) event_id: Option<DeliveryId>,
    /// A name for the fact itself, where the payload allows one that stays the same however often
    /// and under whatever delivery id the sender reports it.
    pub(in crate::ingest) fact: Option<String>,
}

impl Reading {
    pub(super) fn ignored(event_type: &str) -> Self {
        Self::Ignored { event_type: event_type_of(event_type) }
    }

    pub(super) fn event(
        event_type: &str,
        occurred_at: Option<DateTime<Utc>>,
        ticket: Result<TicketDraft, String>,
    ) -> Self {
        let event_type = event_type_of(event_type);
        Self::Event(Box::new(ReadEvent { event_type, occurred_at, ticket, event_id: None, fact: None }))
    }

    pub(super) fn unreadable(fault: &impl ToString) -> Self {
        Self::event(UNREADABLE, None, Err(fault.to_string()))
    }

    pub(super) fn with_event_id(mut self, event_id: Option<DeliveryId>) -> Self {
        if let Self::Event(event) = &mut self {
            event.event_id = event_id;
        }
        self
    }

    pub(super) fn with_fact(mut self, fact: Option<String>) -> Self {
        if let Self::Event(event) = &mut self {
            event.fact = fact;
        }
        self
    }

    /// Fills in a link for tickets whose payload has none; `{id}` stands for the ticket's id.
    pub(super) fn with_ticket_url(mut self, pattern: Option<&str>) -> Self {
        if let (Self::Event(event), Some(pattern)) = (&mut self, pattern)
            && let Ok(ticket) = &mut event.ticket
            && ticket.url.is_empty()
        {
            ticket.url = pattern.replace("{id}", &ticket.external_id);
        }
        self
    }
}

/// Reads a JSON body; one that is none is an event that a person must look at.
pub(super) fn read_json(body: &[u8], read: impl FnOnce(&Node<'_>) -> Reading) -> Reading {
    let text = match readable(body) {
        Ok(text) => text,
        Err(fault) => return Reading::unreadable(&fault),
    };
    match Node::parse(&text) {
        Ok(root) => read(&root),
        Err(fault) => Reading::unreadable(&fault),
    }
}

/// A foreign type made fit to be stored and shown; never empty.
fn event_type_of(text: &str) -> String {
    let cleaned = text::clean_line(text, EVENT_TYPE_CHARS_MAX);
    if cleaned.is_empty() { UNREADABLE.to_owned() } else { cleaned }
}

/// The text of a member that may be null or missing, as GitHub's empty bodies are; any other kind
/// of value is a shape that we do not know.
pub(super) fn optional_text(node: Option<&Node<'_>>, place: &str) -> Result<String, String> {
    match node {
        None => Ok(String::new()),
        Some(node) if node.is_null() => Ok(String::new()),
        Some(node) => node.string().ok_or_else(|| format!("{place} is no text")),
    }
}

/// The time that a member holds, where it holds one that can be read.
pub(super) fn time_of(node: Option<&Node<'_>>) -> Option<DateTime<Utc>> {
    let text = node?.string()?;
    DateTime::parse_from_rfc3339(&text).ok().map(|time| time.to_utc())
}

/// Labels as any sender may write them: texts, objects with a `name` or a `title`, or one text
/// with commas. What is none of these is left out; a label is no reason to lose a ticket.
pub(super) fn labels_of(node: Option<&Node<'_>>) -> Vec<String> {
    let Some(node) = node else { return Vec::new() };
    if let Some(text) = node.string() {
        return text.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect();
    }
    node.items()
        .iter()
        .filter_map(|item| first_text(item, &["name", "title"]).or_else(|| item.scalar()))
        .collect()
}

/// A person as any sender may write one: a text, an id, or an object that holds either.
pub(super) fn person_of(node: Option<&Node<'_>>) -> String {
    let Some(node) = node else { return String::new() };
    first_text(node, &["email", "login", "username", "name", "id"])
        .or_else(|| node.scalar())
        .unwrap_or_default()
}

fn first_text(node: &Node<'_>, keys: &[&str]) -> Option<String> {
    let text_at = |key: &&str| node.get(key).and_then(Node::scalar).filter(|text| !text.is_empty());
    keys.iter().find_map(text_at)
}
