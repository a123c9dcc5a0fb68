//! Claim: a verdict is recorded once, and with it, in the same commit, the end of its job, the
//! pointer of its ticket and the job that delivers it.

use std::sync::Arc;

use hooktriage::domain::{DestinationName, Priority, Sentiment, TicketId, Verdict};
use hooktriage::queue::{
    ClaimedJob, EffectWriter, Handler, JobId, Liveness, NewJob, Outcome, Ran, Wake, Worker, WorkerPolicy,
};
use hooktriage::store::classification::{newest_of_tickets, of_jobs};
use hooktriage::store::{Alerts, VerdictRecord, VerdictWriter};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, PgPool};
use uuid::Uuid;

use crate::support::database::TestDatabase;
use crate::support::jobs::{
    AT_ONCE, FOLLOW_UP, QUEUE, SOON, STEP, blocked_sessions, claim_some, count, find, identity, put, step,
};
use crate::support::wait::eventually;

/// A handler that judges every ticket alike; what the job's arguments say becomes the summary.
struct Judge {
    deliver: bool,
}

fn record(ticket_id: TicketId, summary: &str, deliver: bool) -> VerdictRecord {
    VerdictRecord {
        ticket_version: 1,
        ticket_id,
        verdict: Verdict {
            category: Some("bug".to_owned()),
            priority: Priority::High,
            sentiment: Some(Sentiment::Negative),
            language: "en".to_owned(),
            summary: summary.to_owned(),
            confidence: 0.75,
            reasons: vec!["says that it crashes".to_owned()],
            review: vec![],
        },
        destination: DestinationName::parse("engineering"),
        deliver,
        lane: "offline".to_owned(),
        model: "none".to_owned(),
        prompt_version: "1".to_owned(),
        taxonomy_version: "2".to_owned(),
        input_tokens: Some(u32::MAX),
        output_tokens: None,
        latency_ms: 12,
        truncated: false,
    }
}

impl Handler for Judge {
    type Effect = VerdictRecord;

    fn kinds(&self) -> Vec<String> {
        vec![STEP.kind.to_owned()]
    }

    async fn run(&self, job: &ClaimedJob) -> Ran<VerdictRecord> {
        Outcome::Complete(record(TicketId(job.subject_id), &job.args, self.deliver)).into()
    }
}

async fn judge(pool: &PgPool, deliver: bool) -> (Worker, Wake) {
    let (wake, _remote) = Wake::new(&[QUEUE]);
    let worker = Worker::start(pool.clone(), identity(), Liveness::default()).await.unwrap();
    let policy = WorkerPolicy { slots: 4, job_timeout: SOON, age_max: SOON, backoff: AT_ONCE };
    let writer = Arc::new(VerdictWriter::new(FOLLOW_UP));
    let hook = Arc::new(Alerts { template: None });
    worker.work(QUEUE, policy, Arc::new(Judge { deliver }), writer, hook, wake.clone());
    (worker, wake)
}

async fn judge_all(pool: &PgPool, deliver: bool) {
    let (worker, wake) = judge(pool, deliver).await;
    let done = || async {
        wake.ring(QUEUE);
        (count(pool, "select count(*) from job where queue = 'work'").await == 0).then_some(())
    };
    eventually(SOON, done).await;
    worker.stop(SOON).await.unwrap();
}

async fn ticket(pool: &PgPool, external_id: &str) -> TicketId {
    let ticket_id = TicketId::new();
    let insert = sqlx::query(
        "insert into ticket (ticket_id, source, external_id, subject, body, requester, labels, external_priority, url)
         values ($1, 'desk', $2, 'It crashes', '', '', '{}', '', '')",
    );
    insert.bind(ticket_id.0).bind(external_id).execute(pool).await.unwrap();
    ticket_id
}

async fn ask(pool: &PgPool, ticket: TicketId, summary: &str) -> JobId {
    let job = NewJob { args: summary.to_owned(), subject_id: ticket.0, ..step() };
    put(pool, std::slice::from_ref(&job)).await;
    job.job_id
}

