//! The admin token: the one that was configured, or one that is made at the first start and kept
//! in the data folder, where the command line finds it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use secrecy::SecretString;

use crate::config::Access;

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
        format!("no admin token could be kept in {}; set HOOKTRIAGE_ADMIN_TOKEN, for example to the output of `openssl rand -hex 32`", path.display())
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

fn make(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let token = format!("ht_{}", hex::encode(rand::random::<[u8; 32]>()));
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => writeln!(file, "{token}"),
        // Another process was faster; its token is the token.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(cause),
    }
}
