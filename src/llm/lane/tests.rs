//! Lanes against a server: the real client, real sockets, short times.

use std::num::NonZeroU32;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wiremock::matchers::{body_partial_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::domain::{Category, Taxonomy};
use crate::llm::{Prompt, TicketText, Usage};

const ANSWERED: &str = include_str!("../../../tests/fixtures/completions/openai/answered.json");
const ANTHROPIC_ANSWERED: &str = include_str!("../../../tests/fixtures/completions/anthropic/answered.json");
const RATE_LIMITED: &str = include_str!("../../../tests/fixtures/completions/openai/rate_limited.json");
const SCHEMA_REFUSED: &str = include_str!("../../../tests/fixtures/completions/openai/schema_refused.json");
const MS: fn(u64) -> Duration = Duration::from_millis;

fn settings(kind: LaneKind, base_url: &str) -> LaneSettings {
    LaneSettings {
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from("key-1")),
        connect_timeout: MS(2_000),
        read_timeout: MS(2_000),
        total_timeout: MS(4_000),
        ..LaneSettings::new("lane", kind, "model-x")
    }
}

fn lane(settings: &LaneSettings) -> Lane {
    Lane::build(settings).expect("valid settings")
}

/// One call about a ticket with this body.
async fn ask(lane: &Lane, body: &str) -> Result<Answer, Setback> {
    let category = |key: &str| Category { key: key.into(), description: "d".into(), examples: vec![] };
    let taxonomy = Taxonomy::new("1", vec![category("billing"), category("other")]).expect("two categories");
    let prompt = Prompt {
        version: "1",
        system: "system".into(),
        user: body.into(),
        schema: json!({"type": "object"}),
    };
    let permit = lane.acquire(MS(5_000)).await.expect("a permit");
    lane.classify(permit, Request::new(TicketText { subject: "s", body }, &taxonomy, &prompt)).await
}

async fn failed(lane: &Lane, body: &str) -> Setback {
    ask(lane, body).await.expect_err("a failure")
}

async fn server(response: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(response).mount(&server).await;
    server
}

fn json_body(status: u16, body: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(body, "application/json")
}

async fn calls(server: &MockServer) -> usize {
    server.received_requests().await.map_or(0, |requests| requests.len())
}

/// A server that does to every connection what it is told; it counts them.
async fn raw_server<F, R>(behave: F) -> String
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(behave(stream));
        }
    });
    format!("http://{address}")
}

/// Reads one request with its body, which our client sends with a content length.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let Ok(count) = stream.read(&mut chunk).await else { return false };
        if count == 0 {
            return false;
        }
        read.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0_usize) {
            return true;
        }
    }
}

fn http_ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn an_openai_lane_sends_its_key_and_reads_the_answer() -> Result<(), Setback> {
    let server = MockServer::start().await;
    Mock::given(path("/v1/chat/completions"))
        .and(header("authorization", "Bearer key-1"))
        .and(body_partial_json(json!({"model": "model-x", "stream": false})))
        .respond_with(json_body(200, ANSWERED).insert_header("x-request-id", "req-7"))
        .expect(1)
        .mount(&server)
        .await;
    let answer = ask(&lane(&settings(LaneKind::OpenAi, &server.uri())), "b").await?;
    assert_eq!(answer.model, "model-x-2026-01-01");
    assert_eq!(answer.usage, Some(Usage { input_tokens: 812, output_tokens: 57 }));
    assert_eq!(answer.request_id.as_deref(), Some("req-7"));
    Ok(())
}

