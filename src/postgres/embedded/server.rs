//! Starts `postgres` on a cluster and waits until it answers.
//!
//! All settings go on the command line, so the files of the cluster stay as `initdb` wrote them and
//! a change here takes effect at the next start.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::EmbeddedSettings;
use super::account::Account;
use super::binaries::Binaries;
use super::cluster::{Cluster, last_lines};
use super::error::EmbeddedError;
use super::pid_file::{self, PidFile};
use super::socket::{self, PORT, SocketFolder};
use super::watcher::Watched;

/// How long a start may take; it includes the recovery after a crash.
pub(super) const READY_MAX: Duration = Duration::from_secs(60);

/// For how long a start is tried again while the processes of a killed server still hold its memory.
/// Some containers reap orphans seconds late.
const HELD_MAX: Duration = Duration::from_secs(10);

pub(super) const POLL: Duration = Duration::from_millis(10);

/// A server that answers.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) watched: Watched,
    pub(super) socket_dir: PathBuf,
}

/// Starts the server and waits for it.
///
/// Cancellation: the server is ended.
pub(super) async fn start(
    settings: &EmbeddedSettings,
    data_dir: &Path,
    cluster: &Cluster,
    binaries: &Binaries,
    account: &Account,
) -> Result<Server, EmbeddedError> {
    let log = data_dir.join("postgres.log");
    let start = Instant::now();
    loop {
        pid_file::clear(&cluster.folder).await?;
        let socket = socket::make(data_dir, &settings.temp_dir, account)?;
        let command = command_line(settings, cluster, binaries, &socket);
        let file = create_log(&log)?;
        let mut watched = Watched::spawn(&command, &cluster.folder, &socket, file, account)?;
        match wait_until_ready(&mut watched, cluster, &log).await {
            Ok(()) => return Ok(Server { watched, socket_dir: socket.path }),
            Err(EmbeddedError::Ended { output, .. }) if is_held(&output) && start.elapsed() < HELD_MAX => {
                tokio::time::sleep(POLL * 10).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// One log a start, and for our eyes only.
fn create_log(log: &Path) -> Result<File, EmbeddedError> {
    let mut options = File::options();
    options.create(true).write(true).truncate(true).mode(0o600);
    options.open(log).map_err(EmbeddedError::file("create", log))
}

/// The server's answers while a killed one is not quite gone.
fn is_held(output: &str) -> bool {
    output.contains("is still in use") || output.contains("\"postmaster.pid\" already exists")
}

fn command_line(
    settings: &EmbeddedSettings,
    cluster: &Cluster,
    binaries: &Binaries,
    socket: &SocketFolder,
) -> Command {
    let mut command = Command::new(binaries.postgres());
    command.arg("-D").arg(&cluster.folder);
    let folder = socket.path.to_string_lossy().replace('"', "\"\"");
    let mut set = |name: &str, value: &str| {
        command.arg("-c").arg(format!("{name}={value}"));
    };
    set("listen_addresses", "");
    set("port", &PORT.to_string());
    set("unix_socket_directories", &format!("\"{folder}\""));
    set("unix_socket_permissions", "0700");
    set("max_connections", &settings.connections_max.to_string());
    // Bounds what the log of changes may take on disk.
    set("max_wal_size", "256MB");
    // Short statements only: compiling them costs more than it saves.
    set("jit", "off");
    // The log never holds a statement or a value: tickets are private.
    set("log_min_error_statement", "panic");
    set("log_error_verbosity", "terse");
    set("log_checkpoints", "off");
    if !settings.durable {
        set("fsync", "off");
        set("full_page_writes", "off");
        set("synchronous_commit", "off");
    }
    command
}

async fn wait_until_ready(watched: &mut Watched, cluster: &Cluster, log: &Path) -> Result<(), EmbeddedError> {
    let start = Instant::now();
    while !PidFile::read(&cluster.folder).is_some_and(|file| file.ready) {
        if watched.has_ended() {
            let text = fs::read_to_string(log).unwrap_or_default();
            return Err(EmbeddedError::Ended { log: log.to_owned(), output: last_lines(&text, 8) });
        }
        if start.elapsed() > READY_MAX {
            return Err(EmbeddedError::NotReady { waited: READY_MAX, log: log.to_owned() });
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
