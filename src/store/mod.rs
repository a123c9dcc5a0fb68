//! SQL of tickets and classifications, and what triage and dead letters write into the
//! transaction that ends a job. Takes and returns domain types.
//!
//! **Not here:** the queue's own tables (`queue`), and the one statement of ingest, which writes
//! event, ticket and job together (`ingest::write`).

pub mod alert;
pub mod classification;
pub mod error;
pub mod ticket;
pub mod verdict;

pub use alert::{Alert, Alerts};
pub use classification::StoredClassification;
pub use error::StoreError;
pub use verdict::{VerdictRecord, VerdictWriter};
