//! The one statement of ingest: event, ticket and job in one commit, or nothing.
//!
//! **Invariants.** A repeated delivery is stopped by a unique index inside this statement, never by
//! a look beforehand. An older event never overwrites a newer snapshot of a ticket; an event without
//! a time is taken as it comes, and the snapshot keeps the newest time that it has had. A time in the
//! future counts as now, or it would keep every later event out. Rows are
//! inserted in key order, so that two batches seldom wait for each other.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use crate::domain::event::EventContent;
use crate::domain::{EventId, EventState, NewEvent, TicketId};
use crate::queue::{JobId, JobTemplate, NewJob};

/// What the database says of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is new, and so is its job.
    Accepted { job_id: JobId, ticket_id: TicketId },
    /// It is new, and it could not be read.
    Quarantined,
    /// It stood there before: not written again.
    Known,
}

/// The columns of a batch, in the order of the statement's parameters.
#[derive(Default)]
struct Columns {
    event_ids: Vec<Uuid>,
    sources: Vec<String>,
    dedupe_keys: Vec<String>,
    bodies: Vec<Vec<u8>>,
    guard_keys: Vec<Option<String>>,
    types: Vec<String>,
    states: Vec<String>,
    faults: Vec<Option<String>>,
    occurred: Vec<Option<DateTime<Utc>>>,
    job_ids: Vec<Option<Uuid>>,
    ticket_ids: Vec<Option<Uuid>>,
    external_ids: Vec<Option<String>>,
    subjects: Vec<Option<String>>,
    ticket_bodies: Vec<Option<String>>,
    requesters: Vec<Option<String>>,
    labels: Vec<Option<String>>,
    priorities: Vec<Option<String>>,
    urls: Vec<Option<String>>,
}

impl Columns {
    fn of(events: &[NewEvent]) -> Self {
        let mut columns = Self::default();
        for event in events {
            columns.push(event);
        }
        columns
    }

    fn push(&mut self, event: &NewEvent) {
        self.event_ids.push(event.event_id.0);
        self.sources.push(event.source.clone());
        self.dedupe_keys.push(event.dedupe_key.clone());
        self.bodies.push(event.body.clone());
        self.guard_keys.push(event.guard_key.clone());
        self.types.push(event.event_type.clone());
        self.occurred.push(event.occurred_at);
        let (ticket, fault) = match &event.content {
            EventContent::Ticket(draft) => (Some(draft.as_ref().clone().cleaned()), None),
            EventContent::Quarantined { fault } => (None, Some(fault.clone())),
        };
        let state = if ticket.is_some() { EventState::Accepted } else { EventState::Quarantined };
        self.states.push(state.as_str().to_owned());
        self.faults.push(fault);
        self.job_ids.push(ticket.as_ref().map(|_| JobId::new().0));
        self.ticket_ids.push(ticket.as_ref().map(|_| TicketId::new().0));
        // An array of arrays must be rectangular in SQL, so labels travel as one text: they are
        // cleaned to single lines, so a newline cannot stand in one.
        self.labels.push(ticket.as_ref().map(|ticket| ticket.labels.join("\n")));
        self.external_ids.push(ticket.as_ref().map(|ticket| ticket.external_id.clone()));
        self.subjects.push(ticket.as_ref().map(|ticket| ticket.subject.clone()));
        self.requesters.push(ticket.as_ref().map(|ticket| ticket.requester.clone()));
        self.priorities.push(ticket.as_ref().map(|ticket| ticket.external_priority.clone()));
        self.urls.push(ticket.as_ref().map(|ticket| ticket.url.clone()));
        self.ticket_bodies.push(ticket.map(|ticket| ticket.body));
    }
}

/// Writes a batch of events with their tickets and jobs in one autocommit statement.
///
/// Several events of one ticket in a batch: the newest shapes the snapshot, each gets its job.
pub(super) async fn write_events(
    pool: &PgPool,
    template: JobTemplate,
    events: &[NewEvent],
) -> Result<Vec<Written>, sqlx::Error> {
    let columns = Columns::of(events);
    let rows = insert(pool, template, &columns).await?;
    let written = events.iter().map(|event| {
        let row = rows.iter().find(|row| row.event_id == event.event_id.0);
        match row {
            Some(Row { job_id: Some(job_id), ticket_id: Some(ticket_id), .. }) => {
                Written::Accepted { job_id: JobId(*job_id), ticket_id: TicketId(*ticket_id) }
            }
            Some(_) => Written::Quarantined,
            None => Written::Known,
        }
    });
    Ok(written.collect())
}

struct Row {
    event_id: Uuid,
    job_id: Option<Uuid>,
    ticket_id: Option<Uuid>,
}

