//! A ticket: our snapshot of an object in somebody's help desk.

use chrono::{DateTime, Utc};

use super::{TicketId, text};

/// A ticket as it was read out of an event, cleaned and capped, not yet stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TicketDraft {
    /// The help desk's own id, unique within the source; for GitHub `owner/repo#7`.
    pub external_id: String,
    /// Title, one line.
    pub subject: String,
    /// First message or description, HTML or markdown as the sender wrote it.
    pub body: String,
    /// Who asked: a login, an e-mail address or an id. Empty when the payload does not say.
    pub requester: String,
    /// Labels or tags that the help desk already put on it.
    pub labels: Vec<String>,
    /// Priority in the help desk's own words, empty when it has none.
    pub external_priority: String,
    /// Where a person opens it. Empty when it cannot be told.
    pub url: String,
}

impl TicketDraft {
    /// Longest subject kept, in characters.
    pub const SUBJECT_CHARS_MAX: usize = 500;
    /// Longest body kept, in characters. The raw event keeps all of it.
    pub const BODY_CHARS_MAX: usize = 100_000;
    /// Longest of the other texts, in characters.
    pub const FIELD_CHARS_MAX: usize = 300;
    /// Most labels kept.
    pub const LABELS_MAX: usize = 50;

    /// The same ticket with every text cleaned and capped, ready for the database.
    #[must_use]
    pub fn cleaned(self) -> Self {
        let field = |value: &str| text::clean_line(value, Self::FIELD_CHARS_MAX);
        Self {
            external_id: field(&self.external_id),
            subject: text::clean_line(&self.subject, Self::SUBJECT_CHARS_MAX),
            body: text::clean(&self.body, Self::BODY_CHARS_MAX),
            requester: field(&self.requester),
            labels: self.labels.iter().take(Self::LABELS_MAX).map(|label| field(label)).collect(),
            external_priority: field(&self.external_priority),
            url: field(&self.url),
        }
    }
}

/// A stored ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Our id.
    pub ticket_id: TicketId,
    /// Name of the configured source it came from.
    pub source: String,
    /// What the help desk says of it.
    pub draft: TicketDraft,
    /// One more with every event that changed the snapshot, from 1.
    pub version: i32,
    /// First seen.
    pub created_at: DateTime<Utc>,
    /// Last changed by an event or a verdict.
    pub updated_at: DateTime<Utc>,
}
