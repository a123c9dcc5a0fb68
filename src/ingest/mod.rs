//! From one HTTP POST to one event: proves who sent a delivery and reads the ticket in it.
//!
//! Everything here but the intake is pure: bytes, headers and the time come in, a decision goes
//! out. So each provider's rules, and each way in which a body can be broken, are tested without a
//! server and without a database.
//!
//! The way of a delivery: [`source::Source::receive`] picks the scheme, [`signature::verify`]
//! proves the sender over the exact bytes, the preset of the source reads the body, and the result
//! is a handshake, something to ignore, or an event for the intake to write.
//!
//! **Invariants**
//! - Nothing is parsed before the MAC over the raw bytes has matched.
//! - A verified delivery is never refused for its content: it is read, ignored or quarantined.
//! - No number passes through a float, and no foreign text can make this code panic.
//!
//! **Not here:** status codes, size caps and content types belong to `http`.

pub mod intake;
mod json;
pub mod receive;
pub mod signature;
pub mod source;
mod write;

pub use intake::{Intake, IntakeError, Receipt};
pub use receive::Received;

#[cfg(test)]
mod tests;
