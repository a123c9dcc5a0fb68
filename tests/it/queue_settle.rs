//! Claim: an attempt ends once, by whoever holds the lease, and its effect is in the same commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hooktriage::queue::dead_letter::find_dead_letter;
use hooktriage::queue::{
    ClaimedJob, DeadLetterHook, DeadLettered, JobError, NewJob, Outcome, QueueError, Ran,
};
use sqlx::{PgConnection, PgPool};

use crate::support::jobs::{
    Crew, Gate, Plan, QUEUE, SOON, attempts, complete, count, database, find, handler, make_overdue, notes,
    outcomes, put, put_many, put_one, reap_now, retry, run, step,
};
use crate::support::wait::eventually;

/// Effects, ends and follow-up jobs: what a dropped result must leave none of.
async fn traces(pool: &PgPool) -> (i64, i64, i64, i64) {
    (
        count(pool, "select count(*) from note").await,
        count(pool, "select count(*) from job_history").await,
        count(pool, "select count(*) from attempt").await,
        count(pool, "select count(*) from job where queue = 'after'").await,
    )
}

#[tokio::test]
async fn a_result_whose_lease_was_taken_meanwhile_changes_nothing() {
    for outcome in
        [complete("late"), retry("late", "late"), Outcome::DeadLetter(JobError::new("late", "late"))]
    {
        let gate = Gate::closed();
        let database = database().await;
        let job = put_one(database.pool()).await;
        let (script, at) = (outcome.clone(), Arc::clone(&gate));
        let late = handler(move |_| {
            let (outcome, gate) = (script.clone(), Arc::clone(&at));
            async move {
                gate.pass().await;
                outcome
            }
        });
        let crew = Crew::start(database.pool(), late).await;
        gate.arrival().await;

        run(database.pool(), "update job set lease_id = lease_id + 1").await;
        gate.open();
        crew.stop().await;

        assert_eq!(traces(database.pool()).await, (0, 0, 0, 0), "{outcome:?}");
        let untouched = find(database.pool(), job).await;
        assert_eq!((untouched.state.as_str(), untouched.attempt), ("running", 1), "{outcome:?}");
        assert_eq!(untouched.error_class, None, "{outcome:?}");
    }
}

#[tokio::test]
async fn only_the_result_of_the_newest_lease_counts_when_two_workers_had_the_same_job() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let gate = Gate::closed();
    let at = Arc::clone(&gate);
    let stalled = handler(move |_| {
        let gate = Arc::clone(&at);
        async move {
            gate.pass().await;
            complete("of the first")
        }
    });
    let first = Crew::start(database.pool(), stalled).await;
    gate.arrival().await;
    make_overdue(database.pool()).await;
    assert_eq!(reap_now(database.pool()).await.requeued, 1);

    let second = Crew::start(database.pool(), handler(|_| async { complete("of the second") })).await;
    second.ended(job).await;
    gate.open();
    first.stop().await;
    second.stop().await;

    assert_eq!(notes(database.pool(), job).await, [(2, "of the second".to_owned())]);
    assert_eq!(outcomes(database.pool(), job).await, ["crashed", "succeeded"]);
    assert_eq!(traces(database.pool()).await, (1, 1, 2, 1));
}

/// One slot, and a flush that waits at the first gate: what ends meanwhile is settled in one batch. A
/// job named "marker" arrives at the second gate, which says that all before it has been handed in.
async fn busy_flusher(
    pool: &PgPool,
    script: impl Fn(&ClaimedJob) -> Outcome<String> + Send + Sync + 'static,
) -> (Crew, Arc<Gate>, Arc<Gate>) {
    let (plug, marker) = (Gate::closed(), Gate::closed());
    let (at_marker, script) = (Arc::clone(&marker), Arc::new(script));
    let scripted = handler(move |job| {
        let (marker, script) = (Arc::clone(&at_marker), Arc::clone(&script));
        async move {
            match job.args.as_str() {
                "plug" => return complete("plug"),
                "marker" => marker.pass().await,
                _ => {}
            }
            script(&job)
        }
    });
    put(pool, &[named("plug", 1)]).await;
    let crew = Plan { gate: Arc::clone(&plug), ..Plan::slots(1) }.start(pool, scripted).await;
    plug.arrival().await;
    (crew, plug, marker)
}

fn named(args: &str, priority: i16) -> NewJob {
    NewJob { args: args.to_owned(), priority, ..step() }
}

