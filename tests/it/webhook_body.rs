//! Claim: the bytes of a delivery are taken as they come, up to the cap, however they are cut into
//! pieces, and whatever is in them is triaged or kept.

use std::time::Duration;

use http::HeaderMap;
use serde_json::json;

use crate::support::app::{Setup, TestApp};
use crate::support::raw::{RawConnection, head};
use crate::support::reply::Reply;
use crate::support::wait::eventually;

const CAP: usize = 4096;

async fn capped() -> TestApp {
    Setup::ingest().server(&format!("body_bytes_max = {CAP}\ncommit_patience_ms = 20000")).start().await
}

/// A good body of exactly this length.
fn padded(bytes: usize) -> Vec<u8> {
    let body = |filling: &str| format!(r#"{{"id":1,"subject":"x","body":"{filling}"}}"#);
    let filling = "y".repeat(bytes - body("").len());
    body(&filling).into_bytes()
}

/// Posts a body in chunks of this size.
async fn chunked(app: &TestApp, path: &str, headers: &HeaderMap, body: &[u8], size: usize) -> Reply {
    let mut connection = RawConnection::open(app.address).await;
    connection.send(&head(path, headers, "transfer-encoding: chunked\r\n")).await;
    for piece in body.chunks(size) {
        connection.chunk(piece).await;
    }
    connection.send(b"0\r\n\r\n").await;
    connection.reply().await
}

#[tokio::test]
async fn a_body_at_the_cap_is_taken_and_one_byte_more_is_not() {
    let app = capped().await;
    assert_eq!(app.deliver("shop", padded(CAP)).await.text("/status"), "accepted");

    app.deliver("shop", padded(CAP + 1)).await.is_problem(413, "body-too-large");

    let headers = app.signed("shop", &padded(CAP));
    let reply = chunked(&app, "/webhooks/shop", &headers, &padded(CAP), 1000).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = chunked(&app, "/webhooks/shop", &headers, &padded(CAP + 1), 1000).await;
    reply.is_problem(413, "body-too-large");
    assert_eq!(app.count("event").await, 1);
}

#[tokio::test]
async fn a_body_far_over_the_cap_is_refused_before_its_signature_is_looked_at() {
    let app = capped().await;
    for unsigned in [HeaderMap::new(), app.signed("shop", b"other")] {
        let reply = app.post("/webhooks/shop", unsigned, padded(50 * CAP)).await;
        reply.is_problem(413, "body-too-large");
        assert_eq!(reply.header("connection"), Some("close"));
    }
}

#[tokio::test]
async fn whoever_announces_too_much_is_refused_without_sending_it() {
    let app = capped().await;
    let mut connection = RawConnection::open(app.address).await;
    let more = format!("content-length: {}\r\nexpect: 100-continue\r\n", 1_u64 << 40);
    connection.send(&head("/webhooks/shop", &HeaderMap::new(), &more)).await;

    connection.reply().await.is_problem(413, "body-too-large");
}

#[tokio::test]
async fn the_refusal_reaches_a_sender_that_is_still_sending() {
    let app = capped().await;
    for _ in 0..20 {
        let reply = app.post("/webhooks/shop", HeaderMap::new(), vec![b'x'; 3 * 1024 * 1024]).await;
        reply.is_problem(413, "body-too-large");

        // Many senders write everything before they read.
        let mut connection = RawConnection::open(app.address).await;
        connection.send(&head("/webhooks/shop", &HeaderMap::new(), "content-length: 3145728\r\n")).await;
        connection.send(&[b'x'; 3 * 1024 * 1024]).await;
        connection.reply().await.is_problem(413, "body-too-large");
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_at_the_cap() {
    let app = capped().await;
    let mut connection = RawConnection::open(app.address).await;
    connection.send(&head("/webhooks/shop", &HeaderMap::new(), "transfer-encoding: chunked\r\n")).await;
    let mut sent = 0;
    while connection.chunk(&[b'x'; 8192]).await {
        sent += 8192;
        assert!(sent < 512 * 1024 * 1024, "it is still read");
    }
}

#[tokio::test]
async fn a_body_in_chunks_of_any_size_is_the_same_body() {
    let app = Setup::ingest().start().await;
    let delivery = app.sample("github", 1);
    let mut answers = Vec::new();
    for size in [1, 7, 1024, delivery.body.len()] {
        let reply = chunked(&app, &delivery.path, &delivery.headers, &delivery.body, size).await;
        answers.push((reply.status, reply.text("/status")));
    }
    let duplicate = || (200, "duplicate".to_owned());
    assert_eq!(answers, [(200, "accepted".to_owned()), duplicate(), duplicate(), duplicate()]);
}

#[tokio::test]
async fn no_body_and_an_empty_chunked_body_are_the_empty_body() {
    let app = Setup::ingest().start().await;
    let headers = app.signed("shop", b"");

    let reply = chunked(&app, "/webhooks/shop", &headers, b"", 1).await;
    assert_eq!((reply.status, reply.text("/status").as_str()), (200, "quarantined"));

    let mut connection = RawConnection::open(app.address).await;
    connection.send(&head("/webhooks/shop", &headers, "")).await;
    let reply = connection.reply().await;
    assert_eq!((reply.status, reply.text("/status").as_str()), (200, "duplicate"));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_taken() {
    let app = Setup::ingest().start().await;
    let delivery = app.sample("github", 1);
    let (half, _) = delivery.body.split_at(delivery.body.len() / 2);
    for more in
        [format!("content-length: {}\r\n", delivery.body.len()), "transfer-encoding: chunked\r\n".into()]
    {
        let mut connection = RawConnection::open(app.address).await;
        connection.send(&head(&delivery.path, &delivery.headers, &more)).await;
        let sent = if more.starts_with("content") {
            connection.send(half).await
        } else {
            connection.chunk(half).await
        };
        assert!(sent);
        drop(connection);
    }
    let mut connection = RawConnection::open(app.address).await;
    connection.send(&head(&delivery.path, &delivery.headers, "transfer-encoding: chunked\r\n")).await;
    connection.send(b"this is no chunk\r\n").await;
    assert_eq!(connection.reply().await.status, 400);

    assert_eq!(app.send(&delivery).await.text("/status"), "accepted");
    assert_eq!(app.count("event").await, 1);
}

#[tokio::test]
async fn a_compressed_body_and_foreign_kinds_of_body_are_not_taken() {
    let app = Setup::ingest().start().await;
    let delivery = app.sample("github", 1);
    let with = |name: &'static str, values: &[&str]| {
        let mut headers = delivery.headers.clone();
        headers.remove(name);
        values.iter().for_each(|value| _ = headers.append(name, value.parse().unwrap()));
        headers
    };
    for encoding in [&["gzip"][..], &["deflate"], &["br"], &["zstd"], &["GZIP"], &["identity", "gzip"], &[""]]
    {
        let reply = app.post(&delivery.path, with("content-encoding", encoding), delivery.body.clone()).await;
        reply.is_problem(415, "media-type-unsupported");
    }
    for kind in
        ["multipart/form-data; boundary=x", "application/xml", "text/html", "image/png", "nonsense", ""]
    {
        let reply = app.post(&delivery.path, with("content-type", &[kind]), delivery.body.clone()).await;
        reply.is_problem(415, "media-type-unsupported");
    }
    assert_eq!(app.count("event").await, 0);
    for (number, kind) in [
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/cloudevents+json",
        "text/plain",
        "application/octet-stream",
    ]
    .into_iter()
    .enumerate()
    {
        let delivery = app.sample("shop", number);
        let mut headers = delivery.headers.clone();
        headers.insert("content-type", kind.parse().unwrap());
        headers.insert("content-encoding", "identity".parse().unwrap());
        let reply = app.post(&delivery.path, headers, delivery.body).await;
        assert_eq!(reply.text("/status"), "accepted", "{kind}");
    }
}

#[tokio::test]
async fn whatever_is_in_a_body_it_is_triaged() {
    let app = Setup::all().start().await;
    let long = format!(r#"{{"id":"long","subject":"s","body":"{}"}}"#, "invoice ".repeat(230_000));
    let deep = format!(
        r#"{{"deep":{}{},"id":"deep","subject":"charged twice"}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("standard-webhooks", include_bytes!("../fixtures/deliveries/standard-ticket-created.json").to_vec()),
        ("github", include_bytes!("../fixtures/deliveries/github-issues-opened.json").to_vec()),
        ("github", include_bytes!("../fixtures/deliveries/github-issues-edited-null-body.json").to_vec()),
        ("zendesk", include_bytes!("../fixtures/deliveries/zendesk-ticket-created.json").to_vec()),
        ("zendesk", include_bytes!("../fixtures/deliveries/zendesk-trigger.json").to_vec()),
        (
            "shop",
            "{\"id\":\"emoji\",\"subject\":\"🧯👩‍🚀 señor\",\"body\":\"raw \u{2028}\u{2029} here\"}".into(),
        ),
        ("shop", br#"{"id":"escaped","subject":"\u2028 \/ \ud83d\ude00","body":"a\/b\\c"}"#.to_vec()),
        ("shop", br#"{"id":"nul","subject":"a\u0000b","body":"\u0000\u0001\u001b[31m"}"#.to_vec()),
        ("shop", br#"{"id":"lone","subject":"half \ud800 and \udfff","body":"x"}"#.to_vec()),
        (
            "shop",
            br#"{"id":"number","subject":"n","size":1e131071,"big":123456789012345678901234567890}"#.to_vec(),
        ),
        (
            "shop",
            b"\xEF\xBB\xBF{ \"id\" : \"bom\" , \"subject\":\"x\" ,\r\n\t\"subject\":\"twice\" }\n".to_vec(),
        ),
        ("shop", br#"{"id":"empty","subject":"","body":null}"#.to_vec()),
        (
            "shop",
            br#"{"id":"html","subject":"<script>alert(1)</script>","body":"<p>&lt;b&gt;<!-- x --></p>"}"#
                .to_vec(),
        ),
        ("shop", deep.into_bytes()),
        ("shop", long.into_bytes()),
    ];
    for (source, body) in bodies {
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let reply = app.deliver(source, body).await;
        assert_eq!((reply.status, reply.text("/status").as_str()), (200, "accepted"), "{source} {start}");

        let job = app.ended(&reply.text("/job_id")).await;

        assert_eq!(job["state"], "succeeded", "{start}: {job}");
        assert!(job["verdict"]["priority"].is_string(), "{start}: {job}");
        let ticket = app.get(&format!("/v1/tickets/{}", reply.text("/ticket_id"))).await;
        assert_eq!(ticket.json()["verdict"], job["verdict"], "{start}");
        assert!(!ticket.body.contains("\\u0000") && !ticket.body.contains("\\u001b"), "{start}");
    }
}

#[tokio::test]
async fn senders_that_hang_up_leave_no_session_in_a_transaction() {
    let app = Setup::ingest().start().await;
    for number in 0..60 {
        let delivery = app.sample("github", number);
        let mut connection = RawConnection::open(app.address).await;
        let length = format!("content-length: {}\r\n", delivery.body.len());
        connection.send(&head(&delivery.path, &delivery.headers, &length)).await;
        connection.send(&delivery.body).await;
        // Gone before, while or after it is written.
        tokio::time::timeout(Duration::from_micros(number as u64 * 100), connection.closes()).await.ok();
    }

    assert_eq!(app.send(&app.sample("github", 99)).await.json()["status"], json!("accepted"));
    eventually(Duration::from_secs(10), || async {
        let stuck: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
              where datname = current_database() and state like 'idle in transaction%'",
        )
        .fetch_one(app.database.pool())
        .await
        .unwrap();
        (stuck == 0).then_some(())
    })
    .await;
    assert_eq!(app.count("event").await, app.count("job").await);
}