#[tokio::test]
async fn a_verdict_its_ticket_its_delivery_and_the_end_of_its_job_are_one_commit() {
    let database = TestDatabase::new().await;
    let ticket_id = ticket(database.pool(), "7").await;
    let job = ask(database.pool(), ticket_id, "It crashes on save.").await;

    judge_all(database.pool(), true).await;

    let written: Vec<String> = sqlx::query_scalar(
        "select xmin::text from classification union all select xmin::text from ticket
         union all select xmin::text from job where queue = 'after'
         union all select xmin::text from job_history union all select xmin::text from attempt",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    assert_eq!(written.len(), 5);
    assert!(written.iter().all(|transaction| *transaction == written[0]), "{written:?}");

    let stored = of_jobs(database.pool(), &[job.0]).await.unwrap().remove(0);
    assert_eq!((stored.ticket_id, stored.summary.as_str()), (ticket_id.0, "It crashes on save."));
    assert_eq!((stored.category.as_deref(), stored.priority.as_str()), (Some("bug"), "high"));
    assert_eq!((stored.sentiment.as_deref(), stored.confidence), (Some("negative"), 0.75));
    assert_eq!((stored.input_tokens, stored.output_tokens), (Some(i32::MAX), None));
    assert_eq!((stored.destination.as_deref(), stored.review), (Some("engineering"), vec![]));
    let newest = newest_of_tickets(database.pool(), &[ticket_id]).await.unwrap();
    assert_eq!(newest[0].classification_id, stored.classification_id);
    let (subject, args): (Uuid, String) =
        sqlx::query_as("select subject_id, args from job where kind = 'follow_up'")
            .fetch_one(database.pool())
            .await
            .unwrap();
    let args: serde_json::Value = serde_json::from_str(&args).unwrap();
    let expected =
        serde_json::json!({ "destination": "engineering", "classification_id": stored.classification_id });
    assert_eq!((subject, args), (ticket_id.0, expected));
}

#[tokio::test]
async fn a_verdict_that_is_not_to_be_delivered_makes_no_job() {
    let database = TestDatabase::new().await;
    let ticket_id = ticket(database.pool(), "7").await;
    ask(database.pool(), ticket_id, "s").await;

    judge_all(database.pool(), false).await;

    assert_eq!(count(database.pool(), "select count(*) from classification").await, 1);
    assert_eq!(count(database.pool(), "select count(*) from job").await, 0);
}

#[tokio::test]
async fn a_ticket_points_at_its_newest_verdict_and_keeps_the_older_ones() {
    let database = TestDatabase::new().await;
    let ticket_id = ticket(database.pool(), "7").await;
    for summary in ["first", "second"] {
        ask(database.pool(), ticket_id, summary).await;
        judge_all(database.pool(), false).await;
    }
    // Two of one ticket in one batch, most likely.
    ask(database.pool(), ticket_id, "third").await;
    ask(database.pool(), ticket_id, "third").await;
    judge_all(database.pool(), false).await;

    let newest = newest_of_tickets(database.pool(), &[ticket_id]).await.unwrap();

    assert_eq!((newest.len(), newest[0].summary.as_str()), (1, "third"));
    let is_largest = "select count(*) from ticket where classification_id =
                      (select classification_id from classification order by classification_id desc limit 1)";
    assert_eq!(count(database.pool(), is_largest).await, 1);
    assert_eq!(count(database.pool(), "select count(*) from classification").await, 4);
}

#[tokio::test]
async fn a_second_verdict_of_a_job_is_refused_and_parked() {
    let database = TestDatabase::new().await;
    let ticket_id = ticket(database.pool(), "7").await;
    let earlier = ask(database.pool(), ticket_id, "the first").await;
    judge_all(database.pool(), false).await;
    let job = ask(database.pool(), ticket_id, "the second").await;
    let other = ask(database.pool(), ticket_id, "of another job").await;
    let hand_over = sqlx::query("update classification set job_id = $1 where job_id = $2");
    hand_over.bind(job.0).bind(earlier.0).execute(database.pool()).await.unwrap();

    judge_all(database.pool(), true).await;

    let kept = of_jobs(database.pool(), &[job.0]).await.unwrap();
    assert_eq!((kept.len(), kept[0].summary.as_str()), (1, "the first"));
    let dead = find(database.pool(), job).await;
    assert_eq!((dead.state.as_str(), dead.error_class.as_deref()), ("dead", Some("effect_refused")));
    assert_eq!(find(database.pool(), other).await.state, "succeeded");
    assert_eq!(count(database.pool(), "select count(*) from job where queue = 'after'").await, 1);
}

#[tokio::test]
async fn a_verdict_on_a_ticket_that_is_gone_is_parked() {
    let database = TestDatabase::new().await;
    let job = ask(database.pool(), TicketId::new(), "of nothing").await;

    judge_all(database.pool(), true).await;

    assert_eq!(find(database.pool(), job).await.error_class.as_deref(), Some("effect_refused"));
    assert_eq!(count(database.pool(), "select count(*) from job").await, 0);
}

/// Both write several tickets in one transaction: in different orders each would hold one ticket and
/// wait for the other's. The order of ingest is proven in `intake`.
#[tokio::test]
async fn verdicts_lock_their_tickets_in_the_order_of_ingest() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (older, newer) = (ticket(pool, "b").await, ticket(pool, "a").await);
    ask(pool, older, "s").await;
    ask(pool, newer, "s").await;
    let jobs = claim_some(pool, 2).await;
    let records: Vec<_> = jobs.iter().map(|job| record(TicketId(job.subject_id), "s", false)).collect();
    let mut holder = PgConnection::connect(database.url()).await.unwrap();
    let mut holding = holder.begin().await.unwrap();
    let hold = sqlx::query("select from ticket where external_id = 'a' for no key update");
    hold.execute(&mut *holding).await.unwrap();

    let mut session = PgConnection::connect(database.url()).await.unwrap();
    let completed: Vec<_> = jobs.iter().zip(&records).collect();
    let write = async {
        let mut transaction = session.begin().await.unwrap();
        VerdictWriter::new(FOLLOW_UP).write(&mut transaction, &completed).await.unwrap();
        transaction.commit().await.unwrap();
    };
    let look = async {
        blocked_sessions(pool, 1).await;
        let free = "select external_id from ticket where external_id = 'b' for no key update skip locked";
        let free: Vec<String> = sqlx::query_scalar(free).fetch_all(pool).await.unwrap();
        holding.rollback().await.unwrap();
        free
    };
    let ((), free) = tokio::join!(write, look);

    assert_eq!(free, ["b"], "a ticket was locked before one that ingest locks first");
    assert_eq!(count(pool, "select count(*) from ticket where classification_id is not null").await, 2);
}
