//! Claim: a ticket that is submitted over REST is committed once, however often it is sent.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::app::{Setup, TOKEN, TestApp};
use crate::support::reply::Reply;

async fn submit(app: &TestApp, key: Option<&str>, body: impl Into<Vec<u8>>) -> Reply {
    let mut request = app.http.post(app.url("/v1/tickets")).bearer_auth(TOKEN).body(body.into());
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    Reply::of(request).await
}

fn ticket() -> Value {
    json!({
        "subject": "Charged twice",
        "body": "<p>My invoice was charged twice.</p>",
        "external_id": "T-1",
        "requester": "ann@example.com",
        "labels": ["billing", "vip"],
        "priority": "P1",
        "url": "https://desk.example/T-1",
    })
}

#[tokio::test]
async fn a_submitted_ticket_is_accepted_and_names_where_to_look() {
    let app = Setup::ingest().start().await;
    let reply = submit(&app, None, ticket().to_string()).await;

    assert_eq!((reply.status, reply.text("/status").as_str()), (202, "accepted"));
    let job_id = reply.text("/job_id");
    assert_eq!(reply.header("location"), Some(format!("/v1/jobs/{job_id}").as_str()));
    let job = app.get(reply.header("location").unwrap()).await.json();
    assert_eq!((&job["state"], &job["source"]), (&"queued".into(), &"api".into()));
    let shown = app.get(&format!("/v1/tickets/{}", reply.text("/ticket_id"))).await.json();
    for key in ["subject", "body", "external_id", "requester", "labels", "url"] {
        assert_eq!(shown[key], ticket()[key], "{key}");
    }
    assert_eq!(shown["external_priority"], "P1");
}

#[tokio::test]
async fn the_same_key_with_the_same_body_names_the_same_job() {
    let app = Setup::ingest().start().await;
    let first = submit(&app, Some("key-1"), ticket().to_string()).await;
    for _ in 0..2 {
        let again = submit(&app, Some("key-1"), ticket().to_string()).await;
        assert_eq!((again.status, again.text("/status").as_str()), (202, "duplicate"));
        assert_eq!(again.text("/job_id"), first.text("/job_id"));
        assert_eq!(again.header("location"), first.header("location"));
    }
    assert_eq!(app.count("job").await, 1);
}

#[tokio::test]
async fn the_same_key_with_another_body_is_refused() {
    let app = Setup::ingest().start().await;
    submit(&app, Some("key-1"), ticket().to_string()).await;

    let other = json!({"subject": "Something else"}).to_string();
    submit(&app, Some("key-1"), other).await.is_problem(422, "idempotency-key-reused");

    assert_eq!(app.count("job").await, 1);
}

#[tokio::test]
async fn without_a_key_each_submission_is_a_job_of_its_own() {
    let app = Setup::ingest().start().await;
    let body = json!({"subject": "Charged twice"}).to_string();
    let [first, second] = [submit(&app, None, body.clone()).await, submit(&app, None, body).await];

    assert_ne!(first.text("/job_id"), second.text("/job_id"));
    assert_ne!(first.text("/ticket_id"), second.text("/ticket_id"));
}

#[tokio::test]
async fn a_second_submission_with_the_same_external_id_is_a_newer_version_of_the_ticket() {
    let app = Setup::ingest().start().await;
    let first = submit(&app, None, ticket().to_string()).await;
    let mut newer = ticket();
    newer["subject"] = "Charged three times".into();
    let second = submit(&app, None, newer.to_string()).await;

    assert_ne!(first.text("/job_id"), second.text("/job_id"));
    assert_eq!(first.text("/ticket_id"), second.text("/ticket_id"));
    let shown = app.get(&format!("/v1/tickets/{}", first.text("/ticket_id"))).await;
    assert_eq!(shown.text("/subject"), "Charged three times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_submissions_with_one_key_at_once_make_one_job() {
    let app = Setup::ingest().start().await;
    let body = ticket().to_string();

    let replies =
        futures_util::future::join_all((0..20).map(|_| submit(&app, Some("key-1"), body.clone()))).await;

    assert!(replies.iter().all(|reply| reply.status == 202), "{replies:?}");
    let jobs: HashSet<String> = replies.iter().map(|reply| reply.text("/job_id")).collect();
    assert_eq!((jobs.len(), app.count("job").await), (1, 1));
}

#[tokio::test]
async fn what_is_no_ticket_is_refused_with_the_reason() {
    let app = Setup::ingest().start().await;
    let long = "x".repeat(301);
    let bodies = [
        "",
        "{",
        "[]",
        "null",
        "subject=x",
        "{}",
        r#"{"subject":"  ","body":"\n"}"#,
        r#"{"subject":"\u0000\u0007"}"#,
        r#"{"subject":7}"#,
        r#"{"subject":"x","webhook":"http://169.254.169.254/"}"#,
        r#"{"subject":"x","external_id":""}"#,
        r#"{"subject":"x","external_id":"\u0000"}"#,
        &json!({"subject": "x", "external_id": long}).to_string(),
    ];
    for body in bodies {
        let reply = submit(&app, None, body).await;
        reply.is_problem(400, "body-invalid");
        assert!(!reply.text("/detail").is_empty(), "{body}");
    }
    submit(&app, Some(&long), r#"{"subject":"x"}"#).await.is_problem(400, "parameter-invalid");
    submit(&app, Some(""), r#"{"subject":"x"}"#).await.is_problem(400, "parameter-invalid");
    let large = json!({"subject": "x", "body": "y".repeat(1024 * 1024)}).to_string();
    submit(&app, None, large).await.is_problem(413, "body-too-large");
    assert_eq!((app.count("event").await, app.count("job").await), (0, 0));
}

#[tokio::test]
async fn harmful_characters_in_a_ticket_are_taken_out() {
    let app = Setup::ingest().start().await;
    let body = r#"{"subject":"a\u0000b\u001b[31m\u202e","body":"x\u0000","labels":["\u0000","l"],"external_id":"i\u0000d"}"#;

    let reply = submit(&app, None, body).await;

    let shown = app.get(&format!("/v1/tickets/{}", reply.text("/ticket_id"))).await.json();
    assert_eq!(
        (&shown["subject"], &shown["body"], &shown["external_id"]),
        (&"ab[31m".into(), &"x".into(), &"id".into())
    );
}
