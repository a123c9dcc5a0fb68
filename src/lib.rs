//! Signed help-desk webhooks in, triaged tickets out.
pub mod domain;
pub mod llm;
pub mod simulator;
pub mod triage;
