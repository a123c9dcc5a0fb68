//! Claim: the API shows every row once, in shapes that others can rely on, and answers what it
//! cannot do with a problem that says why.

use std::collections::BTreeSet;

use chrono::DateTime;
use http::Method;
use serde_json::Value;
use uuid::Uuid;

use crate::support::app::{Setup, TestApp};
use crate::support::reply::Reply;

/// Of DESIGN section 8 and `docs/API.md`: within `/v1` shapes only grow.
const JOB: [&str; 18] = [
    "job_id",
    "kind",
    "queue",
    "state",
    "source",
    "ticket_id",
    "attempts",
    "attempts_used",
    "attempts_max",
    "verdict",
    "dead_letter_id",
    "replay_of",
    "error_class",
    "error",
    "created_at",
    "run_at",
    "finished_at",
    "links",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Asserts of everything in an answer that ids are UUIDv7 and times RFC 3339 in UTC.
#[track_caller]
fn is_well_formed(value: &Value) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            match value.as_str() {
                Some(text) if key.ends_with("_at") => {
                    assert!(
                        DateTime::parse_from_rfc3339(text).is_ok() && text.ends_with('Z'),
                        "{key}: {text}"
                    );
                }
                Some(text) if key.ends_with("_id") && key != "external_id" => {
                    assert!(text.parse::<Uuid>().is_ok_and(|id| id.get_version_num() == 7), "{key}: {text}");
                }
                _ => {}
            }
            is_well_formed(value);
        }),
        Value::Array(items) => items.iter().for_each(is_well_formed),
        _ => {}
    }
}

