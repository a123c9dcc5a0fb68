//! Claim: every session has its limits, and one that can no longer write or answer leaves the pool.

use std::time::{Duration, Instant};

use hooktriage::postgres::{ConnectError, ConnectTo, PoolSettings, connect};
use sqlx::PgPool;

use crate::support::database::TestDatabase;

async fn pool_of_one(database: &TestDatabase) -> PgPool {
    let settings = PoolSettings {
        connections_max: 1,
        statement_timeout: Duration::from_millis(100),
        lock_timeout: Duration::from_millis(2500),
        application_name: "hooktriage test".to_owned(),
        ..PoolSettings::default()
    };
    connect(&ConnectTo::from_url(&database.url().into()).unwrap(), &settings).await.unwrap()
}

async fn setting(pool: &PgPool, name: &str) -> String {
    sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(pool).await.unwrap()
}

async fn backend(pool: &PgPool) -> i32 {
    sqlx::query_scalar("select pg_backend_pid()").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_session_has_the_limits_and_the_name_that_were_set() {
    let database = TestDatabase::new().await;
    let pool = pool_of_one(&database).await;

    let expected = [
        ("statement_timeout", "100ms"),
        ("lock_timeout", "2500ms"),
        ("idle_in_transaction_session_timeout", "30s"),
        ("application_name", "hooktriage test"),
    ];
    for (name, value) in expected {
        assert_eq!(setting(&pool, name).await, value, "{name}");
    }
    let cut_off = sqlx::query("select pg_sleep(30)").execute(&pool).await.unwrap_err();
    let code = cut_off.into_database_error().unwrap().code().unwrap().into_owned();
    assert_eq!(code, "57014");
}

#[tokio::test]
async fn a_session_that_has_become_read_only_leaves_the_pool_however_busy_it_is() {
    let database = TestDatabase::new().await;
    let pool = pool_of_one(&database).await;
    let standby = backend(&pool).await;
    sqlx::query("set default_transaction_read_only = on").execute(&pool).await.unwrap();

    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.push(backend(&pool).await);
    }

    assert_ne!(*seen.last().unwrap(), standby);
    sqlx::query("create table note (text text)").execute(&pool).await.unwrap();
}

#[tokio::test]
async fn a_session_that_the_server_ended_is_replaced() {
    let database = TestDatabase::new().await;
    let pool = pool_of_one(&database).await;
    let ended = backend(&pool).await;
    sqlx::query("select pg_terminate_backend($1)").bind(ended).execute(database.pool()).await.unwrap();

    // The one that was under way may fail; the pool has to be good again right after.
    let first: Result<i32, _> = sqlx::query_scalar("select 1").fetch_one(&pool).await;

    assert_ne!(backend(&pool).await, ended, "after {first:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_and_not_a_hang() {
    let nowhere = ConnectTo::from_url(&"postgres://ann@127.0.0.1:1/desk".into()).unwrap();
    let settings = PoolSettings { acquire_timeout: Duration::from_millis(300), ..PoolSettings::default() };

    let start = Instant::now();
    let refused = connect(&nowhere, &settings).await;

    assert!(matches!(refused, Err(ConnectError::Unreachable(_))), "{refused:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
}
