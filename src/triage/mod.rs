//! From a ticket to a verdict: clean, ask, read, decide.
//!
//! The text of a ticket is hostile until shown otherwise: it is cleaned before it enters a prompt,
//! fenced inside it, and nothing that comes back is believed before it was checked against the
//! taxonomy. The model gives facts; rules decide (`domain::verdict`).
//!
//! **Not here:** how a model is called (`llm`), where a verdict goes (`routing`).

pub mod clean;
pub mod parse;
pub mod pipeline;
pub mod prompt;
pub mod signs;
pub mod taxonomy;

pub use pipeline::TriageHandler;

/// The queue of triage jobs.
pub const QUEUE: &str = "triage";
/// A job that triages a ticket.
pub const KIND_TRIAGE: &str = "triage";
