//! The first session with the server: proves that it answers, and makes the database.
//!
//! The address says everything that a `PG…` variable of the shell could otherwise say: `PGPORT` is
//! part of the socket's file name, and `PGSSLMODE=require` is impossible on a socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use url::Url;

use super::cluster::ROLE;
use super::error::EmbeddedError;
use super::socket::PORT;

/// How long the first session may take; the server has said that it is ready.
const FIRST_SESSION_MAX: Duration = Duration::from_secs(10);

/// `duplicate_database` and, when two processes are quick, `unique_violation`.
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
const EXISTS_ALREADY: [&str; 2] = ["42P04", "23505"];

/// Where the server and the database are.
#[derive(Clone, Debug)]
pub(super) struct Address {
    socket_dir: PathBuf,
    database: String,
}

/// Refuses a name that would need quoting.
pub(super) fn check_name(name: &str) -> Result<(), EmbeddedError> {
    let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    if (1..=63).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    Err(EmbeddedError::BadDatabaseName { name: name.to_owned() })
}

impl Address {
    pub(super) fn new(socket_dir: &Path, database: &str) -> Self {
        Self { socket_dir: socket_dir.to_owned(), database: database.to_owned() }
    }

    pub(super) fn options(&self) -> PgConnectOptions {
        self.options_for(&self.database)
    }

    fn options_for(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.socket_dir)
            .port(PORT)
            .ssl_mode(PgSslMode::Disable)
            .username(ROLE)
            .password("")
            .database(database)
    }

    pub(super) fn url(&self) -> String {
        let plain = format!("postgres://{ROLE}@localhost:{PORT}/{}", self.database);
        #[expect(clippy::expect_used, reason = "role and database are plain words, see `check_name`")]
        let mut url = Url::parse(&plain).expect("plain words make a valid address");
        let socket_dir = self.socket_dir.to_string_lossy();
        url.query_pairs_mut().append_pair("host", &socket_dir).append_pair("sslmode", "disable");
        // libpq does not read a plus as a space.
        url.as_str().replace('+', "%20")
    }

    /// Makes the database unless it is there.
    pub(super) async fn ensure_database(&self) -> Result<(), EmbeddedError> {
        let work = async {
            let mut session = self.options_for("postgres").connect().await?;
            let done = create(&mut session, &self.database).await;
            session.close().await.ok();
            done
        };
        match tokio::time::timeout(FIRST_SESSION_MAX, work).await {
            Ok(done) => done.map_err(EmbeddedError::Connect),
            Err(_) => Err(EmbeddedError::Connect(sqlx::Error::PoolTimedOut)),
        }
    }
}

async fn create(session: &mut PgConnection, database: &str) -> Result<(), sqlx::Error> {
    let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(database)
        .fetch_one(&mut *session)
        .await?;
    if exists {
        return Ok(());
    }
    // A name cannot be a parameter here; `check_name` has seen it.
    let statement = AssertSqlSafe(format!("create database {database}"));
    match sqlx::raw_sql(statement).execute(session).await {
        Err(sqlx::Error::Database(error))
            if error.code().is_some_and(|code| EXISTS_ALREADY.contains(&code.as_ref())) =>
        {
            Ok(())
        }
        done => done.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_needs_quoting_is_refused() {
        let long = "a".repeat(64);

        assert!(check_name("hooktriage_2").is_ok());
        for name in ["", "Desk", "a-b", "a b", "a;drop", "ä", long.as_str()] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_address_names_port_and_tls_so_that_the_shell_cannot() {
        let address = Address::new(Path::new("/state of things/run"), "desk");

        let url = address.url();
        assert_eq!(
            url,
            "postgres://hooktriage@localhost:5432/desk?host=%2Fstate%20of%20things%2Frun&sslmode=disable"
        );
        let read: PgConnectOptions = url.parse().unwrap();
        assert_eq!(read.get_socket(), Some(&PathBuf::from("/state of things/run")));
        assert_eq!(read.get_port(), address.options().get_port());
    }
}
