//! `hooktriage simulate provider`: a model provider that fails on request.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use tokio::net::TcpListener;

use super::serve::stop_signal;
use super::{CliError, Common, output};
use crate::simulator::provider::{Burst, BurstLength, ProviderSettings, Refusal, RefusalKind, serve};

/// Arguments of `simulate`.
#[derive(Clone, Debug, Args)]
pub(super) struct SimulateArgs {
    #[command(subcommand)]
    who: Who,
}

#[derive(Clone, Debug, Subcommand)]
enum Who {
    /// A provider with the APIs of OpenAI (/v1/chat/completions) and Anthropic (/v1/messages)
    Provider(ProviderArgs),
}

/// Arguments of `simulate provider`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example: hooktriage simulate provider --rate-limited 0.1 --failing 0.05 --latency-ms 200\n\n\
    Then: HOOKTRIAGE_LLM_BASE_URL=http://127.0.0.1:8090/v1 HOOKTRIAGE_LLM_MODEL=simulated hooktriage serve\n\
    What it saw: GET /_simulator/stats"
)]
struct ProviderArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Makes runs repeatable
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Time before every answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency_ms: u64,
    /// Up to this much more, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    jitter_ms: u64,
    /// Share of calls answered with 429, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    rate_limited: f64,
    /// The Retry-After of those, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    retry_after: u64,
    /// Share of calls answered with 500, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    failing: f64,
    /// Share of calls that are never answered, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    hanging: f64,
    /// Share of answers that are cut off, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    truncated: f64,
    /// Share of answers that cannot be used, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    malformed: f64,
    /// After so many calls, answer a burst of 429
    #[arg(long, value_name = "CALLS", requires = "burst_length")]
    burst_after: Option<u64>,
    /// How many calls that burst takes in
    #[arg(long, value_name = "CALLS", requires = "burst_after")]
    burst_length: Option<u64>,
    /// Refuse tickets that hold this phrase with 400
    #[arg(long, value_name = "PHRASE")]
    refuse: Option<String>,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("it must be 0 to 1".to_owned()) }
}

impl ProviderArgs {
    fn settings(&self) -> ProviderSettings {
        let retry_after = Duration::from_secs(self.retry_after);
        let burst = self.burst_after.zip(self.burst_length);
        ProviderSettings {
            seed: self.seed,
            latency: Duration::from_millis(self.latency_ms),
            jitter: Duration::from_millis(self.jitter_ms),
            rate_limited: self.rate_limited,
            retry_after,
            failing: self.failing,
            hanging: self.hanging,
            truncated: self.truncated,
            malformed: self.malformed,
            burst: burst.map(|(after_calls, calls)| Burst {
                after_calls,
                lasts: BurstLength::Calls(calls),
                retry_after,
            }),
            refuse: self.refuse.clone().map(|phrase| Refusal { phrase, kind: RefusalKind::InvalidRequest }),
        }
    }
}

pub(super) async fn run(_common: &Common, args: &SimulateArgs) -> Result<ExitCode, CliError> {
    let Who::Provider(args) = &args.who;
    let stop = stop_signal().context("signals cannot be heard")?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener
        .with_context(|| format!("{} cannot be listened on; choose another with --listen", args.listen))?;
    let address = listener.local_addr().context("the listener has no address")?;
    output::print(&format!("simulated provider on http://{address}/v1"));
    serve(listener, args.settings(), stop).await.context("the simulated provider failed")?;
    Ok(ExitCode::SUCCESS)
}
