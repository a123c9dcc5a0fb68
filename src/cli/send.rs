//! `hooktriage send`: signs and posts a file, or a sample ticket, as a given provider would.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use chrono::Utc;
use clap::Args;
use serde_json::json;

use super::client::{Client, ServiceArgs};
use super::{CliError, Common, output};
use crate::ingest::source::Source;
use crate::simulator::deliveries::{Outgoing, SampleDelivery, prepare, sample_delivery, tickets};

/// Arguments of `send`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hooktriage send github                      a sample ticket\n  \
    hooktriage send github delivery.json --event issues.opened\n  \
    cat delivery.json | hooktriage send zendesk -\n\n\
    The source and its secret are those of the configuration, so the delivery is signed with the secret \
    that the service checks it with.")]
pub(super) struct SendArgs {
    /// Name of a configured source
    source: String,
    /// File with the body; - for standard input; a sample ticket when absent
    file: Option<PathBuf>,
    /// Which sample: its label, or part of it
    #[arg(long, conflicts_with = "file")]
    sample: Option<String>,
    /// Event type, for providers that say it in a header
    #[arg(long, value_name = "TYPE")]
    event: Option<String>,
    /// Id of the delivery; the same one twice is a repetition
    #[arg(long, value_name = "ID")]
    delivery_id: Option<String>,
    /// Send it with a wrong signature, to see it refused
    #[arg(long)]
    forge: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(super) async fn run(common: &Common, args: &SendArgs) -> Result<ExitCode, CliError> {
    let config = common.load()?;
    let names: Vec<&str> = config.sources.iter().map(Source::name).collect();
    let source = config.sources.iter().find(|source| source.name() == args.source).ok_or_else(|| {
        let known =
            if names.is_empty() { "none is".to_owned() } else { format!("there is {}", names.join(", ")) };
        CliError::Usage(format!(
            "no source {:?} is configured; {known} (set HOOKTRIAGE_SECRET_<NAME>)",
            args.source
        ))
    })?;
    let mut delivery = delivery(source, args)?;
    if args.forge {
        delivery.body.push(b' ');
    }
    let client = Client::without_token(common, &args.service)?;
    output::remark(&format!(
        "posting {} ({} bytes) to {}{}",
        delivery.label,
        delivery.body.len(),
        client.url(),
        delivery.path
    ));
    let (status, answer) = client.deliver(&delivery.path, delivery.headers, delivery.body).await?;
    if common.json {
        output::print_json(&json!({"status": status.as_u16(), "answer": answer}));
    } else {
        output::print(&format!(
            "{} {}",
            status.as_u16(),
            crate::domain::text::clean(&answer.to_string(), usize::MAX)
        ));
    }
    if let Some(job_id) = answer.get("job_id").and_then(serde_json::Value::as_str).filter(|_| !common.json) {
        output::remark(&format!("look at it: hooktriage jobs show {job_id}"));
    }
    if answer["status"] == "quarantined" {
        output::remark(
            "the service believes the sender but cannot read the ticket; it keeps the event for a person, and its log says why",
        );
    }
    if !status.is_success() {
        return Err(CliError::Failed(anyhow!("the service answered {status}")));
    }
    Ok(ExitCode::SUCCESS)
}

fn delivery(source: &Source, args: &SendArgs) -> Result<SampleDelivery, CliError> {
    let now = Utc::now();
    let Some(file) = &args.file else {
        let wanted = args.sample.as_deref().unwrap_or_default();
        let sample = tickets().iter().find(|ticket| ticket.label.contains(wanted)).ok_or_else(|| {
            let labels: Vec<&str> = tickets().iter().map(|ticket| ticket.label.as_str()).collect();
            CliError::Usage(format!("there is no sample {wanted:?}; there is {}", labels.join(", ")))
        })?;
        // A fresh number, so that it is a new ticket each time.
        let number = u64::from(rand::random::<u32>());
        return Ok(sample_delivery(source, sample, number, now).map_err(anyhow::Error::from)?);
    };
    let body = read(file)?;
    let path = format!("/webhooks/{}", source.name());
    let outgoing = Outgoing {
        preset: source.preset(),
        target: &path,
        body: &body,
        event_type: args.event.as_deref(),
        delivery_id: args.delivery_id.as_deref(),
    };
    let headers =
        prepare(source.scheme(), source.secrets().first(), &outgoing, now).map_err(anyhow::Error::from)?;
    Ok(SampleDelivery {
        source: source.name().to_owned(),
        path,
        headers,
        body,
        label: file.display().to_string(),
    })
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    if file != Path::new("-") {
        return Ok(std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?);
    }
    let mut body = Vec::new();
    std::io::stdin().lock().read_to_end(&mut body).context("standard input cannot be read")?;
    Ok(body)
}
