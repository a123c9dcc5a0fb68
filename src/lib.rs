//! Signed help-desk webhooks in, triaged tickets out.
//!
//! The map of the house, in the order of a ticket's way:
//!
//! - [`http`] takes deliveries and answers people; [`ingest`] proves a delivery and commits it.
//! - [`queue`] is the ticket-free job queue that everything after the commit stands on.
//! - [`triage`] turns a ticket into a verdict, asking a lane of [`llm`]; [`routing`] carries it on.
//! - [`domain`] holds the words and rules, pure; [`store`] their SQL; [`postgres`] the database.
//! - [`simulator`] plays the parts of senders and of a provider, for the demo, tests and load.
//! - [`config`] reads what an operator wants, [`cli`] is how they say it, [`app`] puts it together.
//!
//! Who may use whom stands in `docs/ARCHITECTURE.md`, and a test holds the code to it.

pub mod app;
pub mod cli;
pub mod config;
pub mod domain;
pub mod http;
pub mod ingest;
pub mod llm;
pub mod postgres;
pub mod queue;
pub mod routing;
pub mod simulator;
pub mod store;
pub mod telemetry;
pub mod triage;
