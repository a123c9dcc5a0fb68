//! Claim: a dead letter is replayed once, as a new job that names it, and ten thousand letters of one
//! failure make one alert.

use std::collections::HashSet;
use std::sync::Arc;

use hooktriage::queue::dead_letter::{
    DeadLetter, DeadLetterFilter, find_dead_letter, list_dead_letters, replay,
};
use hooktriage::queue::inspect::open_dead_letters;
use hooktriage::queue::{JobError, JobTemplate, NewJob, Outcome};
use hooktriage::store::{Alert, Alerts};
use sqlx::PgPool;
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::support::database::TestDatabase;
use crate::support::jobs::{
    Crew, Plan, STEP, claim_some, count, database, find, handler, outcomes, put, put_many, step,
};

/// Alerts in this queue, so that the handler of a test meets them.
const ALERT: JobTemplate = JobTemplate { queue: "after", kind: "alert", attempts_max: 2 };

/// Dies of the failure that its arguments name.
async fn mortal(pool: &PgPool, alert: Option<JobTemplate>) -> Crew {
    let dies = handler(|job| async move {
        let class = ["quota", "shape"].into_iter().find(|class| job.args.contains(class)).unwrap_or("plain");
        Outcome::<String>::DeadLetter(JobError::new(class, "it cannot be done"))
    });
    Plan { hook: Arc::new(Alerts { template: alert }), ..Plan::slots(16) }.start(pool, dies).await
}

fn dying_of(class: &str, source: &str) -> NewJob {
    NewJob { args: class.to_owned(), source: source.to_owned(), ..step() }
}

async fn letters(pool: &PgPool, filter: DeadLetterFilter) -> Vec<DeadLetter> {
    list_dead_letters(pool, &filter, 1000).await.unwrap()
}

async fn one_letter(database: &TestDatabase) -> (NewJob, DeadLetter) {
    let job = NewJob { attempts_max: 7, args: "plain".to_owned(), ..step() };
    put(database.pool(), std::slice::from_ref(&job)).await;
    let crew = mortal(database.pool(), None).await;
    crew.ended(job.job_id).await;
    crew.stop().await;
    let letter = letters(database.pool(), DeadLetterFilter::default()).await.remove(0);
    (job, letter)
}

#[tokio::test]
async fn a_replay_is_a_new_job_with_a_fresh_budget_that_names_the_dead_one() {
    let database = database().await;
    let (job, letter) = one_letter(&database).await;

    let replayed = replay(database.pool(), &[letter.dead_letter_id]).await.unwrap();

    assert_eq!(replayed.len(), 1);
    let new = find(database.pool(), replayed[0].job_id).await;
    assert_eq!((new.replay_of, new.state.as_str()), (Some(job.job_id.0), "queued"));
    assert_eq!((new.attempt, new.attempts_max, new.priority), (0, 7, NewJob::PRIORITY_REPLAY));
    assert_eq!((new.queue.as_str(), new.kind.as_str(), new.source.as_str()), (job.queue, job.kind, "desk"));
    assert_eq!((new.subject_id, new.args.as_str()), (job.subject_id, "plain"));
    let age = "select count(*) from job where first_claimed_at is null and crash_count = 0 and error is null";
    assert_eq!(count(database.pool(), age).await, 1);
    let marked = find_dead_letter(database.pool(), letter.dead_letter_id).await.unwrap().unwrap();
    assert_eq!((marked.state.as_str(), marked.replayed_job_id), ("replayed", Some(replayed[0].job_id.0)));
    assert!(marked.replayed_at.is_some());
    assert_eq!(open_dead_letters(database.pool(), 10).await.unwrap(), 0);
}

