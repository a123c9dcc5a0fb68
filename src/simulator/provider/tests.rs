//! The simulated provider through the real client, parser and schema.

use secrecy::SecretString;
use tokio::sync::oneshot;

use super::*;
use crate::domain::{Taxonomy, TicketDraft};
use crate::llm::{Disposition, Lane, LaneKind, LaneSettings, Request, SchemaMode, Setback};
use crate::triage::clean::{CleanLimits, clean};
use crate::triage::taxonomy::default_taxonomy;
use crate::triage::{parse, prompt};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A provider on a port of its own, stopped when dropped.
struct Running {
    address: String,
    _stop: oneshot::Sender<()>,
}

async fn start(settings: ProviderSettings) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(serve(listener, settings, async {
        let _ = stopped.await;
    }));
    Running { address, _stop: stop }
}

fn lane(running: &Running, kind: LaneKind, mode: SchemaMode) -> Lane {
    let settings = LaneSettings {
        base_url: Some(running.address.clone()),
        api_key: Some(SecretString::from("k")),
        schema_mode: mode,
        total_timeout: MS(3_000),
        ..LaneSettings::new("lane", kind, "simulated")
    };
    Lane::build(&settings).expect("valid settings")
}

async fn ask(
    lane: &Lane,
    taxonomy: &Taxonomy,
    subject: &str,
    body: &str,
) -> Result<crate::llm::Answer, Setback> {
    let draft = TicketDraft { subject: subject.into(), body: body.into(), ..TicketDraft::default() };
    let ticket = clean(&draft, &CleanLimits::default());
    let prompt = prompt::render(taxonomy, &ticket, &prompt::fresh_boundary());
    let permit = lane.acquire(MS(3_000)).await.expect("a permit");
    lane.classify(permit, Request::new(ticket.as_text(), taxonomy, &prompt)).await
}

async fn stats(running: &Running) -> Value {
    let text = get_text(&format!("{}/_simulator/stats", running.address)).await;
    serde_json::from_str(&text).expect("the statistics are JSON")
}

