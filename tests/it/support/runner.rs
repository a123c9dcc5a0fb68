//! The process that runs this test run: `cargo test` (a thread a test) or `cargo nextest` (a process
//! a test). What all tests of a run share is keyed by it and ends with it.

use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The parent of this process and when it started: a pid alone is given out again.
pub(crate) struct Runner {
    pub(crate) pid: u32,
    started: String,
}

impl Runner {
    pub(crate) fn find() -> Self {
        let pid = parent_id();
        Self { pid, started: start_of(pid) }
    }

    /// A folder of this run, the same for all its processes. It is not made here.
    pub(crate) fn folder(&self) -> PathBuf {
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("hooktriage-tests-{user}-{}-{}", self.pid, self.started))
    }
}

/// Field 22 of `/proc/<pid>/stat`, in clock ticks since boot; elsewhere what `ps` says. The second
/// field is the program's name in brackets, which may hold anything.
fn start_of(pid: u32) -> String {
    if Path::new("/proc/self/stat").exists() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the parent is alive");
        let after_name = stat.rsplit_once(')').expect("the name is in brackets").1;
        return after_name.split_whitespace().nth(19).expect("the 22nd field").to_owned();
    }
    let listing =
        Command::new("ps").args(["-o", "lstart=", "-p", &pid.to_string()]).output().expect("ps runs");
    String::from_utf8_lossy(&listing.stdout).chars().filter(char::is_ascii_alphanumeric).collect()
}
