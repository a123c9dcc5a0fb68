//! Claim: the schema is brought up to date once, by one process, or not at all, and what stands in
//! the way is named.

use hooktriage::postgres::migrate::{self, MigrationError};
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use crate::support::database::TestDatabase;

const NOTE: &str = "create table note (text text)";
const MARK: &str = "insert into note values ('marked')";
const BROKEN: &str = "insert into note values ('half'); select * from nowhere";

fn migrations(statements: &[&'static str]) -> Migrator {
    let numbered = statements.iter().zip(1..);
    let all = numbered.map(|(statement, version)| {
        let name = format!("step {version}").into();
        Migration::new(version, name, MigrationType::Simple, statement.into_sql_str(), false)
    });
    Migrator::with_migrations(all.collect())
}

async fn notes(database: &TestDatabase) -> i64 {
    sqlx::query_scalar("select count(*) from note").fetch_one(database.pool()).await.unwrap()
}

#[tokio::test]
async fn the_service_has_nothing_pending_after_it_migrated() {
    let database = TestDatabase::empty().await;
    let known = migrate::migrator().iter().count();
    assert_eq!(migrate::pending(database.pool()).await.unwrap().len(), known);

    let applied = migrate::run(database.pool()).await.unwrap();

    assert_eq!(applied.len(), known);
    assert_eq!(migrate::pending(database.pool()).await.unwrap(), []);
}

#[tokio::test]
async fn each_migration_is_applied_once_however_many_processes_start() {
    let database = TestDatabase::empty().await;
    let starts = (0..5).map(|_| {
        let pool = database.pool().clone();
        tokio::spawn(async move { migrate::apply(&pool, migrations(&[NOTE, MARK])).await })
    });

    let mut applied = 0;
    for start in starts.collect::<Vec<_>>() {
        applied += start.await.unwrap().unwrap().len();
    }

    assert_eq!((applied, notes(&database).await), (2, 1));
}

#[tokio::test]
async fn an_applied_migration_whose_text_has_changed_is_refused() {
    let database = TestDatabase::empty().await;
    migrate::apply(database.pool(), migrations(&[NOTE])).await.unwrap();

    let refused = migrate::apply(database.pool(), migrations(&["create table other (text text)"])).await;

    assert!(matches!(refused, Err(MigrationError::Changed { version: 1 })), "{refused:?}");
}

#[tokio::test]
async fn a_schema_from_a_newer_version_is_refused() {
    let database = TestDatabase::empty().await;
    migrate::apply(database.pool(), migrations(&[NOTE, MARK])).await.unwrap();

    let refused = migrate::apply(database.pool(), migrations(&[NOTE])).await;

    assert!(matches!(refused, Err(MigrationError::SchemaIsNewer { version: 2 })), "{refused:?}");
}

#[tokio::test]
async fn a_migration_that_fails_is_undone_and_frees_the_lock() {
    let database = TestDatabase::empty().await;

    let failed = migrate::apply(database.pool(), migrations(&[NOTE, BROKEN])).await;

    assert!(matches!(failed, Err(MigrationError::Failed { version: 2, .. })), "{failed:?}");
    assert_eq!(notes(&database).await, 0);
    let mended = migrate::apply(database.pool(), migrations(&[NOTE, MARK])).await.unwrap();
    assert_eq!((mended.len(), notes(&database).await), (1, 1));
}
