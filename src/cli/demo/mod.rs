//! `hooktriage demo`: the whole thing, watched. Own database, simulated provider and teams, signed
//! sample tickets of three providers; what is printed comes from the API of the running service.

mod mind;
mod play;
mod report;
mod stage;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::serve::stop_signal;
use super::{CliError, Common, output};
use crate::telemetry;

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: hooktriage demo --exit\n\nNeeds no configuration, no key and no network. \
    Everything it makes is gone when it ends.")]
pub(super) struct DemoArgs {
    /// End when all jobs have ended, instead of staying up until Ctrl-C
    #[arg(long)]
    exit: bool,
}

pub(super) async fn run(common: &Common, args: &DemoArgs) -> Result<ExitCode, CliError> {
    let environment = crate::config::Environment::of_process();
    // The demo tells what happens itself; the log joins in when it is asked to.
    let filter = environment.get("RUST_LOG").unwrap_or("off");
    telemetry::log::init(filter, false).map_err(|fault| CliError::Usage(fault.to_string()))?;
    let stop = stop_or_hangup().context("signals cannot be heard")?;
    tokio::pin!(stop);
    let stage = tokio::select! {
        stage = stage::Stage::set(&environment) => stage?,
        () = &mut stop => return Ok(ExitCode::SUCCESS),
    };
    let shown = tokio::select! {
        shown = show(common, &stage, args.exit) => shown,
        () = &mut stop => Ok(ExitCode::SUCCESS),
    };
    if shown.is_ok() && !args.exit && !output::reader_left() {
        output::remark("");
        output::remark("The service stays up for you to look around. Ctrl-C ends it and removes everything.");
        stop.await;
    }
    stage.strike().await;
    output::remark("Stopped; everything that the demo made is removed.");
    shown
}

/// A terminal that is closed ends the demo, too: nothing of it is to be left behind.
fn stop_or_hangup() -> std::io::Result<impl Future<Output = ()>> {
    let stop = stop_signal()?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            () = stop => {}
            _ = hangup.recv() => {}
        }
    })
}

async fn show(common: &Common, stage: &stage::Stage, exit: bool) -> Result<ExitCode, CliError> {
    stage.introduce();
    let client = stage.client()?;
    let (sent, watched) = tokio::join!(play::play(stage), watch::watch(&client, stage.expected_jobs()));
    let (sent, watched) = (sent?, watched?);
    stage.mend_provider().await?;
    if common.json {
        output::print_json(&report::as_json(&client, stage, &sent, &watched).await?);
    } else {
        report::print(&client, stage, &sent, &watched, exit).await?;
    }
    Ok(ExitCode::SUCCESS)
}