/// Goes through a list page by page.
async fn pages(app: &TestApp, path: &str, limit: usize, id: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = app.get(&format!("{path}limit={limit}{cursor}")).await.json();
        assert_eq!(keys(&page), BTreeSet::from(["items", "next_cursor"]));
        is_well_formed(&page);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        found.extend(items.iter().map(|item| item[id].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { return found };
        assert_eq!(items.len(), limit, "a page that is not the last is full");
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn a_job_has_the_documented_shape_from_its_birth_to_its_end() {
    let app = Setup::all().start().await;
    let job_id = app.submit("Charged twice", "My invoice was charged twice.").await;

    let job = app.ended(&job_id).await;

    assert_eq!(keys(&job), BTreeSet::from(JOB));
    is_well_formed(&job);
    assert_eq!(
        (&job["kind"], &job["state"], &job["source"]),
        (&"triage".into(), &"succeeded".into(), &"api".into())
    );
    for absent in ["dead_letter_id", "replay_of", "error_class", "error", "run_at"] {
        assert!(job[absent].is_null(), "{absent}: {job}");
    }
    let attempt = &job["attempts"][0];
    let attempt_keys =
        ["attempt", "outcome", "started_at", "finished_at", "duration_ms", "error_class", "error", "context"];
    assert_eq!(keys(attempt), BTreeSet::from(attempt_keys));
    assert_eq!((&attempt["attempt"], &attempt["outcome"]), (&1.into(), &"succeeded".into()));
    let verdict = keys(&job["verdict"]);
    for key in
        ["category", "priority", "confidence", "summary", "reasons", "needs_review", "destination", "model"]
    {
        assert!(verdict.contains(key), "{key}: {verdict:?}");
    }
    let confidence = job["verdict"]["confidence"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&confidence));
    let links = &job["links"];
    assert_eq!(links["self"], format!("/v1/jobs/{job_id}"));
    let ticket = app.get(links["ticket"].as_str().unwrap()).await.json();
    is_well_formed(&ticket);
    assert_eq!(ticket["verdict"], job["verdict"]);
}

#[tokio::test]
async fn a_list_shows_every_row_exactly_once_newest_first() {
    let app = Setup::ingest().start().await;
    let mut jobs = Vec::new();
    for number in 0..11 {
        jobs.push(app.submit(&format!("Ticket {number}"), "").await);
    }
    jobs.reverse();
    for limit in [1, 3, 11, 200] {
        assert_eq!(pages(&app, "/v1/jobs?", limit, "job_id").await, jobs, "pages of {limit}");
    }
    assert_eq!(pages(&app, "/v1/jobs?state=queued&source=api&queue=triage&", 4, "job_id").await, jobs);
    assert!(pages(&app, "/v1/jobs?state=dead&", 4, "job_id").await.is_empty());
    let tickets = pages(&app, "/v1/tickets?", 4, "ticket_id").await;
    let once: BTreeSet<&String> = tickets.iter().collect();
    assert_eq!((tickets.len(), once.len()), (11, 11));
    let one = app.items(&format!("/v1/jobs?ticket_id={}", tickets[0])).await;
    assert_eq!((one.len(), one[0]["job_id"].as_str()), (1, Some(jobs[0].as_str())));
}

#[tokio::test]
async fn a_list_that_grows_meanwhile_repeats_nothing() {
    let app = Setup::ingest().start().await;
    for number in 0..4 {
        app.submit(&format!("Ticket {number}"), "").await;
    }
    let first = app.get("/v1/jobs?limit=2").await;
    let newest = app.submit("Later", "").await;

    let rest = app.items(&format!("/v1/jobs?limit=200&cursor={}", first.text("/next_cursor"))).await;

    assert_eq!(rest.len(), 2);
    assert!(
        rest.iter().all(|job| job["job_id"] != newest && job["job_id"] != first.json()["items"][1]["job_id"])
    );
}

#[tokio::test]
async fn dead_letters_are_listed_page_by_page_too() {
    let app = Setup::ingest().start().await;
    let mut letters = Vec::new();
    for _ in 0..7 {
        let id = Uuid::now_v7();
        sqlx::query(
            "insert into dead_letter (dead_letter_id, job_id, lease_id, queue, kind, source, subject_id, args,
                                      priority, attempts_max, reason, error_class, error, attempt, crash_count,
                                      job_created_at)
             values ($1, $2, 1, 'triage', 'triage', 'github', $3, '{}', 2, 5, 'permanent', 'request_refused',
                     'no', 1, 0, now())",
        )
        .bind(id)
        .bind(Uuid::now_v7())
        .bind(Uuid::now_v7())
        .execute(app.database.pool())
        .await
        .unwrap();
        letters.insert(0, id.to_string());
    }
    for limit in [1, 3, 7, 50] {
        assert_eq!(pages(&app, "/v1/dead-letters?", limit, "dead_letter_id").await, letters);
    }
    let by =
        "/v1/dead-letters?error_class=request_refused&reason=permanent&source=github&queue=triage&state=all&";
    assert_eq!(pages(&app, by, 2, "dead_letter_id").await, letters);
    assert!(pages(&app, "/v1/dead-letters?state=replayed&", 2, "dead_letter_id").await.is_empty());
    let shown = app.get(&format!("/v1/dead-letters/{}", letters[0])).await.json();
    assert_eq!((&shown["state"], &shown["attempts"]), (&"open".into(), &Value::Array(vec![])));
}

#[tokio::test]
async fn an_unknown_id_is_not_found_under_the_code_of_its_kind() {
    let app = Setup::ingest().start().await;
    for id in ["01a22499-f800-7000-8000-000000000000", "7", "x", "%ff", "%00", "..%2f..%2fetc%2fpasswd"] {
        app.get(&format!("/v1/jobs/{id}")).await.is_problem(404, "job-unknown");
        app.get(&format!("/v1/tickets/{id}")).await.is_problem(404, "ticket-unknown");
        app.get(&format!("/v1/dead-letters/{id}")).await.is_problem(404, "dead-letter-unknown");
        let replay = format!("/v1/admin/dead-letters/{id}/replay");
        app.post_json(&replay, &Value::Null).await.is_problem(404, "dead-letter-unknown");
    }
}

#[tokio::test]
async fn a_parameter_that_cannot_be_read_is_named() {
    let app = Setup::ingest().start().await;
    for list in ["/v1/jobs", "/v1/tickets", "/v1/dead-letters"] {
        for query in [
            "limit=0",
            "limit=-1",
            "limit=201",
            "limit=1000000000000000000000",
            "limit=many",
            "limit=",
            "limit=1&limit=2",
            "cursor=x",
            "cursor=",
            "cursor=AAAA",
            "cursor=%00",
            "source=%00",
            "source=git%00hub",
        ] {
            let reply = app.get(&format!("{list}?{query}")).await;
            reply.is_problem(400, "parameter-invalid");
            assert!(!reply.text("/detail").is_empty(), "{list}?{query}");
        }
    }
    for query in
        ["/v1/jobs?state=lost", "/v1/jobs?ticket_id=7", "/v1/dead-letters?state=shut", "/v1/jobs?state=%00"]
    {
        app.get(query).await.is_problem(400, "parameter-invalid");
    }
    let injected = "/v1/jobs?source=x%27%20or%201%3D1%20--";
    assert!(app.items(injected).await.is_empty());
}

#[tokio::test]
async fn an_unknown_route_and_an_unknown_method_are_problems() {
    let app = Setup::ingest().start().await;
    for path in
        ["/", "/v1", "/v1/", "/v1/nothing", "/v2/jobs", "/v1/jobs/", "/console/../etc/passwd", "/.env"]
    {
        app.get(path).await.is_problem(404, "route-unknown");
    }
    for (method, path) in [
        (Method::DELETE, "/v1/jobs"),
        (Method::PUT, "/v1/tickets"),
        (Method::GET, "/v1/admin/replays"),
        (Method::POST, "/healthz"),
        (Method::POST, "/openapi.json"),
    ] {
        let reply = Reply::of(app.http.request(method.clone(), app.url(path)).bearer_auth("x")).await;
        reply.is_problem(405, "method-not-allowed");
        assert!(reply.header("allow").is_some(), "{method} {path}");
    }
}
