//! `hooktriage healthcheck`: the binary checks itself, so an image needs no curl.

use std::process::ExitCode;

use clap::Args;

use super::client::{Client, ServiceArgs};
use super::{CliError, Common, output};

/// Arguments of `healthcheck`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: HEALTHCHECK CMD [\"hooktriage\", \"healthcheck\"]")]
pub(super) struct HealthcheckArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Ask whether it can take work, not only whether it lives
    #[arg(long)]
    ready: bool,
}

pub(super) async fn run(common: &Common, args: &HealthcheckArgs) -> Result<ExitCode, CliError> {
    let client = Client::without_token(common, &args.service)?;
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let (status, health) = client.probe(path).await?;
    let word = output::field(&health, "/status");
    if common.json {
        output::print_json(&health);
    } else if status.is_success() {
        output::print(&word);
    }
    if status.is_success() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(anyhow::anyhow!("the service is not well: {word} ({status})").into())
}
