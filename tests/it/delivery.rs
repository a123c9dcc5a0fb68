//! Claim: every verdict and every alert reaches its destination signed, under a key that stays the
//! same however often it is sent.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use sqlx::postgres::PgListener;
use wiremock::ResponseTemplate;

use crate::support::app::{SOON, Setup, TestApp};
use crate::support::provider::{Scripted, classification, openai, openai_error, status};
use crate::support::wait::eventually;

/// A provider that always says billing: quicker than loading the offline lane.
async fn provider() -> Scripted {
    Scripted::start([openai(&classification("billing"))]).await
}

/// A service that sends every verdict to one team.
async fn with_team<const N: usize>(answers: [ResponseTemplate; N]) -> (TestApp, Scripted) {
    let (team, provider) = (Scripted::start(answers).await, provider().await);
    let setup = Setup::all()
        .llm("openai", provider.url("/v1"))
        .destination("team", &team.url("/inbox"))
        .toml("[routing]\nfallback = \"team\"\n");
    (setup.start().await.keeping(provider), team)
}

/// The one delivery job, once it has ended.
async fn delivery(app: &TestApp) -> Value {
    let found = eventually(SOON, || async { app.items("/v1/jobs?queue=routing").await.pop() }).await;
    app.ended(found["job_id"].as_str().unwrap()).await
}

