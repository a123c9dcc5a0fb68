//! The data on disk: finds a cluster, or makes one.
//!
//! `initdb` writes `PG_VERSION` first, so a folder that it had no time to finish looks finished, and
//! a server started on it hangs. So it works in `new/`, which becomes `pg<major>/` by a rename, and
//! whatever lies in `new/` at a start is rubbish.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::EmbeddedSettings;
use super::account::Account;
use super::binaries::Binaries;
use super::error::EmbeddedError;

/// The role that owns everything in the cluster.
pub(super) const ROLE: &str = "hooktriage";

/// A finished cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Its folder, without links.
    pub(super) folder: PathBuf,
    /// The version whose files these are.
    pub(super) major: u32,
}

impl Cluster {
    /// The uid that owns its files.
    pub(super) fn owner(&self) -> Option<u32> {
        fs::metadata(&self.folder).ok().map(|facts| facts.uid())
    }
}

/// The finished clusters in a data folder, newest first.
pub(super) fn existing(data_dir: &Path) -> Result<Vec<Cluster>, EmbeddedError> {
    let entries = fs::read_dir(data_dir).map_err(EmbeddedError::file("read", data_dir))?;
    let mut found: Vec<Cluster> =
        entries.filter_map(Result::ok).filter_map(|entry| finished(entry.path())).collect();
    found.sort_by_key(|cluster| std::cmp::Reverse(cluster.major));
    Ok(found)
}

/// A folder named `pg15` of another user cannot be looked into; its name has to do then.
fn finished(folder: PathBuf) -> Option<Cluster> {
    let named: u32 = folder.file_name()?.to_str()?.strip_prefix("pg")?.parse().ok()?;
    let written = fs::read_to_string(folder.join("PG_VERSION")).ok();
    let major = written.and_then(|text| text.trim().parse().ok()).unwrap_or(named);
    Some(Cluster { folder, major })
}

/// Makes a cluster with `initdb`.
///
/// Cancellation: `initdb` is killed and its half-made folder removed at the next start.
pub(super) async fn create(
    settings: &EmbeddedSettings,
    data_dir: &Path,
    binaries: &Binaries,
    account: &Account,
) -> Result<Cluster, EmbeddedError> {
    let new = data_dir.join("new");
    if new.exists() {
        tracing::warn!(folder = %new.display(), "removing a cluster that was never finished");
        fs::remove_dir_all(&new).map_err(EmbeddedError::file("remove", &new))?;
    }
    DirBuilder::new().mode(0o700).create(&new).map_err(EmbeddedError::file("create", &new))?;
    account.give(&new)?;
    initdb(settings, &new, binaries, account).await?;

    let major = binaries.version.major;
    let folder = data_dir.join(format!("pg{major}"));
    fs::rename(&new, &folder).map_err(EmbeddedError::file("rename", &new))?;
    if settings.durable {
        // `initdb` has synced what is in the folder; its name is ours to sync.
        File::open(data_dir)
            .and_then(|parent| parent.sync_all())
            .map_err(EmbeddedError::file("sync", data_dir))?;
    }
    Ok(Cluster { folder, major })
}

async fn initdb(
    settings: &EmbeddedSettings,
    new: &Path,
    binaries: &Binaries,
    account: &Account,
) -> Result<(), EmbeddedError> {
    let program = binaries.initdb();
    let mut command = Command::new(&program);
    // A locale of the shell that is not installed makes `initdb` fail, and none at all makes it
    // choose SQL_ASCII. Trust is for the socket, whose folder is closed to everybody else.
    command.args(["--encoding=UTF8", "--no-locale", "--auth=trust", "--no-instructions"]);
    command.arg(format!("--username={ROLE}")).arg("--pgdata").arg(new);
    command.arg(if settings.durable { "--data-checksums" } else { "--no-sync" });
    prepare(&mut command, new, account);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|source| EmbeddedError::Spawn { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(EmbeddedError::Initdb {
        folder: new.to_owned(),
        output: last_lines(&String::from_utf8_lossy(&text), 8),
    })
}

/// What every program of the server gets: an empty environment, a folder that its account can be
/// in, and that account.
pub(super) fn prepare(command: &mut Command, folder: &Path, account: &Account) {
    command.env_clear();
    command.envs([("LC_ALL", "C"), ("TZ", "UTC"), ("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    command.current_dir(folder);
    account.run(command);
}

/// The end of a text, for an error.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_clusters_are_found_and_half_made_ones_are_not() {
        let data = tempfile::tempdir().unwrap();
        for (folder, version) in [("pg15", "15\n"), ("pg18", "18\n"), ("new", "18\n"), ("pgdata", "9\n")] {
            fs::create_dir(data.path().join(folder)).unwrap();
            fs::write(data.path().join(folder).join("PG_VERSION"), version).unwrap();
        }

        let found: Vec<u32> =
            existing(data.path()).unwrap().into_iter().map(|cluster| cluster.major).collect();
        assert_eq!(found, [18, 15]);
    }

    #[test]
    fn what_the_folder_holds_counts_more_than_its_name() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("pg15")).unwrap();
        fs::write(data.path().join("pg15/PG_VERSION"), "18\n").unwrap();

        assert_eq!(existing(data.path()).unwrap()[0].major, 18);
    }

    #[test]
    fn the_end_of_a_text_has_no_empty_lines() {
        assert_eq!(last_lines("a\n\nb\nc\n\n", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
