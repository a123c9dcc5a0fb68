//! Log lines: on standard error, for people or as JSON.
//!
//! What they may hold: ids, names, classes, counts, and error texts that passed through
//! `stored_text` or `clean`. What they never hold: ticket text, prompts, completions, secrets.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt;

/// Why logging could not be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error("RUST_LOG is {filter:?}, which cannot be read; write for example info,hooktriage=debug")]
    Filter {
        /// As it was given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// It was set up before.
    #[error("logging was set up twice")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets logging up for this process.
///
/// # Errors
/// [`LogError`]: the filter cannot be read, or logging was set up before.
pub fn init(filter: &str, json: bool) -> Result<(), LogError> {
    let parsed = EnvFilter::try_new(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    let colours = std::io::stderr().is_terminal();
    let lines = fmt().with_env_filter(parsed).with_writer(std::io::stderr).with_ansi(colours);
    let done = if json { lines.json().finish().try_init() } else { lines.finish().try_init() };
    done.map_err(LogError::Twice)
}
