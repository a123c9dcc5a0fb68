//! `hooktriage jobs`: what is queued, running and ended.

use std::process::ExitCode;

use chrono::Utc;
use clap::{Args, Subcommand};
use serde_json::Value;
use uuid::Uuid;

use super::client::{Client, ServiceArgs};
use super::{CliError, Common, output};

/// Arguments of `jobs`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hooktriage jobs --state dead\n  hooktriage jobs show 01a22499-f800-7000-8000-000000000000"
)]
pub(super) struct JobsArgs {
    #[command(subcommand)]
    command: Option<JobsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum JobsCommand {
    /// List jobs, newest first (the default)
    List(ListArgs),
    /// Show one job with its attempts and its verdict
    Show {
        /// Id of the job
        job_id: Uuid,
        #[command(flatten)]
        service: ServiceArgs,
    },
}

#[derive(Clone, Debug, Args)]
struct ListArgs {
    /// Only jobs in this state: queued, running, succeeded, dead or cancelled
    #[arg(long)]
    state: Option<String>,
    /// Only jobs of this queue: triage or routing
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this source
    #[arg(long)]
    source: Option<String>,
    /// How many, 1 to 200
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Where the page before ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(super) async fn run(common: &Common, args: &JobsArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        Some(JobsCommand::Show { job_id, service }) => {
            let job = Client::of(common, service)?.get(&format!("/v1/jobs/{job_id}"), &[]).await?;
            if common.json { output::print_json(&job) } else { show(&job) }
        }
        Some(JobsCommand::List(list_args)) => list(common, list_args).await?,
        None => list(common, &args.list).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(common: &Common, args: &ListArgs) -> Result<(), CliError> {
    let mut query = vec![("limit", args.limit.to_string())];
    let optional =
        [("state", &args.state), ("queue", &args.queue), ("source", &args.source), ("cursor", &args.cursor)];
    query.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let page = Client::of(common, &args.service)?.get("/v1/jobs", &query).await?;
    if common.json {
        output::print_json(&page);
        return Ok(());
    }
    let jobs = page.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    if jobs.is_empty() {
        output::print("no job matches");
        return Ok(());
    }
    let now = Utc::now();
    let rows = jobs.iter().map(|job| {
        let field = |pointer| output::field(job, pointer);
        let attempts = format!("{}/{}", field("/attempts_used"), field("/attempts_max"));
        let outcome =
            if job["verdict"].is_null() { field("/error_class") } else { field("/verdict/category") };
        let age = output::ago(job, "/created_at", now);
        vec![field("/job_id"), field("/kind"), field("/state"), field("/source"), attempts, outcome, age]
    });
    output::print(&output::table(
        &["JOB", "KIND", "STATE", "SOURCE", "ATTEMPTS", "OUTCOME", "ENQUEUED"],
        rows.collect(),
    ));
    if let Some(cursor) = page.get("next_cursor").and_then(Value::as_str) {
        output::remark(&format!("more: --cursor {cursor}"));
    }
    Ok(())
}

fn show(job: &Value) {
    for (label, pointer) in [
        ("job", "/job_id"),
        ("kind", "/kind"),
        ("state", "/state"),
        ("source", "/source"),
        ("ticket", "/ticket_id"),
        ("enqueued", "/created_at"),
        ("due", "/run_at"),
        ("ended", "/finished_at"),
        ("replay of", "/replay_of"),
        ("dead letter", "/dead_letter_id"),
        ("category", "/verdict/category"),
        ("priority", "/verdict/priority"),
        ("confidence", "/verdict/confidence"),
        ("summary", "/verdict/summary"),
        ("reasons", "/verdict/reasons"),
        ("review", "/verdict/review_reasons"),
        ("destination", "/verdict/destination"),
        ("model", "/verdict/model"),
        ("last error", "/error"),
    ] {
        let value = output::field(job, pointer);
        if value != "-" && !value.is_empty() {
            output::print(&format!("{label:<12} {}", crate::domain::text::clean_line(&value, 300)));
        }
    }
    print_attempts(job);
}

/// The attempts of a job or of a dead letter.
pub(super) fn print_attempts(value: &Value) {
    let attempts = value.get("attempts").and_then(Value::as_array).cloned().unwrap_or_default();
    if attempts.is_empty() {
        return;
    }
    let rows = attempts.iter().map(|attempt| {
        ["/attempt", "/outcome", "/started_at", "/duration_ms", "/error_class", "/error"]
            .map(|pointer| output::field(attempt, pointer))
            .to_vec()
    });
    output::print("");
    output::print(&output::table(&["ATTEMPT", "OUTCOME", "STARTED", "MS", "CLASS", "ERROR"], rows.collect()));
}
