//! Signed sample traffic: tickets as people write them, sent as their providers would send them.
//!
//! The same samples feed the demo, the load test and the tests, so what a visitor sees is what is
//! tested. A sample becomes a delivery for a given source: the provider's payload around it, the
//! provider's headers, and a signature made with the source's own scheme and secret.
//!
//! **Invariants**
//! - Every sample can be sent through every preset, and comes out of it as a ticket.
//! - Nothing here opens a connection: a delivery is a value, and whoever needs it sends it.

mod payload;
mod prepare;
mod ticket;

use chrono::{DateTime, Utc};
use http::HeaderMap;

use crate::ingest::source::Source;

pub use prepare::{Outgoing, PrepareFault, prepare};
pub use ticket::{Requester, SampleTicket, UNCLASSIFIABLE_PHRASE, tickets};

/// One request that waits to be sent.
#[derive(Clone, Debug)]
pub struct SampleDelivery {
    /// Name of the source that it is for.
    pub source: String,
    /// Path on the receiving server. The method is POST.
    pub path: String,
    /// Every header, signature included.
    pub headers: HeaderMap,
    /// The exact bytes that were signed.
    pub body: Vec<u8>,
    /// Which sample it carries.
    pub label: String,
}

/// A sample as the provider of this source would send it at `now`, newly opened.
///
/// `number` is the ticket's number in the help desk: the same number is the same ticket. Each call
/// makes a new delivery with an id of its own; for a repeat, send one delivery twice. GitHub opens a
/// number only once, so a second delivery of the same number counts as a repeat there.
///
/// # Errors
///
/// When the scheme of a `generic` source cannot be written into headers.
pub fn sample_delivery(
    source: &Source,
    ticket: &SampleTicket,
    number: u64,
    now: DateTime<Utc>,
) -> Result<SampleDelivery, PrepareFault> {
    let body = payload::opened(source.preset(), ticket, number, now).to_string().into_bytes();
    let path = format!("/webhooks/{}", source.name());
    let outgoing =
        Outgoing { preset: source.preset(), target: &path, body: &body, event_type: None, delivery_id: None };
    let headers = prepare(source.scheme(), source.secrets().first(), &outgoing, now)?;
    Ok(SampleDelivery { source: source.name().to_owned(), path, headers, body, label: ticket.label.clone() })
}

#[cfg(test)]
mod tests;