#[tokio::test]
async fn an_anthropic_lane_sends_its_key_and_version_and_reads_the_answer() -> Result<(), Setback> {
    let server = MockServer::start().await;
    Mock::given(path("/v1/messages"))
        .and(header("x-api-key", "key-1"))
        .and(header("anthropic-version", "2023-06-01"))
        .and(body_partial_json(json!({"output_config": {"format": {"type": "json_schema"}}})))
        .respond_with(json_body(200, ANTHROPIC_ANSWERED).insert_header("request-id", "req-8"))
        .expect(1)
        .mount(&server)
        .await;
    let answer = ask(&lane(&settings(LaneKind::Anthropic, &server.uri())), "b").await?;
    assert_eq!(answer.model, "model-y-2026-01-01");
    assert_eq!(answer.request_id.as_deref(), Some("req-8"));
    Ok(())
}

#[tokio::test]
async fn an_azure_key_goes_into_its_own_header() -> Result<(), Setback> {
    let server = MockServer::start().await;
    Mock::given(header("api-key", "key-1"))
        .respond_with(json_body(200, ANSWERED))
        .expect(1)
        .mount(&server)
        .await;
    let mut azure =
        settings(LaneKind::OpenAi, &format!("{}/openai/deployments/d?api-version=1", server.uri()));
    azure.api_key_header = Some("api-key".into());
    ask(&lane(&azure), "b").await?;
    Ok(())
}

#[tokio::test]
async fn a_failing_provider_is_called_exactly_once() {
    for status in [408, 429, 500, 503, 529] {
        let server = server(ResponseTemplate::new(status)).await;
        failed(&lane(&settings(LaneKind::OpenAi, &server.uri())), "b").await;
        assert_eq!(calls(&server).await, 1, "{status}");
    }
}

#[tokio::test]
async fn no_call_leaves_before_the_retry_after_is_over_and_one_probes_then() {
    let limited = json_body(429, RATE_LIMITED).insert_header("retry-after-ms", "400");
    let server = server(limited).await;
    let lane = lane(&settings(LaneKind::OpenAi, &server.uri()));
    let before = Instant::now();
    let setback = failed(&lane, "b").await;
    assert_eq!(setback.disposition, Disposition::PauseLane { at_least: Some(MS(400)) });
    assert!(matches!(lane.acquire(MS(10)).await, Err(Wait(wait)) if wait <= MS(440)));
    lane.ready().await;
    assert!(before.elapsed() >= MS(400), "{:?}", before.elapsed());
    assert_eq!(calls(&server).await, 1);
    assert_eq!(lane.status().in_flight_allowed, 1);
    server.reset().await;
    Mock::given(method("POST")).respond_with(json_body(200, ANSWERED)).mount(&server).await;
    assert!(ask(&lane, "b").await.is_ok());
    assert_eq!((lane.status().hold, lane.status().in_flight_allowed), (None, 2));
}

#[tokio::test]
async fn one_lane_s_hold_is_no_other_lane_s() {
    let server = server(ResponseTemplate::new(401)).await;
    let (bad, good) =
        (lane(&settings(LaneKind::OpenAi, &server.uri())), lane(&settings(LaneKind::OpenAi, &server.uri())));
    let setback = failed(&bad, "b").await;
    let parked = Disposition::ParkLane { cause: ParkCause::Credential, at_least: None };
    assert_eq!(setback.disposition, parked);
    assert!(matches!(bad.acquire(MS(5)).await, Err(Wait(wait)) if wait > MS(25_000)));
    assert!(good.acquire(MS(5)).await.is_ok());
    bad.resume();
    assert!(bad.acquire(MS(5)).await.is_ok());
}

#[tokio::test]
async fn an_outage_pauses_the_lane_instead_of_using_up_attempts() {
    let server = server(ResponseTemplate::new(500)).await;
    let lane = lane(&settings(LaneKind::OpenAi, &server.uri()));
    for ticket in ["1", "2", "3", "4"] {
        let retry = Disposition::Retry { after: None, times_max: None };
        assert_eq!(failed(&lane, ticket).await.disposition, retry);
    }
    assert_eq!(failed(&lane, "5").await.disposition, Disposition::PauseLane { at_least: None });
    assert!(lane.acquire(MS(5)).await.is_err());
}

