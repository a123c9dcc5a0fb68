//! The corpus: what people write to a help desk, invented for this purpose.
//!
//! It stands in `tickets.json` beside this file: ordinary requests from billing to integrations in
//! six languages, and what makes triage hard (an HTML mail, quoted replies, a long log, an empty
//! ticket, an attempt to instruct the model).

use std::sync::LazyLock;

use serde::Deserialize;

/// Stands in the subject of exactly one sample. The simulated provider answers a prompt that
/// contains it with a permanent error, so that there is a dead letter to look at.
pub const UNCLASSIFIABLE_PHRASE: &str = "quarterly ledger export";

/// One invented ticket, not yet in any provider's form.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleTicket {
    /// Unique and speaking, for example `billing-charged-twice`.
    pub label: String,
    /// ISO 639-1 code of its language.
    pub language: String,
    /// Who writes.
    pub requester: Requester,
    /// Title.
    pub subject: String,
    /// Text, HTML in some.
    pub body: String,
    /// Labels that the help desk put on it.
    pub labels: Vec<String>,
    /// Priority in the help desk's own words, where it has one.
    pub priority: Option<String>,
}

/// The person behind a sample.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requester {
    /// Name, empty for one who gave none.
    pub name: String,
    /// Address under a domain that cannot exist (RFC 2606, section 2).
    pub email: String,
    /// Account name, where the provider shows that.
    pub login: String,
}

#[expect(clippy::expect_used, reason = "the file is part of the program and a test reads it")]
static TICKETS: LazyLock<Vec<SampleTicket>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("tickets.json")).expect("tickets.json is well formed")
});

/// Every sample, in the order of the file.
#[must_use]
pub fn tickets() -> &'static [SampleTicket] {
    &TICKETS
}
