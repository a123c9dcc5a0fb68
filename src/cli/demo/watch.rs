//! Watching: polls the API and tells what changed, until every job has ended.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::super::client::Client;
use super::super::{CliError, output};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest that the demo may take; it takes a fraction of that.
const TIME_MAX: Duration = Duration::from_secs(180);

/// The jobs as they stood at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Triage jobs, in the order in which they were enqueued.
    pub(super) triage: Vec<Value>,
    /// How long it took from the first look.
    pub(super) took: Duration,
}

/// Watches until `expected` triage jobs, and everything that follows from them, have ended.
pub(super) async fn watch(client: &Client, expected: usize) -> Result<Watched, CliError> {
    let begun = Instant::now();
    let mut teller = Teller::new(expected);
    loop {
        let triage = jobs(client, "triage").await?;
        let routing = jobs(client, "routing").await?;
        teller.tell(&triage, &routing);
        let all_ended = triage.iter().chain(&routing).all(has_ended);
        if triage.len() >= expected && all_ended && alerts_are_out(&triage, &routing) {
            teller.bar.finish_and_clear();
            return Ok(Watched { triage: oldest_first(triage), took: begun.elapsed() });
        }
        if begun.elapsed() > TIME_MAX {
            return Err(CliError::Failed(anyhow!(
                "after {TIME_MAX:?} some jobs have not ended; RUST_LOG=info shows why"
            )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// An alert gathers for a moment before it becomes a delivery.
fn alerts_are_out(triage: &[Value], routing: &[Value]) -> bool {
    let someone_died = triage.iter().any(|job| state(job) == "dead");
    !someone_died || routing.iter().any(|job| job["kind"] == "alert")
}

/// All jobs of a queue, newest first.
async fn jobs(client: &Client, queue: &str) -> Result<Vec<Value>, CliError> {
    let mut all = Vec::new();
    let mut query = vec![("queue", queue.to_owned()), ("limit", "200".to_owned())];
    loop {
        let page = client.get("/v1/jobs", &query).await?;
        all.extend(page.get("items").and_then(Value::as_array).cloned().unwrap_or_default());
        let Some(cursor) = page.get("next_cursor").and_then(Value::as_str) else { return Ok(all) };
        query.truncate(2);
        query.push(("cursor", cursor.to_owned()));
    }
}

fn oldest_first(mut jobs: Vec<Value>) -> Vec<Value> {
    jobs.reverse();
    jobs
}

fn state(job: &Value) -> &str {
    job.get("state").and_then(Value::as_str).unwrap_or_default()
}

fn has_ended(job: &Value) -> bool {
    matches!(state(job), "succeeded" | "dead" | "cancelled")
}

/// Tells each event once, and keeps the bar.
struct Teller {
    bar: ProgressBar,
    told: HashSet<(String, String)>,
}

impl Teller {
    fn new(expected: usize) -> Self {
        // Draws on a terminal only.
        let bar = ProgressBar::new(expected as u64);
        let style = ProgressStyle::with_template("{bar:32} {pos}/{len} triaged  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, told: HashSet::new() }
    }

    fn tell(&mut self, triage: &[Value], routing: &[Value]) {
        for job in triage.iter().rev().chain(routing.iter().rev()) {
            for attempt in job.get("attempts").and_then(Value::as_array).into_iter().flatten() {
                self.tell_attempt(job, attempt);
            }
        }
        let mut counts: HashMap<&str, usize> = HashMap::new();
        triage.iter().for_each(|job| *counts.entry(state(job)).or_default() += 1);
        let count = |word: &str| counts.get(word).copied().unwrap_or_default();
        let delivered = routing.iter().filter(|job| state(job) == "succeeded").count();
        self.bar.set_position((count("succeeded") + count("dead")) as u64);
        self.bar.set_message(format!(
            "queued {}  running {}  dead {}  delivered {delivered}",
            count("queued"),
            count("running"),
            count("dead")
        ));
    }

    fn tell_attempt(&mut self, job: &Value, attempt: &Value) {
        let outcome = output::field(attempt, "/outcome");
        let what = match outcome.as_str() {
            "retried" => "retry     ",
            "snoozed" => "wait      ",
            "crashed" => "crash     ",
            "dead" => "dead      ",
            _ => return,
        };
        let key = (output::field(job, "/job_id"), output::field(attempt, "/started_at"));
        if !self.told.insert(key) {
            return;
        }
        let [kind, source, try_number, error] = [
            output::field(job, "/kind"),
            output::field(job, "/source"),
            output::field(attempt, "/attempt"),
            output::field(attempt, "/error"),
        ];
        let line =
            format!("{what} {kind} job of {source}, attempt {try_number}: {}", output::shorten(&error, 90));
        if self.bar.is_hidden() { output::remark(&line) } else { self.bar.println(line) }
    }
}
