//! Signed help-desk webhooks in, triaged tickets out.
pub mod domain;
pub mod postgres;
