//! A Postgres of our own, for when nobody named one.
//!
//! A queue that must not lose a ticket needs a real database, and a first try must not need an
//! administrator. So the binary runs a private cluster from the server programs that the machine
//! has: on a Unix socket only, durable, as an account without rights when started by root, and gone
//! when its owner is gone. Why this and not another way: `docs/adr/0002-embedded-postgres.md`.
//!
//! **Invariants**
//! - One server a data folder: whoever holds the lock on `<data_dir>/lock` owns it.
//! - The server never outlives its owner, also not after `kill -9`.
//! - A cluster in `pg<major>/` is complete; `new/` is rubbish.
//! - With `durable`, what was committed survives a crash of the machine.
//!
//! **Not here:** no download, no reading of the environment, no Windows.

mod account;
mod binaries;
mod cluster;
mod error;
mod pid_file;
mod server;
mod session;
mod socket;
mod watcher;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;

pub use binaries::Version;
pub use error::EmbeddedError;

use account::Account;
use cluster::Cluster;
use pid_file::PidFile;
use server::{POLL, READY_MAX, Server};
use session::Address;

/// How long a stop waits for the last checkpoint.
const STOP_MAX: Duration = Duration::from_secs(60);

/// How to run the server. Everything that comes from the environment elsewhere is a field here.
#[derive(Clone, Debug)]
pub struct EmbeddedSettings {
    /// Where the cluster, the socket and the server's log live. Made if it is not there. When root
    /// starts us, another account must be able to enter it.
    pub data_dir: PathBuf,
    /// The folder with `initdb` and `postgres`; `None` looks on the search path and in the places
    /// where packages put them.
    pub bin_dir: Option<PathBuf>,
    /// `PATH`.
    pub search_path: Option<OsString>,
    /// `TMPDIR`, for the socket of a data folder that lies too deep.
    pub temp_dir: PathBuf,
    /// Whether a commit waits for the disk. Only throw-away clusters go without.
    pub durable: bool,
    /// The database to work in; it is made if it is not there. a to z, 0 to 9 and _.
    pub database: String,
    /// Sessions at most, over all processes that share the server.
    pub connections_max: u16,
}

impl EmbeddedSettings {
    /// A durable server with the usual names, which looks for its programs in the usual places.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            bin_dir: None,
            search_path: None,
            temp_dir: PathBuf::from("/tmp"),
            durable: true,
            database: "hooktriage".to_owned(),
            connections_max: 100,
        }
    }
}

/// A server that answers: our own, or that of another process on the same data folder.
///
/// Dropping it ends the server if it is ours; [`Embedded::stop`] does the same and waits.
#[derive(Debug)]
pub struct Embedded {
    address: Address,
    cluster: Cluster,
    /// What makes us the owner; a process that shares the server has neither.
    owned: Option<(Server, File)>,
}

/// The two handles that keep a server alive and its data folder locked; whoever holds copies of
/// them owns the server. Both close by themselves when their last holder ends.
#[derive(Debug)]
pub struct Leash {
    /// The server ends when its last copy is closed.
    pub pipe: OwnedFd,
    /// The lock is free when its last copy is closed.
    pub lock: File,
}

