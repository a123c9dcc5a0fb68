//! Where the server listens: one Unix socket in a folder that only its account and root can enter.
//!
//! There is no TCP port, so none can clash or be reached from outside, and being able to open the
//! folder is the whole authentication.
//!
//! The path of a socket is short by law of the kernel, and a project may lie deep. A folder in the
//! temporary directory takes its place then, with a random name so that nobody can be there first.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::account::Account;
use super::error::EmbeddedError;

/// Part of the socket's file name, although nothing listens on a port. Fixed, so that a `PGPORT` in
/// the shell has no say.
pub(super) const PORT: u16 = 5432;

/// `sun_path` holds 104 bytes with the closing NUL on macOS and 108 on Linux; the server adds
/// nothing to the name that it binds. <https://man7.org/linux/man-pages/man7/unix.7.html>
const PATH_BYTES_MAX: usize = 103;

/// The folder for the socket, and whether it has to be removed with the server.
#[derive(Debug)]
pub(super) struct SocketFolder {
    pub(super) path: PathBuf,
    pub(super) temporary: bool,
}

/// Makes a fresh folder, empty, mode 0700, given to the server's account. Whatever an earlier server
/// left in it is gone: its lock file could name a process that is somebody else by now.
pub(super) fn make(
    data_dir: &Path,
    temp_dir: &Path,
    account: &Account,
) -> Result<SocketFolder, EmbeddedError> {
    let beside = data_dir.join("run");
    let folder = if fits(&beside) {
        remake(&beside)?;
        SocketFolder { path: beside, temporary: false }
    } else {
        SocketFolder { path: make_short(temp_dir)?, temporary: true }
    };
    account.give(&folder.path)?;
    Ok(folder)
}

fn fits(folder: &Path) -> bool {
    folder.join(format!(".s.PGSQL.{PORT}")).as_os_str().len() <= PATH_BYTES_MAX
}

fn remake(folder: &Path) -> Result<(), EmbeddedError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(EmbeddedError::file("empty", folder))?;
    }
    DirBuilder::new().mode(0o700).create(folder).map_err(EmbeddedError::file("create", folder))
}

fn make_short(temp_dir: &Path) -> Result<PathBuf, EmbeddedError> {
    let probe = temp_dir.join("hooktriage-XXXXXX");
    let parent = if fits(&probe) { temp_dir } else { Path::new("/tmp") };
    let made = tempfile::Builder::new()
        .prefix("hooktriage-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(EmbeddedError::file("create a folder in", parent))?;
    // The watcher removes it: unlike us it is still there when we are killed.
    Ok(made.keep())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_beside_the_data_is_used_and_emptied() {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("run")).unwrap();
        fs::write(data.path().join("run/.s.PGSQL.5432.lock"), "1\n").unwrap();

        let made = make(data.path(), Path::new("/tmp"), &Account::Ourselves).unwrap();

        assert_eq!((made.path.as_path(), made.temporary), (data.path().join("run").as_path(), false));
        assert_eq!(fs::read_dir(&made.path).unwrap().count(), 0);
        assert_eq!(fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_deep_folder_is_replaced_by_a_short_private_one() {
        let deep = PathBuf::from(format!("/srv/{}", "deep/".repeat(20)));
        let deep_temp = PathBuf::from(format!("/{}", "t".repeat(90)));

        let made = make(&deep, &deep_temp, &Account::Ourselves).unwrap();

        assert!(made.temporary && made.path.starts_with("/tmp"), "{made:?}");
        assert!(fits(&made.path));
        assert_eq!(fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir(&made.path).unwrap();
    }
}
