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

impl Answer {
    /// Whether the model seems to have read only a part of the prompt. Some local servers cut what
    /// does not fit into their context from the front, with the labels in it, and answer 200; the
    /// only sign is a token count far below what the text can have.
    #[must_use]
    pub fn seems_cut_in_front(&self, prompt: &Prompt) -> bool {
        /// English has about 4 characters a token, and no tokenizer in use comes near to this many.
        const CHARS_PER_TOKEN_MAX: usize = 10;
        let chars = prompt.system.chars().count() + prompt.user.chars().count();
        let least = u64::try_from(chars / CHARS_PER_TOKEN_MAX).unwrap_or(u64::MAX);
        self.usage.is_some_and(|usage| usage.input_tokens < least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(input_tokens: Option<u64>) -> Answer {
        Answer {
            completion: String::new(),
            model: String::new(),
            usage: input_tokens.map(|input_tokens| Usage { input_tokens, output_tokens: 1 }),
            latency: Duration::ZERO,
            request_id: None,
        }
    }

    #[test]
    fn a_token_count_that_the_text_cannot_have_shows_a_cut_prompt() {
        let prompt =
            Prompt { version: "1", system: "x".repeat(30_000), user: String::new(), schema: Value::Null };
        assert!(answer(Some(2_048)).seems_cut_in_front(&prompt));
        assert!(!answer(Some(7_500)).seems_cut_in_front(&prompt));
        assert!(!answer(None).seems_cut_in_front(&prompt));
    }
}
