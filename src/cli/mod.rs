//! The command line: one file a command. What a command prints on standard output is its result;
//! everything else goes to standard error.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 conflict.

mod check;
mod client;
mod dead_letters;
mod demo;
mod healthcheck;
mod jobs;
mod migrate;
mod openapi;
mod output;
mod send;
mod serve;
mod simulate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;

use crate::config::{Config, Faults};
use crate::telemetry;

/// Signed help-desk webhooks in, triaged tickets out.
#[derive(Debug, Parser)]
#[command(name = "hooktriage", version, about, long_about = None, propagate_version = true,
    after_help = "Start with `hooktriage demo`. Settings: `hooktriage check --variables`.")]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
struct Common {
    /// Configuration file [default: hooktriage.toml, if there]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    Serve(serve::ServeArgs),
    /// Watch the whole thing work: own database, simulated provider, signed sample tickets
    Demo(demo::DemoArgs),
    /// Check the configuration; prints every fault with its place
    Check(check::CheckArgs),
    /// Bring the schema of the database up to date
    Migrate(migrate::MigrateArgs),
    /// Sign a file, or a sample ticket, as a provider would and post it to the service
    Send(send::SendArgs),
    /// Look at jobs
    Jobs(jobs::JobsArgs),
    /// Look at dead letters and replay them
    #[command(visible_alias = "dead-letter")]
    DeadLetters(dead_letters::DeadLettersArgs),
    /// Play the part of somebody outside
    Simulate(simulate::SimulateArgs),
    /// Ask the running service whether it is well; for a container's HEALTHCHECK
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Print the OpenAPI document
    Openapi,
}

/// Why a command failed.
#[derive(Debug, Error)]
enum CliError {
    /// The configuration has faults.
    #[error(transparent)]
    Config(#[from] Faults),
    /// What was given on the command line cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The service does not know what was asked for.
    #[error("{0}")]
    NotFound(String),
    /// The service refuses because of the state of things.
    #[error("{0}")]
    Conflict(String),
    /// Everything else.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl CliError {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Config(_) | Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::Conflict(_) => 4,
        }
    }

    /// The error with its causes, on one line.
    fn text(&self) -> String {
        match self {
            Self::Failed(cause) => format!("{cause:#}"),
            other => other.to_string(),
        }
    }
}

/// Runs a parsed command line to its end.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => {
            output::complain(&format!("the runtime could not be started: {cause}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(dispatch(cli)) {
        Ok(code) => code,
        Err(fault) => {
            output::complain(fault.text().trim_end());
            ExitCode::from(fault.code())
        }
    }
}

async fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let common = cli.common;
    match cli.command {
        Command::Serve(args) => serve::run(&common, &args).await,
        Command::Demo(args) => demo::run(&common, &args).await,
        Command::Check(args) => check::run(&common, &args),
        Command::Migrate(args) => migrate::run(&common, &args).await,
        Command::Send(args) => send::run(&common, &args).await,
        Command::Jobs(args) => jobs::run(&common, &args).await,
        Command::DeadLetters(args) => dead_letters::run(&common, &args).await,
        Command::Simulate(args) => simulate::run(&common, &args).await,
        Command::Healthcheck(args) => healthcheck::run(&common, &args).await,
        Command::Openapi => Ok(openapi::run()),
    }
}

impl Common {
    fn load(&self) -> Result<Config, CliError> {
        Ok(Config::load(self.config.as_deref())?)
    }

    /// Loads the configuration and sets logging up as it says.
    fn load_and_log(&self) -> Result<Config, CliError> {
        let config = self.load()?;
        let json = config.log.format == crate::config::LogFormat::Json;
        telemetry::log::init(&config.log.filter, json).map_err(|fault| CliError::Usage(fault.to_string()))?;
        Ok(config)
    }
}
