//! Claim: the jobs of dead workers and overdue leases run again, those of living ones are left
//! alone, and a job that keeps killing its workers is parked.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hooktriage::queue::dead_letter::find_dead_letter;
use hooktriage::queue::reap::{Reaped, reap};
use hooktriage::queue::{
    DeadLetterHook, DeadLettered, NewJob, QueueError, ReapPolicy, WorkerIdentity, lease,
};
use sqlx::{PgConnection, PgPool};
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::support::database::TestDatabase;
use crate::support::jobs::{
    Crew, Gate, Plan, QUEUE, Quiet, REAP, SOON, attempts, claim_as, claim_some, complete, count, database,
    find, handler, identity, make_overdue, outcomes, put, put_many, put_one, reap_now, run, step,
};
use crate::support::wait::eventually;

async fn living_worker(pool: &PgPool) -> Uuid {
    let identity: WorkerIdentity = identity();
    lease::beat(pool, &identity).await.unwrap();
    identity.worker_id
}

/// One life of a job that ends with its worker.
async fn crash(pool: &PgPool) {
    assert_eq!(claim_some(pool, 1).await.len(), 1);
    reap_now(pool).await;
    run(pool, "update job set run_at = now()").await;
}

#[tokio::test]
async fn the_job_of_a_dead_worker_runs_again_and_one_crash_is_counted() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    claim_some(database.pool(), 1).await;

    let reaped = reap_now(database.pool()).await;

    assert_eq!(reaped, Reaped { requeued: 1, dead: 0 });
    let back = find(database.pool(), job).await;
    assert_eq!((back.state.as_str(), back.attempt), ("queued", 1));
    assert_eq!(count(database.pool(), "select crash_count::bigint from job").await, 1);
    let lost = &attempts(database.pool(), job).await[0];
    assert_eq!((lost.outcome.as_str(), lost.error_class.as_deref()), ("crashed", Some("worker_lost")));
    let crew = Crew::start(database.pool(), handler(|_| async { complete("done") })).await;
    let ended = crew.ended(job).await;
    crew.stop().await;
    assert_eq!((ended.state.as_str(), ended.attempt), ("succeeded", 2));
}

#[tokio::test]
async fn a_worker_that_was_not_seen_for_long_is_dead() {
    let database = TestDatabase::new().await;
    put_many(database.pool(), 2).await;
    let (silent, living) = (living_worker(database.pool()).await, living_worker(database.pool()).await);
    claim_as(database.pool(), silent, 1).await;
    let kept = claim_as(database.pool(), living, 1).await;
    let age = sqlx::query("update worker set seen_at = now() - interval '31 s' where worker_id = $1");
    age.bind(silent).execute(database.pool()).await.unwrap();

    let reaped = reap_now(database.pool()).await;

    assert_eq!(reaped, Reaped { requeued: 1, dead: 0 });
    assert_eq!(find(database.pool(), kept[0].lease.job_id).await.state, "running");
}

#[tokio::test]
async fn the_jobs_of_living_workers_are_not_touched() {
    let database = TestDatabase::new().await;
    put_many(database.pool(), 20).await;
    let worker = living_worker(database.pool()).await;
    claim_as(database.pool(), worker, 10).await;

    let reaped = reap_now(database.pool()).await;

    assert_eq!(reaped, Reaped::default());
    let untouched = "select count(*) from job where lease_id = 1 and attempt = 1 and state = 'running'";
    assert_eq!(count(database.pool(), untouched).await, 10);
    assert_eq!(count(database.pool(), "select count(*) from attempt").await, 0);
}

#[tokio::test]
async fn an_overdue_lease_is_taken_back_although_its_worker_lives() {
    let database = TestDatabase::new().await;
    let job = put_one(database.pool()).await;
    let worker = living_worker(database.pool()).await;
    claim_as(database.pool(), worker, 1).await;
    make_overdue(database.pool()).await;

    assert_eq!(reap_now(database.pool()).await, Reaped { requeued: 1, dead: 0 });

    assert_eq!(outcomes(database.pool(), job).await, ["crashed"]);
    assert_eq!(find(database.pool(), job).await.state, "queued");
}

#[tokio::test]
async fn a_job_that_takes_three_workers_with_it_is_poison() {
    let database = TestDatabase::new().await;
    let job = NewJob { attempts_max: 10, ..step() };
    put(database.pool(), std::slice::from_ref(&job)).await;

    for _ in 0..3 {
        crash(database.pool()).await;
    }

    let dead = find(database.pool(), job.job_id).await;
    assert_eq!((dead.state.as_str(), dead.attempt), ("dead", 3));
    let letter = find_dead_letter(database.pool(), dead.dead_letter_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.reason.as_str(), letter.error_class.as_str()), ("poison", "worker_lost"));
    assert_eq!((letter.crash_count, letter.attempt, letter.attempts_max), (3, 3, 10));
    assert_eq!(outcomes(database.pool(), job.job_id).await, ["crashed", "crashed", "crashed"]);
    assert_eq!(count(database.pool(), "select crash_count::bigint from job_history").await, 3);
}

#[tokio::test]
async fn a_job_whose_last_attempt_crashed_is_exhausted() {
    let database = TestDatabase::new().await;
    let job = NewJob { attempts_max: 1, ..step() };
    put(database.pool(), std::slice::from_ref(&job)).await;

    crash(database.pool()).await;

    let dead = find(database.pool(), job.job_id).await;
    let letter = find_dead_letter(database.pool(), dead.dead_letter_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.reason.as_str(), letter.crash_count, letter.attempt), ("exhausted", 1, 1));
    assert_eq!(outcomes(database.pool(), job.job_id).await, ["crashed"]);
}

