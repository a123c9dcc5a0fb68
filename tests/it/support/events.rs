//! What the tests of the intake are made of: events, and a way to have several in one statement.

use std::time::Duration;

use futures_util::future::join_all;
use hooktriage::domain::{EventContent, EventId, NewEvent, TicketDraft};
use hooktriage::ingest::{Intake, IntakeError, Receipt};
use hooktriage::queue::{JobId, Wake};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, PgPool};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::database::TestDatabase;
use super::jobs::{QUEUE, SOON, STEP, blocked_sessions, count};
use super::wait::eventually;

pub(crate) fn intake(pool: &PgPool) -> Intake {
    intake_with(pool, SOON).0
}

pub(crate) fn intake_with(pool: &PgPool, patience: Duration) -> (Intake, JoinHandle<()>) {
    let (wake, _remote) = Wake::new(&[QUEUE]);
    Intake::start(pool.clone(), STEP, wake, patience)
}

pub(crate) fn draft(external_id: &str, subject: &str) -> EventContent {
    EventContent::Ticket(Box::new(TicketDraft {
        external_id: external_id.to_owned(),
        subject: subject.to_owned(),
        labels: vec!["bug".to_owned(), "from customer".to_owned()],
        ..TicketDraft::default()
    }))
}

/// A new event of a ticket of its own.
pub(crate) fn event() -> NewEvent {
    let key = Uuid::now_v7().to_string();
    NewEvent {
        event_id: EventId::new(),
        source: "desk".to_owned(),
        dedupe_key: key.clone(),
        guard_key: None,
        event_type: "ticket.created".to_owned(),
        body: b"{}".to_vec(),
        occurred_at: None,
        content: draft(&key, "It crashes"),
    }
}

/// Hands in all events while an earlier one is being written, so that they are in one statement.
pub(crate) async fn submit_together(
    database: &TestDatabase,
    events: Vec<NewEvent>,
) -> Vec<Result<Receipt, IntakeError>> {
    let intake = intake(database.pool());
    let mut holder = PgConnection::connect(database.url()).await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    let key = format!("plug {}", Uuid::now_v7());
    let uncommitted = sqlx::query(
        "insert into event (event_id, source, dedupe_key, body, event_type, state, fault)
         values (gen_random_uuid(), 'desk', $1, '', 't', 'quarantined', 'f')",
    );
    uncommitted.bind(&key).execute(&mut *holding).await.unwrap();
    let plug = tokio::spawn({
        let intake = intake.clone();
        let content = EventContent::Quarantined { fault: "f".to_owned() };
        async move { intake.submit(NewEvent { dedupe_key: key, content, ..event() }).await }
    });
    blocked_sessions(database.pool(), 1).await;
    // The first poll of each submit hands its event in; the holder lets go only after that.
    let all = join_all(events.into_iter().map(|event| intake.submit(event)));
    let (receipts, ()) = tokio::join!(all, async { holding.rollback().await.unwrap() });
    plug.await.unwrap().unwrap();
    receipts
}

/// Waits until so many plugs are through and the statement behind the last one waits for a lock.
pub(crate) async fn blocked_behind_plug(pool: &PgPool, plugs: i64) {
    let through = "select count(*) from event where dedupe_key like 'plug%'";
    eventually(SOON, || async { (count(pool, through).await == plugs).then_some(()) }).await;
    blocked_sessions(pool, 1).await;
}

pub(crate) fn accepted(receipt: &Result<Receipt, IntakeError>) -> JobId {
    match receipt {
        Ok(Receipt::Accepted { job_id, .. }) => *job_id,
        other => panic!("not accepted: {other:?}"),
    }
}
