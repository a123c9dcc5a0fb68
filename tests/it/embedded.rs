//! Claim: the embedded Postgres starts wherever server programs are, whatever the shell, the account
//! and the last crash left behind, and never outlives its owner.

#![expect(clippy::disallowed_methods, reason = "a test that plays an owner is told so by a variable")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hooktriage::postgres::{Embedded, EmbeddedError, EmbeddedSettings};
use rustix::process::{Pid, Signal, geteuid, getpgid, getpgrp, kill_process, test_kill_process};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{ConnectOptions, Connection, Row};
use tempfile::TempDir;

use crate::support::database::throw_away;
use crate::support::wait::eventually;

/// Names the folder in which a process of this binary shall own a server until it is killed.
const OWN: &str = "HOOKTRIAGE_TEST_OWN";

const SOON: Duration = Duration::from_secs(20);

/// A folder that the server's account can pass through; `tempdir` alone closes it to others.
fn folder() -> TempDir {
    let open = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().prefix("hooktriage-it-").permissions(open).tempdir().unwrap()
}

async fn start(folder: &Path) -> Embedded {
    Embedded::start(throw_away(folder)).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn session(server: &Embedded) -> PgConnection {
    server.connect_options().connect().await.unwrap()
}

async fn setting(server: &Embedded, name: &'static str) -> String {
    let mut session = session(server).await;
    sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(&mut session).await.unwrap()
}

fn pid_of(server: &Embedded) -> Pid {
    Pid::from_raw(i32::try_from(server.server_pid().unwrap()).unwrap()).unwrap()
}

async fn is_gone(pid: Pid) {
    eventually(SOON, || async { test_kill_process(pid).is_err().then_some(()) }).await;
}

/// Another process of this test binary, running one test by its name.
fn another_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command
}

#[tokio::test]
async fn a_fresh_server_answers_on_its_socket_alone_and_speaks_utf_8() {
    let home = folder();

    let server = start(home.path()).await;

    assert!(server.is_owner());
    assert_eq!(setting(&server, "listen_addresses").await, "");
    assert_eq!(setting(&server, "server_encoding").await, "UTF8");
    assert_eq!(setting(&server, "lc_messages").await, "C");
    let by_url = sqlx::PgPool::connect(&server.url()).await.unwrap();
    let database: PgRow = sqlx::query("select current_database()").fetch_one(&by_url).await.unwrap();
    assert_eq!(database.get::<String, _>(0), "hooktriage");
    by_url.close().await;
    server.stop().await;
}

#[tokio::test]
async fn a_durable_server_waits_for_the_disk_and_keeps_what_was_committed() {
    let home = folder();
    let settings = EmbeddedSettings { durable: true, ..throw_away(home.path()) };
    let server = Embedded::start(settings.clone()).await.unwrap();
    for (name, value) in [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")] {
        assert_eq!(setting(&server, name).await, value, "{name}");
    }
    let mut writer = session(&server).await;
    sqlx::raw_sql("create table note (text text); insert into note values ('kept')")
        .execute(&mut writer)
        .await
        .unwrap();
    let pid = pid_of(&server);
    server.stop().await;
    assert!(test_kill_process(pid).is_err(), "the server runs after its stop");

    let again = Embedded::start(settings).await.unwrap();

    let mut reader = session(&again).await;
    let text: String = sqlx::query_scalar("select text from note").fetch_one(&mut reader).await.unwrap();
    assert_eq!(text, "kept");
    again.stop().await;
}

