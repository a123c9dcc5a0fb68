//! Claim: a worker starts jobs at once, stops without losing one, and stops by itself when nobody
//! could tell that it is alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hooktriage::postgres::{ConnectTo, PoolSettings, connect};
use hooktriage::queue::reap::reap;
use hooktriage::queue::{ClaimedJob, Handler, JobId, Liveness, NewJob, Ran, ReapPolicy, Wake, wake};
use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgListener, PgPool};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::support::database::TestDatabase;
use crate::support::jobs::{
    Crew, Gate, Plan, QUEUE, Quiet, REAP, SOON, attempts, blocked_sessions, complete, count, database, find,
    handler, make_overdue, outcomes, put, put_one, run, second_pool, step,
};
use crate::support::wait::eventually;

/// Rounds of a measurement: one that is lucky proves nothing.
const ROUNDS: u32 = 10;
/// An idle worker asks every 0.75 to 1.25 s, so that without a wake-up this many rounds would take
/// five seconds on average; with it, some ten milliseconds.
const BY_POLLING: Duration = Duration::from_millis(2500);

/// Tells that it was dropped before it ended.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(()).ok();
    }
}

#[tokio::test]
async fn a_clean_stop_hands_a_running_job_back_with_its_attempt() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let gate = Gate::closed();
    let at = Arc::clone(&gate);
    let hangs = handler(move |_| {
        let gate = Arc::clone(&at);
        async move {
            gate.pass().await;
            complete("never")
        }
    });
    let crew = Crew::start(database.pool(), hangs).await;
    gate.arrival().await;

    crew.worker.stop(Duration::ZERO).await.unwrap();

    let back = find(database.pool(), job).await;
    assert_eq!((back.state.as_str(), back.attempt, back.error_class), ("queued", 0, None));
    assert!(back.run_at.unwrap() <= chrono::Utc::now() + chrono::Duration::seconds(1), "ready at once");
    assert_eq!(outcomes(database.pool(), job).await, ["handed_back"]);
    assert_eq!(count(database.pool(), "select count(*) from worker").await, 0);
    let next = Crew::start(database.pool(), handler(|_| async { complete("done") })).await;
    let ended = next.ended(job).await;
    next.stop().await;
    assert_eq!((ended.state.as_str(), ended.attempt), ("succeeded", 1));
}

#[tokio::test]
async fn a_clean_stop_lets_a_running_attempt_end_and_starts_no_other() {
    let database = database().await;
    let first = put_one(database.pool()).await;
    let second = put_one(database.pool()).await;
    let gate = Gate::closed();
    let at = Arc::clone(&gate);
    let short = handler(move |_| {
        let gate = Arc::clone(&at);
        async move {
            gate.pass().await;
            complete("done")
        }
    });
    let crew = Plan::slots(1).start(database.pool(), short).await;
    gate.arrival().await;

    // The first poll of `stop` says so to the worker, and only then may the attempt end.
    tokio::join!(crew.stop(), async { gate.open() });

    assert_eq!(find(database.pool(), first).await.state, "succeeded");
    let waiting = find(database.pool(), second).await;
    assert_eq!((waiting.state.as_str(), waiting.attempt), ("queued", 0));
    assert_eq!(count(database.pool(), "select count(*) from worker").await, 0);
}

#[tokio::test]
async fn a_worker_whose_heart_cannot_beat_drops_its_jobs_and_settles_nothing() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let (sender, mut dropped) = mpsc::unbounded_channel();
    let hang = Arc::new(AtomicBool::new(true));
    let gate = Gate::closed();
    let (at, hangs) = (Arc::clone(&gate), Arc::clone(&hang));
    let script = handler(move |_| {
        let (gate, guard) = (Arc::clone(&at), Dropped(sender.clone()));
        let hangs = hangs.load(Ordering::SeqCst);
        async move {
            if hangs {
                gate.pass().await;
            }
            drop(guard);
            complete("done")
        }
    });
    let mut plan = Plan::slots(1);
    plan.liveness = Liveness {
        beat_every: Duration::from_millis(50),
        fence_after: Duration::from_millis(600),
        dead_after: Duration::from_secs(30),
    };
    let crew = plan.start(database.pool(), script).await;
    gate.arrival().await;

    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    sqlx::query("select from worker for update").execute(&mut *transaction).await.unwrap();
    tokio::time::timeout(SOON, dropped.recv()).await.expect("the attempt is dropped").unwrap();
    let behind = put_one(database.pool()).await;
    let while_fenced = (find(database.pool(), job).await, attempts(database.pool(), job).await);
    hang.store(false, Ordering::SeqCst);
    transaction.rollback().await.unwrap();

    assert_eq!((while_fenced.0.state.as_str(), while_fenced.0.attempt), ("running", 1));
    assert_eq!(while_fenced.1, []);
    // Once the heart beats again the dropped job is handed back and the claims go on: nothing of this
    // was the job's fault, so it costs no attempt and counts as no crash.
    crew.ended(behind).await;
    crew.ended(job).await;
    crew.stop().await;
    assert_eq!(outcomes(database.pool(), job).await, ["handed_back", "succeeded"]);
    assert_eq!(find(database.pool(), job).await.attempt, 1);
}

