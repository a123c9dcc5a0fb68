//! The real binary as a process of its own, with an environment that holds nothing but what the
//! test gives it.

#![expect(clippy::disallowed_methods, reason = "programs are searched for where the tests' own are")]

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use super::app::SOON;
use super::wait::eventually;

/// A folder that the account of a database can enter, too.
pub(crate) fn folder() -> TempDir {
    let open = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("hooktriage-it-").permissions(open).tempdir().unwrap()
}

/// The binary with these arguments and variables, in a folder of its own.
fn binary(folder: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooktriage"));
    command.args(arguments).env_clear().env("HOME", folder.path()).current_dir(folder.path());
    for kept in ["PATH", "HOOKTRIAGE_PG_BIN", "TMPDIR"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    command.envs(variables.iter().copied());
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|fault| panic!("{fault}: {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) async fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    run_in(&folder(), arguments, variables).await
}

/// Runs a command to its end, in a folder.
pub(crate) async fn run_in(folder: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let output = binary(folder, arguments, variables).output();
    let output = tokio::time::timeout(3 * SOON, output).await.expect("the command ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Finished {
        code: output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}")),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A process that runs until it is told to stop. Killed with the value.
pub(crate) struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl Running {
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = folder();
        let mut child = binary(&folder, arguments, variables).spawn().unwrap();
        let lines = Arc::default();
        collect(child.stdout.take().unwrap(), &lines);
        collect(child.stderr.take().unwrap(), &lines);
        Self { child, lines, _folder: folder }
    }

    /// `serve`, as soon as it listens.
    pub(crate) async fn serve(arguments: &[&str], variables: &[(&str, &str)]) -> (Self, SocketAddr) {
        let all: Vec<&str> = [&["serve"], arguments].concat();
        let variables = [&[("HOOKTRIAGE_LISTEN", "127.0.0.1:0")], variables].concat();
        let running = Self::start(&all, &variables);
        let line = running.says("the service listens").await;
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("address="));
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).parse().unwrap();
        (running, address)
    }

    /// The first line with this text, once it is there.
    pub(crate) async fn says(&self, text: &str) -> String {
        let line = || self.lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
        let found = tokio::time::timeout(SOON, eventually(2 * SOON, || async { line() })).await;
        found.unwrap_or_else(|_| panic!("it never says {text:?}:\n{}", self.log()))
    }

    pub(crate) fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(SOON, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it does not end:\n{}", self.log())).unwrap()
    }

    /// Ends it as a crash does.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        assert_eq!(self.ended().await.signal(), Some(Signal::KILL.as_raw()));
    }

    /// Asks it to stop and asserts that it ends well.
    pub(crate) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.ended_well().await;
    }

    pub(crate) async fn ended_well(&mut self) {
        let status = self.ended().await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }
}

fn collect(stream: impl AsyncRead + Unpin + Send + 'static, lines: &Arc<Mutex<Vec<String>>>) {
    let lines = Arc::clone(lines);
    tokio::spawn(async move {
        let mut read = BufReader::new(stream).lines();
        while let Ok(Some(line)) = read.next_line().await {
            lines.lock().unwrap().push(line);
        }
    });
}
