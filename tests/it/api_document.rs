//! Claim: the OpenAPI document is the API: every route in it is there and guarded as it says, and
//! answers look as it says. The metrics are those that are documented.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::support::app::{Setup, TOKEN, TestApp};
use crate::support::provider::{Scripted, classification, openai, openai_error};
use crate::support::reply::Reply;

const ID: &str = "01a22499-f800-7000-8000-000000000000";
/// Routes that need no token, by intent.
const OPEN: [&str; 4] = ["/webhooks/{source}", "/healthz", "/readyz", "/metrics"];

async fn document(app: &TestApp) -> Value {
    let reply = app.bare(Method::GET, "/openapi.json").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    reply.json()
}

/// Every operation: path, method and description.
fn operations(document: &Value) -> Vec<(String, Method, &Value)> {
    let methods = ["get", "head", "post", "put", "patch", "delete"];
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 10, "{paths:?}");
    let mut found = Vec::new();
    for (path, item) in paths {
        for (method, operation) in
            item.as_object().unwrap().iter().filter(|(key, _)| methods.contains(&key.as_str()))
        {
            found.push((path.clone(), method.to_uppercase().parse().unwrap(), operation));
        }
    }
    found
}

fn filled(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.iter_mut().filter(|part| part.starts_with('{')).for_each(|part| *part = ID);
    parts.join("/")
}

#[tokio::test]
async fn every_route_of_v1_asks_for_the_token_and_no_other_does() {
    let app = Setup::ingest().start().await;
    let document = document(&app).await;
    let guesses = [
        None,
        Some("Bearer"),
        Some("Bearer x"),
        Some("Bearer it_token_0123456789abcde"),
        Some("Bearer it_token_0123456789abcdefg"),
        Some("Bearer IT_TOKEN_0123456789ABCDEF"),
        Some("Basic it_token_0123456789abcdef"),
        Some("it_token_0123456789abcdef"),
        Some("Bearer ' or 1=1 --"),
    ];
    let mut guarded = 0;
    for (path, method, operation) in operations(&document) {
        let is_open = OPEN.contains(&path.as_str());
        assert_eq!(is_open, operation["security"].is_null(), "{method} {path}");
        assert_ne!(is_open, path.starts_with("/v1/"), "{path}");
        if is_open {
            continue;
        }
        guarded += 1;
        for guess in guesses {
            let mut request = app.http.request(method.clone(), app.url(&filled(&path)));
            if let Some(value) = guess {
                request = request.header("authorization", value);
            }
            let reply = Reply::of(request).await;
            reply.is_problem(401, "unauthorized");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{method} {path}");
        }
    }
    assert!(guarded >= 9, "{guarded}");
}

#[tokio::test]
async fn every_documented_route_is_there() {
    let app = Setup::ingest().start().await;
    let document = document(&app).await;
    let mut seen = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        assert!(seen.insert((path.clone(), method.clone())), "{method} {path} stands twice");
        assert!(!operation["responses"].as_object().unwrap().is_empty(), "{method} {path}");
        let request = app.http.request(method.clone(), app.url(&filled(&path)));
        let reply = Reply::of(request.bearer_auth(TOKEN)).await;
        assert!(!reply.body.contains("route-unknown") && reply.status != 405, "{method} {path}: {reply:?}");
        assert!(reply.status < 500, "{method} {path}: {reply:?}");
        let placeholders = path.matches('{').count();
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        assert_eq!(in_path.count(), placeholders, "{method} {path}");
    }
}

