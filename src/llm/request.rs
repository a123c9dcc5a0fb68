//! What is asked of a lane, and what comes back.
//!
//! The types stand here rather than in `triage`, because `triage` uses `llm` and not the reverse.

use std::time::Duration;

use serde_json::Value;

use crate::domain::Taxonomy;

/// The text of a ticket after cleaning, as a classifier may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketText<'a> {
    /// Title, one line.
    pub subject: &'a str,
    /// Body as plain text.
    pub body: &'a str,
}

/// A rendered prompt with the schema that the answer should have.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Version of the wording, stored with every classification.
    pub version: &'static str,
    /// Instructions and taxonomy. The same for every ticket, so that providers can cache it.
    pub system: String,
    /// The ticket, fenced.
    pub user: String,
    /// JSON Schema of the answer, within the subset that strict modes take.
    pub schema: Value,
}

/// One question: a ticket and the labels it may get.
///
/// Remote lanes send the prompt; the offline lane reads the ticket and the taxonomy directly.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The cleaned ticket.
    pub ticket: TicketText<'a>,
    /// The labels.
    pub taxonomy: &'a Taxonomy,
    /// The prompt made from both.
    pub prompt: &'a Prompt,
    /// Multiplies the lane's output limit: 1 at first, 2 when an answer was cut off before.
    pub output_factor: u32,
}

impl<'a> Request<'a> {
    /// A first question about a ticket.
    #[must_use]
    pub fn new(ticket: TicketText<'a>, taxonomy: &'a Taxonomy, prompt: &'a Prompt) -> Self {
        Self { ticket, taxonomy, prompt, output_factor: 1 }
    }
}

/// Tokens that a call used, as the provider counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens written, hidden reasoning included.
    pub output_tokens: u64,
}

/// What a lane answered. The completion is untrusted until it was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The raw text of the model.
    pub completion: String,
    /// The model that answered, by its own word where it gives one.
    pub model: String,
    /// `None` when the provider did not say; the cost is then unknown, not zero.
    pub usage: Option<Usage>,
    /// From sending the request to the last byte of the answer.
    pub latency: Duration,
    /// The provider's id of the call, for its support desk.
    pub request_id: Option<String>,
}