#[tokio::test]
async fn two_leases_of_a_job_in_one_batch_have_one_effect() {
    let database = database().await;
    let by_lease = |job: &ClaimedJob| complete(&format!("of lease {}", job.lease.lease_id));
    let (crew, plug, marker) = busy_flusher(database.pool(), by_lease).await;

    let twice = step();
    put(database.pool(), std::slice::from_ref(&twice)).await;
    // Ended under its first lease, handed in, not settled; then it is taken back and runs again.
    let reaped = || async {
        crew.wake.ring(QUEUE);
        let overdue = "update job set deadline_at = now() - interval '1 s'
                        where state = 'running' and args = '{}' and lease_id = 1";
        run(database.pool(), overdue).await;
        (reap_now(database.pool()).await.requeued == 1).then_some(())
    };
    eventually(SOON, reaped).await;
    put(database.pool(), &[named("marker", 4)]).await;
    let again = || async {
        crew.wake.ring(QUEUE);
        (find(database.pool(), twice.job_id).await.attempt == 2).then_some(())
    };
    eventually(SOON, again).await;
    crew.wake.ring(QUEUE);
    marker.arrival().await;
    plug.open();
    marker.open();
    crew.stop().await;

    assert_eq!(notes(database.pool(), twice.job_id).await, [(2, "of lease 2".to_owned())]);
    assert_eq!(outcomes(database.pool(), twice.job_id).await, ["crashed", "succeeded"]);
}

#[tokio::test]
async fn nobody_sees_an_effect_before_the_end_of_its_job() {
    let database = database().await;
    let plug = Gate::closed();
    let job = put_one(database.pool()).await;
    let crew = Plan { gate: Arc::clone(&plug), ..Plan::slots(1) };
    let crew = crew.start(database.pool(), handler(|_| async { complete("plug") })).await;

    plug.arrival().await;
    let meanwhile = (traces(database.pool()).await, find(database.pool(), job).await.state);
    plug.open();
    crew.stop().await;

    assert_eq!(meanwhile, ((0, 0, 0, 0), "running".to_owned()));
    assert_eq!(traces(database.pool()).await, (1, 1, 1, 1));
    assert_eq!(find(database.pool(), job).await.state, "succeeded");
}

async fn one_bad_effect_among_twenty(bad: &'static str, class: &str) {
    let database = database().await;
    let script = |job: &ClaimedJob| complete(if job.args == "{}" { "good" } else { &job.args });
    let (crew, plug, marker) = busy_flusher(database.pool(), script).await;
    let others: Vec<NewJob> = (0..19).map(|_| step()).collect();
    let culprit = named(bad, 2);
    put(database.pool(), std::slice::from_ref(&culprit)).await;
    put(database.pool(), &others).await;
    put(database.pool(), &[named("marker", 4)]).await;
    crew.wake.ring(QUEUE);
    marker.arrival().await;
    plug.open();
    marker.open();
    crew.stop().await;

    for other in &others {
        assert_eq!(notes(database.pool(), other.job_id).await, [(1, "good".to_owned())]);
        assert_eq!(find(database.pool(), other.job_id).await.state, "succeeded");
    }
    let dead = find(database.pool(), culprit.job_id).await;
    assert_eq!((dead.state.as_str(), dead.error_class.as_deref()), ("dead", Some(class)));
    assert_eq!(notes(database.pool(), culprit.job_id).await, []);
    let letters = "select count(*) from dead_letter where reason = 'permanent' and state = 'open'";
    assert_eq!(count(database.pool(), letters).await, 1);
}

#[tokio::test]
async fn an_effect_that_the_database_refuses_costs_only_its_own_job() {
    one_bad_effect_among_twenty("bad", "effect_refused").await;
}

#[tokio::test]
async fn an_effect_whose_writer_panics_costs_only_its_own_job() {
    one_bad_effect_among_twenty("panic", "effect_panicked").await;
}

#[tokio::test]
async fn a_worker_whose_results_cannot_be_settled_stops_to_claim() {
    // The backlog of the settler, the attempts at its door, and one slot for each of these.
    const ROOM: i64 = 2000 + 8;
    const JOBS: usize = 4000;
    let database = database().await;
    let plug = Gate::closed();
    put(database.pool(), &[named("plug", 1)]).await;
    put_many(database.pool(), JOBS).await;
    let by_args = handler(|job| async move { complete(if job.args == "plug" { "plug" } else { "good" }) });
    let plan = Plan { gate: Arc::clone(&plug), ..Plan::slots(8) };
    let crew = plan.start(database.pool(), by_args).await;
    plug.arrival().await;

    let claimed = || count(database.pool(), "select count(*) from job where state = 'running'");
    let full = || async { (claimed().await >= ROOM).then_some(()) };
    eventually(SOON, full).await;
    // Two more chances to claim too much.
    for _ in 0..2 {
        let beaten =
            count(database.pool(), "select extract(epoch from max(seen_at))::bigint from worker").await;
        let later = || async {
            crew.wake.ring(QUEUE);
            let seen = "select extract(epoch from now())::bigint";
            (count(database.pool(), seen).await > beaten).then_some(())
        };
        eventually(SOON, later).await;
    }
    let at_most = claimed().await;
    plug.open();
    crew.all_ended().await;
    crew.stop().await;

    assert!(at_most <= ROOM + 500, "{at_most} jobs were claimed and not settled");
    let succeeded = "select count(*) from job_history where state = 'succeeded' and attempt = 1";
    assert_eq!(count(database.pool(), succeeded).await, 1 + i64::try_from(JOBS).unwrap());
}

