//! Carrying verdicts to where people work, and alerts to whoever mends things.
//!
//! Each delivery is a job of its own, with its own attempts and its own dead letter, so a
//! destination that refuses or fails holds up nothing else; one that hangs holds its slots until the
//! timeout. The receiver finds the same idempotency key on every repetition.
//!
//! **Not here:** which destination a verdict goes to (`domain::routing`), and how the receiver's
//! answer is retried (`queue`).

pub mod destination;
pub mod guard;
pub mod payload;
pub mod pipeline;
pub mod webhook;

pub use destination::{Destination, DestinationFault, DestinationSettings};
pub use pipeline::RoutingHandler;

/// The queue of deliveries and alerts.
pub const QUEUE: &str = "routing";
/// A job that carries a verdict to a destination.
pub const KIND_DELIVER: &str = "deliver";
/// A job that tells of dead letters.
pub const KIND_ALERT: &str = "alert";
