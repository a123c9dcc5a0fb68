//! Calling a language model: one call, one precise failure.
//!
//! A [`Lane`] is a provider, a model and a credential with the limits that belong to them. It
//! makes exactly one call for each [`Permit`] and says exactly what went wrong; whether and when
//! to try again is decided by the queue, from the [`Disposition`] of the failure. Retry loops in
//! layers multiply calls, so there is none here.
//!
//! **Invariants**
//! - No call leaves while the lane is held, and no more calls than its limits allow.
//! - A completion is untrusted text: nothing here reads meaning into it.
//! - No error text carries a key, and none is longer than a log line.
//!
//! **Not here:** the prompt and the reading of the completion (`triage`), the retry schedule
//! (`queue`), limits shared by several processes.

pub mod disposition;
pub mod endpoint;
pub mod failure;
pub mod lane;
pub mod limits;
pub mod offline;
pub mod pause;
pub mod rejection;
pub mod request;
pub mod retry_after;
pub mod settings;

mod anthropic;
mod client;
mod envelope;
mod guard;
mod openai;

pub use disposition::{Change, Disposition, Ending, ParkCause, disposition};
pub use failure::{CLASSES, Failure};
pub use lane::{Lane, LaneStatus, Setback};
pub use limits::{Permit, Wait};
pub use request::{Answer, Prompt, Request, TicketText, Usage};
pub use settings::{LaneFault, LaneKind, LaneSettings, OutputLimitField, SchemaMode};
