//! Claim: what a claim costs does not depend on how many jobs wait.

use hooktriage::postgres::{ConnectTo, PoolSettings, connect};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgPool;

use crate::support::database::TestDatabase;
use crate::support::jobs::{claim_some, run};

/// The plan of the very statement that the claim has prepared in this session.
async fn plan(pool: &PgPool) -> String {
    let mut session = pool.acquire().await.unwrap();
    let name: String = sqlx::query_scalar(
        "select name from pg_prepared_statements
          where statement like '%skip locked%' and statement not like '%pg_prepared_statements%'",
    )
    .fetch_one(&mut *session)
    .await
    .unwrap();
    let explain = format!("explain execute \"{name}\" ('work', '{{step}}', 8, gen_random_uuid(), 150, 3600)");
    let lines: Vec<String> =
        sqlx::query_scalar(AssertSqlSafe(explain)).persistent(false).fetch_all(&mut *session).await.unwrap();
    lines.join("\n")
}

async fn wait_in_queue(pool: &PgPool, jobs: i32) {
    let insert = sqlx::query(
        "insert into job (job_id, queue, kind, source, subject_id, attempts_max, priority, run_at)
         select gen_random_uuid(), 'work', 'step', 'desk', gen_random_uuid(), 3, 1 + n % 4,
                now() - n * interval '1 ms'
           from generate_series(1, $1) n",
    );
    insert.bind(jobs).execute(pool).await.unwrap();
}

#[tokio::test]
async fn a_claim_walks_its_index_and_sorts_nothing_however_many_jobs_wait() {
    let database = TestDatabase::new().await;
    let settings = PoolSettings { connections_max: 1, ..PoolSettings::default() };
    let session = connect(&ConnectTo::from_url(&database.url().into()).unwrap(), &settings).await.unwrap();
    // A session that has claimed from a table of a few hundred rows for a while: with these Postgres
    // would keep a plan that reads the whole table.
    wait_in_queue(database.pool(), 400).await;
    run(database.pool(), "analyze job").await;
    for _ in 0..12 {
        assert_eq!(claim_some(&session, 8).await.len(), 8);
    }
    wait_in_queue(database.pool(), 100_000).await;

    for statistics in ["select 'stale'", "analyze job"] {
        run(database.pool(), statistics).await;
        let plan = plan(&session).await;
        assert!(plan.contains("using job_claim on job"), "after {statistics}:\n{plan}");
        assert!(!plan.contains("Sort"), "after {statistics}:\n{plan}");
        assert!(!plan.contains("Seq Scan"), "after {statistics}:\n{plan}");
    }
    assert_eq!(claim_some(&session, 8).await.len(), 8);
}
