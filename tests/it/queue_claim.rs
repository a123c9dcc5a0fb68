//! Claim: a job is given to one worker at a time, in order, and only to who knows its kind.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hooktriage::queue::claim::{ClaimRequest, claim};
use hooktriage::queue::inspect::JobView;
use hooktriage::queue::{JobId, JobTemplate, NewJob};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::support::database::TestDatabase;
use crate::support::jobs::{
    Crew, QUEUE, STEP, claim_as, claim_some, complete, count, find, handler, leases, make_overdue, put,
    put_many, put_one, reap_now, run, step,
};

fn ids(jobs: &[hooktriage::queue::ClaimedJob]) -> HashSet<JobId> {
    jobs.iter().map(|job| job.lease.job_id).collect()
}

#[tokio::test]
async fn a_claim_skips_what_another_session_has_locked_instead_of_waiting() {
    let database = TestDatabase::new().await;
    let jobs = put_many(database.pool(), 3).await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    let lock = sqlx::query("select from job where job_id = $1 for update").bind(jobs[0].0);
    lock.execute(&mut *transaction).await.unwrap();

    let meanwhile = ids(&claim_some(database.pool(), 10).await);
    transaction.rollback().await.unwrap();
    let after = ids(&claim_some(database.pool(), 10).await);

    assert_eq!(meanwhile, HashSet::from([jobs[1], jobs[2]]));
    assert_eq!(after, HashSet::from([jobs[0]]));
}

#[tokio::test]
async fn a_claim_takes_no_more_than_it_asked_for() {
    let database = TestDatabase::new().await;
    put_many(database.pool(), 50).await;

    for asked in [1, 7, 20] {
        let taken = claim_some(database.pool(), asked).await;
        assert_eq!(i64::try_from(taken.len()).unwrap(), asked);
    }

    assert_eq!(count(database.pool(), "select count(*) from job where state = 'queued'").await, 22);
}

#[tokio::test]
async fn jobs_are_claimed_by_priority_and_then_by_the_time_they_are_due() {
    let database = TestDatabase::new().await;
    let with = |priority: i16| NewJob { priority, ..step() };
    let jobs = [with(4), with(2), with(2), with(1)];
    put(database.pool(), &jobs).await;
    let earlier = sqlx::query("update job set run_at = now() - interval '1 min' where job_id = $1");
    earlier.bind(jobs[2].job_id.0).execute(database.pool()).await.unwrap();

    let mut order = Vec::new();
    while let [job] = claim_some(database.pool(), 1).await.as_slice() {
        order.push(job.lease.job_id);
    }

    assert_eq!(order, [jobs[3].job_id, jobs[2].job_id, jobs[1].job_id, jobs[0].job_id]);
}

#[tokio::test]
async fn a_job_of_an_unknown_kind_or_another_queue_or_the_future_is_left_alone() {
    let database = TestDatabase::new().await;
    let strange = JobTemplate { kind: "strange", ..STEP }.job("desk", Uuid::now_v7(), "{}");
    let elsewhere = JobTemplate { queue: "elsewhere", ..STEP }.job("desk", Uuid::now_v7(), "{}");
    let later = step();
    put(database.pool(), &[strange, elsewhere, later.clone()]).await;
    let delay = sqlx::query("update job set run_at = now() + interval '1 min' where job_id = $1");
    delay.bind(later.job_id.0).execute(database.pool()).await.unwrap();

    let claimed = claim_some(database.pool(), 10).await;

    assert!(claimed.is_empty(), "{claimed:?}");
    let untouched = "select count(*) from job where state = 'queued' and attempt = 0 and lease_id = 0";
    assert_eq!(count(database.pool(), untouched).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claimers_at_once_never_get_the_same_job() {
    const CLAIMERS: usize = 8;
    const JOBS: usize = 500;
    let database = TestDatabase::new().await;
    put_many(database.pool(), JOBS).await;
    let start = Arc::new(Barrier::new(CLAIMERS));
    let claimers = (0..CLAIMERS).map(|_| {
        let (pool, start) = (database.pool().clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let mut mine = Vec::new();
            loop {
                let claimed = claim_some(&pool, 7).await;
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(leases(&claimed));
            }
        })
    });

    let mut claimed = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        claimed.extend(claimer.await.unwrap());
    }
    // Nothing may be left over because everybody skipped what the others were about to take.
    claimed.extend(leases(&claim_some(database.pool(), 500).await));

    let different: HashSet<JobId> = claimed.iter().map(|lease| lease.job_id).collect();
    assert_eq!((claimed.len(), different.len()), (JOBS, JOBS));
    assert!(claimed.iter().all(|lease| lease.lease_id == 1), "a job was claimed twice");
}

