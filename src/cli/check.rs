//! `hooktriage check`: what the configuration comes to, or everything that is wrong with it.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{CliError, Common, output};
use crate::config::Config;
use crate::config::variables::VARIABLES;
use crate::domain::DestinationName;

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example: hooktriage check --config hooktriage.toml\n\nExit code 2 when there are faults; \
    each is printed with its place and its mend."
)]
pub(super) struct CheckArgs {
    /// List every environment variable instead
    #[arg(long)]
    variables: bool,
}

pub(super) fn run(common: &Common, args: &CheckArgs) -> Result<ExitCode, CliError> {
    if args.variables {
        list_variables(common.json);
        return Ok(ExitCode::SUCCESS);
    }
    match Config::load(common.config.as_deref()) {
        Ok(config) if common.json => output::print_json(&summary(&config)),
        Ok(config) => describe(&summary(&config)),
        Err(faults) if common.json => {
            let list: Vec<Value> = faults
                .0
                .iter()
                .map(|fault| json!({"place": fault.place, "problem": fault.problem}))
                .collect();
            output::print_json(&json!({"ok": false, "faults": list}));
            return Ok(ExitCode::from(2));
        }
        Err(faults) => return Err(faults.into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn list_variables(as_json: bool) {
    if as_json {
        let rows = VARIABLES.iter().map(|variable| {
            json!({"name": variable.name, "default": variable.default, "help": variable.help, "file": variable.from_file})
        });
        output::print_json(&rows.collect());
        return;
    }
    let rows = VARIABLES.iter().map(|variable| {
        let name = if variable.from_file {
            format!("{} (or …_FILE)", variable.name)
        } else {
            variable.name.to_owned()
        };
        vec![name, variable.default.to_owned(), variable.help.to_owned()]
    });
    output::print(&output::table(&["VARIABLE", "DEFAULT", "WHAT"], rows.collect()));
}

fn summary(config: &Config) -> Value {
    let sources: Vec<Value> = config
        .sources
        .iter()
        .map(|source| {
            json!({
                "name": source.name(),
                "preset": source.preset().as_str(),
                "path": format!("/webhooks/{}", source.name()),
                "live_secrets": source.secrets().len(),
            })
        })
        .collect();
    let destinations: Vec<Value> = config
        .destinations
        .iter()
        .map(|one| json!({"name": one.name.as_str(), "url": without_query(&one.url)}))
        .collect();
    let keys: Vec<&str> = config.taxonomy.categories().iter().map(|category| category.key.as_str()).collect();
    json!({
        "ok": true,
        "listen": config.listen.to_string(),
        "database": if config.database_url.is_some() { "DATABASE_URL" } else { "a Postgres of its own" },
        "data_dir": config.data_dir,
        "sources": sources,
        "llm": {"kind": config.lane.kind.as_str(), "model": (!config.lane.model.is_empty()).then_some(&config.lane.model), "base_url": config.lane.base_url.as_deref().map(without_query)},
        "taxonomy": {"version": config.taxonomy.version(), "categories": keys},
        "destinations": destinations,
        "rules": config.rules.rules.len(),
        "fallback": config.rules.fallback.as_ref().map(DestinationName::as_str),
        "alerts": config.alerts.as_ref().map(DestinationName::as_str),
        "workers": config.triage.worker.slots,
    })
}

/// An address without its query, where tokens tend to stand.
fn without_query(url: &str) -> String {
    url.split_once('?').map_or(url.to_owned(), |(address, _)| format!("{address}?…"))
}

fn describe(summary: &Value) {
    output::print("the configuration is good");
    for (label, pointer) in [
        ("listens on", "/listen"),
        ("database", "/database"),
        ("data folder", "/data_dir"),
        ("classifier", "/llm/kind"),
        ("model", "/llm/model"),
        ("base URL", "/llm/base_url"),
        ("taxonomy", "/taxonomy/categories"),
        ("rules", "/rules"),
        ("all others to", "/fallback"),
        ("alerts go to", "/alerts"),
        ("workers", "/workers"),
    ] {
        output::print(&format!("  {label:<13} {}", output::field(summary, pointer)));
    }
    let list = |key: &str| summary.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    for source in list("sources") {
        let [path, preset, secrets] =
            ["/path", "/preset", "/live_secrets"].map(|pointer| output::field(&source, pointer));
        output::print(&format!("  {:<13} {path}, preset {preset}, live secrets: {secrets}", "source"));
    }
    for destination in list("destinations") {
        let [name, url] = ["/name", "/url"].map(|pointer| output::field(&destination, pointer));
        output::print(&format!("  {:<13} {name}, {url}", "destination"));
    }
}
