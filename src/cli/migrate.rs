//! `hooktriage migrate`: the schema, without the service.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{CliError, Common, output};
use crate::postgres::{ConnectTo, PoolSettings, connect, migrate};

/// Arguments of `migrate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: DATABASE_URL=postgres://owner@host/hooktriage hooktriage migrate --dry-run")]
pub(super) struct MigrateArgs {
    /// Only list what would be applied
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(common: &Common, args: &MigrateArgs) -> Result<ExitCode, CliError> {
    let config = common.load_and_log()?;
    let Some(url) = &config.database_url else {
        let advice =
            "DATABASE_URL is not set; the Postgres of our own is migrated by `hooktriage serve` itself";
        return Err(CliError::Usage(advice.to_owned()));
    };
    let to = ConnectTo::from_url(url).map_err(anyhow::Error::from)?;
    let settings = PoolSettings { connections_max: 2, ..PoolSettings::default() };
    let pool = connect(&to, &settings).await.map_err(anyhow::Error::from)?;
    let done = if args.dry_run { migrate::pending(&pool).await } else { migrate::run(&pool).await };
    let migrations = done.map_err(anyhow::Error::from)?;
    pool.close().await;
    let names: Vec<String> =
        migrations.iter().map(|one| format!("{:04} {}", one.version, one.description)).collect();
    if common.json {
        output::print_json(&json!({ "dry_run": args.dry_run, "migrations": names }));
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if args.dry_run { "to apply" } else { "applied" };
    names.iter().for_each(|name| output::print(&format!("{verb}: {name}")));
    if names.is_empty() {
        output::print("the schema is up to date");
    }
    Ok(ExitCode::SUCCESS)
}