#[tokio::test]
async fn the_server_never_runs_as_root() {
    let home = folder();

    let server = start(home.path()).await;

    let owner = fs::metadata(server.cluster_dir()).unwrap().uid();
    let expected_ours = !geteuid().is_root();
    assert_eq!(owner == geteuid().as_raw(), expected_ours, "the data belongs to {owner}");
    assert_ne!(owner, 0);
    for private in [server.cluster_dir(), &home.path().join("run")] {
        assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o077, 0, "{}", private.display());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_folder_that_is_closed_to_the_servers_account_is_named() {
    let home = folder();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let data_dir = home.path().join("state");

    let started = Embedded::start(throw_away(&data_dir)).await;

    if geteuid().is_root() {
        let text = started.unwrap_err().to_string();
        let closed = format!("cannot enter {}", fs::canonicalize(home.path()).unwrap().display());
        assert!(text.contains(&closed) && text.contains("HOOKTRIAGE_DATA_DIR"), "{text}");
    } else {
        started.unwrap().stop().await;
    }
}

#[tokio::test]
async fn a_broken_locale_and_postgres_variables_in_the_shell_change_nothing() {
    let mut shell = another_process("embedded::a_fresh_server_answers_on_its_socket_alone_and_speaks_utf_8");
    shell.envs([("LC_ALL", "xx_YY.latin1"), ("LANG", "xx_YY"), ("TZ", "Nowhere/Land")]);
    shell.envs([("PGPORT", "5999"), ("PGSSLMODE", "require"), ("PGHOST", "192.0.2.1"), ("PGUSER", "ann")]);
    shell.envs([("PGDATABASE", "other"), ("PGHOSTADDR", "192.0.2.1"), ("PGPASSWORD", "x"), ("PGDATA", "/x")]);

    let output = tokio::process::Command::from(shell).output().await.unwrap();

    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn a_data_folder_too_deep_for_a_socket_gets_one_elsewhere_for_as_long_as_it_runs() {
    let home = folder();
    let deep = home.path().join("a-project-folder/".repeat(8));

    let server = start(&deep).await;

    let socket_dir = PathBuf::from(setting(&server, "unix_socket_directories").await.replace('"', ""));
    assert!(!socket_dir.starts_with(home.path()), "{}", socket_dir.display());
    assert!(socket_dir.exists());
    server.stop().await;
    assert!(!socket_dir.exists(), "{} is left", socket_dir.display());
}

#[tokio::test]
async fn a_folder_with_spaces_quotes_and_commas_works() {
    let home = folder();
    let odd = home.path().join("it's a \"desk\", ä & b");

    let server = start(&odd).await;

    let pool = sqlx::PgPool::connect(&server.url()).await.unwrap();
    let one: i32 = sqlx::query_scalar("select 1").fetch_one(&pool).await.unwrap();
    assert_eq!(one, 1);
    pool.close().await;
    server.stop().await;
}

#[tokio::test]
async fn a_cluster_that_was_never_finished_is_made_anew() {
    let home = folder();
    fs::create_dir(home.path().join("new")).unwrap();
    fs::write(home.path().join("new/PG_VERSION"), "15\n").unwrap();

    let server = start(home.path()).await;

    assert!(!home.path().join("new").exists());
    server.stop().await;
}

#[tokio::test]
async fn data_of_another_major_version_is_refused_and_left_alone() {
    let home = folder();
    fs::create_dir(home.path().join("pg99")).unwrap();
    fs::write(home.path().join("pg99/PG_VERSION"), "99\n").unwrap();

    let refused = Embedded::start(throw_away(home.path())).await.unwrap_err();

    assert!(matches!(&refused, EmbeddedError::WrongMajor { made_by: 99, .. }), "{refused}");
    assert_eq!(fs::read_to_string(home.path().join("pg99/PG_VERSION")).unwrap(), "99\n");
}

#[tokio::test]
async fn a_second_process_shares_the_server_and_does_not_end_it() {
    let home = folder();
    let owner = start(home.path()).await;

    let other = start(home.path()).await;

    assert!(!other.is_owner());
    assert_eq!(other.url(), owner.url());
    other.stop().await;
    assert_eq!(setting(&owner, "fsync").await, "off");
    owner.stop().await;
    let next = start(home.path()).await;
    assert!(next.is_owner(), "the lock is not free after a stop");
    next.stop().await;
}

#[tokio::test]
async fn many_that_start_at_once_end_up_with_one_server() {
    let home = folder();
    let starts = (0..6).map(|_| tokio::spawn(Embedded::start(throw_away(home.path()))));

    let mut servers = Vec::new();
    for started in starts.collect::<Vec<_>>() {
        servers.push(started.await.unwrap().unwrap_or_else(|error| panic!("{error}")));
    }

    assert_eq!(servers.iter().filter(|server| server.is_owner()).count(), 1);
    let pids: std::collections::HashSet<_> = servers.iter().map(|server| server.server_pid()).collect();
    assert_eq!(pids.len(), 1);
    for server in servers {
        server.stop().await;
    }
}

#[tokio::test]
async fn a_dropped_server_ends_by_itself() {
    let home = folder();
    let server = start(home.path()).await;
    let pid = pid_of(&server);

    drop(server);

    is_gone(pid).await;
}

#[tokio::test]
async fn a_ctrl_c_in_the_terminal_does_not_reach_the_server() {
    let home = folder();

    let server = start(home.path()).await;

    assert_ne!(getpgid(Some(pid_of(&server))).unwrap(), getpgrp());
    server.stop().await;
}

/// Plays the owner in a process of its own when the variable is set; alone it is a plain start.
#[tokio::test]
async fn an_owner_holds_its_server() {
    if let Some(home) = std::env::var_os(OWN).map(PathBuf::from) {
        let _server = start(&home).await;
        std::future::pending::<()>().await;
    }
    let home = folder();

    let server = start(home.path()).await;

    assert!(server.is_owner());
    server.stop().await;
}

/// Starts an owner in another process and waits for its server.
async fn owner_in(home: &Path) -> (Child, Embedded) {
    let mut owner = another_process("embedded::an_owner_holds_its_server");
    let owner = owner.env(OWN, home).stdout(Stdio::null()).spawn().unwrap();
    let is_locked = || async {
        let lock = fs::File::open(home.join("lock")).ok()?;
        lock.try_lock().is_err().then_some(())
    };
    eventually(SOON, is_locked).await;
    let server = start(home).await;
    assert!(!server.is_owner());
    (owner, server)
}

#[tokio::test]
async fn a_server_whose_owner_was_killed_ends_and_its_data_is_usable_at_once() {
    let home = folder();
    let (mut owner, server) = owner_in(home.path()).await;
    let pid = pid_of(&server);
    let mut writer = session(&server).await;
    sqlx::raw_sql("create table note (text text)").execute(&mut writer).await.unwrap();

    owner.kill().unwrap();
    owner.wait().unwrap();

    let next = start(home.path()).await;
    assert!(next.is_owner());
    is_gone(pid).await;
    let mut reader = session(&next).await;
    let notes: i64 = sqlx::query_scalar("select count(*) from note").fetch_one(&mut reader).await.unwrap();
    assert_eq!(notes, 0);
    next.stop().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_lost_its_owner_and_its_watcher_is_stopped_by_the_next_owner() {
    let home = folder();
    let server = start(home.path()).await;
    let orphan = pid_of(&server);
    let watchers = shells_of(getpgid(Some(orphan)).unwrap());
    assert_eq!(watchers.len(), 2);
    for watcher in watchers {
        kill_process(watcher, Signal::KILL).unwrap();
    }
    drop(server);
    assert!(test_kill_process(orphan).is_ok(), "the server was to be left over");

    let next = start(home.path()).await;

    assert!(next.is_owner());
    assert_ne!(pid_of(&next), orphan);
    next.stop().await;
}

#[tokio::test]
async fn a_stale_pid_file_that_names_a_living_stranger_does_not_stop_the_start() {
    let home = folder();
    let server = start(home.path()).await;
    let mut writer = session(&server).await;
    sqlx::raw_sql("create table note (text text)").execute(&mut writer).await.unwrap();
    sqlx::raw_sql("checkpoint").execute(&mut writer).await.unwrap();
    let file = server.cluster_dir().join("postmaster.pid");
    let account = fs::metadata(server.cluster_dir()).unwrap().uid();
    // Killed like this it leaves the file behind.
    kill_process(pid_of(&server), Signal::KILL).unwrap();
    is_gone(pid_of(&server)).await;
    drop(server);
    let mut stranger = Command::new("sleep").arg("60").current_dir("/").uid(account).spawn().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs::write(&file, format!("{}\n{rest}", stranger.id())).unwrap();

    let next = start(home.path()).await;

    let mut reader = session(&next).await;
    let notes: i64 = sqlx::query_scalar("select count(*) from note").fetch_one(&mut reader).await.unwrap();
    assert_eq!(notes, 0);
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger was harmed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    reader.close().await.unwrap();
    next.stop().await;
}

/// The shells in a process group: the watcher, but not the server.
#[cfg(target_os = "linux")]
fn shells_of(group: Pid) -> Vec<Pid> {
    let stats = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let shells = stats.filter_map(|stat| {
        // "4711 (sh) S <parent> <group> …"
        let (number, rest) = stat.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let is_ours = rest.split(' ').nth(2)?.parse() == Ok(group.as_raw_nonzero().get());
        (is_ours && name != "postgres").then(|| number.parse().ok())?
    });
    shells.filter_map(Pid::from_raw).collect()
}