fn outcomes(job: &Value) -> Vec<&str> {
    job["attempts"].as_array().unwrap().iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_verdict_is_delivered_with_a_signature_that_others_can_verify() {
    let (app, team) = with_team([status(204)]).await;
    let reply = app.send(&app.sample("github", 0)).await;

    let job = app.ended(&reply.text("/job_id")).await;
    let calls = team.called(1).await;

    assert_eq!(job["verdict"]["destination"], "team");
    let key = calls[0].verified_key();
    assert!(key.starts_with("verdict_") && key.ends_with("_team"), "{key}");
    assert_eq!(calls[0].headers["content-type"], "application/json");
    let body = calls[0].json();
    assert_eq!(body["type"], "ticket.triaged");
    let ticket = app.get(&format!("/v1/tickets/{}", reply.text("/ticket_id"))).await.json();
    for key in ["ticket_id", "external_id", "subject", "source", "url"] {
        assert_eq!(body["data"]["ticket"][key], ticket[key], "{key}");
    }
    for key in ["classification_id", "category", "priority", "confidence", "needs_review", "destination"] {
        assert_eq!(body["data"]["verdict"][key], job["verdict"][key], "{key}");
    }
    let delivered = delivery(&app).await;
    assert_eq!((&delivered["kind"], &delivered["state"]), (&"deliver".into(), &"succeeded".into()));
    assert_eq!(delivered["ticket_id"], ticket["ticket_id"]);
    assert_eq!(team.calls().len(), 1);
}

#[tokio::test]
async fn a_verdict_rings_for_its_delivery_instead_of_leaving_it_to_the_next_poll() {
    let (app, _team) = with_team([status(204)]).await;
    let mut rings = PgListener::connect_with(app.database.pool()).await.unwrap();
    rings.listen("hooktriage_wake").await.unwrap();

    app.send(&app.sample("github", 0)).await;

    let rung = async { while rings.recv().await.unwrap().payload() != "routing" {} };
    tokio::time::timeout(SOON, rung).await.expect("the workers of deliveries are rung");
}

#[tokio::test]
async fn rules_send_each_verdict_to_its_team() {
    let provider = Scripted::start([
        openai(&classification("billing")),
        openai(&classification("bug_report")),
        openai(&classification("billing").replace("0.93", "0.2")),
    ])
    .await;
    let [finance, people, rest] = [
        Scripted::start([status(200)]).await,
        Scripted::start([status(200)]).await,
        Scripted::start([status(200)]).await,
    ];
    let rules = "[[rule]]\nneeds_review = true\nto = \"people\"\n[[rule]]\ncategory = [\"billing\"]\nto = \"finance\"\n\
                 [routing]\nfallback = \"rest\"\n";
    let app = Setup::all()
        .llm("openai", provider.url("/v1"))
        .destination("finance", &finance.url("/"))
        .destination("people", &people.url("/"))
        .destination("rest", &rest.url("/"))
        .toml(rules)
        .start()
        .await;

    for (inbox, category) in [(&finance, "billing"), (&rest, "bug_report"), (&people, "billing")] {
        app.ended(&app.submit("Something", "x").await).await;
        assert_eq!(inbox.called(1).await[0].json()["data"]["verdict"]["category"], category);
    }
    assert_eq!([finance.calls().len(), people.calls().len(), rest.calls().len()], [1, 1, 1]);
}

#[tokio::test]
async fn a_delivery_that_failed_is_repeated_under_the_same_key() {
    let (app, team) = with_team([status(500), status(503), status(200)]).await;
    app.submit("Charged twice", "x").await;

    let job = delivery(&app).await;

    assert_eq!(
        (&job["state"], outcomes(&job)),
        (&"succeeded".into(), vec!["retried", "retried", "succeeded"]),
        "{job}"
    );
    assert_eq!(job["attempts"][0]["error_class"], "destination_failed");
    let keys: HashSet<String> =
        team.calls().iter().map(crate::support::provider::Call::verified_key).collect();
    assert_eq!((team.calls().len(), keys.len()), (3, 1));
}

#[tokio::test]
async fn a_busy_destination_is_left_alone_for_as_long_as_it_asks() {
    let (app, team) = with_team([status(429).insert_header("retry-after", "1"), status(200)]).await;
    app.submit("Charged twice", "x").await;

    let job = delivery(&app).await;

    assert_eq!((outcomes(&job), &job["attempts_used"]), (vec!["snoozed", "succeeded"], &1.into()), "{job}");
    let calls = team.calls();
    assert!(calls[1].at - calls[0].at >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_refused_delivery_becomes_a_dead_letter_and_its_replay_carries_the_same_key() {
    let (app, team) = with_team([status(410)]).await;
    app.submit("Charged twice", "x").await;

    let job = delivery(&app).await;

    assert_eq!((&job["state"], outcomes(&job)), (&"dead".into(), vec!["dead"]), "{job}");
    let letter_id = job["dead_letter_id"].as_str().unwrap();
    let letter = app.get(&format!("/v1/dead-letters/{letter_id}")).await.json();
    let said = (&letter["queue"], &letter["reason"], &letter["error_class"]);
    assert_eq!(said, (&"routing".into(), &"permanent".into(), &"destination_refused".into()));

    team.answer(status(200));
    let replayed = app.post_json(&format!("/v1/admin/dead-letters/{letter_id}/replay"), &Value::Null).await;
    assert_eq!(app.ended(&replayed.text("/job_id")).await["state"], "succeeded");
    let calls = team.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].verified_key(), calls[1].verified_key());
    assert_eq!(calls[0].json()["data"], calls[1].json()["data"]);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Scripted::start([status(200)]).await;
    let moved = status(307).insert_header("location", elsewhere.url("/").as_str());
    let (app, _team) = with_team([moved]).await;
    app.submit("Charged twice", "x").await;

    assert_eq!(delivery(&app).await["state"], "dead");
    assert!(elsewhere.calls().is_empty());
}

#[tokio::test]
async fn a_destination_that_is_down_holds_up_no_other() {
    let (down, up) = (Scripted::start([status(503)]).await, Scripted::start([status(200)]).await);
    let provider = provider().await;
    let app = Setup::all()
        .llm("openai", provider.url("/v1"))
        .destination("down", &down.url("/"))
        .destination("up", &up.url("/"))
        .toml("[[rule]]\nsource = [\"github\"]\nto = \"down\"\n[routing]\nfallback = \"up\"\n")
        .start()
        .await;
    for number in 0..4 {
        app.send(&app.sample("github", number)).await;
    }
    down.called(4).await;

    app.submit("Charged twice", "x").await;

    up.called(1).await[0].verified_key();
}

#[tokio::test]
async fn dead_letters_of_one_failure_raise_one_signed_alert() {
    let provider = Scripted::start([openai_error(400, "invalid_request_error", None)]).await;
    let on_call = Scripted::start([status(200)]).await;
    let app = Setup::all()
        .llm("openai", provider.url("/v1"))
        .destination("alerts", &on_call.url("/"))
        .toml("[routing]\nalerts = \"alerts\"\n")
        .start()
        .await;
    let jobs = [app.submit("One", "x").await, app.submit("Two", "x").await];
    let mut letters = HashSet::new();
    for job_id in &jobs {
        letters.insert(app.ended(job_id).await["dead_letter_id"].as_str().unwrap().to_owned());
    }

    let calls = on_call.called(1).await;

    assert!(calls[0].verified_key().starts_with("alert_"));
    let alert = calls[0].json();
    assert_eq!(
        (&alert["type"], &alert["data"]["error_class"]),
        (&"dead_letter.alert".into(), &"request_refused".into())
    );
    let told = alert["data"]["letters"].as_array().unwrap();
    let told: HashSet<String> =
        told.iter().map(|letter| letter["dead_letter_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, letters);
    let alerts: Vec<Value> = app.items("/v1/jobs?queue=routing").await;
    assert_eq!(alerts.len(), 1);
    assert_eq!((&alerts[0]["kind"], &alerts[0]["ticket_id"]), (&"alert".into(), &Value::Null));
}
