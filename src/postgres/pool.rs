//! The connection pool: where to, how many, and how long anything may take.
//!
//! Every session gets a limit for a statement, for a wait on a lock and for an idle transaction,
//! so that one stuck query cannot hold a worker or a vacuum for ever. The limits are set by a
//! statement after connecting instead of a start-up option, since poolers refuse those.
//!
//! Every statement is planned for its arguments and for the tables as they are (`plan_cache_mode`).
//! A plan that was cached while a few hundred jobs waited reads the whole table for every claim once
//! a hundred thousand do (measured: 0.3 ms became 28 ms), until the next `analyze`.
//!
//! **Invariants**
//! - A session that has become read-only (its server is a standby since a failover) leaves the pool.
//! - No address or password shows in `Debug`, in an error or in a log line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sqlx::pool::PoolConnectionMetadata;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};

/// The oldest server that the migrations and statements are written for.
pub const OLDEST_MAJOR: u32 = 15;

/// A session that rested for less than this is trusted without a question, with the exception below.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// Of the trusted acquires one in so many is checked all the same. A busy session never rests, and
/// without this a failover would leave it on the standby until its lifetime ends.
const SAMPLED_ONE_IN: usize = 16;

/// Where a server is and who we are there.
#[derive(Clone)]
pub struct ConnectTo(PgConnectOptions);

impl ConnectTo {
    /// Reads a `postgres://…` address.
    ///
    /// What the address leaves out is filled in as `libpq` does, from `PGPORT`, `PGSSLMODE` and the
    /// rest: someone who demands TLS in their shell gets it. The embedded server's address leaves
    /// nothing out.
    ///
    /// # Errors
    /// [`ConnectError::InvalidUrl`] when it is not such an address. The address is not repeated in it.
    pub fn from_url(url: &SecretString) -> Result<Self, ConnectError> {
        let text = url.expose_secret();
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(ConnectError::InvalidUrl(None));
        }
        PgConnectOptions::from_str(text).map(Self).map_err(|source| ConnectError::InvalidUrl(Some(source)))
    }
}

impl From<PgConnectOptions> for ConnectTo {
    fn from(options: PgConnectOptions) -> Self {
        Self(options)
    }
}

impl fmt::Debug for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectTo").field("database", &self.0.get_database()).finish_non_exhaustive()
    }
}

/// Limits of the pool and of each session in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Sessions at most. A listener keeps one of them for good.
    pub connections_max: u32,
    /// How long a caller waits for a free session before it gets an error.
    pub acquire_timeout: Duration,
    /// How long one statement may run.
    pub statement_timeout: Duration,
    /// How long a statement may wait for a lock.
    pub lock_timeout: Duration,
    /// How long a transaction may do nothing before the server ends its session.
    pub idle_in_transaction_timeout: Duration,
    /// Age at which a session is replaced, so that DNS changes and server memory take effect.
    pub lifetime_max: Duration,
    /// What `pg_stat_activity` shows.
    pub application_name: String,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            connections_max: 20,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            idle_in_transaction_timeout: Duration::from_secs(30),
            lifetime_max: Duration::from_secs(30 * 60),
            application_name: "hooktriage".to_owned(),
        }
    }
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address cannot be read.
    #[error("DATABASE_URL is not an address of the form postgres://user:password@host:5432/database")]
    InvalidUrl(#[source] Option<sqlx::Error>),
    /// The server does not answer, or does not let us in.
    #[error(
        "the database cannot be reached: check that the server runs and that DATABASE_URL names \
         its host, user, password and database"
    )]
    Unreachable(#[source] sqlx::Error),
    /// The server is older than what the statements need.
    #[error("the server is Postgres {found}; {OLDEST_MAJOR} or newer is needed")]
    TooOld {
        /// Its major version.
        found: u32,
    },
}