#[tokio::test]
async fn a_refused_schema_steps_down_until_the_provider_takes_it() -> Result<(), Setback> {
    let server = MockServer::start().await;
    let takes = body_partial_json(json!({"response_format": {"type": "json_object"}}));
    Mock::given(takes).respond_with(json_body(200, ANSWERED)).with_priority(1).mount(&server).await;
    Mock::given(method("POST")).respond_with(json_body(400, SCHEMA_REFUSED)).mount(&server).await;
    let lane = lane(&settings(LaneKind::OpenAi, &server.uri()));
    assert_eq!(failed(&lane, "b").await.disposition, Disposition::StepDown);
    assert_eq!(failed(&lane, "b").await.disposition, Disposition::StepDown);
    ask(&lane, "b").await?;
    assert_eq!(lane.status().schema_mode, SchemaMode::JsonObject);
    Ok(())
}

#[tokio::test]
async fn a_refused_schema_parks_the_lane_where_stepping_down_is_off() {
    let server = server(json_body(400, SCHEMA_REFUSED)).await;
    let strict = LaneSettings { schema_step_down: false, ..settings(LaneKind::OpenAi, &server.uri()) };
    let setback = failed(&lane(&strict), "b").await;
    let parked = Disposition::ParkLane { cause: ParkCause::Configuration, at_least: None };
    assert_eq!((setback.disposition, setback.failure.class()), (parked, "schema_refused"));
}

#[tokio::test]
async fn a_redirect_is_not_followed_so_the_key_stays_here() {
    let other = server(json_body(200, ANSWERED)).await;
    let redirect = ResponseTemplate::new(307).insert_header("location", other.uri().as_str());
    let server = server(redirect).await;
    let setback = failed(&lane(&settings(LaneKind::OpenAi, &server.uri())), "b").await;
    assert_eq!(setback.failure.class(), "redirected");
    assert_eq!(calls(&other).await, 0);
}

#[tokio::test]
async fn an_answer_over_the_byte_limit_is_dropped_while_it_comes_in() {
    let server = server(ResponseTemplate::new(200).set_body_bytes(vec![b' '; 200_000])).await;
    let small = LaneSettings { answer_bytes_max: 10_000, ..settings(LaneKind::OpenAi, &server.uri()) };
    assert_eq!(failed(&lane(&small), "b").await.failure, Failure::AnswerTooLarge(10_000));
}

#[tokio::test]
async fn a_huge_error_page_keeps_its_status_and_512_bytes() {
    let page = format!("<html><h1>Web server is down</h1>{}</html>", "x ".repeat(100_000));
    let server = server(ResponseTemplate::new(520).set_body_string(page)).await;
    let small = LaneSettings { answer_bytes_max: 10, ..settings(LaneKind::OpenAi, &server.uri()) };
    let Failure::Rejected(rejection) = failed(&lane(&small), "b").await.failure else { panic!("rejected") };
    assert_eq!(rejection.status, 520);
    assert!(rejection.message.starts_with("Web server is down") && rejection.message.len() <= 512);
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_cut_off() {
    let silent = raw_server(|mut stream| async move {
        read_request(&mut stream).await;
        std::future::pending::<()>().await;
    });
    let short = LaneSettings { total_timeout: MS(100), ..settings(LaneKind::OpenAi, &silent.await) };
    assert_eq!(failed(&lane(&short), "b").await.failure, Failure::TimedOut(MS(100)));
}

#[tokio::test]
async fn a_drip_of_bytes_is_cut_off_by_the_total_time() {
    let drip = raw_server(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(MS(10)).await;
        }
    });
    let short = LaneSettings { total_timeout: MS(150), ..settings(LaneKind::OpenAi, &drip.await) };
    assert_eq!(failed(&lane(&short), "b").await.failure, Failure::TimedOut(MS(150)));
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let setback = failed(&lane(&settings(LaneKind::OpenAi, &format!("http://{address}"))), "b").await;
    assert_eq!(setback.failure.class(), "connect_failed");
    assert!(setback.failure.to_string().contains("refused"), "{setback}");
}

