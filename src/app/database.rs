//! The database of this process: the one that was named, or a Postgres of our own.

use std::path::Path;

use anyhow::Context;
use sqlx::PgPool;

use crate::config::Config;
use crate::postgres::{ConnectTo, Embedded, EmbeddedSettings, PoolSettings, connect, migrate};

/// An open database, and the server if it is ours.
#[derive(Debug)]
pub struct Database {
    /// Sessions for everything.
    pub pool: PgPool,
    embedded: Option<Embedded>,
}

/// Sessions that a process keeps beside one for every slot of its workers.
const CONNECTIONS_BASE: usize = 12;
/// Most sessions of a process.
const CONNECTIONS_MAX: usize = 60;

/// Opens the database that the configuration names, or starts one in its data folder, and brings
/// its schema up to date.
///
/// # Errors
/// No server answers, none can be started, or a migration fails; the message says what to do.
pub async fn open_database(config: &Config) -> anyhow::Result<Database> {
    let (to, embedded) = match &config.database_url {
        Some(url) => (ConnectTo::from_url(url)?, None),
        None => {
            let embedded = Embedded::start(embedded_settings(config, &config.data_dir)).await?;
            (ConnectTo::from(embedded.connect_options()), Some(embedded))
        }
    };
    let sessions = (CONNECTIONS_BASE + config.triage.worker.slots).min(CONNECTIONS_MAX);
    let settings =
        PoolSettings { connections_max: u32::try_from(sessions).unwrap_or(20), ..PoolSettings::default() };
    let pool = connect(&to, &settings).await?;
    let applied = migrate::run(&pool).await.context("the schema could not be brought up to date")?;
    if !applied.is_empty() {
        tracing::info!(migrations = applied.len(), "the schema was brought up to date");
    }
    Ok(Database { pool, embedded })
}

fn embedded_settings(config: &Config, data_dir: &Path) -> EmbeddedSettings {
    EmbeddedSettings {
        bin_dir: config.pg_bin.clone(),
        search_path: config.environment.search_path(),
        temp_dir: config.environment.temp_dir().to_owned(),
        ..EmbeddedSettings::new(data_dir)
    }
}

impl Database {
    /// Closes all sessions, then stops the server if it is ours.
    pub async fn close(self) {
        self.pool.close().await;
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}
