//! What a destination receives. The shapes are documented in `docs/API.md`; they only grow.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::Ticket;
use crate::queue::dead_letter::DeadLetter;
use crate::store::StoredClassification;

/// Most dead letters that an alert spells out.
pub(super) const LETTERS_SHOWN_MAX: i64 = 10;

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The event `ticket.triaged`.
pub(super) fn verdict(ticket: &Ticket, stored: &StoredClassification) -> Value {
    json!({
        "type": "ticket.triaged",
        "timestamp": time(stored.created_at),
        "data": {
            "ticket": {
                "ticket_id": ticket.ticket_id.0,
                "source": ticket.source,
                "external_id": ticket.draft.external_id,
                "subject": ticket.draft.subject,
                "requester": ticket.draft.requester,
                "labels": ticket.draft.labels,
                "url": ticket.draft.url,
                "version": stored.ticket_version,
            },
            "verdict": {
                "classification_id": stored.classification_id,
                "job_id": stored.job_id,
                "category": stored.category,
                "priority": stored.priority,
                "sentiment": stored.sentiment,
                "language": stored.language,
                "summary": stored.summary,
                "confidence": stored.confidence,
                "reasons": stored.reasons,
                "needs_review": !stored.review.is_empty(),
                "review_reasons": stored.review,
                "destination": stored.destination,
                "lane": stored.lane,
                "model": stored.model,
            },
        },
    })
}

/// The event `dead_letter.alert`: what died of one failure, newest first.
pub(super) fn dead_letters(
    error_class: &str,
    queue: &str,
    letters: &[DeadLetter],
    more: bool,
    now: DateTime<Utc>,
) -> Value {
    let shown = letters.iter().map(|letter| {
        json!({
            "dead_letter_id": letter.dead_letter_id,
            "job_id": letter.job_id,
            "kind": letter.kind,
            "source": letter.source,
            "reason": letter.reason,
            "error": letter.error,
            "dead_at": time(letter.dead_at),
        })
    });
    json!({
        "type": "dead_letter.alert",
        "timestamp": time(now),
        "data": {
            "queue": queue,
            "error_class": error_class,
            "letters": shown.collect::<Vec<Value>>(),
            "more": more,
        },
    })
}

/// The event `lane.parked`: no ticket is triaged over this lane until a person mends the cause.
pub(super) fn lane_parked(lane: &str, cause: &str, error: &str, now: DateTime<Utc>) -> Value {
    json!({
        "type": "lane.parked",
        "timestamp": time(now),
        "data": { "lane": lane, "cause": cause, "error": error },
    })
}

/// The event `event.quarantined`: a source sends what we know but cannot read. The event is the one
/// that raised the alert; others may have followed.
pub(super) fn quarantined(source: &str, event_id: Uuid, now: DateTime<Utc>) -> Value {
    json!({
        "type": "event.quarantined",
        "timestamp": time(now),
        "data": { "source": source, "event_id": event_id },
    })
}