/// Answers the first `good` requests of each connection, then closes it on reading the next.
async fn closing_server(good: usize) -> (String, Arc<Mutex<usize>>) {
    let requests = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&requests);
    let address = raw_server(move |mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            for _ in 0..good {
                if !read_request(&mut stream).await {
                    return;
                }
                *seen.lock().expect("no panic") += 1;
                let _ = stream.write_all(http_ok(ANSWERED).as_bytes()).await;
            }
            if read_request(&mut stream).await {
                *seen.lock().expect("no panic") += 1;
            }
        }
    });
    (address.await, requests)
}

#[tokio::test]
async fn a_stale_pooled_connection_is_replaced_once_without_a_failure() -> Result<(), Setback> {
    let (address, requests) = closing_server(1).await;
    let lane = lane(&settings(LaneKind::OpenAi, &address));
    ask(&lane, "b").await?;
    ask(&lane, "b").await?;
    // The second call was read by the old connection, which closed, and answered by a new one.
    assert_eq!(*requests.lock().expect("no panic"), 3);
    Ok(())
}

#[tokio::test]
async fn a_fresh_connection_that_closes_is_a_failure_and_not_repeated() {
    let (address, requests) = closing_server(0).await;
    let setback = failed(&lane(&settings(LaneKind::OpenAi, &address)), "b").await;
    assert_eq!(setback.failure.class(), "connection_lost");
    assert_eq!(*requests.lock().expect("no panic"), 1);
}

#[tokio::test]
async fn a_dropped_call_gives_its_place_back() {
    let slow = server(json_body(200, ANSWERED).set_delay(MS(60_000))).await;
    let one = LaneSettings { in_flight_max: NonZeroU32::MIN, ..settings(LaneKind::OpenAi, &slow.uri()) };
    let lane = lane(&one);
    assert!(tokio::time::timeout(MS(50), ask(&lane, "b")).await.is_err());
    assert_eq!(lane.status().in_flight, 0);
    assert!(lane.acquire(MS(5)).await.is_ok());
}

#[test]
fn no_debug_text_shows_the_key() {
    let settings = settings(LaneKind::OpenAi, "http://localhost:1");
    let lane = lane(&settings);
    assert!(!format!("{settings:?} {lane:?}").contains("key-1"));
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_mend() {
    let good = settings(LaneKind::OpenAi, "http://localhost:1");
    let refused = |settings: &LaneSettings| Lane::build(settings).expect_err("a fault").to_string();
    let key = LaneSettings { api_key: Some(SecretString::from("key\n")), ..good.clone() };
    assert!(refused(&key).contains("newlines"), "{}", refused(&key));
    let model = LaneSettings { model: " ".into(), ..good.clone() };
    assert!(refused(&model).contains("no model"), "{}", refused(&model));
    let header = LaneSettings { api_key_header: Some("a b".into()), ..good.clone() };
    assert!(refused(&header).contains("\"a b\""), "{}", refused(&header));
    let url = LaneSettings { base_url: Some("localhost".into()), ..good };
    assert!(refused(&url).contains("https://host/v1"), "{}", refused(&url));
}

#[test]
fn an_offline_lane_is_built_or_refused_by_the_features_of_the_binary() {
    let built = Lane::build(&LaneSettings::new("offline", LaneKind::Offline, ""));
    assert_eq!(built.is_ok(), cfg!(feature = "offline-encoder"));
    if let Err(fault) = built {
        assert!(fault.to_string().contains("offline-encoder"), "{fault}");
    }
}

#[test]
fn fixtures_are_json() {
    for fixture in [ANSWERED, ANTHROPIC_ANSWERED, RATE_LIMITED, SCHEMA_REFUSED] {
        assert!(serde_json::from_str::<Value>(fixture).is_ok());
    }
}
