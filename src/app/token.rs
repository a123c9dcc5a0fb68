//! The admin token: the one that was configured, or one that is made at the first start and kept
//! in the data folder, where the command line finds it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use secrecy::SecretString;

use crate::config::Access;

/// A made token has more; what is shorter was not written by us, or not to its end.
const TOKEN_BYTES_MIN: usize = 16;

/// The token of this service; makes one when there is none.
///
/// # Errors
/// The data folder cannot be written or read; then `HOOKTRIAGE_ADMIN_TOKEN` has to be set.
pub fn admin_token(access: &Access) -> anyhow::Result<SecretString> {
    if let Some(token) = known_admin_token(access)? {
        return Ok(token);
    }
    let path = token_file(&access.data_dir);
    let made = make(&path);
    made.with_context(|| {
        format!("no admin token could be kept in {}; let this account write there, name another folder in HOOKTRIAGE_DATA_DIR, or set HOOKTRIAGE_ADMIN_TOKEN", path.display())
    })?;
    tracing::info!(file = %path.display(), "made an admin token, since HOOKTRIAGE_ADMIN_TOKEN is not set");
    known_admin_token(access)?.context("the admin token that was just made is not there")
}

/// The token that is configured or was made before.
///
/// # Errors
/// There is a file with a token, and it cannot be read.
pub fn known_admin_token(access: &Access) -> anyhow::Result<Option<SecretString>> {
    if let Some(token) = &access.admin_token {
        return Ok(Some(token.clone()));
    }
    let path = token_file(&access.data_dir);
    match fs::read_to_string(&path) {
        // An empty file must not become a token that an empty guess matches.
        Ok(text) if text.trim().len() < TOKEN_BYTES_MIN => {
            anyhow::bail!("{} holds no token; remove it, so that a new one is made", path.display())
        }
        Ok(text) => Ok(Some(SecretString::from(text.trim().to_owned()))),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause).with_context(|| {
            format!("the admin token in {} cannot be read; set HOOKTRIAGE_ADMIN_TOKEN", path.display())
        }),
    }
}

fn token_file(data_dir: &Path) -> PathBuf {
    data_dir.join("admin-token")
}

/// Written whole under another name first: whoever finds the file finds a token in it. The temporary
/// file, and so the token, can be read by its owner alone.
fn make(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let token = format!("ht_{}", hex::encode(rand::random::<[u8; 32]>()));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{token}")?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        // Another process was faster; its token is the token.
        Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(refused) => Err(refused.error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    fn access(folder: &Path) -> Access {
        let service_url = "http://127.0.0.1:8080".to_owned();
        Access { service_url, admin_token: None, data_dir: folder.to_owned() }
    }

    #[test]
    fn a_token_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let access = access(&folder.path().join("new"));
        assert!(known_admin_token(&access).expect("readable").is_none());

        let (first, second) = (admin_token(&access).expect("made"), admin_token(&access).expect("found"));

        assert!(first.expose_secret().len() >= 64);
        assert_eq!(first.expose_secret(), second.expose_secret());
        let mode = fs::metadata(token_file(&access.data_dir)).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&access.data_dir).expect("the folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn an_empty_file_is_no_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let access = access(folder.path());
        for text in ["", "\n", "short"] {
            fs::write(token_file(&access.data_dir), text).expect("written");
            assert!(known_admin_token(&access).is_err(), "{text:?}");
            assert!(admin_token(&access).is_err(), "{text:?}");
        }
    }
}
