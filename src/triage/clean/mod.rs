//! The text of a ticket as a classifier should read it.
//!
//! Help desks send HTML, whole mail threads and legal footers. What a classifier needs is the
//! newest words of the requester: markup is turned into text, quoted history and signatures are
//! cut, and long texts keep their head and their tail.
//!
//! **Invariants**
//! - A ticket with words in it never comes out empty: a cut that would take everything is undone.
//! - The result is within its caps and free of control characters (`domain::text`).
//! - Time is linear in the length of the text, whatever it holds.

mod html;
mod quotes;

use crate::domain::{TicketDraft, text};

/// How much of a ticket is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanLimits {
    /// Longest subject, in characters.
    pub subject_chars_max: usize,
    /// Longest body, in characters: three quarters are its head, one quarter its tail.
    pub body_chars_max: usize,
}

impl Default for CleanLimits {
    /// 300 and 8,000 characters: about 2,000 tokens, and more than nine of ten real tickets have.
    fn default() -> Self {
        Self { subject_chars_max: 300, body_chars_max: 8_000 }
    }
}

impl CleanLimits {
    /// Limits for a second try after a model said that the ticket is too long.
    #[must_use]
    pub fn shorter(self) -> Self {
        Self { body_chars_max: self.body_chars_max / 3, ..self }
    }
}

/// A ticket's text after cleaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanTicket {
    /// One line.
    pub subject: String,
    /// Plain text.
    pub body: String,
    /// Whether the middle of the body was cut out for length.
    pub truncated: bool,
}

impl CleanTicket {
    /// The view that a lane takes.
    #[must_use]
    pub fn as_text(&self) -> crate::llm::TicketText<'_> {
        crate::llm::TicketText { subject: &self.subject, body: &self.body }
    }
}

/// Cleans a ticket.
#[must_use]
pub fn clean(draft: &TicketDraft, limits: &CleanLimits) -> CleanTicket {
    let subject = text::clean_line(&html::unescape(&draft.subject), limits.subject_chars_max);
    let plain = text::clean(&html::to_text(&draft.body), usize::MAX);
    let own = quotes::newest(&plain);
    let own = if own.trim().is_empty() { plain.as_str() } else { own.as_str() };
    let (body, truncated) = text::cut_middle(collapse_blank_lines(own).trim(), limits.body_chars_max);
    CleanTicket { subject, body, truncated }
}

/// At most one blank line in a row, no space at the ends of lines.
fn collapse_blank_lines(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_blank = false;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() && is_blank {
            continue;
        }
        is_blank = line.is_empty();
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests;