#[tokio::test]
async fn a_retry_keeps_every_attempt_and_ends_as_exhausted_at_the_cap() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let fails = handler(|job| async move { retry("http_500", &format!("try {} failed", job.attempt)) });
    let crew = Crew::start(database.pool(), fails).await;

    let dead = crew.ended(job).await;
    crew.stop().await;

    assert_eq!((dead.state.as_str(), dead.attempt), ("dead", 3));
    let story: Vec<_> = attempts(database.pool(), job)
        .await
        .into_iter()
        .map(|one| (one.lease_id, one.attempt, one.outcome, one.error.unwrap()))
        .collect();
    let told = |n: i16, outcome: &str| (i64::from(n), n, outcome.to_owned(), format!("try {n} failed"));
    assert_eq!(story, [told(1, "retried"), told(2, "retried"), told(3, "dead")]);
    let letter = find_dead_letter(database.pool(), dead.dead_letter_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.reason.as_str(), letter.error_class.as_str()), ("exhausted", "http_500"));
    assert_eq!((letter.attempt, letter.attempts_max, letter.error.as_str()), (3, 3, "try 3 failed"));
}

#[tokio::test]
async fn a_snooze_gives_the_attempt_back_however_often_it_happens() {
    const SNOOZES: i64 = 20;
    let database = database().await;
    let job = NewJob { attempts_max: 1, ..step() };
    put(database.pool(), std::slice::from_ref(&job)).await;
    let patient = handler(|job| async move {
        match job.lease.lease_id {
            ..=SNOOZES => Outcome::Snooze { error: JobError::new("paused", "later"), delay: Duration::ZERO },
            _ => complete("at last"),
        }
    });
    let crew = Crew::start(database.pool(), patient).await;

    let ended = crew.ended(job.job_id).await;
    crew.stop().await;

    assert_eq!((ended.state.as_str(), ended.attempt), ("succeeded", 1));
    let mut expected = vec!["snoozed"; 20];
    expected.push("succeeded");
    assert_eq!(outcomes(database.pool(), job.job_id).await, expected);
    assert_eq!(count(database.pool(), "select count(*) from dead_letter").await, 0);
}

#[tokio::test]
async fn a_dead_letter_has_the_whole_story() {
    let database = database().await;
    let job = NewJob { args: "what it was asked".to_owned(), priority: 3, ..step() };
    put(database.pool(), std::slice::from_ref(&job)).await;
    let refuses = handler(|_| async {
        let error = JobError::new("http_400", "the provider refused");
        Ran { outcome: Outcome::DeadLetter(error), context: Some("lane=a model=b".to_owned()) }
    });
    let crew = Crew::start(database.pool(), refuses).await;

    let dead = crew.ended(job.job_id).await;
    crew.stop().await;

    let letter = find_dead_letter(database.pool(), dead.dead_letter_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.job_id, letter.subject_id), (job.job_id.0, job.subject_id));
    assert_eq!(
        (letter.queue.as_str(), letter.kind.as_str(), letter.source.as_str()),
        (QUEUE, "step", "desk")
    );
    assert_eq!((letter.reason.as_str(), letter.state.as_str()), ("permanent", "open"));
    assert_eq!((letter.error_class.as_str(), letter.error.as_str()), ("http_400", "the provider refused"));
    assert_eq!((letter.attempt, letter.attempts_max, letter.crash_count), (1, 3, 0));
    assert_eq!((letter.job_created_at, letter.replay_of), (dead.created_at, None));
    assert!(letter.first_claimed_at.is_some());
    assert_eq!((dead.state.as_str(), dead.args.as_str(), dead.priority), ("dead", "what it was asked", 3));
    let attempt = &attempts(database.pool(), job.job_id).await[0];
    assert_eq!((attempt.outcome.as_str(), attempt.context.as_deref()), ("dead", Some("lane=a model=b")));
    assert_eq!(attempt.error_class.as_deref(), Some("http_400"));
}

