//! Tickets: reading snapshots.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::StoreError;
use crate::domain::{Ticket, TicketDraft, TicketId};

/// Which tickets to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TicketFilter {
    /// Only tickets of this source.
    pub source: Option<String>,
    /// Only tickets first seen before this one: the cursor.
    pub before: Option<Uuid>,
}

struct Row {
    ticket_id: Uuid,
    source: String,
    external_id: String,
    subject: String,
    body: String,
    requester: String,
    labels: Vec<String>,
    external_priority: String,
    url: String,
    version: i32,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl From<Row> for Ticket {
    fn from(row: Row) -> Self {
        Self {
            ticket_id: TicketId(row.ticket_id),
            source: row.source,
            draft: TicketDraft {
                external_id: row.external_id,
                subject: row.subject,
                body: row.body,
                requester: row.requester,
                labels: row.labels,
                external_priority: row.external_priority,
                url: row.url,
            },
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Reads one ticket.
///
/// # Errors
/// [`StoreError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn find_ticket(pool: &PgPool, ticket_id: TicketId) -> Result<Option<Ticket>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        "select ticket_id, source, external_id, subject, body, requester, labels, external_priority, url,
                version, created_at, updated_at
           from ticket
          where ticket_id = $1",
        ticket_id.0,
    )
    .fetch_optional(pool)
    .await
    .map_err(StoreError::during("read a ticket"))?;
    Ok(row.map(Ticket::from))
}

/// Lists tickets, those first seen last at the top.
///
/// # Errors
/// [`StoreError::Database`].
///
/// # Cancellation safety
/// Reads only.
pub async fn list_tickets(
    pool: &PgPool,
    filter: &TicketFilter,
    limit: i64,
) -> Result<Vec<Ticket>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        "select ticket_id, source, external_id, subject, body, requester, labels, external_priority, url,
                version, created_at, updated_at
           from ticket
          where ($1::text is null or source = $1) and ($2::uuid is null or ticket_id < $2)
          order by ticket_id desc
          limit $3",
        filter.source.as_deref(),
        filter.before,
        limit,
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::during("list tickets"))?;
    Ok(rows.into_iter().map(Ticket::from).collect())
}
