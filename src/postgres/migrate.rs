//! Brings the schema up to the one that this binary was built with.
//!
//! Replicas start together, so one of them migrates while the rest wait. The wait asks again and
//! again with `pg_try_advisory_lock` instead of blocking in `pg_advisory_lock`: a blocked call holds
//! a snapshot, and a migration that creates an index concurrently would wait for it in turn.
//!
//! **Invariants**
//! - A migration that was applied is never applied again, and one that was changed is refused.
//! - A statement of a migration may run for hours, but waits for a lock only for [`LOCK_TIMEOUT`]:
//!   behind a waiting `alter table` every other statement on that table queues up.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sqlx::Connection;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnection, PgPool};

/// The advisory lock of whoever migrates; the number is the word `hooktria` in ASCII.
const LOCK_KEY: i64 = 0x686f_6f6b_7472_6961;

/// How long the others wait for the one that migrates.
const LOCK_WAIT: Duration = Duration::from_secs(15 * 60);

/// How often they ask.
const LOCK_POLL: Duration = Duration::from_millis(200);

/// How long one statement of a migration may wait for a table.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A migration that this binary has and the database has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingMigration {
    /// The number in front of the file's name.
    pub version: i64,
    /// The rest of the name, with spaces.
    pub description: String,
}

/// Why the schema is not the one we need.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The database knows migrations that this binary does not.
    #[error(
        "the database has migration {version}, which this version of hooktriage does not know: \
         a newer version has been here. Start that version, or restore the backup from before it"
    )]
    SchemaIsNewer {
        /// The unknown migration.
        version: i64,
    },
    /// The text of an applied migration is not what it was.
    #[error(
        "migration {version} was applied with another text than this binary holds. An applied \
         migration must not be edited: undo the edit and put the change into a new one"
    )]
    Changed {
        /// The migration whose text differs.
        version: i64,
    },
    /// The statements of a migration failed; those of the ones before it stand.
    #[error("migration {version} failed and was undone; mend the cause and run `hooktriage migrate` again")]
    Failed {
        /// The migration that failed.
        version: i64,
        /// What the server said.
        #[source]
        source: sqlx::Error,
    },
    /// Another process has been migrating for too long.
    #[error(
        "another process has held the migration lock for {} minutes: see pg_locks (locktype \
         'advisory') for its pid", LOCK_WAIT.as_secs() / 60
    )]
    LockIsHeld,
    /// The server could not be asked.
    #[error("the database did not answer while its schema was looked at")]
    Database(#[from] sqlx::Error),
    /// The migrations in the binary contradict each other.
    #[error("the migrations of this binary cannot be used")]
    Unusable(#[source] MigrateError),
}

/// The migrations that were built into this binary.
#[must_use]
pub fn migrator() -> Migrator {
    sqlx::migrate!("./migrations")
}

/// Applies what is pending and tells which ones those were.
///
/// Cancellation: a migration that was under way is rolled back by the server, unless its file says
/// `-- no-transaction`; the ones before it stand.
///
/// # Errors
/// Each variant of [`MigrationError`].
pub async fn run(pool: &PgPool) -> Result<Vec<PendingMigration>, MigrationError> {
    apply(pool, migrator()).await
}

/// As [`run`], with migrations from somewhere else.
///
/// # Errors
/// Each variant of [`MigrationError`].
pub async fn apply(pool: &PgPool, mut migrator: Migrator) -> Result<Vec<PendingMigration>, MigrationError> {
    // Not to be given back to the pool: its limits are changed, and closing it frees the lock.
    let mut session = pool.acquire().await?.detach();
    set_limits(&mut session).await?;
    wait_for_lock(&mut session).await?;
    let pending = missing(&mut session, &migrator).await?;
    migrator.set_locking(false);
    // `Migrator::run` takes an `Acquire`, with which no future that runs it is `Send`.
    let done = migrator.run_direct(None, &mut session, false).await.map_err(MigrationError::from);
    // The server ends the session by itself should this fail.
    session.close().await.ok();
    done?;
    for migration in &pending {
        tracing::info!(version = migration.version, description = %migration.description, "migration applied");
    }
    Ok(pending)
}

/// What [`run`] would apply, without changing anything.
///
/// # Errors
/// As [`run`], as far as reading shows it.
pub async fn pending(pool: &PgPool) -> Result<Vec<PendingMigration>, MigrationError> {
    let mut session = pool.acquire().await?;
    missing(&mut session, &migrator()).await
}

async fn set_limits(session: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select set_config('statement_timeout', '0', false),
                set_config('idle_in_transaction_session_timeout', '0', false),
                set_config('lock_timeout', $1, false)",
    )
    .bind(LOCK_TIMEOUT.as_millis().to_string())
    .execute(session)
    .await
    .map(|_| ())
}

async fn wait_for_lock(session: &mut PgConnection) -> Result<(), MigrationError> {
    let start = Instant::now();
    loop {
        let ours: bool = sqlx::query_scalar("select pg_try_advisory_lock($1)")
            .bind(LOCK_KEY)
            .fetch_one(&mut *session)
            .await?;
        if ours {
            return Ok(());
        }
        if start.elapsed() > LOCK_WAIT {
            return Err(MigrationError::LockIsHeld);
        }
        tokio::time::sleep(LOCK_POLL).await;
    }
}

/// Compares what the binary holds with what the database has had.
async fn missing(
    session: &mut PgConnection,
    migrator: &Migrator,
) -> Result<Vec<PendingMigration>, MigrationError> {
    let applied = applied(session).await?;
    if let Some(version) = applied.keys().filter(|version| !migrator.version_exists(**version)).max() {
        return Err(MigrationError::SchemaIsNewer { version: *version });
    }
    let mut pending = Vec::new();
    for migration in migrator.iter() {
        match applied.get(&migration.version) {
            Some(checksum) if *checksum != *migration.checksum => {
                return Err(MigrationError::Changed { version: migration.version });
            }
            Some(_) => {}
            None => pending.push(PendingMigration {
                version: migration.version,
                description: migration.description.clone().into_owned(),
            }),
        }
    }
    Ok(pending)
}

/// Checksums by version; empty where nothing was ever applied.
async fn applied(session: &mut PgConnection) -> Result<HashMap<i64, Vec<u8>>, sqlx::Error> {
    let exists: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(&mut *session)
        .await?;
    if !exists {
        return Ok(HashMap::new());
    }
    let rows: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("select version, checksum from _sqlx_migrations").fetch_all(session).await?;
    Ok(rows.into_iter().collect())
}

impl From<MigrateError> for MigrationError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => Self::SchemaIsNewer { version },
            MigrateError::VersionMismatch(version) => Self::Changed { version },
            MigrateError::ExecuteMigration(source, version) => Self::Failed { version, source },
            MigrateError::Execute(source) => Self::Database(source),
            other => Self::Unusable(other),
        }
    }
}
