//! Whom the server runs as.
//!
//! Postgres refuses root, and containers and machines under test are full of it. So root hands the
//! server to an account without rights: the one that owns the data already, else `postgres`, else
//! `nobody`. Only the server's own folders are given to it. `initdb` looks its user up, which is why
//! a bare number will not do.
//!
//! **Not here:** no `sudo`, no `runuser` (bare containers have neither), no `getpwnam` (it needs
//! `unsafe`): `/etc/passwd` is read as text.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::error::EmbeddedError;

/// Accounts that may run the server, best first.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// Who runs the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// The user who runs this program.
    Ourselves,
    /// Another one, since we are root.
    Other {
        /// Its name.
        name: String,
        /// Its number.
        uid: u32,
        /// Its group's number.
        gid: u32,
    },
}

impl Account {
    /// Chooses the account for this process. `owner` is the uid that owns an existing cluster.
    pub(super) fn choose(owner: Option<u32>) -> Result<Self, EmbeddedError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::choose_from(&passwd, owner).ok_or(EmbeddedError::NoAccount)
    }

    fn choose_from(passwd: &str, owner: Option<u32>) -> Option<Self> {
        let all: Vec<Self> = passwd.lines().filter_map(Self::parse).collect();
        let owns = |account: &&Self| matches!(account, Self::Other { uid, .. } if Some(*uid) == owner);
        let called = |wanted: &str| {
            all.iter().find(|account| matches!(account, Self::Other { name, .. } if name == wanted))
        };
        all.iter().find(owns).or_else(|| CANDIDATES.into_iter().find_map(called)).cloned()
    }

    /// Reads one line of `/etc/passwd`; root is never an answer. macOS writes `nobody` as -2.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = number(fields.nth(1)?)?;
        let gid = number(fields.next()?)?;
        (uid != 0).then_some(Self::Other { name, uid, gid })
    }

    /// Makes a command run as this account. The standard library drops root's other groups with it.
    pub(super) fn run(&self, command: &mut Command) {
        if let Self::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
    }

    /// Gives a file or an empty folder to this account.
    pub(super) fn give(&self, path: &Path) -> Result<(), EmbeddedError> {
        match self {
            Self::Ourselves => Ok(()),
            Self::Other { uid, gid, .. } => {
                chown(path, Some(*uid), Some(*gid)).map_err(EmbeddedError::file("give away", path))
            }
        }
    }

    /// Proves that this account can enter every folder above `path` and `path` itself.
    pub(super) fn reach(&self, path: &Path) -> Result<(), EmbeddedError> {
        let Self::Other { name, uid, gid } = self else { return Ok(()) };
        let closed = path.ancestors().find(|folder| !can_enter(folder, *uid, *gid));
        closed.map_or(Ok(()), |closed| {
            Err(EmbeddedError::Unreachable {
                account: name.clone(),
                closed: closed.to_owned(),
                path: path.to_owned(),
            })
        })
    }

    /// Refuses a cluster that belongs to somebody else.
    pub(super) fn must_own(&self, folder: &Path) -> Result<(), EmbeddedError> {
        let owner = fs::metadata(folder).map_err(EmbeddedError::file("look at", folder))?.uid();
        let uid = match self {
            Self::Ourselves => rustix::process::geteuid().as_raw(),
            Self::Other { uid, .. } => *uid,
        };
        if owner == uid {
            Ok(())
        } else {
            Err(EmbeddedError::WrongOwner { folder: PathBuf::from(folder), owner })
        }
    }
}

/// Whether the permission bits let this account through. Access lists are not asked: where they
/// open a door that the bits close, the server's own message would be the only wrong refusal.
fn can_enter(folder: &Path, uid: u32, gid: u32) -> bool {
    let Ok(facts) = fs::metadata(folder) else { return true };
    let mode = facts.mode();
    let bit = if facts.uid() == uid {
        0o100
    } else if facts.gid() == gid {
        0o010
    } else {
        0o001
    };
    mode & bit != 0
}

fn number(field: &str) -> Option<u32> {
    field.parse::<u32>().ok().or_else(|| field.parse::<i32>().ok().map(i32::cast_unsigned))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const DEBIAN: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n\
                          postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n\
                          ann:x:1000:1000::/home/ann:/bin/sh\n";

    fn name(account: Option<Account>) -> Option<String> {
        match account? {
            Account::Ourselves => None,
            Account::Other { name, .. } => Some(name),
        }
    }

    #[test]
    fn the_owner_of_the_data_comes_before_postgres_and_postgres_before_nobody() {
        let without_postgres = DEBIAN.replace("postgres:", "mysql:");

        assert_eq!(name(Account::choose_from(DEBIAN, Some(1000))).as_deref(), Some("ann"));
        assert_eq!(name(Account::choose_from(DEBIAN, Some(4242))).as_deref(), Some("postgres"));
        assert_eq!(name(Account::choose_from(DEBIAN, None)).as_deref(), Some("postgres"));
        assert_eq!(name(Account::choose_from(&without_postgres, None)).as_deref(), Some("nobody"));
    }

    #[test]
    fn root_is_never_chosen_and_an_empty_list_gives_nobody() {
        assert_eq!(
            Account::choose_from("root:x:0:0::/root:/bin/sh\npostgres:x:0:0::/:/bin/sh\n", Some(0)),
            None
        );
        assert_eq!(Account::choose_from("", None), None);
    }

    #[test]
    fn a_negative_number_is_read_as_macos_means_it() {
        let line = "nobody:*:-2:-2:Unprivileged User:/var/empty:/usr/bin/false";

        let expected = Account::Other { name: "nobody".to_owned(), uid: u32::MAX - 1, gid: u32::MAX - 1 };
        assert_eq!(Account::parse(line), Some(expected));
    }

    /// An account that no machine has.
    fn stranger() -> Account {
        Account::Other { name: "stranger".to_owned(), uid: 54_321, gid: 54_321 }
    }

    #[test]
    fn the_first_closed_folder_above_a_path_is_named() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();

        let refused = stranger().reach(&inner).unwrap_err();

        let closed = matches!(&refused, EmbeddedError::Unreachable { closed, .. } if closed == home.path());
        assert!(closed, "{refused}");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert!(stranger().reach(&inner).is_ok());
    }

    #[test]
    fn a_cluster_of_somebody_else_is_refused() {
        let home = tempfile::tempdir().unwrap();

        let refused = stranger().must_own(home.path()).unwrap_err();

        assert!(matches!(refused, EmbeddedError::WrongOwner { .. }), "{refused}");
        assert!(Account::Ourselves.must_own(home.path()).is_ok());
    }
}
