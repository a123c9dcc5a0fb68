//! Claim: a delivery gets exactly the answer that its sender can rely on, and nothing is kept of
//! what was not proven.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use hooktriage::ingest::signature::{KeyEncoding, Secret};
use hooktriage::simulator::deliveries::{Outgoing, prepare};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::app::{GITHUB_SECRETS, Setup, TestApp};
use crate::support::reply::Reply;

const SOURCES: [&str; 4] = ["github", "zendesk", "standard-webhooks", "shop"];

/// The headers of GitHub for a body, signed with any secret.
fn github_headers(app: &TestApp, secret: &str, body: &[u8]) -> HeaderMap {
    let source = app.source("github");
    let secret = Secret::parse(secret, KeyEncoding::Utf8).unwrap();
    let outgoing = Outgoing {
        preset: source.preset(),
        target: "/webhooks/github",
        body,
        event_type: None,
        delivery_id: None,
    };
    prepare(source.scheme(), &secret, &outgoing, Utc::now()).unwrap()
}

fn set(headers: &HeaderMap, name: &'static str, value: &str) -> HeaderMap {
    let mut headers = headers.clone();
    headers.insert(name, value.parse().unwrap());
    headers
}

fn is_uuid_v7(text: &str) -> bool {
    text.parse::<Uuid>().is_ok_and(|id| id.get_version_num() == 7)
}

#[tokio::test]
async fn a_good_delivery_of_every_source_is_accepted_and_names_its_job() {
    let app = Setup::ingest().start().await;

    for (number, source) in SOURCES.into_iter().enumerate() {
        let reply = app.send(&app.sample(source, number)).await;

        assert_eq!(reply.status, 200, "{source}: {reply:?}");
        assert_eq!(reply.text("/status"), "accepted");
        let job = app.job(&reply.text("/job_id")).await;
        assert_eq!(job["source"], source);
        assert_eq!(job["state"], "queued");
        assert_eq!(job["ticket_id"], reply.json()["ticket_id"]);
        let ids = ["/job_id", "/ticket_id", "/event_id"].map(|pointer| reply.text(pointer));
        assert!(ids.iter().all(|id| is_uuid_v7(id)), "{ids:?}");
    }
}

#[tokio::test]
async fn a_repeated_delivery_is_answered_with_the_same_job() {
    let app = Setup::ingest().start().await;

    for (number, source) in SOURCES.into_iter().enumerate() {
        let delivery = app.sample(source, number);
        let first = app.send(&delivery).await.json();
        for _ in 0..3 {
            let again = app.send(&delivery).await;
            assert_eq!((again.status, again.text("/status").as_str()), (200, "duplicate"), "{source}");
            for id in ["job_id", "ticket_id", "event_id"] {
                assert_eq!(again.json()[id], first[id], "{source}");
            }
        }
    }
    assert_eq!((app.count("event").await, app.count("job").await), (4, 4));
}

