//! `hooktriage serve`: the service for real use.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{CliError, Common};
use crate::app::{Database, Role, Service, admin_token, open_database};
use crate::config::Config;
use crate::http::TokenHash;

/// Arguments of `serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: HOOKTRIAGE_SECRET_GITHUB=$(openssl rand -hex 32) hooktriage serve\n\n\
    Stop it with SIGTERM or Ctrl-C: it takes nothing more, lets running jobs end, hands the rest back \
    and exits with 0. A second Ctrl-C ends it at once.")]
pub(super) struct ServeArgs {
    /// What this process does
    #[arg(long, value_enum, default_value_t = RoleArg::All)]
    role: RoleArg,
    /// How long running jobs may take to end once the process is to stop, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 25)]
    drain: u64,
    /// How long to go on serving once readiness is off, in seconds; 5 or more behind a balancer
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    notice: u64,
}

impl ServeArgs {
    /// What a stop takes when everything answers, and a margin for what does not.
    fn stop_limit(&self) -> Duration {
        const MARGIN: Duration = Duration::from_secs(20);
        Duration::from_secs(self.notice.saturating_add(self.drain)) + MARGIN
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleArg {
    /// Take deliveries and work on jobs
    All,
    /// Take deliveries and serve the API
    Ingest,
    /// Work on jobs; serve probes and metrics only
    Worker,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::All => Self::All,
            RoleArg::Ingest => Self::Ingest,
            RoleArg::Worker => Self::Worker,
        }
    }
}

pub(super) async fn run(common: &Common, args: &ServeArgs) -> Result<ExitCode, CliError> {
    let config = common.load_and_log()?;
    // Before anything slow, so that a stop that comes early is heard, too.
    let stop = stop_signal().context("signals cannot be heard")?;
    tokio::pin!(stop);
    let listener = bind(&config).await?;
    let token = admin_token(&config.access())?;
    // A server that does not answer, or a lock that a long migration holds, must not hold up a stop.
    // A Postgres of our own that is half started goes with this process.
    let database = tokio::select! {
        database = open_database(&config) => database?,
        () = &mut stop => {
            tracing::info!("stopped before the database was open");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let role = Role::from(args.role);
    let mut service =
        Service::start(&config, role, database.pool.clone(), listener, TokenHash::of(&token)).await?;
    tell(&config, role, &service);
    let broken = tokio::select! {
        () = &mut stop => false,
        () = service.broken() => true,
    };
    // Orchestrators repeat SIGTERM out of habit; who presses Ctrl-C twice means it.
    let mut again = signal(SignalKind::interrupt()).context("signals cannot be heard")?;
    let ended = tokio::select! {
        ended = tokio::time::timeout(args.stop_limit(), shut_down(service, database, args)) => ended.is_ok(),
        _ = again.recv() => false,
    };
    if broken {
        return Err(anyhow::anyhow!("a part of the service ended unexpectedly; the log has the place").into());
    }
    if !ended {
        return Err(anyhow::anyhow!(
            "stopped before everything had ended; what was left behind is taken up again"
        )
        .into());
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

async fn shut_down(service: Service, database: Database, args: &ServeArgs) {
    tracing::info!("stopping: takes nothing more, lets running jobs end");
    service.announce_stop(Duration::from_secs(args.notice)).await;
    service.stop(Duration::from_secs(args.drain)).await;
    database.close().await;
}

/// Binds the address that is configured.
async fn bind(config: &Config) -> Result<TcpListener, CliError> {
    let bound = TcpListener::bind(config.listen).await;
    let advice =
        || format!("{} cannot be listened on; stop what uses it, or set HOOKTRIAGE_LISTEN", config.listen);
    Ok(bound.with_context(advice)?)
}

fn tell(config: &Config, role: Role, service: &Service) {
    tracing::info!(address = %service.address(), ?role, lane = config.lane.kind.as_str(), "the service listens");
    if config.lane.kind == crate::llm::LaneKind::Offline {
        tracing::info!("no model is configured: the offline classifier works, without key and network");
    }
    for source in &config.sources {
        let (name, preset) = (source.name(), source.preset().as_str());
        tracing::info!(source = name, preset, path = format!("/webhooks/{name}"), "a source is on");
        if source.secrets().iter().any(crate::ingest::signature::Secret::is_short) {
            tracing::warn!(
                source = name,
                "a secret of this source is short; give it 24 random bytes or more"
            );
        }
    }
    if config.sources.is_empty() && role != Role::Worker {
        tracing::warn!(
            "no source is on: set HOOKTRIAGE_SECRET_GITHUB or another; POST /v1/tickets works all the same"
        );
    }
}

/// Resolves at the first SIGTERM or Ctrl-C.
pub(super) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
