//! `hooktriage healthcheck`: the binary checks itself, so an image needs no curl.

use std::process::ExitCode;
use std::time::{Duration, Instant};

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
    /// Ask again for up to so many seconds until the answer is good
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
}

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(250);

pub(super) async fn run(common: &Common, args: &HealthcheckArgs) -> Result<ExitCode, CliError> {
    let client = Client::without_token(common, &args.service)?;
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    let (status, health) = loop {
        let probed = client.probe(path).await;
        let is_good = probed.as_ref().is_ok_and(|(status, _)| status.is_success());
        if is_good || Instant::now() >= deadline {
            break probed?;
        }
        tokio::time::sleep(ASK_EVERY).await;
    };
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
