//! Claim: a process may die or be stopped at any moment. Nothing that was acknowledged is lost, and
//! no outcome is recorded twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::app::{SOON, Setup, TOKEN, TestApp, client};
use crate::support::database::TestDatabase;
use crate::support::gate::GatedProvider;
use crate::support::process::Running;
use crate::support::wait::eventually;

/// A worker process of its own.
async fn worker(database: &TestDatabase, provider: &GatedProvider, more: &[&str]) -> Running {
    let url = provider.url();
    let variables = [
        ("DATABASE_URL", database.url()),
        ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN),
        ("HOOKTRIAGE_LLM_BASE_URL", &url),
        ("HOOKTRIAGE_LLM_MODEL", "model-x"),
    ];
    Running::serve(&[&["--role", "worker"], more].concat(), &variables).await.0
}

fn outcomes(job: &Value) -> Vec<&str> {
    job["attempts"].as_array().unwrap().iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect()
}

/// As if half a minute had passed in which nobody heard of any worker.
async fn age_workers(app: &TestApp) {
    let aged = sqlx::query("update worker set seen_at = now() - interval '1 hour'");
    assert!(aged.execute(app.database.pool()).await.unwrap().rows_affected() > 0);
}

#[tokio::test]
async fn a_worker_killed_mid_job_loses_nothing() {
    let (app, provider) = (Setup::ingest().start().await, GatedProvider::start().await);
    let mut first = worker(&app.database, &provider, &[]).await;
    let job_id = app.submit("Charged twice", "x").await;
    provider.called(1).await;
    assert_eq!(app.job(&job_id).await["state"], "running");

    first.kill().await;
    age_workers(&app).await;
    provider.open();
    let mut second = worker(&app.database, &provider, &[]).await;

    let job = app.ended(&job_id).await;
    assert_eq!((&job["state"], outcomes(&job)), (&"succeeded".into(), vec!["crashed", "succeeded"]), "{job}");
    assert_eq!((&job["attempts_used"], &job["verdict"]["category"]), (&2.into(), &"billing".into()));
    provider.called(2).await;
    assert_eq!(app.count("classification").await, 1, "the outcome is recorded once");
    second.stop().await;
}

#[tokio::test]
async fn a_job_that_kills_its_workers_again_and_again_becomes_a_dead_letter() {
    let (app, provider) = (Setup::ingest().start().await, GatedProvider::start().await);
    let job_id = app.submit("Poison", "x").await;
    for calls in 1..=3 {
        let mut victim = worker(&app.database, &provider, &[]).await;
        provider.called(calls).await;
        victim.kill().await;
        age_workers(&app).await;
    }
    let mut last = worker(&app.database, &provider, &[]).await;

    let job = app.ended(&job_id).await;
    assert_eq!((&job["state"], &outcomes(&job)[..2]), (&"dead".into(), &["crashed", "crashed"][..]), "{job}");
    assert_eq!(job["attempts"].as_array().unwrap().len(), 3, "{job}");
    let letter =
        app.get(&format!("/v1/dead-letters/{}", job["dead_letter_id"].as_str().unwrap())).await.json();
    assert_eq!(
        (&letter["reason"], &letter["error_class"]),
        (&"poison".into(), &"worker_lost".into()),
        "{letter}"
    );
    last.stop().await;
}

#[tokio::test]
async fn a_stop_hands_back_what_runs() {
    let (app, provider) = (Setup::ingest().start().await, GatedProvider::start().await);
    let mut first = worker(&app.database, &provider, &["--drain", "0"]).await;
    let job_id = app.submit("Charged twice", "x").await;
    provider.called(1).await;

    first.stop().await;

    let job = app.job(&job_id).await;
    assert_eq!((&job["state"], outcomes(&job)), (&"queued".into(), vec!["handed_back"]), "{job}");
    assert_eq!(job["attempts_used"], 0, "the attempt is given back");
    assert_eq!(app.count("worker").await, 0, "nobody has to wait for it");

    provider.open();
    let mut second = worker(&app.database, &provider, &[]).await;
    let job = app.ended(&job_id).await;
    assert_eq!((outcomes(&job), &job["attempts_used"]), (vec!["handed_back", "succeeded"], &1.into()));
    second.stop().await;
}

#[tokio::test]
async fn a_stop_lets_what_runs_end_in_its_time() {
    let (app, provider) = (Setup::ingest().start().await, GatedProvider::start().await);
    let mut first = worker(&app.database, &provider, &[]).await;
    let job_id = app.submit("Charged twice", "x").await;
    provider.called(1).await;
    first.signal(Signal::TERM);
    first.says("stopping").await;
    // A second signal, as an impatient operator sends it, changes nothing.
    first.signal(Signal::TERM);
    let later = app.submit("Another", "x").await;

    provider.open();
    first.ended_well().await;

    let job = app.job(&job_id).await;
    assert_eq!((&job["state"], outcomes(&job)), (&"succeeded".into(), vec!["succeeded"]), "{job}");
    assert_eq!(app.job(&later).await["state"], "queued", "nothing more is taken");
    assert_eq!(app.count("worker").await, 0);
}

