//! The integration tests: one binary, since each further one would link the whole service again.
//!
//! A module is a subject, and its first comment is the claim that it proves. `support` holds what
//! they share.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on says where and ends")]

mod api;
mod api_document;
mod api_submit;
mod cli;
mod cli_check;
mod crash;
mod delivery;
mod demo;
mod embedded;
mod listen;
mod migrations;
mod pool;
mod replay;
mod shared_server;
mod support;
mod triage;
mod webhook;
mod webhook_body;
mod webhook_outage;
