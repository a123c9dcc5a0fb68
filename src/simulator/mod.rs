//! Stand-ins for the outside world, for the demo, for load and for tests.
//!
//! The product is judged by people who have no help desk and no model account at hand. What
//! stands in for them is part of the binary, speaks the real protocols, and is signed with the
//! same code that checks it.

pub mod deliveries;
pub mod inbox;
pub mod provider;
