//! Signed sample traffic.
