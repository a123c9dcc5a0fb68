//! Claim: a delivery that cannot be committed is answered with 503 in time for the sender to try
//! again, and nothing needs a restart afterwards.

use std::time::{Duration, Instant};

use crate::support::app::{SOON, Setup, TestApp};
use crate::support::reply::Reply;
use crate::support::wait::eventually;

/// The most impatient senders give up after a second; the promise is well below.
const IN_TIME: Duration = Duration::from_millis(400);

/// Sends deliveries that cannot be committed: each is refused as it must be, and the quickest, which
/// no busy machine held up, in time.
async fn refused_in_time(app: &TestApp) {
    let mut quickest = SOON;
    for number in 0..4 {
        let delivery = app.sample("github", number);
        let begun = Instant::now();
        let reply = app.send(&delivery).await;
        quickest = quickest.min(begun.elapsed());
        says_come_back(&reply);
    }
    assert!(quickest < IN_TIME, "it took {quickest:?}");
}

fn says_come_back(reply: &Reply) {
    reply.is_problem(503, "unavailable");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{reply:?}");
}

#[tokio::test]
async fn while_the_database_is_away_senders_are_told_to_come_back() {
    let app = Setup::all().server("").start().await;
    assert_eq!(app.get("/readyz").await.status, 200);
    let before = app.sample("zendesk", 1);
    assert_eq!(app.send(&before).await.status, 200);

    app.database.shut().await;

    refused_in_time(&app).await;
    let ready = app.get("/readyz").await;
    assert_eq!((ready.status, ready.text("/status").as_str()), (503, "database_away"));
    assert_eq!(app.get("/healthz").await.status, 200);
    assert_eq!(app.get("/metrics").await.status, 200);
    // What needs no database is answered as always.
    app.post("/webhooks/github", http::HeaderMap::new(), "{}").await.is_problem(401, "signature-refused");
    app.post("/webhooks/nobody", http::HeaderMap::new(), "{}").await.is_problem(404, "source-unknown");

    app.database.open().await;

    let back = app.sample("github", 1);
    let reply = eventually(SOON, || async {
        let reply = app.send(&back).await;
        (reply.status == 200).then_some(reply)
    })
    .await;
    assert_eq!(reply.text("/status"), "accepted");
    assert_eq!(app.send(&before).await.text("/status"), "duplicate");
    eventually(SOON, || async { (app.get("/readyz").await.status == 200).then_some(()) }).await;
    assert_eq!(app.ended(&reply.text("/job_id")).await["state"], "succeeded");
}

#[tokio::test]
async fn while_the_database_stalls_senders_are_told_to_come_back() {
    let app = Setup::ingest().server("").start().await;
    let mut session = app.database.pool().acquire().await.unwrap();
    let lock = "begin; lock table event, job in access exclusive mode";
    sqlx::raw_sql(lock).execute(&mut *session).await.unwrap();

    refused_in_time(&app).await;
    says_come_back(&app.post_json("/v1/tickets", &serde_json::json!({"subject": "x"})).await);

    sqlx::raw_sql("rollback").execute(&mut *session).await.unwrap();

    // Sent again as senders do, each is one event, whether or not it was written after all.
    for number in 0..4 {
        let delivery = app.sample("github", number);
        let again = eventually(SOON, || async {
            let reply = app.send(&delivery).await;
            (reply.status == 200).then_some(reply)
        })
        .await;
        assert_eq!(app.send(&delivery).await.text("/job_id"), again.text("/job_id"));
    }
    assert_eq!(app.items("/v1/jobs?source=github").await.len(), 4);
}

#[tokio::test]
async fn when_every_session_is_taken_senders_are_told_to_come_back() {
    let app = Setup::ingest().server("").start().await;
    let mut held = Vec::new();
    while let Some(session) = app.pool.try_acquire() {
        held.push(session);
    }
    while held.len() < app.pool.options().get_max_connections() as usize {
        held.push(app.pool.acquire().await.unwrap());
    }

    refused_in_time(&app).await;
    assert_eq!(app.get("/readyz").await.status, 503);

    held.clear();
    eventually(SOON, || async { (app.send(&app.sample("github", 1)).await.status == 200).then_some(()) })
        .await;
}