#[tokio::test]
async fn a_result_that_comes_after_the_reaper_changes_nothing() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let gate = Gate::closed();
    let at = Arc::clone(&gate);
    let stalls = handler(move |_| {
        let gate = Arc::clone(&at);
        async move {
            gate.pass().await;
            complete("late")
        }
    });
    let crew = Plan::slots(1).start(database.pool(), stalls).await;
    gate.arrival().await;
    make_overdue(database.pool()).await;
    assert_eq!(reap_now(database.pool()).await.requeued, 1);
    run(database.pool(), "update job set run_at = now() + interval '1 h'").await;

    gate.open();
    crew.stop().await;

    let waiting = find(database.pool(), job).await;
    assert_eq!((waiting.state.as_str(), waiting.attempt), ("queued", 1));
    assert_eq!(outcomes(database.pool(), job).await, ["crashed"]);
    assert_eq!(count(database.pool(), "select count(*) from note").await, 0);
}

/// Fails as if the database had gone while the alert was being written.
struct Broken;

impl DeadLetterHook for Broken {
    fn dead_lettered<'a>(
        &'a self,
        _connection: &'a mut PgConnection,
        _letters: &'a [DeadLettered],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        let source = sqlx::Error::PoolTimedOut;
        Box::pin(std::future::ready(Err(QueueError::Database { verb: "raise an alert", source })))
    }
}

#[tokio::test]
async fn a_reaping_whose_alert_fails_takes_nothing_back() {
    let database = TestDatabase::new().await;
    put(database.pool(), &[step(), NewJob { attempts_max: 1, ..step() }]).await;
    claim_some(database.pool(), 2).await;

    let failed = reap(database.pool(), &REAP, &Broken).await;
    let running = count(database.pool(), "select count(*) from job where state = 'running'").await;
    let traces = count(database.pool(), "select count(*) from attempt").await;
    // The failed one lets go of its rows when its session has been rolled back.
    let reaped =
        || async { Some(reap_now(database.pool()).await).filter(|reaped| *reaped != Reaped::default()) };
    let again = eventually(SOON, reaped).await;

    assert!(failed.is_err(), "{failed:?}");
    assert_eq!((running, traces), (2, 0));
    assert_eq!(again, Reaped { requeued: 1, dead: 1 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_reapers_at_once_take_each_job_back_once() {
    const JOBS: usize = 200;
    let database = TestDatabase::new().await;
    put_many(database.pool(), JOBS).await;
    assert_eq!(claim_some(database.pool(), 1000).await.len(), JOBS);
    let start = Arc::new(Barrier::new(2));
    let reapers = (0..2).map(|_| {
        let (pool, start) = (database.pool().clone(), Arc::clone(&start));
        tokio::spawn(async move {
            let policy = ReapPolicy { batch_max: 13, ..REAP };
            start.wait().await;
            let mut mine = 0;
            loop {
                match reap(&pool, &policy, &Quiet).await.unwrap() {
                    Reaped { requeued: 0, dead: 0 } => return mine,
                    reaped => mine += reaped.requeued,
                }
            }
        })
    });

    let mut requeued = 0;
    for reaper in reapers.collect::<Vec<_>>() {
        requeued += reaper.await.unwrap();
    }

    assert_eq!(requeued, JOBS);
    let once = "select count(*) from job where crash_count = 1 and attempt = 1 and state = 'queued'";
    assert_eq!(count(database.pool(), once).await, 200);
    assert_eq!(count(database.pool(), "select count(*) from attempt where outcome = 'crashed'").await, 200);
}

/// Every end by the one lease that held, whatever the interleaving: the reaper believes this worker
/// dead and takes jobs away while they run, end and are settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reaper_that_races_with_settlements_loses_no_job_and_ends_none_twice() {
    const JOBS: i64 = 300;
    let database = database().await;
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| NewJob { attempts_max: 1000, ..step() }).collect();
    put(database.pool(), &jobs).await;
    let dawdles = handler(|_| async {
        let turns = rand::random_range(0..40);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        complete("done")
    });
    let crew = Plan::slots(16).start(database.pool(), dawdles).await;
    let pool = database.pool().clone();
    let ring = crew.wake.clone();
    let reaper = tokio::spawn(async move {
        let policy = ReapPolicy { crashes_max: 1000, dead_after: Duration::ZERO, batch_max: 20, ..REAP };
        let mut taken = 0;
        for _ in 0..100 {
            taken += reap(&pool, &policy, &Quiet).await.unwrap().requeued;
            ring.ring(QUEUE);
        }
        taken
    });

    let taken = reaper.await.unwrap();
    crew.all_ended().await;
    crew.stop().await;

    assert!(taken > 0, "the reaper never met a running job: nothing was raced");
    let succeeded = "select count(*) from job_history where state = 'succeeded'";
    assert_eq!(count(database.pool(), succeeded).await, JOBS);
    let by_the_last_lease = "select count(*) from job_history join note using (job_id, lease_id)";
    assert_eq!(count(database.pool(), by_the_last_lease).await, JOBS);
    assert_eq!(count(database.pool(), "select count(*) from note").await, JOBS);
    // A lease has one attempt row, and each is either the end or a crash.
    let odd = "select count(*) from job_history h
                where lease_id <> (select count(*) from attempt a where a.job_id = h.job_id)
                   or crash_count <> (select count(*) from attempt a where a.job_id = h.job_id and outcome = 'crashed')
                   or 1 <> (select count(*) from attempt a where a.job_id = h.job_id and outcome = 'succeeded')";
    assert_eq!(count(database.pool(), odd).await, 0);
}
