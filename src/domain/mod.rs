//! What the service knows about tickets, as plain values and pure functions.
//!
//! **Not here:** no I/O, no clock (`now` is an argument), no async, no wire format. Wire structs
//! live in the adapter that speaks the wire and are converted by hand, so that no domain type
//! derives serde.

pub mod classification;
pub mod event;
pub mod ids;
pub mod priority;
pub mod routing;
pub mod taxonomy;
pub mod text;
pub mod ticket;
pub mod verdict;

pub use classification::{Candidate, Classification, ClassificationFault, Sentiment};
pub use event::{EventContent, EventState, NewEvent};
pub use ids::{ClassificationId, EventId, TicketId};
pub use priority::Priority;
pub use routing::{DestinationName, Rule, RuleSet};
pub use taxonomy::{Category, Taxonomy, TaxonomyFault};
pub use ticket::{Ticket, TicketDraft};
pub use verdict::{ReviewReason, Verdict, VerdictPolicy};