#[tokio::test]
async fn a_captured_body_under_a_new_unsigned_delivery_id_is_a_duplicate() {
    let app = Setup::ingest().start().await;
    for source in ["github", "shop"] {
        let name = if source == "github" { "x-github-delivery" } else { "x-shop-delivery" };
        let delivery = app.sample(source, 1);
        let first = app.send(&delivery).await;
        let forged = set(&delivery.headers, name, "00000000-0000-0000-0000-000000000000");

        let again = app.post(&delivery.path, forged, delivery.body).await;

        assert_eq!(again.text("/status"), "duplicate", "{source}");
        assert_eq!(again.text("/job_id"), first.text("/job_id"), "{source}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_identical_deliveries_at_once_make_one_job() {
    let app = Setup::ingest().start().await;
    let delivery = app.sample("github", 1);

    let replies = futures_util::future::join_all((0..50).map(|_| app.send(&delivery))).await;

    assert!(replies.iter().all(|reply| reply.status == 200), "{replies:?}");
    let jobs: HashSet<String> = replies.iter().map(|reply| reply.text("/job_id")).collect();
    assert_eq!(jobs.len(), 1);
    let accepted = replies.iter().filter(|reply| reply.text("/status") == "accepted").count();
    assert_eq!(accepted, 1);
    assert_eq!((app.count("event").await, app.count("ticket").await, app.count("job").await), (1, 1, 1));
}

#[tokio::test]
async fn an_unknown_source_and_every_variant_of_a_path_is_not_found() {
    let app = Setup::ingest().start().await;
    let delivery = app.sample("github", 1);

    for path in [
        "/webhooks/nobody",
        "/webhooks/GitHub",
        "/webhooks/github%2f",
        "/webhooks/github%00",
        "/webhooks/github.",
        "/webhooks/%20github",
        "/webhooks/github%ff",
        "/webhooks/%ff",
    ] {
        app.post(path, delivery.headers.clone(), delivery.body.clone())
            .await
            .is_problem(404, "source-unknown");
    }
    for path in [
        "/webhooks",
        "/webhooks/",
        "/webhooks/github/",
        "/webhooks//github",
        "//webhooks/github",
        "/webhooks/github/github",
        "/Webhooks/github",
        "/webhooks%2fgithub",
        "/webhook/github",
        "/v1/webhooks/github",
        "/",
    ] {
        app.post(path, delivery.headers.clone(), delivery.body.clone())
            .await
            .is_problem(404, "route-unknown");
    }
    assert_eq!(app.count("event").await, 0);
}

#[tokio::test]
async fn a_head_request_tells_whether_there_is_a_source_and_other_methods_are_not_allowed() {
    let app = Setup::ingest().start().await;

    assert_eq!(app.bare(Method::HEAD, "/webhooks/github").await.status, 200);
    assert_eq!(app.bare(Method::HEAD, "/webhooks/nobody").await.status, 404);
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        let reply = app.bare(method.clone(), "/webhooks/github").await;
        reply.is_problem(405, "method-not-allowed");
        let allowed: HashSet<&str> = reply.header("allow").unwrap().split(',').map(str::trim).collect();
        assert_eq!(allowed, HashSet::from(["POST", "HEAD"]), "{method}");
    }
}

/// Everything of an answer that a sender sees, without what differs by nature.
fn seen(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let differs = |name: &HeaderName| name == "date" || name == "x-request-id";
    let headers = reply.headers.iter().filter(|(name, _)| !differs(name));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (reply.status, headers.collect(), reply.body.clone())
}

#[tokio::test]
async fn every_refused_signature_gets_the_same_answer_without_detail() {
    let app = Setup::ingest().start().await;
    let delivery = app.sample("standard-webhooks", 1);
    let good = &delivery.headers;
    let signature = good["webhook-signature"].to_str().unwrap().to_owned();
    let mut repeated = good.clone();
    repeated.append("webhook-signature", HeaderValue::from_str(&signature).unwrap());
    let mut changed = delivery.body.clone();
    changed.push(b' ');
    let at = |delta| app.signed_at("standard-webhooks", &delivery.body, None, Utc::now() + delta);
    let with = |value: &str| (set(good, "webhook-signature", value), delivery.body.clone());
    let without = |name: &str| {
        let mut headers = good.clone();
        headers.remove(name);
        (headers, delivery.body.clone())
    };

    let refused: Vec<(HeaderMap, Vec<u8>)> = vec![
        (HeaderMap::new(), delivery.body.clone()),
        without("webhook-signature"),
        without("webhook-timestamp"),
        without("webhook-id"),
        with(""),
        with("v1,"),
        with("v1"),
        with(&signature[..signature.len() - 1]),
        with(&format!("{signature}AAAA")),
        with(&signature.to_uppercase()),
        with("v1,not base64 at all"),
        with(&signature.replace("v1,", "v2,")),
        with(&vec!["v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="; 100].join(" ")),
        (repeated, delivery.body.clone()),
        (good.clone(), changed),
        (good.clone(), vec![]),
        (set(good, "webhook-id", "msg_other"), delivery.body.clone()),
        (set(good, "webhook-timestamp", "soon"), delivery.body.clone()),
        (at(TimeDelta::seconds(-310)), delivery.body.clone()),
        (at(TimeDelta::seconds(70)), delivery.body.clone()),
        (at(TimeDelta::days(-365)), delivery.body.clone()),
    ];
    let first = app.post(&delivery.path, refused[0].0.clone(), refused[0].1.clone()).await;
    first.is_problem(401, "signature-refused");
    assert_eq!(first.json().as_object().unwrap().len(), 4, "type, code, status and title: {first:?}");
    for (at, (headers, body)) in refused.into_iter().enumerate() {
        let reply = app.post(&delivery.path, headers, body).await;
        assert_eq!(seen(&reply), seen(&first), "case {at}");
    }
    assert_eq!(app.count("event").await, 0);

    assert_eq!(app.send(&delivery).await.status, 200, "the delivery itself was good");
}

#[tokio::test]
async fn the_old_and_the_new_secret_are_live_together_and_no_third() {
    let app = Setup::ingest().start().await;
    for (number, secret) in GITHUB_SECRETS.into_iter().enumerate() {
        let body = app.sample("github", number).body;
        let reply = app.post("/webhooks/github", github_headers(&app, secret, &body), body).await;
        assert_eq!(reply.text("/status"), "accepted", "{secret}");
    }
    let body = app.sample("github", 7).body;
    let headers = github_headers(&app, "github-secret-from-last-year", &body);
    app.post("/webhooks/github", headers, body).await.is_problem(401, "signature-refused");
}

#[tokio::test]
async fn a_signed_time_counts_on_both_sides() {
    let app = Setup::ingest().start().await;
    // Zendesk repeats for longer than the others, so its deliveries may be older.
    for (source, seconds, status) in [
        ("standard-webhooks", -290, 200),
        ("standard-webhooks", -310, 401),
        ("standard-webhooks", 50, 200),
        ("standard-webhooks", 75, 401),
        ("zendesk", -890, 200),
        ("zendesk", -910, 401),
        ("zendesk", 50, 200),
        ("zendesk", 75, 401),
    ] {
        let body = app.sample(source, 1).body;
        let at: DateTime<Utc> = Utc::now() + TimeDelta::seconds(seconds);
        let headers = app.signed_at(source, &body, None, at);
        let reply = app.post(&format!("/webhooks/{source}"), headers, body).await;
        assert_eq!(reply.status, status, "{source}, signed {seconds} s from now");
    }
}

#[tokio::test]
async fn a_ping_is_answered_and_nothing_is_stored() {
    let app = Setup::ingest().start().await;
    let body = include_bytes!("../fixtures/deliveries/github-ping.json");
    let ping = set(&app.signed("github", body), "x-github-event", "ping");

    let reply = app.post("/webhooks/github", ping.clone(), body).await;

    assert_eq!((reply.status, reply.json()), (200, json!({"status": "pong"})));
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let unsigned = set(&ping, "x-hub-signature-256", "sha256=00");
    app.post("/webhooks/github", unsigned, body).await.is_problem(401, "signature-refused");
    assert_eq!(app.count("event").await, 0);
}

#[tokio::test]
async fn an_event_without_a_ticket_is_ignored_with_200() {
    let app = Setup::ingest().start().await;
    let comment = include_bytes!("../fixtures/deliveries/github-issue-comment.json");
    let comment_headers = set(&app.signed("github", comment), "x-github-event", "issue_comment");
    let replies = [
        app.post("/webhooks/github", comment_headers, comment).await,
        app.deliver("zendesk", *include_bytes!("../fixtures/deliveries/zendesk-tags-changed.json")).await,
        app.deliver("standard-webhooks", br#"{"type":"invoice.paid","data":{"id":1}}"#).await,
        app.deliver("shop", br#"{"type":"cart.emptied","id":1,"subject":"x"}"#).await,
    ];
    for reply in replies {
        assert_eq!((reply.status, reply.json()), (200, json!({"status": "ignored"})));
    }
    assert_eq!((app.count("event").await, app.count("job").await), (0, 0));
}

#[tokio::test]
async fn what_cannot_be_read_is_kept_whole_and_answered_with_200() {
    let app = Setup::ingest().start().await;
    let bodies: [(&str, &[u8]); 6] = [
        ("standard-webhooks", b"{\"type\":\"ticket.created\",\"data\":{\"id\":1"),
        ("standard-webhooks", b"{\"type\":\"ticket.created\",\"data\":{\"subject\":\"no id\"}}"),
        ("standard-webhooks", b"\xff\xfe\x00 no text at all"),
        ("github", b"<xml/>"),
        ("zendesk", b"{\"type\":\"zen:event-type:ticket.created\"}"),
        ("shop", b""),
    ];
    for (source, body) in bodies {
        let headers = app.signed(source, body);
        let path = format!("/webhooks/{source}");
        let reply = app.post(&path, headers.clone(), body).await;

        assert_eq!((reply.status, reply.text("/status").as_str()), (200, "quarantined"), "{source} {body:?}");
        let event_id: Uuid = reply.text("/event_id").parse().unwrap();
        assert_eq!(reply.json().get("job_id"), None);
        let (state, kept, fault): (String, Vec<u8>, String) =
            sqlx::query_as("select state, body, fault from event where event_id = $1")
                .bind(event_id)
                .fetch_one(app.database.pool())
                .await
                .unwrap();
        assert_eq!((state.as_str(), kept.as_slice()), ("quarantined", body));
        assert!(!fault.is_empty());

        let again = app.post(&path, headers, body).await;
        assert_eq!((again.text("/status").as_str(), again.json().get("job_id")), ("duplicate", None));
        assert_eq!(again.json()["event_id"], json!(event_id));
    }
    assert_eq!(app.count("job").await, 0);
}

#[tokio::test]
async fn github_may_send_its_json_in_a_form() {
    let app = Setup::ingest().start().await;
    let json = app.sample("github", 3).body;
    let json = std::str::from_utf8(&json).unwrap();
    let body = url::form_urlencoded::Serializer::new(String::new()).append_pair("payload", json).finish();
    let form = "application/x-www-form-urlencoded";
    let headers = set(&app.signed("github", body.as_bytes()), "content-type", form);

    let reply = app.post("/webhooks/github", headers, body).await;

    assert_eq!(reply.text("/status"), "accepted");
    let ticket = app.get(&format!("/v1/tickets/{}", reply.text("/ticket_id"))).await;
    let sent: Value = serde_json::from_str(json).unwrap();
    assert_eq!(ticket.json()["subject"], sent["issue"]["title"]);

    let empty = set(&app.signed("github", b"payload"), "content-type", form);
    let reply = app.post("/webhooks/github", empty, "payload").await;
    assert_eq!(reply.text("/status"), "quarantined");
}

#[tokio::test]
async fn a_delivery_is_no_way_into_the_rest_of_the_service() {
    let app = Setup::ingest().start().await;
    let hostile = HeaderValue::from_static("' or 1=1; drop table event; --");
    let delivery = app.sample("github", 1);
    let mut headers = delivery.headers.clone();
    for name in ["x-github-delivery", "authorization", "user-agent", "x-request-id", "x-forwarded-for"] {
        headers.insert(name, hostile.clone());
    }

    let reply = app.post(&delivery.path, headers, delivery.body).await;

    assert_eq!(reply.text("/status"), "accepted");
    assert!(is_uuid_v7(reply.header("x-request-id").unwrap()), "an id of the caller's is not taken over");
    assert_eq!(app.count("event").await, 1);
}