/// How long it takes from the ring to the start of a job, summed over some rounds.
async fn time_to_start(pool: &PgPool, ring: &Wake, started: &mut mpsc::UnboundedReceiver<JobId>) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..ROUNDS {
        let idle = || async {
            (count(pool, "select count(*) from job where queue = 'work'").await == 0).then_some(())
        };
        eventually(SOON, idle).await;
        let job = put_one(pool).await;
        let rung = Instant::now();
        ring.ring(QUEUE);
        assert_eq!(tokio::time::timeout(SOON, started.recv()).await.unwrap(), Some(job));
        total += rung.elapsed();
    }
    total
}

#[tokio::test]
async fn a_ring_in_the_same_process_starts_a_job_at_once() {
    let database = database().await;
    let (sender, mut started) = mpsc::unbounded_channel();
    let tells = handler(move |job| {
        sender.send(job.lease.job_id).unwrap();
        async { complete("done") }
    });
    let crew = Crew::start(database.pool(), tells).await;

    let total = time_to_start(database.pool(), &crew.wake, &mut started).await;

    assert!(total < BY_POLLING, "{ROUNDS} jobs took {total:?} to start");
    crew.stop().await;
}

#[tokio::test]
async fn a_ring_in_another_process_starts_a_job_at_once() {
    let database = database().await;
    let stop = CancellationToken::new();
    let (ringing, remote) = Wake::new(&[QUEUE]);
    tokio::spawn(wake::carry(second_pool(&database).await, remote, stop.clone()));
    let (hearing, _unsent) = Wake::new(&[QUEUE]);
    tokio::spawn(wake::listen(database.pool().clone(), hearing.clone(), stop.clone()));
    let (sender, mut started) = mpsc::unbounded_channel();
    let tells = handler(move |job| {
        sender.send(job.lease.job_id).unwrap();
        async { complete("done") }
    });
    let crew = Plan::slots(8).start_with(database.pool(), tells, hearing).await;
    let listens = "select count(*) from pg_stat_activity
                    where datname = current_database() and query ilike 'listen%'";
    eventually(SOON, || async { (count(database.pool(), listens).await > 0).then_some(()) }).await;

    let total = time_to_start(database.pool(), &ringing, &mut started).await;

    assert!(total < BY_POLLING, "{ROUNDS} jobs took {total:?} to start");
    stop.cancel();
    crew.stop().await;
}

#[tokio::test]
async fn the_rings_of_a_busy_queue_do_not_hold_up_those_of_another() {
    let database = TestDatabase::new().await;
    let mut listener = PgListener::connect_with(database.pool()).await.unwrap();
    listener.listen("hooktriage_wake").await.unwrap();
    let stop = CancellationToken::new();
    let (wake, remote) = Wake::new(&["busy", "quiet"]);
    for _ in 0..1000 {
        wake.ring("busy");
    }
    wake.ring("quiet");
    tokio::spawn(wake::carry(database.pool().clone(), remote, stop.clone()));

    let mut heard = Vec::new();
    for _ in 0..2 {
        let notification = tokio::time::timeout(SOON, listener.recv()).await.unwrap().unwrap();
        heard.push(notification.payload().to_owned());
    }

    stop.cancel();
    assert_eq!(heard, ["busy", "quiet"]);
}

#[tokio::test]
async fn polling_alone_finds_every_job() {
    let database = database().await;
    let crew = Crew::start(database.pool(), handler(|_| async { complete("done") })).await;

    // The first may be there before the worker looks for the first time, the second is not.
    for _ in 0..2 {
        let job = put_one(database.pool()).await;
        eventually(SOON, || async { find(database.pool(), job).await.finished_at }).await;
    }

    crew.stop().await;
}

#[tokio::test]
async fn a_worker_that_has_resigned_does_not_come_back_with_a_late_heartbeat() {
    let database = database().await;
    let pool = database.pool();
    let mut plan = Plan::slots(1);
    plan.liveness.beat_every = Duration::from_millis(300);
    let crew = plan.start(pool, handler(|_| async { complete("done") })).await;
    // A beat that hangs: the same row is being written by another session, and does not stand yet.
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    loop {
        run(pool, "delete from worker").await;
        sqlx::query("begin").execute(&mut other).await.unwrap();
        let insert = sqlx::query("insert into worker (worker_id, host, version) values ($1, '', '')");
        if insert.bind(crew.worker.worker_id()).execute(&mut other).await.is_ok() {
            break;
        }
        // A beat was quicker.
        sqlx::query("rollback").execute(&mut other).await.unwrap();
    }
    blocked_sessions(pool, 1).await;

    let let_go = async {
        // A stop that does not wait for the beat is through by then.
        for _ in 0..50 {
            count(pool, "select count(*) from worker").await;
        }
        sqlx::query("rollback").execute(&mut other).await.unwrap();
    };
    tokio::join!(crew.stop(), let_go);

    blocked_sessions(pool, 0).await;
    assert_eq!(count(pool, "select count(*) from worker").await, 0);
}

