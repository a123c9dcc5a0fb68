//! From a delivery to a committed event.

pub mod intake;
mod write;

pub use intake::{Intake, IntakeError, Receipt};
