//! Claim: a test run has one server, keeps its databases apart, and leaves nothing behind.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::database::TestDatabase;
use crate::support::wait::eventually;

/// Whether a run whose runner is this process still has a folder.
fn has_folder(runner: u32) -> bool {
    let start = format!("hooktriage-tests-{}-{runner}-", rustix::process::geteuid().as_raw());
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
    entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().starts_with(&start))
}

#[tokio::test]
async fn two_tests_do_not_see_each_others_tables() {
    let (ours, theirs) = (TestDatabase::new().await, TestDatabase::new().await);

    sqlx::query("create table note (text text)").execute(ours.pool()).await.unwrap();

    let seen: bool =
        sqlx::query_scalar("select to_regclass('note') is not null").fetch_one(theirs.pool()).await.unwrap();
    assert!(!seen);
}

#[tokio::test]
async fn a_database_goes_with_its_test() {
    let (gone, stays) = (TestDatabase::new().await, TestDatabase::new().await);
    let name: String = sqlx::query_scalar("select current_database()").fetch_one(gone.pool()).await.unwrap();

    drop(gone);

    let left: i64 = sqlx::query_scalar("select count(*) from pg_database where datname = $1")
        .bind(name)
        .fetch_one(stays.pool())
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn the_server_and_its_folder_go_with_the_runner() {
    let this = std::env::current_exe().unwrap();
    let test = "shared_server::two_tests_do_not_see_each_others_tables";
    // The shell is the runner: it goes on after the test until its input ends.
    let mut runner = Command::new("/bin/sh")
        .args(["-c", "\"$0\" --exact \"$1\" && echo passed && read -r _"])
        .arg(this)
        .arg(test)
        .env_remove("HOOKTRIAGE_TEST_DATABASE_URL")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (pid, soon) = (runner.id(), Duration::from_secs(30));
    eventually(soon, || async { has_folder(pid).then_some(()) }).await;

    drop(runner.stdin.take());
    tokio::task::spawn_blocking(move || runner.wait().unwrap()).await.unwrap();

    eventually(soon, || async { (!has_folder(pid)).then_some(()) }).await;
}
