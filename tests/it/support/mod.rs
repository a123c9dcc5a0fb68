//! What the integration tests share.

pub(crate) mod app;
pub(crate) mod database;
pub(crate) mod events;
pub(crate) mod gate;
pub(crate) mod jobs;
pub(crate) mod process;
pub(crate) mod provider;
pub(crate) mod raw;
pub(crate) mod reply;
pub(crate) mod runner;
pub(crate) mod wait;
