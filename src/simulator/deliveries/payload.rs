//! The same ticket in each provider's words.
//!
//! Members that we do not read are there too: a payload without them would let a reader pass that
//! trips over the real one. Field lists: GitHub Docs "Webhook events and payloads" (`issues`);
//! Zendesk Developer Docs "Ticket events"; Standard Webhooks 1.0.0 "Payload structure".

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::SampleTicket;
use crate::ingest::source::Preset;

/// The repository that GitHub samples come from.
const REPOSITORY: &str = "northwind-labs/helpdesk";

/// The payload for "this ticket was opened now". `generic` gets the shape of Standard Webhooks,
/// which its default mapping reads.
pub(super) fn opened(preset: Preset, ticket: &SampleTicket, number: u64, now: DateTime<Utc>) -> Value {
    let time = now.to_rfc3339_opts(SecondsFormat::Secs, true);
    match preset {
        Preset::Github => github(ticket, number, &time),
        Preset::Zendesk => zendesk(ticket, number, &time),
        Preset::StandardWebhooks | Preset::Generic => standard(ticket, number, &time),
    }
}

fn github(ticket: &SampleTicket, number: u64, time: &str) -> Value {
    let user = github_user(&ticket.requester.login);
    let labels: Vec<Value> = ticket
        .labels
        .iter()
        .map(|name| json!({"name": name, "color": "d4c5f9", "default": false, "description": null}))
        .collect();
    let api = format!("https://api.github.com/repos/{REPOSITORY}");
    let body = if ticket.body.is_empty() { Value::Null } else { json!(ticket.body) };
    json!({
        "action": "opened",
        "issue": {
            "id": 2_900_000_000_u64 + number,
            "node_id": format!("I_sample{number}"),
            "number": number,
            "url": format!("{api}/issues/{number}"),
            "html_url": format!("https://github.com/{REPOSITORY}/issues/{number}"),
            "title": ticket.subject,
            "user": user,
            "labels": labels,
            "state": "open",
            "locked": false,
            "assignee": null,
            "assignees": [],
            "milestone": null,
            "comments": 0,
            "created_at": time,
            "updated_at": time,
            "closed_at": null,
            "author_association": "NONE",
            "body": body,
            "reactions": {"total_count": 0, "+1": 0, "-1": 0},
        },
        "repository": {
            "id": 610_044_217,
            "name": "helpdesk",
            "full_name": REPOSITORY,
            "private": false,
            "owner": github_user("northwind-labs"),
            "html_url": format!("https://github.com/{REPOSITORY}"),
            "url": api,
            "default_branch": "main",
        },
        "sender": user,
    })
}

fn github_user(login: &str) -> Value {
    json!({"login": login, "id": 41_000_000 + login.len(), "type": "User", "site_admin": false})
}

fn zendesk(ticket: &SampleTicket, number: u64, time: &str) -> Value {
    json!({
        "account_id": 22_129_848,
        "detail": {
            "actor_id": "8447388090494",
            "assignee_id": null,
            "brand_id": "8447346621310",
            "created_at": time,
            "custom_status": "8447320465790",
            "description": ticket.body,
            "external_id": null,
            "form_id": "8646151517822",
            "group_id": "8447320466430",
            "id": number.to_string(),
            "is_public": true,
            "organization_id": null,
            "priority": ticket.priority.as_ref().map(|word| word.to_uppercase()),
            "requester_id": requester_id(&ticket.requester.login),
            "status": "NEW",
            "subject": ticket.subject,
            "submitter_id": "8447388090494",
            "tags": ticket.labels,
            "type": null,
            "updated_at": time,
            "via": {"channel": "web"},
        },
        "event": {},
        "id": Uuid::now_v7(),
        "subject": format!("zen:ticket:{number}"),
        "time": time,
        "type": "zen:event-type:ticket.created",
        "zendesk_event_version": "2022-11-06",
    })
}

/// Zendesk names people by number alone; the same login always gets the same one.
fn requester_id(login: &str) -> String {
    let folded = login.bytes().fold(0_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1_000_000_007);
    (8_447_000_000_000 + folded).to_string()
}

fn standard(ticket: &SampleTicket, number: u64, time: &str) -> Value {
    let requester = &ticket.requester;
    json!({
        "type": "ticket.created",
        "timestamp": time,
        "data": {
            "id": format!("TCK-{number}"),
            "subject": ticket.subject,
            "body": ticket.body,
            "requester": {"name": requester.name, "email": requester.email},
            "labels": ticket.labels,
            "priority": ticket.priority,
            "url": format!("https://desk.example/tickets/{number}"),
        },
    })
}