#[tokio::test]
async fn a_stop_during_the_start_is_a_clean_one() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://nobody@{}/nothing", silent.local_addr().unwrap());
    let variables = [
        ("DATABASE_URL", url.as_str()),
        ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN),
        ("HOOKTRIAGE_LISTEN", "127.0.0.1:0"),
    ];
    let mut starting = Running::start(&["serve"], &variables);
    let (_connection, _) = tokio::time::timeout(SOON, silent.accept()).await.expect("it connects").unwrap();

    starting.stop().await;
}

#[tokio::test]
async fn a_database_that_does_not_answer_ends_the_start_with_a_reason() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://nobody:hunter2@{}/nothing", closed.local_addr().unwrap());
    drop(closed);
    let variables = [("DATABASE_URL", url.as_str()), ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN)];
    let mut starting =
        Running::start(&["serve"], &[&variables[..], &[("HOOKTRIAGE_LISTEN", "127.0.0.1:0")]].concat());

    assert_eq!(starting.ended().await.code(), Some(1));
    starting.says("the database cannot be reached").await;
    assert!(!starting.log().contains("hunter2"), "{}", starting.log());
}

/// Sends one ticket after the other until the service does not answer any more.
async fn sender(address: std::net::SocketAddr, acknowledged: Arc<AtomicUsize>) -> Vec<String> {
    let (http, url) = (client(), format!("http://{address}/v1/tickets"));
    let mut jobs = Vec::new();
    loop {
        let sent = http.post(&url).bearer_auth(TOKEN).json(&json!({"subject": "x"})).send().await;
        let Ok(response) = sent else { return jobs };
        if response.status() != 202 {
            continue;
        }
        let Ok(answer) = response.json::<Value>().await else { return jobs };
        jobs.push(answer["job_id"].as_str().unwrap().to_owned());
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn what_was_acknowledged_before_a_kill_is_there_afterwards() {
    let app = Setup::ingest().start().await;
    let variables = [("DATABASE_URL", app.database.url()), ("HOOKTRIAGE_ADMIN_TOKEN", TOKEN)];
    let mut ledger = Vec::new();
    for _ in 0..3 {
        let (mut service, address) = Running::serve(&["--role", "ingest"], &variables).await;
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let senders: Vec<_> =
            (0..4).map(|_| tokio::spawn(sender(address, Arc::clone(&acknowledged)))).collect();
        eventually(SOON, || async { (acknowledged.load(Ordering::Relaxed) >= 40).then_some(()) }).await;

        service.kill().await;

        for sender in senders {
            ledger.extend(tokio::time::timeout(SOON, sender).await.unwrap().unwrap());
        }
    }
    assert!(ledger.len() >= 120);
    let ids: Vec<uuid::Uuid> = ledger.iter().map(|id| id.parse().unwrap()).collect();
    let found: i64 =
        sqlx::query_scalar("select count(*) from job join event using (job_id) where job_id = any($1)")
            .bind(&ids)
            .fetch_one(app.database.pool())
            .await
            .unwrap();
    assert_eq!(found, i64::try_from(ids.len()).unwrap());
    assert_eq!(app.count("event").await, app.count("job").await);
}

#[tokio::test]
async fn a_service_that_is_asked_to_stop_answers_what_it_has_begun() {
    let app = Setup::ingest().start().await;
    let mut session = app.database.pool().acquire().await.unwrap();
    sqlx::raw_sql("begin; lock table event in access exclusive mode").execute(&mut *session).await.unwrap();
    let delivery = app.sample("github", 1);
    let (http, url) = (app.http.clone(), app.url(&delivery.path));
    let request = http.post(url).headers(delivery.headers).body(delivery.body);
    let sending =
        tokio::spawn(async move { request.send().await.map(|response| response.status().as_u16()) });
    eventually(SOON, || async {
        let waits: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
        .fetch_one(app.database.pool())
        .await
        .unwrap();
        (waits > 0).then_some(())
    })
    .await;

    let stopping = tokio::spawn(app.stop(Duration::from_secs(1)));
    sqlx::raw_sql("rollback").execute(&mut *session).await.unwrap();

    assert!(matches!(sending.await.unwrap(), Ok(200 | 503)));
    tokio::time::timeout(SOON, stopping).await.expect("it stops").unwrap();
}
