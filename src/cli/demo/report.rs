//! The end of the demo: what became of every ticket, and how to look further. All of it read from
//! the API.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::client::Client;
use super::super::{CliError, output};
use super::play::Sent;
use super::stage::Stage;
use super::watch::Watched;
use crate::config::Environment;

/// Prints the report for people.
pub(super) async fn print(
    client: &Client,
    stage: &Stage,
    sent: &Sent,
    watched: &Watched,
    exit: bool,
) -> Result<(), CliError> {
    let subjects = subjects(client).await?;
    output::print(&verdict_table(watched, &subjects));
    output::print("");
    print_sums(stage, sent, watched);
    let letters = client.get("/v1/dead-letters", &[]).await?;
    for letter in letters.get("items").and_then(Value::as_array).into_iter().flatten() {
        let shown = client
            .get(&format!("/v1/dead-letters/{}", output::field(letter, "/dead_letter_id")), &[])
            .await?;
        print_letter(&shown, &subjects);
        if !exit {
            print_next_steps(stage, &shown);
        }
    }
    Ok(())
}

/// The report for programs.
pub(super) async fn as_json(
    client: &Client,
    stage: &Stage,
    sent: &Sent,
    watched: &Watched,
) -> Result<Value, CliError> {
    let letters = client.get("/v1/dead-letters", &[]).await?;
    let seen = stage.inbox.seen();
    Ok(json!({
        "url": stage.url(),
        "answers": sent.answers,
        "jobs": watched.triage,
        "dead_letters": letters["items"],
        "delivered": seen.taken,
        "took_ms": u64::try_from(watched.took.as_millis()).unwrap_or(u64::MAX),
    }))
}

/// Subjects of tickets by id.
async fn subjects(client: &Client) -> Result<HashMap<String, String>, CliError> {
    let page = client.get("/v1/tickets", &[("limit", "200".to_owned())]).await?;
    let tickets = page.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let pairs =
        tickets.iter().map(|ticket| (output::field(ticket, "/ticket_id"), output::field(ticket, "/subject")));
    Ok(pairs.collect())
}

fn verdict_table(watched: &Watched, subjects: &HashMap<String, String>) -> String {
    /// What the columns beside the subject take, and what that of the source takes.
    const OTHERS: usize = 83;
    const SOURCE: usize = 19;
    let width = output::terminal_width().unwrap_or(OTHERS + SOURCE + 44);
    let with_source = width >= OTHERS + SOURCE + 24;
    let room = width.saturating_sub(if with_source { OTHERS + SOURCE } else { OTHERS }).clamp(12, 60);
    let rows = watched.triage.iter().map(|job| {
        let field = |pointer| output::field(job, pointer);
        let subject = subjects.get(&field("/ticket_id")).cloned().unwrap_or_default();
        let confidence = job.pointer("/verdict/confidence").and_then(Value::as_f64);
        let attempts = job.get("attempts").and_then(Value::as_array).map_or(0, Vec::len);
        let is_dead = field("/state") == "dead";
        let mut row = vec![output::shorten(&subject, room)];
        row.extend(with_source.then(|| field("/source")));
        row.extend([
            if is_dead { "(dead letter)".to_owned() } else { field("/verdict/category") },
            field("/verdict/priority"),
            confidence.map_or("-".to_owned(), |share| format!("{share:.2}")),
            field("/verdict/destination"),
            attempts.to_string(),
            took(job),
        ]);
        row
    });
    let mut head = vec!["TICKET"];
    head.extend(with_source.then_some("SOURCE"));
    head.extend(["CATEGORY", "PRIORITY", "CONFIDENCE", "DESTINATION", "ATTEMPTS", "TIME"]);
    output::table(&head, rows.collect())
}

/// From enqueued to ended.
fn took(job: &Value) -> String {
    let time =
        |key: &str| job.get(key).and_then(Value::as_str).and_then(|text| text.parse::<DateTime<Utc>>().ok());
    let Some((created, finished)) = time("created_at").zip(time("finished_at")) else {
        return "-".to_owned();
    };
    format!("{:.1} s", (finished - created).as_seconds_f64())
}

fn print_sums(stage: &Stage, sent: &Sent, watched: &Watched) {
    let answers: Vec<String> =
        sent.answers.iter().map(|(answer, count)| format!("{count} × {answer}")).collect();
    output::print(&format!("senders were answered   {}", answers.join(", ")));
    let with_outcome = |outcome: &str| {
        let attempts = watched.triage.iter().filter_map(|job| job["attempts"].as_array()).flatten();
        attempts.filter(|attempt| attempt["outcome"] == outcome).count()
    };
    let [retried, snoozed] = ["retried", "snoozed"].map(with_outcome);
    output::print(&format!(
        "{} tickets in {:.1} s    retries after failures of the provider: {retried}, waits that cost no attempt: {snoozed}",
        watched.triage.len(),
        watched.took.as_secs_f64()
    ));
    let seen = stage.inbox.seen();
    let teams: Vec<String> = seen.taken.iter().map(|(team, count)| format!("{team} {count}")).collect();
    output::print(&format!("teams received, signed  {}", teams.join(", ")));
}

fn print_letter(letter: &Value, subjects: &HashMap<String, String>) {
    let field = |pointer| output::field(letter, pointer);
    let subject = subjects.get(&field("/ticket_id")).cloned().unwrap_or_default();
    output::print("");
    output::print(&format!("dead letter  {}", field("/dead_letter_id")));
    output::print(&format!("  ticket     {}", output::shorten(&subject, 80)));
    output::print(&format!("  reason     {}, {}", field("/reason"), field("/error_class")));
    output::print(&format!("  error      {}", field("/error")));
}

fn print_next_steps(stage: &Stage, letter: &Value) {
    let (url, program) = (stage.url(), Environment::program());
    let id = output::field(letter, "/dead_letter_id");
    let token = stage.token();
    output::print("");
    output::print("The provider has been mended meanwhile, so a replay will succeed. In another terminal:");
    output::print(&format!("  export HOOKTRIAGE_URL={url} HOOKTRIAGE_ADMIN_TOKEN={}", token.expose_secret()));
    output::print(&format!("  {program} dead-letters show {id}"));
    output::print(&format!("  {program} dead-letters replay {id}"));
    output::print(&format!("  {program} jobs --queue triage"));
    output::print("or over REST:");
    output::print(&format!(
        "  curl -H \"Authorization: Bearer $HOOKTRIAGE_ADMIN_TOKEN\" {url}/v1/dead-letters/{id}"
    ));
    output::print(&format!(
        "  curl -X POST -H \"Authorization: Bearer $HOOKTRIAGE_ADMIN_TOKEN\" {url}/v1/admin/dead-letters/{id}/replay"
    ));
}
