//! Parses the command line, nothing else.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    hooktriage::cli::run(hooktriage::cli::Cli::parse())
}
