//! What the integration tests share.

pub(crate) mod database;
pub(crate) mod jobs;
pub(crate) mod runner;
pub(crate) mod wait;
