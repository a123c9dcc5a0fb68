//! Logs and metrics: set up once a process.

pub mod log;
pub mod metrics;