#[tokio::test]
async fn a_letter_that_was_replayed_is_not_replayed_again() {
    let database = database().await;
    let (_, letter) = one_letter(&database).await;
    let first = replay(database.pool(), &[letter.dead_letter_id]).await.unwrap();

    let twice = replay(database.pool(), &[letter.dead_letter_id, letter.dead_letter_id]).await.unwrap();

    assert_eq!((first.len(), twice.len()), (1, 0));
    assert_eq!(count(database.pool(), "select count(*) from job").await, 1);
    let marked = find_dead_letter(database.pool(), letter.dead_letter_id).await.unwrap().unwrap();
    assert_eq!(marked.replayed_job_id, Some(first[0].job_id.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_replays_of_a_letter_at_once_make_one_job() {
    let database = database().await;
    let (_, letter) = one_letter(&database).await;
    let start = Arc::new(Barrier::new(20));
    let replays = (0..20).map(|_| {
        let (pool, start, id) = (database.pool().clone(), Arc::clone(&start), letter.dead_letter_id);
        tokio::spawn(async move {
            start.wait().await;
            replay(&pool, &[id, id]).await.unwrap().len()
        })
    });

    let mut made = 0;
    for one in replays.collect::<Vec<_>>() {
        made += one.await.unwrap();
    }

    assert_eq!(made, 1);
    assert_eq!(count(database.pool(), "select count(*) from job").await, 1);
}

#[tokio::test]
async fn a_replay_that_dies_again_leaves_a_letter_of_its_own() {
    let database = database().await;
    let (job, letter) = one_letter(&database).await;
    let replayed = replay(database.pool(), &[letter.dead_letter_id]).await.unwrap().remove(0);

    let crew = mortal(database.pool(), None).await;
    let dead = crew.ended(replayed.job_id).await;
    crew.stop().await;

    let second = find_dead_letter(database.pool(), dead.dead_letter_id.unwrap()).await.unwrap().unwrap();
    assert_ne!(second.dead_letter_id, letter.dead_letter_id);
    assert_eq!((second.replay_of, second.state.as_str()), (Some(job.job_id.0), "open"));
    assert_eq!(outcomes(database.pool(), replayed.job_id).await, ["dead"]);
    let first = find_dead_letter(database.pool(), letter.dead_letter_id).await.unwrap().unwrap();
    assert_eq!(first.state, "replayed");
}

#[tokio::test]
async fn letters_are_found_by_what_they_have_in_common_and_replayed_together() {
    let database = database().await;
    let jobs: Vec<NewJob> = (0..30)
        .map(|n| dying_of(["quota", "shape", "plain"][n % 3], if n < 15 { "desk" } else { "github" }))
        .collect();
    put(database.pool(), &jobs).await;
    let crew = mortal(database.pool(), None).await;
    crew.all_ended().await;
    crew.stop().await;

    let quota_of_desk = DeadLetterFilter {
        state: Some("open".to_owned()),
        error_class: Some("quota".to_owned()),
        source: Some("desk".to_owned()),
        reason: Some("permanent".to_owned()),
        ..DeadLetterFilter::default()
    };
    let found: Vec<Uuid> =
        letters(database.pool(), quota_of_desk.clone()).await.iter().map(|one| one.dead_letter_id).collect();
    let replayed = replay(database.pool(), &found).await.unwrap();

    assert_eq!((found.len(), replayed.len()), (5, 5));
    assert_eq!(letters(database.pool(), quota_of_desk).await, []);
    let open = DeadLetterFilter { state: Some("open".to_owned()), ..DeadLetterFilter::default() };
    assert_eq!(letters(database.pool(), open).await.len(), 25);
    let subjects = "select count(*) from job join dead_letter on replayed_job_id = job.job_id
                     where dead_letter.error_class = 'quota' and job.source = 'desk' and job.subject_id = dead_letter.subject_id";
    assert_eq!(count(database.pool(), subjects).await, 5);
}

#[tokio::test]
async fn letters_are_listed_newest_first_in_pages_without_gaps() {
    let database = database().await;
    put_many(database.pool(), 25).await;
    let crew = mortal(database.pool(), None).await;
    crew.all_ended().await;
    crew.stop().await;

    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let filter = DeadLetterFilter { before, ..DeadLetterFilter::default() };
        let page = list_dead_letters(database.pool(), &filter, 10).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.dead_letter_id);
        pages.push(page.iter().map(|one| one.dead_letter_id).collect::<Vec<_>>());
    }

    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    let all = pages.concat();
    assert!(all.is_sorted_by(|newer, older| newer > older));
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 25);
}

#[tokio::test]
async fn a_hundred_letters_of_one_failure_make_one_alert() {
    let database = database().await;
    let jobs: Vec<NewJob> = (0..100).map(|n| dying_of("quota", ["desk", "github"][n % 2])).collect();
    put(database.pool(), &jobs).await;
    put(database.pool(), &[dying_of("shape", "desk")]).await;

    let crew = mortal(database.pool(), Some(ALERT)).await;
    crew.all_ended().await;
    crew.stop().await;

    assert_eq!(count(database.pool(), "select count(*) from dead_letter").await, 101);
    let alerts: Vec<(String, i16, bool)> = sqlx::query_as(
        "select args, priority, run_at > created_at + interval '1 s' from job where kind = 'alert' order by args",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    let args = |class: &str| {
        let args = Alert::DeadLetters { queue: STEP.queue.to_owned(), error_class: class.to_owned() };
        serde_json::json!(args).to_string()
    };
    assert_eq!(alerts, [(args("quota"), 1, true), (args("shape"), 1, true)]);
}

#[tokio::test]
async fn a_failure_that_comes_back_after_its_alert_was_taken_is_told_again() {
    let database = database().await;
    let crew = mortal(database.pool(), Some(ALERT)).await;
    let first = dying_of("quota", "desk");
    put(database.pool(), std::slice::from_ref(&first)).await;
    crew.ended(first.job_id).await;
    let taken = sqlx::query("delete from job where kind = 'alert'").execute(database.pool()).await.unwrap();

    let second = dying_of("quota", "desk");
    put(database.pool(), std::slice::from_ref(&second)).await;
    crew.ended(second.job_id).await;
    crew.stop().await;

    assert_eq!(taken.rows_affected(), 1);
    assert_eq!(count(database.pool(), "select count(*) from job where kind = 'alert'").await, 1);
}

#[tokio::test]
async fn an_alert_that_cannot_be_delivered_raises_none_about_itself() {
    let database = database().await;
    let alert = JobTemplate { kind: STEP.kind, ..ALERT };
    let job = dying_of("quota", "desk");
    put(database.pool(), std::slice::from_ref(&job)).await;

    let crew = mortal(database.pool(), Some(alert)).await;
    crew.ended(job.job_id).await;
    crew.stop().await;

    assert_eq!(count(database.pool(), "select count(*) from dead_letter").await, 1);
    assert_eq!(count(database.pool(), "select count(*) from job").await, 0);
    assert!(claim_some(database.pool(), 1).await.is_empty());
}
