//! Reads `postmaster.pid`, and keeps a stale one from stopping us.
//!
//! A server that was killed leaves this file behind, and the next start trusts it: it refuses to run
//! while the process with that number lives. After a reboot, or in a container where numbers repeat,
//! that process is somebody else. The file must not be deleted, since its shared-memory key is what
//! keeps two servers off one folder; so only the number is made impossible, and the server's own
//! check of the shared memory decides. A stale file also still says `ready`, which is struck out.
//!
//! **Invariant:** nothing here runs unless the caller holds the lock of the data folder.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::error::EmbeddedError;

/// No process has it: Linux counts to 4,194,304 (`/proc/sys/kernel/pid_max`), macOS to 99,998.
const IMPOSSIBLE_PID: i32 = i32::MAX;

/// How long a server whose owner has just gone may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// How long it may take when asked.
const STOP_MAX: Duration = Duration::from_secs(15);

const POLL: Duration = Duration::from_millis(20);

/// Lines of the file, counted from nought; `src/include/utils/pidfile.h` counts from one.
/// <https://github.com/postgres/postgres/blob/REL_18_STABLE/src/include/utils/pidfile.h>
const SOCKET_LINE: usize = 4;
const STATUS_LINE: usize = 7;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    /// The server's process.
    pub(super) pid: i32,
    /// Where it listens; empty while it starts.
    pub(super) socket_dir: PathBuf,
    /// Whether it takes sessions.
    pub(super) ready: bool,
}

impl PidFile {
    pub(super) fn read(cluster: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path(cluster)).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let pid = lines.first()?.trim().parse().ok()?;
        let socket_dir = PathBuf::from(lines.get(SOCKET_LINE).copied().unwrap_or_default());
        let ready = lines.get(STATUS_LINE).is_some_and(|status| status.trim() == "ready");
        Some(Self { pid, socket_dir, ready })
    }
}

fn path(cluster: &Path) -> PathBuf {
    cluster.join("postmaster.pid")
}

/// Clears the way for a start: a server that outlived its owner is stopped, and a file that speaks
/// of no server any more is made to say so.
pub(super) async fn clear(cluster: &Path) -> Result<(), EmbeddedError> {
    let start = Instant::now();
    let mut asked = false;
    while let Some(pid) = living_pid(cluster) {
        if !serves(pid, cluster) {
            return strike(cluster, Some(IMPOSSIBLE_PID));
        }
        if start.elapsed() > GRACE && !asked {
            tracing::warn!(pid = pid.as_raw_nonzero(), "stopping a Postgres that outlived its owner");
            asked = kill_process(pid, Signal::INT).is_ok();
        }
        if start.elapsed() > STOP_MAX {
            return Err(EmbeddedError::LeftOver {
                pid: pid.as_raw_nonzero().get(),
                folder: cluster.to_owned(),
            });
        }
        tokio::time::sleep(POLL).await;
    }
    strike(cluster, None)
}

/// The process in the file, if there is one that Postgres would take for a server of its own.
fn living_pid(cluster: &Path) -> Option<Pid> {
    let pid = PidFile::read(cluster)?.pid;
    let pid = Pid::from_raw(pid.max(0))?;
    match test_kill_process(pid) {
        // Another user's process: Postgres ignores those too.
        Err(Errno::SRCH | Errno::PERM) => None,
        _ => Some(pid),
    }
}

/// Whether a process is the server of this cluster: a postmaster works in its data folder. Where
/// there is no `/proc`, its command line names the folder. A zombie has neither.
fn serves(pid: Pid, cluster: &Path) -> bool {
    let number = pid.as_raw_nonzero();
    if Path::new("/proc/self/cwd").exists() {
        return fs::read_link(format!("/proc/{number}/cwd")).is_ok_and(|cwd| cwd == cluster);
    }
    let listing = Command::new("ps").args(["-o", "args=", "-p", &number.to_string()]).output();
    listing.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).contains(cluster.to_string_lossy().as_ref())
    })
}

/// Rewrites a stale file: the status, which the server does not read, and the process if given.
fn strike(cluster: &Path, pid: Option<i32>) -> Result<(), EmbeddedError> {
    let file = path(cluster);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(EmbeddedError::file("read", &file))?,
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let (Some(first), Some(pid)) = (lines.first_mut(), pid) {
        *first = pid.to_string();
    }
    if let Some(status) = lines.get_mut(STATUS_LINE) {
        "stale   ".clone_into(status);
    }
    // In place, so that the file keeps its owner; through no link, since its owner is not always us.
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let opened = fs::File::options().write(true).truncate(true).custom_flags(no_link).open(&file);
    let text = lines.join("\n") + "\n";
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(EmbeddedError::file("write", &file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = "4711\n/state/pg15\n1764431000\n5432\n/state/run\n\n  5432001    131072\nready   \n";

    #[test]
    fn a_ready_and_a_starting_server_are_told_apart() {
        let ready = PidFile { pid: 4711, socket_dir: PathBuf::from("/state/run"), ready: true };
        let starting = READY.replace("ready   ", "starting");

        assert_eq!(PidFile::parse(READY), Some(ready.clone()));
        assert_eq!(PidFile::parse(&starting), Some(PidFile { ready: false, ..ready }));
        assert_eq!(PidFile::parse("4711\n/state/pg15\n").map(|file| file.ready), Some(false));
        assert_eq!(PidFile::parse(""), None);
    }

    #[tokio::test]
    async fn a_number_that_belongs_to_somebody_else_is_made_impossible() {
        let cluster = tempfile::tempdir().unwrap();
        let ours = READY.replace("4711", &std::process::id().to_string());
        fs::write(path(cluster.path()), ours).unwrap();

        clear(cluster.path()).await.unwrap();

        let text = fs::read_to_string(path(cluster.path())).unwrap();
        assert_eq!(text, READY.replace("4711", "2147483647").replace("ready", "stale"));
    }

    #[tokio::test]
    async fn a_number_that_nobody_has_is_left_to_the_server_and_is_not_ready() {
        let cluster = tempfile::tempdir().unwrap();
        let dead = READY.replace("4711", "2147483646");
        fs::write(path(cluster.path()), &dead).unwrap();

        clear(cluster.path()).await.unwrap();

        let text = fs::read_to_string(path(cluster.path())).unwrap();
        assert_eq!(text, dead.replace("ready", "stale"));
        assert_eq!(PidFile::read(cluster.path()).map(|file| file.ready), Some(false));
    }

    #[tokio::test]
    async fn without_a_file_there_is_nothing_to_clear() {
        let cluster = tempfile::tempdir().unwrap();

        clear(cluster.path()).await.unwrap();

        assert!(!path(cluster.path()).exists());
    }
}
