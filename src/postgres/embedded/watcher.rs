//! Ends the server when its owner is gone, however that came about.
//!
//! The server is a child of a small shell script, and that script reads from a pipe whose other end
//! we hold. Whether we stop in order, panic or are killed with `-9`: the kernel closes our end, the
//! script reads an end of file and sends the server SIGINT, which is Postgres' fast shutdown. A
//! normal stop goes the same way, so there is only one.
//!
//! Refused: `prctl(PR_SET_PDEATHSIG)` is `unsafe`, exists on Linux only, and fires when the *thread*
//! that forked ends. SIGTERM would wait for clients that never leave.
//!
//! The server also gets a process group of its own: a Ctrl-C goes to the whole group of the
//! terminal, and the database would end while the workers still drain.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, ChildStdin, Command};

use super::account::Account;
use super::cluster;
use super::error::EmbeddedError;
use super::socket::SocketFolder;

/// `$1` is a folder to remove at the end, or nothing; the rest is the server's command line.
///
/// SIGINT is sent again and again because a server that has only just been forked still ignores it,
/// as every background process of a shell does until it installs handlers of its own.
const SCRIPT: &str = r#"
remove=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
(
  while read -r _; do :; done
  while kill -INT "$server"; do sleep 1; done
) <&3 2>/dev/null &
watcher=$!
exec 3<&-
wait "$server"
code=$?
kill "$watcher" 2>/dev/null
[ -z "$remove" ] || rm -rf "$remove"
exit "$code"
"#;

/// The running script with the server under it.
#[derive(Debug)]
pub(super) struct Watched {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Watched {
    /// Starts the script with the server's command line. Dropping what this returns ends the server.
    pub(super) fn spawn(
        server: &std::process::Command,
        work_in: &Path,
        socket: &SocketFolder,
        log: File,
        account: &Account,
    ) -> Result<Self, EmbeddedError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "hooktriage-postgres"]);
        command.arg(if socket.temporary { socket.path.as_os_str() } else { "".as_ref() });
        command.arg(server.get_program()).args(server.get_args());
        cluster::prepare(&mut command, work_in, account);
        command.process_group(0).stdin(Stdio::piped());
        let errors = log.try_clone().map_err(EmbeddedError::file("share the log in", work_in))?;
        command.stdout(log).stderr(errors);
        let mut child =
            command.spawn().map_err(|source| EmbeddedError::Spawn { program: "/bin/sh".into(), source })?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Whether the server has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the server to end and waits until it has.
    ///
    /// Cancellation: the server has been asked and ends all the same.
    pub(super) async fn end(mut self) {
        self.pipe = None;
        // An error means that there is no such child any more.
        self.child.wait().await.ok();
    }

    /// Gives the end of the pipe away: the server now lives until the last copy of it is closed.
    pub(super) fn into_pipe(self) -> Option<OwnedFd> {
        self.pipe?.into_owned_fd().ok()
    }
}