/// Opens a pool and proves it with one session.
///
/// Cancellation: a dropped call leaves nothing behind but sessions that are being closed.
///
/// # Errors
/// [`ConnectError::Unreachable`] when no session could be opened within the acquire timeout, and
/// [`ConnectError::TooOld`].
pub async fn connect(to: &ConnectTo, settings: &PoolSettings) -> Result<PgPool, ConnectError> {
    let options = to.0.clone().application_name(&settings.application_name);
    // A pool would try again until its patience ends and then speak of that; one session alone says
    // at once what is wrong.
    let first = tokio::time::timeout(settings.acquire_timeout, options.connect()).await;
    let first = first.map_err(|_| ConnectError::Unreachable(sqlx::Error::PoolTimedOut))?;
    let session = first.map_err(ConnectError::Unreachable)?;
    let version = session.server_version_num();
    session.close().await.map_err(ConnectError::Unreachable)?;
    if let Some(number) = version.filter(|number| number / 10_000 < OLDEST_MAJOR) {
        return Err(ConnectError::TooOld { found: number / 10_000 });
    }
    pool_options(settings).connect_with(options).await.map_err(ConnectError::Unreachable)
}

/// A further pool to the same server, with limits of its own. Its sessions are opened when they are
/// first needed.
#[must_use]
pub fn sibling(pool: &PgPool, settings: &PoolSettings) -> PgPool {
    let options = pool.connect_options().as_ref().clone().application_name(&settings.application_name);
    pool_options(settings).connect_lazy_with(options)
}

fn pool_options(settings: &PoolSettings) -> PgPoolOptions {
    let limits = Arc::new(SessionLimits::from(settings));
    let turn = Arc::new(AtomicUsize::new(0));
    PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.acquire_timeout)
        .max_lifetime(settings.lifetime_max)
        // `is_writable` asks a fuller question than this ping, at the same price.
        .test_before_acquire(false)
        .after_connect(move |session, _| {
            let limits = Arc::clone(&limits);
            Box::pin(async move { limits.set(session).await })
        })
        .before_acquire(move |session, resting| {
            let ask = must_ask(&resting, turn.fetch_add(1, Ordering::Relaxed));
            Box::pin(async move { if ask { is_writable(session).await } else { Ok(true) } })
        })
}

fn must_ask(resting: &PoolConnectionMetadata, turn: usize) -> bool {
    resting.idle_for >= TRUSTED_IDLE || turn.is_multiple_of(SAMPLED_ONE_IN)
}

/// Whether a session can still write. A standby answers SQLSTATE 25006 to every write, but keeps
/// the session, so nothing else would ever take it out of the pool. A session that the server has
/// ended (57P01 to 57P03) fails here or in sqlx's own check at release.
async fn is_writable(session: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select not (pg_is_in_recovery() or current_setting('transaction_read_only')::bool)")
        .fetch_one(session)
        .await
}

/// The limits as the server wants them: milliseconds in text.
struct SessionLimits {
    statement: String,
    lock: String,
    idle_in_transaction: String,
}

impl From<&PoolSettings> for SessionLimits {
    fn from(settings: &PoolSettings) -> Self {
        let text = |limit: Duration| limit.as_millis().to_string();
        Self {
            statement: text(settings.statement_timeout),
            lock: text(settings.lock_timeout),
            idle_in_transaction: text(settings.idle_in_transaction_timeout),
        }
    }
}

impl SessionLimits {
    async fn set(&self, session: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query(
            "select set_config('statement_timeout', $1, false),
                    set_config('lock_timeout', $2, false),
                    set_config('idle_in_transaction_session_timeout', $3, false),
                    set_config('plan_cache_mode', 'force_custom_plan', false)",
        )
        .bind(&self.statement)
        .bind(&self.lock)
        .bind(&self.idle_in_transaction)
        .execute(session)
        .await
        .map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_an_error_repeats_the_address() {
        let good = ConnectTo::from_url(&SecretString::from("postgres://ann:s3cret@db.example/desk")).unwrap();
        let bad = ConnectTo::from_url(&SecretString::from("postgres://ann:s3cret@db.example:port/desk"));

        let shown = format!("{good:?} {:?}", bad.unwrap_err());
        assert!(shown.contains("desk"), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("db.example"), "{shown}");
    }

    #[test]
    fn an_address_of_another_kind_is_refused() {
        for text in ["", "localhost:5432", "mysql://root@localhost/desk", "/var/run/postgresql"] {
            let refused = ConnectTo::from_url(&SecretString::from(text));
            assert!(matches!(refused, Err(ConnectError::InvalidUrl(_))), "{text}");
        }
    }
}