/// Notes every letter, then fails until it is told otherwise.
struct Stubborn {
    gate: Arc<Gate>,
    fails: AtomicU32,
}

impl DeadLetterHook for Stubborn {
    fn dead_lettered<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        letters: &'a [DeadLettered],
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            for letter in letters {
                let told = sqlx::query("insert into note values ($1, 0, 'told')").bind(letter.job_id.0);
                told.execute(&mut *connection).await.unwrap();
            }
            self.gate.pass().await;
            match self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
                Ok(_) => Err(QueueError::Database { verb: "alert", source: sqlx::Error::PoolTimedOut }),
                Err(_) => Ok(()),
            }
        })
    }
}

#[tokio::test]
async fn a_dead_letter_and_its_alert_are_one_commit() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let gate = Gate::closed();
    let hook = Arc::new(Stubborn { gate: Arc::clone(&gate), fails: AtomicU32::new(1) });
    let dies = handler(|_| async { Outcome::DeadLetter(JobError::new("http_400", "refused")) });
    let crew = Plan { hook, ..Plan::slots(1) }.start(database.pool(), dies).await;

    gate.arrival().await;
    let during = (traces(database.pool()).await, find(database.pool(), job).await.state);
    gate.open();
    // It failed once, and was asked again.
    gate.arrival().await;
    let dead = crew.ended(job).await;
    crew.stop().await;

    assert_eq!(during, ((0, 0, 0, 0), "running".to_owned()));
    assert_eq!(dead.state, "dead");
    assert_eq!(count(database.pool(), "select count(*) from dead_letter").await, 1);
    assert_eq!(notes(database.pool(), job).await, [(0, "told".to_owned())]);
}

#[tokio::test]
async fn a_handler_that_panics_has_failed_one_attempt() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let panics = handler(|job| {
        // Once before it gives a future, once in it.
        assert!(job.attempt != 1, "as it was told");
        async move {
            assert!(job.attempt != 2, "as it was told");
            complete("the third time")
        }
    });
    let crew = Crew::start(database.pool(), panics).await;

    let ended = crew.ended(job).await;
    crew.stop().await;

    assert_eq!((ended.state.as_str(), ended.attempt), ("succeeded", 3));
    let classes: Vec<_> =
        attempts(database.pool(), job).await.into_iter().map(|one| one.error_class).collect();
    let panicked = Some("handler_panicked".to_owned());
    assert_eq!(classes, [panicked.clone(), panicked, None]);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_its_job_retried() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let hangs = handler(|job| async move {
        if job.attempt == 1 {
            std::future::pending::<()>().await;
        }
        complete("in time")
    });
    let mut plan = Plan::slots(1);
    plan.policy.job_timeout = Duration::from_millis(200);
    let crew = plan.start(database.pool(), hangs).await;

    let ended = crew.ended(job).await;
    crew.stop().await;

    assert_eq!((ended.state.as_str(), ended.attempt), ("succeeded", 2));
    let first = &attempts(database.pool(), job).await[0];
    assert_eq!((first.outcome.as_str(), first.error_class.as_deref()), ("retried", Some("job_timeout")));
}

#[tokio::test]
async fn what_a_handler_says_of_an_attempt_is_stored_cleaned_and_capped() {
    let database = database().await;
    let job = put_one(database.pool()).await;
    let hostile = |end: &str| format!("a\0b\u{1b}[31m\r\nc{}{end}", "x".repeat(600));
    let foul = handler(move |job| async move {
        let error = JobError::new("foul", hostile("tail"));
        let outcome = match job.attempt {
            1 => Outcome::Retry { error, after: None },
            2 => Outcome::Snooze { error, delay: Duration::ZERO },
            _ => Outcome::DeadLetter(error),
        };
        let outcome = if job.lease.lease_id == 3 { complete("good") } else { outcome };
        Ran { outcome, context: Some(hostile("tail")) }
    });
    let crew = Crew::start(database.pool(), foul).await;
    let ended = crew.ended(job).await;
    crew.stop().await;

    assert_eq!(ended.state, "succeeded");
    let all = attempts(database.pool(), job).await;
    assert_eq!(
        all.iter().map(|one| one.outcome.as_str()).collect::<Vec<_>>(),
        ["retried", "snoozed", "succeeded"]
    );
    for text in all.iter().flat_map(|one| one.error.iter().chain(&one.context)) {
        assert!(text.starts_with("a b [31m  cxxx"), "{text:?}");
        assert_eq!(text.chars().count(), JobError::TEXT_CHARS_MAX);
    }
    assert_eq!(all.iter().filter(|one| one.context.is_some()).count(), 3);
}