/// A plain GET over a socket: `reqwest` belongs to other layers.
async fn get_text(url: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let rest = url.strip_prefix("http://").expect("http");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = tokio::net::TcpStream::connect(host).await.expect("a connection");
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

#[tokio::test]
async fn every_answer_passes_our_parser_and_the_schema_that_was_sent() -> Result<(), Setback> {
    let running = start(ProviderSettings::default()).await;
    let taxonomy = default_taxonomy();
    let schema = jsonschema::validator_for(&prompt::schema(&taxonomy)).expect("a valid schema");
    for kind in [LaneKind::OpenAi, LaneKind::Anthropic] {
        for mode in SchemaMode::ALL {
            let lane = lane(&running, kind, mode);
            let answer = ask(&lane, &taxonomy, "Charged twice", "The invoice shows two charges.").await?;
            let value: Value = serde_json::from_str(&answer.completion).expect("JSON");
            assert!(schema.is_valid(&value), "{kind:?} {mode:?}: {value}");
            let read = parse::parse(&answer.completion, &taxonomy).expect("a valid classification");
            assert_eq!(read.category, "billing", "{kind:?} {mode:?}");
            assert!(answer.usage.is_some_and(|usage| usage.input_tokens > 0 && usage.output_tokens > 0));
        }
    }
    assert_eq!(stats(&running).await["by_outcome"]["answered"], 8);
    Ok(())
}

#[tokio::test]
async fn every_fault_is_read_by_the_real_client_as_what_it_is() {
    let full = ProviderSettings::default();
    let table = [
        (ProviderSettings { rate_limited: 1.0, retry_after: MS(1_000), ..full.clone() }, "rate_limited"),
        (ProviderSettings { failing: 1.0, ..full.clone() }, "provider_error"),
        (ProviderSettings { truncated: 1.0, ..full.clone() }, "output_truncated"),
        (
            ProviderSettings { refuse: Some(refusal(RefusalKind::ContextLength)), ..full.clone() },
            "input_too_large",
        ),
        (ProviderSettings { refuse: Some(refusal(RefusalKind::InvalidRequest)), ..full }, "request_refused"),
    ];
    for (settings, class) in table {
        let running = start(settings).await;
        for kind in [LaneKind::OpenAi, LaneKind::Anthropic] {
            let lane = lane(&running, kind, SchemaMode::JsonSchema);
            let setback =
                ask(&lane, &default_taxonomy(), "A poisoned ticket", "x").await.expect_err("a fault");
            assert_eq!(setback.failure.class(), class, "{kind:?}");
            if class == "rate_limited" {
                let expected = Disposition::PauseLane { at_least: Some(MS(1_000)) };
                assert_eq!(setback.disposition, expected, "{kind:?}");
            }
        }
    }
}

fn refusal(kind: RefusalKind) -> Refusal {
    Refusal { phrase: "Poisoned".into(), kind }
}

#[tokio::test]
async fn malformed_answers_never_pass_the_parser() -> Result<(), Setback> {
    let running = start(ProviderSettings { malformed: 1.0, ..ProviderSettings::default() }).await;
    let taxonomy = default_taxonomy();
    for kind in [LaneKind::OpenAi, LaneKind::Anthropic] {
        let lane = lane(&running, kind, SchemaMode::JsonSchema);
        for _ in 0..3 {
            let answer = ask(&lane, &taxonomy, "Hello", "world").await?;
            assert!(parse::parse(&answer.completion, &taxonomy).is_err(), "{}", answer.completion);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_call_that_hangs_is_let_go_when_the_provider_stops() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (stop, stopped) = oneshot::channel::<()>();
    let settings = ProviderSettings { hanging: 1.0, ..ProviderSettings::default() };
    let served = tokio::spawn(serve(listener, settings, async {
        let _ = stopped.await;
    }));
    let running = Running { address, _stop: oneshot::channel().0 };
    let lane = lane(&running, LaneKind::OpenAi, SchemaMode::JsonSchema);
    let taxonomy = default_taxonomy();
    let mut call = Box::pin(ask(&lane, &taxonomy, "Hello", "world"));
    let hung = async {
        while stats(&running).await["by_outcome"]["hung"] != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        outcome = &mut call => panic!("the call ended: {outcome:?}"),
        () = hung => {}
    }
    assert!(stop.send(()).is_ok());
    assert_eq!(call.await.expect_err("a fault").failure.class(), "provider_error");
    drop(lane);
    let ended = tokio::time::timeout(MS(5_000), served).await;
    assert!(matches!(ended, Ok(Ok(Ok(())))), "{ended:?}");
}

#[tokio::test]
async fn a_burst_pauses_the_lane_and_no_call_comes_early() {
    let burst = Burst { after_calls: 1, lasts: BurstLength::Calls(1), retry_after: MS(500) };
    let running = start(ProviderSettings { burst: Some(burst), ..ProviderSettings::default() }).await;
    let lane = lane(&running, LaneKind::OpenAi, SchemaMode::JsonSchema);
    let taxonomy = default_taxonomy();
    assert!(ask(&lane, &taxonomy, "one", "x").await.is_ok());
    assert!(ask(&lane, &taxonomy, "two", "x").await.is_err());
    assert!(lane.acquire(MS(10)).await.is_err());
    lane.ready().await;
    assert!(ask(&lane, &taxonomy, "two", "x").await.is_ok());
    let stats = stats(&running).await;
    assert_eq!((&stats["calls"], &stats["early_calls"]), (&json!(3), &json!(0)), "{stats}");
}

#[tokio::test]
async fn the_root_says_that_it_is_well() {
    let running = start(ProviderSettings::default()).await;
    assert!(get_text(&format!("{}/", running.address)).await.contains("\"ok\""));
}