/// Completes every job, once it is ready.
struct WhenReady(Arc<Gate>);

impl Handler for WhenReady {
    type Effect = String;

    fn kinds(&self) -> Vec<String> {
        vec!["step".to_owned()]
    }

    async fn ready(&self) {
        self.0.pass().await;
    }

    async fn run(&self, _job: &ClaimedJob) -> Ran<String> {
        complete("done").into()
    }
}

#[tokio::test]
async fn a_handler_that_is_not_ready_leaves_its_jobs_in_the_queue() {
    let database = database().await;
    let gate = Gate::closed();
    let crew = Plan::slots(2).start(database.pool(), Arc::new(WhenReady(Arc::clone(&gate)))).await;
    let job = put_one(database.pool()).await;
    crew.wake.ring(QUEUE);
    gate.arrival().await;

    let before = find(database.pool(), job).await;
    gate.open();
    let after = crew.ended(job).await;
    crew.stop().await;

    assert_eq!((before.state.as_str(), before.attempt), ("queued", 0));
    assert_eq!((after.state.as_str(), after.attempt), ("succeeded", 1));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_handler_that_is_not_ready() {
    let database = database().await;
    let gate = Gate::closed();
    let crew = Plan::slots(2).start(database.pool(), Arc::new(WhenReady(Arc::clone(&gate)))).await;
    gate.arrival().await;

    tokio::time::timeout(Duration::from_secs(10), crew.stop()).await.expect("it stops at once");

    assert_eq!(count(database.pool(), "select count(*) from worker").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_every_session_is_ended_goes_on_and_loses_nothing() {
    const JOBS: i64 = 300;
    let database = database().await;
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| NewJob { attempts_max: 1000, ..step() }).collect();
    put(database.pool(), &jobs).await;
    let settings = PoolSettings { application_name: "onlooker".to_owned(), ..PoolSettings::default() };
    let onlooker = connect(&ConnectTo::from_url(&database.url().into()).unwrap(), &settings).await.unwrap();
    let pace = Arc::new(Semaphore::new(0));
    let paced = Arc::clone(&pace);
    let script = handler(move |_| {
        let pace = Arc::clone(&paced);
        async move {
            pace.acquire().await.unwrap().forget();
            complete("done")
        }
    });
    let crew = Crew::start(database.pool(), script).await;

    for cut in 0..3 {
        pace.add_permits(60);
        let ended = "select count(*) from job_history";
        eventually(SOON, || async { (count(&onlooker, ended).await >= cut * 60 + 10).then_some(()) }).await;
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name <> 'onlooker'";
        assert!(run(&onlooker, end).await > 0);
    }
    pace.add_permits(10_000);
    // A claim whose answer was lost with its session leaves jobs that nobody works on, until their
    // leases are overdue.
    let policy = ReapPolicy { crashes_max: 1000, ..REAP };
    let all_ended = || async {
        crew.wake.ring(QUEUE);
        make_overdue(&onlooker).await;
        reap(&onlooker, &policy, &Quiet).await.unwrap();
        (count(&onlooker, "select count(*) from job where queue = 'work'").await == 0).then_some(())
    };
    eventually(SOON, all_ended).await;
    crew.stop().await;

    assert_eq!(count(&onlooker, "select count(*) from job_history where state = 'succeeded'").await, JOBS);
    assert_eq!(count(&onlooker, "select count(distinct job_id) from note").await, JOBS);
    assert_eq!(count(&onlooker, "select count(*) from note").await, JOBS);
    assert_eq!(count(&onlooker, "select count(*) from job where queue = 'after'").await, JOBS);
}

#[tokio::test]
async fn a_living_worker_is_seen_to_live() {
    let database = database().await;
    let mut plan = Plan::slots(1);
    plan.liveness.beat_every = Duration::from_millis(20);
    let crew = plan.start(database.pool(), handler(|_| async { complete("done") })).await;
    let age = sqlx::query("update worker set seen_at = now() - interval '1 h' where worker_id = $1");
    age.bind(crew.worker.worker_id()).execute(database.pool()).await.unwrap();

    let fresh = "select count(*) from worker where seen_at > now() - interval '1 min'";
    eventually(SOON, || async { (count(database.pool(), fresh).await == 1).then_some(()) }).await;
    run(database.pool(), "delete from worker").await;
    eventually(SOON, || async { (count(database.pool(), fresh).await == 1).then_some(()) }).await;

    put(database.pool(), &[step()]).await;
    crew.all_ended().await;
    crew.stop().await;
}
