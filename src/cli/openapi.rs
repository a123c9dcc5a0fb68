//! `hooktriage openapi`: the document, without a running service.

use std::process::ExitCode;

use serde_json::json;

use super::output;

pub(super) fn run() -> ExitCode {
    output::print_json(&json!(crate::http::openapi()));
    ExitCode::SUCCESS
}