#[expect(clippy::too_many_lines, reason = "one statement, which must be one")]
async fn insert(pool: &PgPool, template: JobTemplate, columns: &Columns) -> Result<Vec<Row>, sqlx::Error> {
    sqlx::query_as!(
        Row,
        r#"with input as materialized (
               select * from unnest(
                   $1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[],
                   $7::text[], $8::text[], $9::timestamptz[], $10::uuid[], $11::uuid[], $12::text[],
                   $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[])
               with ordinality as t (
                   event_id, source, dedupe_key, body, guard_key, event_type,
                   state, fault, occurred_at, job_id, ticket_id, external_id,
                   subject, ticket_body, requester, labels, external_priority, url, place)),
           new_event as (
               insert into event (event_id, source, dedupe_key, body, guard_key, event_type,
                                  state, fault, external_id, job_id, occurred_at)
               select event_id, source, dedupe_key, body, guard_key, event_type,
                      state, fault, external_id, job_id, occurred_at
                 from input order by source, dedupe_key
                   on conflict do nothing
            returning event_id),
           fresh as (
               select distinct on (source, external_id) *
                 from input join new_event using (event_id)
                where external_id is not null
                order by source, external_id, occurred_at desc nulls last, place desc),
           written as (
               insert into ticket as old (ticket_id, source, external_id, subject, body, requester, labels,
                                          external_priority, url, occurred_at)
               select ticket_id, source, external_id, subject, ticket_body, requester,
                      case when labels = '' then '{}' else string_to_array(labels, E'\n') end,
                      external_priority, url, case when occurred_at > now() then now() else occurred_at end
                 from fresh order by source, external_id
                   on conflict (source, external_id) do update
                  set (subject, body, requester, labels, external_priority, url, occurred_at, updated_at, version) =
                      (select pick.subject, pick.body, pick.requester, pick.labels, pick.external_priority,
                              pick.url, pick.occurred_at, pick.updated_at, pick.version
                         from (values
                             (true, excluded.subject, excluded.body, excluded.requester, excluded.labels,
                              excluded.external_priority, excluded.url,
                              coalesce(excluded.occurred_at, old.occurred_at), now(), old.version + 1),
                             (false, old.subject, old.body, old.requester, old.labels,
                              old.external_priority, old.url, old.occurred_at, old.updated_at, old.version))
                           as pick (is_new, subject, body, requester, labels, external_priority, url,
                                    occurred_at, updated_at, version)
                        where pick.is_new = (old.occurred_at is null or excluded.occurred_at is null
                                             or excluded.occurred_at >= old.occurred_at))
            returning ticket_id, source, external_id),
           new_job as (
               insert into job (job_id, queue, kind, source, subject_id, priority, attempts_max)
               select input.job_id, $19, $20, input.source, written.ticket_id, $21, $22
                 from input
                 join new_event using (event_id)
                 join written using (source, external_id)
            returning job_id, subject_id)
           select new_event.event_id, new_job.job_id as "job_id?", new_job.subject_id as "ticket_id?"
             from new_event
             join input using (event_id)
             left join new_job on new_job.job_id = input.job_id"#,
        &columns.event_ids,
        &columns.sources,
        &columns.dedupe_keys,
        &columns.bodies,
        &columns.guard_keys as &[Option<String>],
        &columns.types,
        &columns.states,
        &columns.faults as &[Option<String>],
        &columns.occurred as &[Option<DateTime<Utc>>],
        &columns.job_ids as &[Option<Uuid>],
        &columns.ticket_ids as &[Option<Uuid>],
        &columns.external_ids as &[Option<String>],
        &columns.subjects as &[Option<String>],
        &columns.ticket_bodies as &[Option<String>],
        &columns.requesters as &[Option<String>],
        &columns.labels as &[Option<String>],
        &columns.priorities as &[Option<String>],
        &columns.urls as &[Option<String>],
        template.queue,
        template.kind,
        NewJob::PRIORITY_DEFAULT,
        template.attempts_max,
    )
    .fetch_all(pool)
    .await
}

/// The first event of a repeated delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownEvent {
    pub event_id: EventId,
    pub job_id: Option<JobId>,
    pub ticket_id: Option<TicketId>,
    pub same_body: bool,
}

/// Finds the event that made a delivery a repetition: by its key, or by its guard.
pub(super) async fn find_known(pool: &PgPool, event: &NewEvent) -> Result<Option<KnownEvent>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select event.event_id, event.job_id, ticket.ticket_id as "ticket_id?",
                  (event.body = $4) as "same_body!"
             from event
             left join ticket on ticket.source = event.source and ticket.external_id = event.external_id
            where event.source = $1 and (event.dedupe_key = $2 or event.guard_key = $3)
            order by (event.dedupe_key = $2) desc
            limit 1"#,
        event.source,
        event.dedupe_key,
        event.guard_key,
        event.body,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| KnownEvent {
        event_id: EventId(row.event_id),
        job_id: row.job_id.map(JobId),
        ticket_id: row.ticket_id.map(TicketId),
        same_body: row.same_body,
    }))
}
