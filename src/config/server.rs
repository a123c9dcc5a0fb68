//! `[server]`: where we listen, where we keep things, what we log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::document::Section;
use super::{Env, Environment};
use crate::postgres::ConnectTo;

/// Shortest admin token, in characters: 16 random ones cannot be guessed over the network.
const TOKEN_CHARS_MIN: usize = 16;
/// Largest delivery when nobody says otherwise: GitHub sends up to 25 MB (GitHub documentation,
/// "Webhook events and payloads", payload cap), help desks far less.
const BODY_BYTES_MAX_DEFAULT: i64 = 5 * 1024 * 1024;

/// What is logged when nobody says otherwise. The notices of Postgres concern who writes SQL.
const FILTER_DEFAULT: &str = "info,sqlx::postgres::notice=warn";
/// How long a sender waits for its commit when nobody says otherwise: well below the second that the
/// most impatient ones give us.
const COMMIT_PATIENCE_MS_DEFAULT: i64 = 350;

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Directives as `RUST_LOG` takes them.
    pub filter: String,
    /// How lines are written.
    pub format: LogFormat,
}

pub(super) struct Server {
    pub listen: Option<SocketAddr>,
    pub data_dir: PathBuf,
    pub database_url: Option<SecretString>,
    pub pg_bin: Option<PathBuf>,
    pub admin_token: Option<SecretString>,
    pub service_url: Option<String>,
    pub body_bytes_max: usize,
    pub commit_patience: Duration,
    pub log: LogSettings,
}

pub(super) fn read(section: Section<'_>, env: &Env<'_>) -> Server {
    let listen = listen(&section, env);
    let service_url = env.text("HOOKTRIAGE_URL").or_else(|| listen.map(own_url));
    let body_bytes_max = section.integer("body_bytes_max", 1024..100 * 1024 * 1024 + 1);
    let commit_patience =
        section.integer("commit_patience_ms", 50..30_001).unwrap_or(COMMIT_PATIENCE_MS_DEFAULT);
    let server = Server {
        listen,
        data_dir: data_dir(&section, env),
        database_url: database_url(env),
        pg_bin: env.text("HOOKTRIAGE_PG_BIN").map(PathBuf::from),
        admin_token: admin_token(env),
        service_url: service_url.map(|url| url.trim_end_matches('/').to_owned()),
        body_bytes_max: usize::try_from(body_bytes_max.unwrap_or(BODY_BYTES_MAX_DEFAULT))
            .unwrap_or(usize::MAX),
        commit_patience: Duration::from_millis(u64::try_from(commit_patience).unwrap_or_default()),
        log: log(env),
    };
    section.finish();
    server
}

fn database_url(env: &Env<'_>) -> Option<SecretString> {
    let url = env.secret("DATABASE_URL")?;
    if let Err(fault) = ConnectTo::from_url(&url) {
        env.fault("DATABASE_URL", fault.to_string());
    }
    Some(url)
}

fn listen(section: &Section<'_>, env: &Env<'_>) -> Option<SocketAddr> {
    let of_file = section.text("listen");
    let of_env = env.text("HOOKTRIAGE_LISTEN");
    let text = of_env.clone().or_else(|| of_file.clone()).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    match text.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            let problem = format!("is {text:?}; write address:port, such as 127.0.0.1:8080 or 0.0.0.0:8080");
            match of_env {
                Some(_) => env.fault("HOOKTRIAGE_LISTEN", problem),
                None => section.fault("listen", &problem),
            }
            None
        }
    }
}

/// Where we are to be found from this machine.
fn own_url(listen: SocketAddr) -> String {
    let host = if listen.ip().is_unspecified() { "127.0.0.1".to_owned() } else { listen.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("http://{host}:{}", listen.port())
}

fn data_dir(section: &Section<'_>, env: &Env<'_>) -> PathBuf {
    let named = section.text("data_dir");
    let named = env.text("HOOKTRIAGE_DATA_DIR").or(named);
    named.map_or_else(|| default_data_dir(env.environment), PathBuf::from)
}

/// Where state is kept when nobody says otherwise: where a service keeps it when root runs us
/// (Postgres, which root may not run, must be able to enter), else where a user does.
#[must_use]
pub fn default_data_dir(environment: &Environment) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/hooktriage");
    }
    let of_user = environment.get("XDG_DATA_HOME").map(PathBuf::from);
    let of_home = || environment.get("HOME").map(|home| Path::new(home).join(".local/share"));
    of_user.or_else(of_home).map_or_else(|| PathBuf::from(".state"), |dir| dir.join("hooktriage"))
}

fn admin_token(env: &Env<'_>) -> Option<SecretString> {
    let token = env.secret("HOOKTRIAGE_ADMIN_TOKEN")?;
    let text = token.expose_secret();
    let fits = text.chars().count() >= TOKEN_CHARS_MIN && text.chars().all(|c| c.is_ascii_graphic());
    if !fits {
        let problem = format!(
            "must be at least {TOKEN_CHARS_MIN} visible ASCII characters; make one by `openssl rand -hex 32`"
        );
        env.fault("HOOKTRIAGE_ADMIN_TOKEN", problem);
    }
    Some(token)
}

fn log(env: &Env<'_>) -> LogSettings {
    let format = match env.text("HOOKTRIAGE_LOG_FORMAT").as_deref() {
        None | Some("text") => LogFormat::Text,
        Some("json") => LogFormat::Json,
        Some(other) => {
            env.fault("HOOKTRIAGE_LOG_FORMAT", format!("is {other:?}; it must be text or json"));
            LogFormat::Text
        }
    };
    LogSettings { filter: env.text("RUST_LOG").unwrap_or_else(|| FILTER_DEFAULT.to_owned()), format }
}