impl Embedded {
    /// Starts the server, or joins the one that another process runs on this data folder.
    ///
    /// Who joins loses the server when its owner ends; the connection errors that follow are those
    /// of any database that goes away.
    ///
    /// Cancellation: whatever was started is ended; a half-made cluster is removed at the next start.
    ///
    /// # Errors
    /// Each variant of [`EmbeddedError`]; none leaves a process behind.
    pub async fn start(settings: EmbeddedSettings) -> Result<Self, EmbeddedError> {
        let begun = Instant::now();
        session::check_name(&settings.database)?;
        let data_dir = open_data_dir(&settings.data_dir)?;
        let path = data_dir.join("lock");
        let lock = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(EmbeddedError::file("open", &path))?;
        loop {
            match lock.try_lock() {
                Ok(()) => return Self::own(&settings, &data_dir, lock, begun).await,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => {
                    return Err(EmbeddedError::File { action: "lock", path, source });
                }
            }
            if let Some(shared) = Self::join(&settings, &data_dir).await? {
                return Ok(shared);
            }
            if begun.elapsed() > READY_MAX {
                return Err(EmbeddedError::NotReady {
                    waited: READY_MAX,
                    log: data_dir.join("postgres.log"),
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn own(
        settings: &EmbeddedSettings,
        data_dir: &Path,
        lock: File,
        begun: Instant,
    ) -> Result<Self, EmbeddedError> {
        let present = cluster::existing(data_dir)?.into_iter().next();
        let made_by = present.as_ref().map(|cluster| (cluster.folder.as_path(), cluster.major));
        let binaries = binaries::find(settings, made_by).await?;
        let account = Account::choose(present.as_ref().and_then(Cluster::owner))?;
        account.reach(data_dir)?;
        account.reach(&binaries.bin_dir)?;
        let cluster = match present {
            Some(cluster) => cluster,
            None => {
                tracing::info!(folder = %data_dir.display(), version = %binaries.version, "making a new Postgres cluster");
                cluster::create(settings, data_dir, &binaries, &account).await?
            }
        };
        account.must_own(&cluster.folder)?;
        let server = server::start(settings, data_dir, &cluster, &binaries, &account).await?;
        let address = Address::new(&server.socket_dir, &settings.database);
        address.ensure_database().await?;
        tracing::info!(
            version = %binaries.version,
            data = %cluster.folder.display(),
            durable = settings.durable,
            took_ms = elapsed_ms(begun),
            "runs its own Postgres, since no DATABASE_URL was given"
        );
        Ok(Self { address, cluster, owned: Some((server, lock)) })
    }

    /// The server of another process, once it is ready.
    async fn join(settings: &EmbeddedSettings, data_dir: &Path) -> Result<Option<Self>, EmbeddedError> {
        for cluster in cluster::existing(data_dir)? {
            let Some(running) = PidFile::read(&cluster.folder).filter(|file| file.ready) else { continue };
            let address = Address::new(&running.socket_dir, &settings.database);
            // The file may be a stale one, of a server that is only now being started again.
            if address.ensure_database().await.is_ok() {
                tracing::info!(data = %cluster.folder.display(), "shares the Postgres of another hooktriage process");
                return Ok(Some(Self { address, cluster, owned: None }));
            }
        }
        Ok(None)
    }

    /// How to connect, independent of any `PG…` variable in the shell.
    #[must_use]
    pub fn connect_options(&self) -> PgConnectOptions {
        self.address.options()
    }

    /// The same as a `postgres://…?host=/folder` address, for `psql` and for other processes.
    #[must_use]
    pub fn url(&self) -> String {
        self.address.url()
    }

    /// Whether this process started the server, so that the server ends with it.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.owned.is_some()
    }

    /// The folder with the server's files.
    #[must_use]
    pub fn cluster_dir(&self) -> &Path {
        &self.cluster.folder
    }

    /// The server's process, as long as it runs.
    #[must_use]
    pub fn server_pid(&self) -> Option<u32> {
        PidFile::read(&self.cluster.folder).and_then(|file| u32::try_from(file.pid).ok())
    }

    /// Ends the server and waits until it has written everything down; if it is another process's,
    /// it runs on. Open sessions are cut off, so close the pools first.
    ///
    /// Cancellation: the server has been told and ends all the same.
    pub async fn stop(self) {
        let Some((server, lock)) = self.owned else { return };
        let begun = Instant::now();
        let ended = tokio::time::timeout(STOP_MAX, server.watched.end()).await.is_ok();
        // Only now may another process start a server here.
        drop(lock);
        if ended {
            tracing::info!(took_ms = elapsed_ms(begun), "its own Postgres has ended");
        } else {
            tracing::warn!(took_ms = elapsed_ms(begun), "its own Postgres still writes; it ends by itself");
        }
    }

    /// Lets the server live on with whoever receives the handles. `None` if it is not ours.
    #[must_use]
    pub fn hand_over(self) -> Option<Leash> {
        let (server, lock) = self.owned?;
        Some(Leash { pipe: server.watched.into_pipe()?, lock })
    }
}

fn elapsed_ms(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Makes the data folder if needed. Others may pass through it, since the server may run as another
/// account; what is in it is closed to them.
fn open_data_dir(data_dir: &Path) -> Result<PathBuf, EmbeddedError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(data_dir)
        .map_err(EmbeddedError::file("create", data_dir))?;
    fs::canonicalize(data_dir).map_err(EmbeddedError::file("find", data_dir))
}