#[tokio::test]
async fn every_claim_of_a_job_has_a_higher_lease_than_the_one_before() {
    let database = TestDatabase::new().await;
    put(database.pool(), &[NewJob { attempts_max: 10, ..step() }]).await;

    let mut seen = Vec::new();
    for _ in 0..3 {
        let claimed = claim_some(database.pool(), 1).await;
        seen.push((claimed[0].lease.lease_id, claimed[0].attempt));
        make_overdue(database.pool()).await;
        reap_now(database.pool()).await;
        run(database.pool(), "update job set run_at = now(), crash_count = 0").await;
    }

    assert_eq!(seen, [(1, 1), (2, 2), (3, 3)]);
}

#[tokio::test]
async fn a_claimed_job_carries_its_worker_and_a_deadline_by_the_clock_of_the_database() {
    let database = TestDatabase::new().await;
    let job = put_one(database.pool()).await;
    let worker_id = Uuid::now_v7();

    claim_as(database.pool(), worker_id, 1).await;

    let (by, is_exact): (Uuid, bool) = sqlx::query_as(
        "select worker_id, deadline_at = claimed_at + interval '60 s' and first_claimed_at = claimed_at
                           and claimed_at <= now()
           from job where job_id = $1 and state = 'running' and attempt = 1",
    )
    .bind(job.0)
    .fetch_one(database.pool())
    .await
    .unwrap();
    assert_eq!((by, is_exact), (worker_id, true));
}

#[tokio::test]
async fn a_job_that_outlived_its_age_budget_is_claimed_as_expired() {
    let database = TestDatabase::new().await;
    let jobs = put_many(database.pool(), 2).await;
    let old = sqlx::query("update job set first_claimed_at = now() - interval '2 h' where job_id = $1");
    old.bind(jobs[0].0).execute(database.pool()).await.unwrap();

    let claimed = claim_some(database.pool(), 2).await;

    let expired: Vec<JobId> = claimed.iter().filter(|job| job.expired).map(|job| job.lease.job_id).collect();
    assert_eq!((claimed.len(), expired), (2, vec![jobs[0]]));
}

#[tokio::test]
async fn a_job_that_outlived_its_age_budget_ends_as_expired_without_being_run() {
    let database = crate::support::jobs::database().await;
    let job = put_one(database.pool()).await;
    run(database.pool(), "update job set first_claimed_at = now() - interval '2 h'").await;

    let crew = Crew::start(database.pool(), handler(|_| async { complete("it ran") })).await;
    let JobView { state, error_class, dead_letter_id, .. } = crew.ended(job).await;

    assert_eq!((state.as_str(), error_class.as_deref()), ("dead", Some("expired")));
    assert!(dead_letter_id.is_some());
    let reason: String =
        sqlx::query_scalar("select reason from dead_letter").fetch_one(database.pool()).await.unwrap();
    assert_eq!(reason, "expired");
    assert_eq!(count(database.pool(), "select count(*) from note").await, 0);
    crew.stop().await;
}

#[tokio::test]
async fn a_worker_that_does_not_know_a_kind_leaves_it_for_one_that_does() {
    let database = crate::support::jobs::database().await;
    let strange = JobTemplate { kind: "strange", ..STEP }.job("desk", Uuid::now_v7(), "{}");
    put(database.pool(), std::slice::from_ref(&strange)).await;
    let crew = Crew::start(database.pool(), handler(|_| async { complete("ran") })).await;
    let known = put_one(database.pool()).await;

    crew.ended(known).await;
    crew.stop().await;

    let left = find(database.pool(), strange.job_id).await;
    assert_eq!((left.state.as_str(), left.attempt), ("queued", 0));
    let request = ClaimRequest {
        queue: QUEUE,
        kinds: &["strange".to_owned()],
        worker_id: Uuid::now_v7(),
        jobs_max: 1,
        lease_for: Duration::from_secs(60),
        age_max: Duration::from_secs(60),
    };
    let claimed = claim(database.pool(), &request).await.unwrap();
    assert_eq!(claimed[0].lease.job_id, strange.job_id);
}
