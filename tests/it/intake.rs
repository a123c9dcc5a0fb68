//! Claim: a receipt means committed, a repeated delivery changes nothing, and one bad event harms
//! no other.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use hooktriage::domain::{EventContent, EventId, NewEvent};
use hooktriage::ingest::{IntakeError, Receipt};
use hooktriage::queue::JobId;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, PgPool};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::support::database::TestDatabase;
use crate::support::events::{
    accepted, blocked_behind_plug, draft, event, intake, intake_with, submit_together,
};
use crate::support::jobs::{SOON, blocked_sessions, count, find, run, second_pool};
use crate::support::wait::eventually;

fn at(minute: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(1_700_000_000, 0).map(|start| start + TimeDelta::minutes(minute))
}

fn of_ticket(subject: &str, occurred_at: Option<DateTime<Utc>>) -> NewEvent {
    NewEvent { content: draft("7", subject), occurred_at, ..event() }
}

async fn subject_of_7(pool: &PgPool) -> String {
    sqlx::query_scalar("select subject from ticket where external_id = '7'").fetch_one(pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_identical_deliveries_at_once_make_one_event_and_one_job() {
    let database = TestDatabase::new().await;
    // Two processes: what one statement does not see, the unique index does.
    let intakes = [intake(database.pool()), intake(&second_pool(&database).await)];
    let same = event();
    let deliveries = (0..50).map(|n| {
        let intake = intakes[n % 2].clone();
        let delivery = NewEvent { event_id: EventId::new(), ..same.clone() };
        tokio::spawn(async move { intake.submit(delivery).await.unwrap() })
    });

    let mut first = Vec::new();
    let mut repeats = HashSet::new();
    for delivery in deliveries.collect::<Vec<_>>() {
        match delivery.await.unwrap() {
            Receipt::Accepted { event_id, job_id, ticket_id } => first.push((event_id, job_id, ticket_id)),
            Receipt::Duplicate { event_id, job_id, ticket_id, same_body } => {
                repeats.insert((event_id, job_id.unwrap(), ticket_id.unwrap()));
                assert!(same_body);
            }
            other @ Receipt::Quarantined { .. } => panic!("{other:?}"),
        }
    }

    assert_eq!(first.len(), 1);
    assert_eq!(repeats, HashSet::from([first[0]]));
    for table in ["select count(*) from event", "select count(*) from job", "select count(*) from ticket"] {
        assert_eq!(count(database.pool(), table).await, 1, "{table}");
    }
}

#[tokio::test]
async fn repeats_in_one_statement_are_repeats_too() {
    let database = TestDatabase::new().await;
    let same = event();
    let thrice = (0..3).map(|_| NewEvent { event_id: EventId::new(), ..same.clone() }).collect();

    let receipts = submit_together(&database, thrice).await;

    let fresh = receipts.iter().filter(|one| matches!(one, Ok(Receipt::Accepted { .. }))).count();
    let repeats = receipts.iter().filter(|one| matches!(one, Ok(Receipt::Duplicate { .. }))).count();
    assert_eq!((fresh, repeats), (1, 2), "{receipts:?}");
    assert_eq!(count(database.pool(), "select count(*) from job").await, 1);
}

#[tokio::test]
async fn the_same_id_from_two_sources_is_two_events() {
    let database = TestDatabase::new().await;
    let intake = intake(database.pool());
    let ours = event();
    let theirs = NewEvent { event_id: EventId::new(), source: "github".to_owned(), ..ours.clone() };

    let receipts = [intake.submit(ours).await, intake.submit(theirs).await];

    assert_ne!(accepted(&receipts[0]), accepted(&receipts[1]));
    assert_eq!(count(database.pool(), "select count(*) from ticket").await, 2);
}

#[tokio::test]
async fn a_captured_body_under_a_new_id_is_told_by_its_guard_key() {
    let database = TestDatabase::new().await;
    let intake = intake(database.pool());
    let guarded = |key: &str, body: &[u8]| NewEvent {
        guard_key: Some("sha256:1".to_owned()),
        dedupe_key: key.to_owned(),
        body: body.to_vec(),
        ..event()
    };
    let first = intake.submit(guarded("one", b"{}")).await;

    let replayed = intake.submit(guarded("two", b"{}")).await.unwrap();
    let altered = intake.submit(guarded("three", b"{ }")).await.unwrap();
    let elsewhere = NewEvent { source: "github".to_owned(), ..guarded("two", b"{}") };
    let of_another_source = intake.submit(elsewhere).await;

    let job = accepted(&first);
    let repeats = [(replayed, true), (altered, false)];
    for (repeat, same) in repeats {
        let Receipt::Duplicate { job_id, same_body, .. } = repeat else { panic!("{repeat:?}") };
        assert_eq!((job_id, same_body), (Some(job), same));
    }
    assert_ne!(accepted(&of_another_source), job);
}

#[tokio::test]
async fn two_events_of_a_ticket_in_one_statement_make_one_ticket_and_two_jobs() {
    for newest_first in [false, true] {
        let database = TestDatabase::new().await;
        let mut events = vec![of_ticket("older", at(1)), of_ticket("newer", at(2))];
        if newest_first {
            events.reverse();
        }

        let receipts = submit_together(&database, events).await;

        assert_ne!(accepted(&receipts[0]), accepted(&receipts[1]));
        assert_eq!(count(database.pool(), "select count(*) from ticket").await, 1);
        assert_eq!(count(database.pool(), "select count(distinct subject_id) from job").await, 1);
        assert_eq!(count(database.pool(), "select count(*) from job").await, 2);
        assert_eq!(subject_of_7(database.pool()).await, "newer");
    }
}

#[tokio::test]
async fn an_older_event_gets_its_job_but_does_not_overwrite_a_newer_snapshot() {
    let database = TestDatabase::new().await;
    let intake = intake(database.pool());
    let steps = [
        ("first", at(5), "first"),
        ("newer", at(6), "newer"),
        ("older", at(4), "newer"),
        ("of the same moment", at(6), "of the same moment"),
        ("without a time", None, "without a time"),
        ("older again", at(4), "without a time"),
        ("newest", at(7), "newest"),
    ];

    for (subject, occurred_at, expected) in steps {
        accepted(&intake.submit(of_ticket(subject, occurred_at)).await);
        assert_eq!(subject_of_7(database.pool()).await, expected, "after {subject:?}");
    }

    assert_eq!(count(database.pool(), "select count(*) from job").await, 7);
    let labels: Vec<String> =
        sqlx::query_scalar("select labels from ticket").fetch_one(database.pool()).await.unwrap();
    assert_eq!(labels, ["bug", "from customer"]);
}

#[tokio::test]
async fn a_bad_event_does_not_fail_the_others_of_its_statement() {
    let with_nul = NewEvent { event_type: "ticket\0created".to_owned(), ..event() };
    // Does not compress, so that it exceeds what an index row may hold.
    let too_long: String = (0..2000).map(|_| Uuid::now_v7().simple().to_string()).collect();
    let too_long = NewEvent { dedupe_key: too_long, ..event() };
    for bad in [with_nul, too_long] {
        let database = TestDatabase::new().await;
        let mut events: Vec<NewEvent> = (0..20).map(|_| event()).collect();
        events.insert(7, bad);

        let mut receipts = submit_together(&database, events).await;

        let refused = receipts.remove(7);
        assert!(matches!(refused, Err(IntakeError::Refused(_))), "{refused:?}");
        let jobs: HashSet<JobId> = receipts.iter().map(accepted).collect();
        assert_eq!(jobs.len(), 20);
        assert_eq!(count(database.pool(), "select count(*) from job").await, 20);
    }
}

#[tokio::test]
async fn a_database_that_does_not_commit_in_time_is_an_error_within_the_patience() {
    let database = TestDatabase::new().await;
    let (intake, _) = intake_with(database.pool(), Duration::from_millis(300));
    let mut holder = PgConnection::connect(database.url()).await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    sqlx::query("lock table ticket in access exclusive mode").execute(&mut *holding).await.unwrap();
    let late = event();

    let start = Instant::now();
    let slow = intake.submit(late.clone()).await;
    let took = start.elapsed();
    holding.rollback().await.unwrap();

    assert_eq!(slow, Err(IntakeError::TooSlow(Duration::from_millis(300))));
    assert!(took < Duration::from_secs(5), "{took:?}");
    // The statement was under way and commits after all: sent again, the event is a repeat.
    let committed =
        || async { (count(database.pool(), "select count(*) from job").await == 1).then_some(()) };
    eventually(SOON, committed).await;
    let (intake, _) = intake_with(database.pool(), SOON);
    let again = intake.submit(NewEvent { event_id: EventId::new(), ..late.clone() }).await.unwrap();
    assert!(matches!(again, Receipt::Duplicate { event_id, .. } if event_id == late.event_id), "{again:?}");
}

#[tokio::test]
async fn a_database_that_is_gone_is_an_error_and_the_intake_recovers() {
    let database = TestDatabase::new().await;
    let gone = intake(database.pool());
    let mut admin = PgConnection::connect(database.url()).await.unwrap();
    run(database.pool(), "alter table event rename to mislaid").await;

    let refused = gone.submit(event()).await;
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()";
    sqlx::query(end).execute(&mut admin).await.unwrap();
    sqlx::query("alter table mislaid rename to event").execute(&mut admin).await.unwrap();

    assert!(matches!(refused, Err(IntakeError::Refused(_))), "{refused:?}");
    let back = || async { gone.submit(event()).await.ok() };
    eventually(SOON, back).await;
}

#[tokio::test]
async fn foreign_bodies_are_stored_byte_for_byte() {
    let database = TestDatabase::new().await;
    let intake = intake(database.pool());
    let bodies: [&[u8]; 6] = [
        br#"{"text":"a\u0000b"}"#,
        br#"{"text":"\ud800 alone"}"#,
        b"{\"price\":1e131071}",
        b"\xff\xfe not utf-8 \x00\x01",
        b"",
        "{\"b\": 1, \"a\": 2, \"a\": 3 }\r\n\u{feff}".as_bytes(),
    ];

    for body in bodies {
        let delivery = NewEvent { body: body.to_vec(), ..event() };
        accepted(&intake.submit(delivery.clone()).await);

        let stored: Vec<u8> = sqlx::query_scalar("select body from event where event_id = $1")
            .bind(delivery.event_id.0)
            .fetch_one(database.pool())
            .await
            .unwrap();
        assert_eq!(stored, body);
    }
}

#[tokio::test]
async fn a_receipt_is_given_only_after_the_commit() {
    let database = TestDatabase::new().await;
    let mut commit_waits = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(
        "create function wait_at_commit() returns trigger language plpgsql as $$
         begin perform pg_advisory_xact_lock(1); return null; end $$;
         create constraint trigger wait_at_commit after insert on job
         deferrable initially deferred for each row execute function wait_at_commit();
         select pg_advisory_lock(1)",
    )
    .execute(&mut commit_waits)
    .await
    .unwrap();
    let intake = intake(database.pool());
    let submit = intake.submit(event());
    tokio::pin!(submit);

    // Everything is written, and the commit waits.
    let early = tokio::select! {
        biased;
        receipt = &mut submit => Some(receipt),
        () = blocked_sessions(database.pool(), 1) => None,
    };
    let seen = count(database.pool(), "select count(*) from job").await;
    sqlx::query("select pg_advisory_unlock(1)").execute(&mut commit_waits).await.unwrap();
    let job_id = accepted(&submit.await);

    assert_eq!((early, seen), (None, 0));
    assert_eq!(find(database.pool(), job_id).await.state, "queued");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_a_receipt_finds_the_event_and_the_job_from_any_session() {
    let database = TestDatabase::new().await;
    let other = second_pool(&database).await;
    let intake = intake(database.pool());
    let checks = (0..100).map(|_| {
        let (intake, other) = (intake.clone(), other.clone());
        tokio::spawn(async move {
            let Receipt::Accepted { event_id, job_id, ticket_id } = intake.submit(event()).await.unwrap()
            else {
                panic!("not accepted")
            };
            let found: i64 = sqlx::query_scalar(
                "select count(*) from event join job using (job_id)
                   join ticket on ticket_id = subject_id and ticket.external_id = event.external_id
                  where event_id = $1 and job_id = $2 and ticket_id = $3",
            )
            .bind(event_id.0)
            .bind(job_id.0)
            .bind(ticket_id.0)
            .fetch_one(&other)
            .await
            .unwrap();
            found
        })
    });

    for check in checks.collect::<Vec<_>>() {
        assert_eq!(check.await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_quarantined_event_is_kept_and_makes_neither_ticket_nor_job() {
    let database = TestDatabase::new().await;
    let intake = intake(database.pool());
    let content = EventContent::Quarantined { fault: "no ticket in it".to_owned() };
    let odd = NewEvent { content, ..event() };

    let first = intake.submit(odd.clone()).await;
    let again = intake.submit(NewEvent { event_id: EventId::new(), ..odd.clone() }).await;

    assert_eq!(first, Ok(Receipt::Quarantined { event_id: odd.event_id }));
    let repeat =
        Receipt::Duplicate { event_id: odd.event_id, job_id: None, ticket_id: None, same_body: true };
    assert_eq!(again, Ok(repeat));
    let kept = "select count(*) from event where state = 'quarantined' and fault = 'no ticket in it'";
    assert_eq!(count(database.pool(), kept).await, 1);
    assert_eq!(count(database.pool(), "select count(*) from ticket").await, 0);
    assert_eq!(count(database.pool(), "select count(*) from job").await, 0);
}

#[tokio::test]
async fn events_lock_their_tickets_in_one_order_whatever_the_order_they_came_in() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let of = |name: &str| NewEvent { content: draft(name, "s"), ..event() };
    submit_together(&database, vec![of("b"), of("a")]).await.iter().for_each(|one| _ = accepted(one));
    let mut holder = PgConnection::connect(database.url()).await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    let hold = sqlx::query("select from ticket where external_id = 'a' for no key update");
    hold.execute(&mut *holding).await.unwrap();

    let again = submit_together(&database, vec![of("b"), of("a")]);
    let look = async {
        blocked_behind_plug(pool, 2).await;
        let free = "select external_id from ticket where external_id = 'b' for no key update skip locked";
        let free: Vec<String> = sqlx::query_scalar(free).fetch_all(pool).await.unwrap();
        holding.rollback().await.unwrap();
        free
    };
    let (receipts, free) = tokio::join!(again, look);

    assert_eq!(free, ["b"]);
    receipts.iter().for_each(|one| _ = accepted(one));
}

/// Two events whose keys another session inserts the other way round: one of the two has to give
/// way, and the senders of the loser must not notice.
#[tokio::test]
async fn events_that_met_another_writer_head_on_are_written_again() {
    let database = TestDatabase::new().await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    sqlx::query("set deadlock_timeout = '1 min'").execute(&mut other).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    let insert = |key: &'static str| {
        sqlx::query(
            "insert into event (event_id, source, dedupe_key, body, event_type, state, fault)
             values (gen_random_uuid(), 'desk', $1, '', 't', 'quarantined', 'f')",
        )
        .bind(key)
    };
    insert("b").execute(&mut *transaction).await.unwrap();
    let keyed = |key: &str| NewEvent { dedupe_key: key.to_owned(), ..event() };

    let batch = submit_together(&database, vec![keyed("a"), keyed("b")]);
    let meet = async {
        blocked_behind_plug(database.pool(), 1).await;
        insert("a").execute(&mut *transaction).await.unwrap();
        transaction.rollback().await.unwrap();
    };
    let (receipts, ()) = tokio::join!(batch, meet);

    receipts.iter().for_each(|one| _ = accepted(one));
    assert_eq!(count(database.pool(), "select count(*) from job").await, 2);
}

#[tokio::test]
async fn senders_that_hang_up_leave_no_session_in_a_transaction() {
    let database = TestDatabase::new().await;
    let intake = intake(database.pool());
    let senders: Vec<_> = (0..200)
        .map(|n| {
            let intake = intake.clone();
            let sender = tokio::spawn(async move { intake.submit(event()).await });
            if n % 3 == 0 {
                sender.abort();
            }
            sender
        })
        .collect();
    tokio::task::yield_now().await;
    senders.iter().skip(1).step_by(3).for_each(JoinHandle::abort);

    let mut stayed = 0;
    for sender in senders {
        match sender.await {
            Ok(receipt) => stayed += i64::from(matches!(receipt, Ok(Receipt::Accepted { .. }))),
            Err(hung_up) => assert!(hung_up.is_cancelled()),
        }
    }

    accepted(&intake.submit(event()).await);
    assert!(stayed >= 66, "only {stayed} of those who stayed were served");
    assert!(count(database.pool(), "select count(*) from job").await > stayed);
    let open = "select count(*) from pg_stat_activity
                 where datname = current_database() and state like 'idle in transaction%'";
    assert_eq!(count(database.pool(), open).await, 0);
}

#[tokio::test]
async fn an_intake_that_is_dropped_writes_what_it_was_given() {
    let database = TestDatabase::new().await;
    let (intake, writer) = intake_with(database.pool(), SOON);
    let waiting = {
        let intake = intake.clone();
        tokio::spawn(async move { intake.submit(event()).await })
    };
    tokio::task::yield_now().await;
    drop(intake);

    tokio::time::timeout(SOON, writer).await.expect("it ends").unwrap();

    accepted(&waiting.await.unwrap());
}