#[tokio::test]
async fn the_document_is_whole() {
    let app = Setup::ingest().start().await;
    let document = document(&app).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let ids: Vec<&str> = operations(&document)
        .iter()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    let once: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(once.len(), ids.len(), "an operationId stands twice: {ids:?}");
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

/// Asserts that an answer is as the document says of this operation and status.
fn fits(document: &Value, path: &str, method: &str, reply: &Reply) {
    let exact = reply.status.to_string();
    let range = format!("{}XX", reply.status / 100);
    let responses = &document["paths"][path][method]["responses"];
    let response =
        [exact.as_str(), range.as_str()].into_iter().map(|key| &responses[key]).find(|it| !it.is_null());
    let response = response.unwrap_or_else(|| panic!("{method} {path} documents no {exact}"));
    let content = response["content"].as_object().unwrap();
    let schema = &content.values().next().unwrap()["schema"];
    let schema = json!({"allOf": [schema], "components": document["components"]});
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(&reply.json())
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{method} {path} {exact}: {faults:?}");
}

/// A service in which one ticket was triaged, one died, and senders were right and wrong.
async fn busy() -> (TestApp, Scripted, String, String) {
    let provider = Scripted::start([openai_error(400, "invalid_request_error", None)]).await;
    let app = Setup::all().llm("openai", provider.url("/v1")).start().await;
    let dead = app.submit("This one dies", "").await;
    let letter = app.ended(&dead).await["dead_letter_id"].as_str().unwrap().to_owned();
    provider.answer(openai(&classification("billing")));
    let reply = app.send(&app.sample("github", 1)).await;
    assert_eq!(reply.status, 200);
    app.ended(&reply.text("/job_id")).await;
    assert_eq!(app.post("/webhooks/github", http::HeaderMap::new(), "{}").await.status, 401);
    (app, provider, dead, letter)
}

#[tokio::test]
async fn answers_look_as_the_document_says() {
    let (app, _provider, dead, letter) = busy().await;
    let document = document(&app).await;
    for (path, filled) in [
        ("/v1/jobs", "/v1/jobs".to_owned()),
        ("/v1/jobs", "/v1/jobs?limit=0".to_owned()),
        ("/v1/jobs/{job_id}", format!("/v1/jobs/{dead}")),
        ("/v1/jobs/{job_id}", format!("/v1/jobs/{ID}")),
        ("/v1/tickets", "/v1/tickets".to_owned()),
        ("/v1/dead-letters", "/v1/dead-letters".to_owned()),
        ("/v1/dead-letters/{dead_letter_id}", format!("/v1/dead-letters/{letter}")),
        ("/healthz", "/healthz".to_owned()),
        ("/readyz", "/readyz".to_owned()),
    ] {
        fits(&document, path, "get", &app.get(&filled).await);
    }
    let ticket = app.items("/v1/tickets").await[0]["ticket_id"].as_str().unwrap().to_owned();
    fits(&document, "/v1/tickets/{ticket_id}", "get", &app.get(&format!("/v1/tickets/{ticket}")).await);
    fits(&document, "/v1/tickets", "post", &app.post_json("/v1/tickets", &json!({"subject": "x"})).await);
    fits(&document, "/v1/tickets", "post", &app.post_json("/v1/tickets", &json!({})).await);
    fits(&document, "/webhooks/{source}", "post", &app.send(&app.sample("zendesk", 2)).await);
    fits(&document, "/webhooks/{source}", "post", &app.bare(Method::POST, "/webhooks/github").await);
    let dry = json!({"all": true, "dry_run": true});
    fits(&document, "/v1/admin/replays", "post", &app.post_json("/v1/admin/replays", &dry).await);
    let replay = "/v1/admin/dead-letters/{dead_letter_id}/replay";
    let path = format!("/v1/admin/dead-letters/{letter}/replay");
    fits(&document, replay, "post", &app.post_json(&path, &Value::Null).await);
    fits(&document, replay, "post", &app.post_json(&path, &Value::Null).await);
}

#[tokio::test]
async fn after_some_traffic_every_metric_that_is_described_is_shown() {
    let (app, _provider, ..) = busy().await;
    let reply = app.bare(Method::GET, "/metrics").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));

    let described = include_str!("../../src/telemetry/metrics.rs").split('"');
    let described: BTreeSet<&str> = described.filter(|word| word.starts_with("hooktriage_")).collect();
    assert!(described.len() >= 11, "{described:?}");
    for name in described {
        assert!(reply.body.contains(&format!("# TYPE {name} ")), "{name} is not in:\n{}", reply.body);
    }
    for line in [
        r#"hooktriage_deliveries_total{source="github",outcome="accepted"}"#,
        r#"hooktriage_signature_refusals_total{source="github",reason="missing_header"}"#,
        r#"hooktriage_jobs{queue="triage",state="due"} "#,
        r#"hooktriage_jobs{queue="routing",state="running"} "#,
        "hooktriage_acknowledge_seconds_bucket",
    ] {
        assert!(reply.body.contains(line), "{line} is not in:\n{}", reply.body);
    }
    let sample = |line: &&str| !line.starts_with('#') && !line.is_empty();
    for line in reply.body.lines().filter(sample) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}
