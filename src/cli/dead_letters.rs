//! `hooktriage dead-letters`: what could not succeed, and putting it back.

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{Client, ServiceArgs};
use super::{CliError, Common, jobs, output};

/// Arguments of `dead-letters`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hooktriage dead-letters list\n  \
    hooktriage dead-letters replay 01a22499-f800-7000-8000-000000000000\n  \
    hooktriage dead-letters replay --error-class request_refused --dry-run")]
pub(super) struct DeadLettersArgs {
    #[command(subcommand)]
    command: DeadLettersCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum DeadLettersCommand {
    /// List dead letters, newest first
    List {
        /// open, replayed, discarded or all
        #[arg(long, default_value = "open")]
        state: String,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Where the page before ended
        #[arg(long)]
        cursor: Option<String>,
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Show one dead letter with every attempt
    Show {
        /// Id of the dead letter
        dead_letter_id: Uuid,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Replay one dead letter, or all that match, as new jobs
    Replay(ReplayArgs),
}

#[derive(Clone, Debug, Args)]
struct FilterArgs {
    /// Only letters of this queue: triage or routing
    #[arg(long)]
    queue: Option<String>,
    /// Only letters of this source
    #[arg(long)]
    source: Option<String>,
    /// Only letters with this kind of failure
    #[arg(long, value_name = "CLASS")]
    error_class: Option<String>,
    /// Only letters that died for this reason: permanent, exhausted, expired or poison
    #[arg(long)]
    reason: Option<String>,
}

impl FilterArgs {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("queue", &self.queue),
            ("source", &self.source),
            ("error_class", &self.error_class),
            ("reason", &self.reason),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

#[derive(Clone, Debug, Args)]
struct ReplayArgs {
    /// Id of one dead letter
    #[arg(conflicts_with_all = ["all", "queue", "source", "error_class", "reason", "since", "until", "dry_run", "limit"])]
    dead_letter_id: Option<Uuid>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only letters that died at or after this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<DateTime<Utc>>,
    /// Only letters that died before this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    until: Option<DateTime<Utc>>,
    /// Every open dead letter
    #[arg(long)]
    all: bool,
    /// Only count
    #[arg(long)]
    dry_run: bool,
    /// At most so many, 1 to 1000
    #[arg(long)]
    limit: Option<u32>,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(super) async fn run(common: &Common, args: &DeadLettersArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        DeadLettersCommand::List { state, limit, cursor, filter, service } => {
            let mut query = filter.pairs();
            query.extend([("state", state.clone()), ("limit", limit.to_string())]);
            query.extend(cursor.clone().map(|cursor| ("cursor", cursor)));
            let page = Client::of(common, service)?.get("/v1/dead-letters", &query).await?;
            if common.json { output::print_json(&page) } else { list(&page) }
        }
        DeadLettersCommand::Show { dead_letter_id, service } => {
            let letter =
                Client::of(common, service)?.get(&format!("/v1/dead-letters/{dead_letter_id}"), &[]).await?;
            if common.json { output::print_json(&letter) } else { show(&letter) }
        }
        DeadLettersCommand::Replay(replay) => match replay.dead_letter_id {
            Some(id) => replay_one(common, id, &replay.service).await?,
            None => replay_many(common, replay).await?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn list(page: &Value) {
    let letters = page.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    if letters.is_empty() {
        output::print("no dead letter matches");
        return;
    }
    let now = Utc::now();
    let rows = letters.iter().map(|letter| {
        let field = |pointer| output::field(letter, pointer);
        vec![
            field("/dead_letter_id"),
            field("/kind"),
            field("/source"),
            field("/reason"),
            field("/error_class"),
            field("/state"),
            output::ago(letter, "/dead_at", now),
        ]
    });
    let head = ["DEAD LETTER", "KIND", "SOURCE", "REASON", "CLASS", "STATE", "DIED"];
    output::print(&output::table(&head, rows.collect()));
    if let Some(cursor) = page.get("next_cursor").and_then(Value::as_str) {
        output::remark(&format!("more: --cursor {cursor}"));
    }
}

fn show(letter: &Value) {
    for (label, pointer) in [
        ("dead letter", "/dead_letter_id"),
        ("state", "/state"),
        ("job", "/job_id"),
        ("kind", "/kind"),
        ("source", "/source"),
        ("ticket", "/ticket_id"),
        ("reason", "/reason"),
        ("class", "/error_class"),
        ("error", "/error"),
        ("died", "/dead_at"),
        ("replay of", "/replay_of"),
        ("replayed as", "/replayed_job_id"),
    ] {
        let value = output::field(letter, pointer);
        if value != "-" {
            output::print(&format!("{label:<12} {}", crate::domain::text::clean_line(&value, 500)));
        }
    }
    jobs::print_attempts(letter);
}

async fn replay_one(common: &Common, id: Uuid, service: &super::client::ServiceArgs) -> Result<(), CliError> {
    let client = Client::of(common, service)?;
    let replayed = client.post(&format!("/v1/admin/dead-letters/{id}/replay"), None).await?;
    if common.json {
        output::print_json(&replayed);
        return Ok(());
    }
    let job_id = output::field(&replayed, "/job_id");
    output::print(&format!("replayed as job {job_id}"));
    output::remark(&format!("look at it: hooktriage jobs show {job_id}"));
    Ok(())
}

async fn replay_many(common: &Common, args: &ReplayArgs) -> Result<(), CliError> {
    let mut filter: serde_json::Map<String, Value> =
        args.filter.pairs().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    filter.extend(args.since.map(|since| ("dead_since".to_owned(), json!(since))));
    filter.extend(args.until.map(|until| ("dead_until".to_owned(), json!(until))));
    if filter.is_empty() && !args.all {
        let advice = "name a dead letter, narrow them by --error-class, --source, --queue, --reason, --since or --until, or say --all";
        return Err(CliError::Usage(advice.to_owned()));
    }
    let mut body = json!({"filter": filter, "all": args.all, "dry_run": args.dry_run});
    if let Some(limit) = args.limit {
        body["limit"] = json!(limit);
    }
    let report = Client::of(common, &args.service)?.post("/v1/admin/replays", Some(&body)).await?;
    if common.json {
        output::print_json(&report);
        return Ok(());
    }
    let matched = output::field(&report, "/matched");
    let more = if report["more"] == json!(true) { ", and there are more" } else { "" };
    let done = report.get("replayed").and_then(Value::as_array).map_or(0, Vec::len);
    let text =
        if args.dry_run { format!("would replay {matched}{more}") } else { format!("replayed {done}{more}") };
    output::print(&text);
    Ok(())
}
