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
mod dead_letter;
mod delivery;
mod demo;
mod embedded;
mod intake;
mod lane;
mod lifecycle;
mod listen;
mod migrations;
mod pool;
mod queue_claim;
mod queue_plan;
mod queue_reap;
mod queue_settle;
mod queue_worker;
mod replay;
mod shared_server;
mod support;
mod triage;
mod verdict;
mod webhook;
mod webhook_body;
mod webhook_outage;
