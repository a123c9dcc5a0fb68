//! Stand-ins for the outside world, for demonstrations and tests.

pub mod provider;
