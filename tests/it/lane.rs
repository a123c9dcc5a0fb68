//! Claim: a lane at its limit leaves jobs where they are, a slow verdict does not replace a newer
//! one, and who has to mend a lane or a source is told.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::{SOON, Setup, TestApp};
use crate::support::gate::GatedProvider;
use crate::support::provider::{Scripted, classification, openai, openai_error, status};
use crate::support::wait::eventually;

#[tokio::test]
async fn a_slow_lane_does_not_send_the_backlog_round() {
    let provider = Scripted::start([openai(&classification("billing"))]).await;
    let app = Setup::all()
        .llm("openai", provider.url("/v1"))
        .toml("[llm]\nrequests_per_minute = 6\n")
        .variable("HOOKTRIAGE_WORKERS", "2")
        .start()
        .await;
    for number in 0..30 {
        app.submit(&format!("Ticket {number}"), "x").await;
    }

    // The first call goes out at once. The workers hold the next two jobs and wait for their turn.
    provider.called(1).await;
    eventually(SOON, || async { (app.items("/v1/jobs?state=running").await.len() == 2).then_some(()) }).await;

    let jobs = app.items("/v1/jobs?limit=100").await;
    let untouched = jobs.iter().filter(|job| job["state"] == "queued" && job["attempts"] == json!([]));
    assert_eq!(untouched.count(), 27);
    assert_eq!(app.count("attempt").await, 1, "nothing was claimed only to be put back");
}

async fn submit_version(app: &TestApp, key: &str, subject: &str) -> String {
    let ticket = json!({"subject": subject, "body": "x", "external_id": "T-1"});
    let request = app.http.post(app.url("/v1/tickets")).bearer_auth(crate::support::app::TOKEN);
    let answer = request.header("idempotency-key", key).json(&ticket).send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    answer["job_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_slow_verdict_about_an_older_snapshot_does_not_replace_a_newer_one() {
    let provider = GatedProvider::start().await;
    let app = Setup::all().llm("openai", provider.url()).start().await;
    let slow = submit_version(&app, "one", "Old words").await;
    provider.called(1).await;
    // The ticket is edited and its new snapshot judged while the old one's answer is under way.
    let later = submit_version(&app, "two", "New words").await;
    provider.called(2).await;
    let ticket = app.job(&slow).await["ticket_id"].as_str().unwrap().to_owned();
    sqlx::query("update ticket set classified_version = 2, classification_id = 'ffffffff-ffff-7fff-bfff-ffffffffffff'")
        .execute(app.database.pool())
        .await
        .unwrap();
    provider.open();

    assert_eq!(app.ended(&slow).await["verdict"]["ticket_version"], 1);
    assert_eq!(app.ended(&later).await["verdict"]["ticket_version"], 2);
    let version: i32 = sqlx::query_scalar("select classified_version from ticket")
        .fetch_one(app.database.pool())
        .await
        .unwrap();
    assert_eq!(version, 2);
    assert_eq!(app.get(&format!("/v1/tickets/{ticket}")).await.json()["version"], 2);
}

/// The alerts that a destination received, by type.
async fn alerts(team: &Scripted, kind: &str) -> Vec<Value> {
    let calls = team.calls();
    let bodies = calls.iter().map(|call| {
        call.verified_key();
        call.json()
    });
    bodies.filter(|body| body["type"] == kind).collect()
}

#[tokio::test]
async fn a_parked_lane_raises_one_alert_and_kills_no_job() {
    let refuses = openai_error(401, "invalid_request_error", Some("invalid_api_key"));
    let (provider, team) = (Scripted::start([refuses]).await, Scripted::start([status(200)]).await);
    let app = Setup::all()
        .llm("openai", provider.url("/v1"))
        .destination("team", &team.url("/hooks"))
        .toml("[routing]\nalerts = \"team\"\n")
        .start()
        .await;
    for number in 0..5 {
        app.submit(&format!("Ticket {number}"), "x").await;
    }

    team.called(1).await;
    let parked = alerts(&team, "lane.parked").await;
    assert_eq!((parked.len(), &parked[0]["data"]["cause"]), (1, &"credential".into()));
    assert_eq!(app.items("/v1/dead-letters").await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_raises_an_alert() {
    let team = Scripted::start([status(200)]).await;
    let setup = Setup::all().destination("team", &team.url("/hooks")).toml("[routing]\nalerts = \"team\"\n");
    let app = setup.start().await;

    let reply = app.deliver("standard-webhooks", r#"{"type":"ticket.created","data":"not a ticket"}"#).await;
    assert_eq!((reply.status, reply.text("/status")), (200, "quarantined".to_owned()));

    team.called(1).await;
    let told = alerts(&team, "event.quarantined").await;
    assert_eq!(told[0]["data"], json!({"source": "standard-webhooks", "event_id": reply.text("/event_id")}));
}

#[tokio::test]
async fn a_stop_is_announced_before_the_door_closes() {
    let app = Setup::ingest().start().await;
    let notice = app.announce_stop(Duration::from_secs(3600));
    tokio::pin!(notice);
    tokio::select! {
        () = &mut notice => panic!("the notice has not passed"),
        () = eventually(SOON, || async { (app.get("/readyz").await.status == 503).then_some(()) }) => {}
    }

    assert_eq!(app.send(&app.sample("github", 1)).await.status, 200, "deliveries are still taken");
}
