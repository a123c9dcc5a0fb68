//! A durable job queue on Postgres that knows nothing of tickets.
//!
//! # States
//!
//! A job is `queued` (due at `run_at`; a retry is queued later), then `running`, and ends as
//! `succeeded`, `dead` or `cancelled`. Queued and running jobs stand in the hot table `job`; the
//! statement that ends a job moves it to `job_history`. `docs/JOB_LIFECYCLE.md` has the diagram.
//!
//! # Lease and fence
//!
//! A claim hands out a *lease*: the right to work on a job, named by a `lease_id` that only ever
//! grows. Renewing, settling and reaping all match `(job_id, lease_id)` of a running job. Who lost
//! the lease (a stalled process whose job was given to another) matches no row: its result is
//! dropped and counted, never written over somebody else's.
//!
//! # Clock
//!
//! Due times, deadlines and heartbeats are compared by the database's clock alone; processes hand
//! in durations, never times. A process's own clock can only make it stop *earlier*: when it could
//! not beat its heart for a while, it drops its work before others may take it over.
//!
//! # Failure
//!
//! | What happens | What follows |
//! |---|---|
//! | The handler says `Retry` | queued again after backoff; the attempt is used up; the last one makes a dead letter |
//! | The handler says `Snooze` | queued again later; the attempt is given back |
//! | The handler panics or runs too long | as `Retry` |
//! | The process is stopped cleanly | the attempt may finish, else the job is handed back, ready and refunded |
//! | The process dies | its heartbeat ages, the reaper queues its jobs again; three deaths make a dead letter |
//! | The process stalls and comes back | its settlements match no lease and change nothing |
//! | The database is away | claims fail, settlements wait; nothing is lost |
//! | The database refuses an effect | the batch is halved until the culprit is alone; it becomes a dead letter |
//!
//! The promise: every handler runs *at least* once, its effect in this database is recorded once.
//!
//! # Not here
//!
//! No ticket, no HTTP, no configuration, nothing of ours: this module could be lifted out. No
//! transaction is ever open while a handler runs. Claims never return payloads.

pub mod backoff;
pub mod claim;
pub mod dead_letter;
pub mod effect;
mod ending;
pub mod enqueue;
pub mod error;
pub mod inspect;
pub mod job;
pub mod lease;
pub mod maintain;
pub mod reap;
mod settle;
mod settler;
pub mod wake;
pub mod worker;

pub use backoff::Backoff;
pub use effect::{DeadLetterHook, EffectWriter, NoEffects};
pub use error::QueueError;
pub use job::{
    ClaimedJob, DeadLettered, DeadReason, JobError, JobId, JobState, JobTemplate, Lease, NewJob, Outcome, Ran,
};
pub use lease::{Liveness, WorkerIdentity};
pub use reap::ReapPolicy;
pub use wake::Wake;
pub use worker::{Handler, Worker, WorkerPolicy};
