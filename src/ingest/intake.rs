//! Intake: events that arrive together are written in one statement; a lone one is written at once.
//!
//! One task takes whatever gathered while its last statement ran. So an idle system adds no delay,
//! and a burst costs one commit for hundreds of events. The requests only wait: a client that hangs
//! up cannot cancel a statement that others depend on.
//!
//! **Invariant:** a receipt is handed out only after the commit.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::write::{self, Written};
use crate::domain::{EventId, NewEvent, TicketId};
use crate::queue::error::is_data_fault;
use crate::queue::{JobId, JobTemplate, Wake};

/// Most events in one statement.
const BATCH_MAX: usize = 256;
/// Most events that may wait; further ones are refused, before memory grows.
const BACKLOG_MAX: usize = 4096;
/// Most bytes of bodies in one statement; Postgres takes 1 GiB, and a small one shares its fate with few.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most KiB of bodies that may wait.
const BACKLOG_KIB_MAX: usize = 256 * 1024;
/// How often a batch that met another writer head-on is written again. Keys are locked in order, so
/// this takes two processes and repeats that only a guard key tells.
const DEADLOCKS_MAX: u32 = 3;

/// What became of an event that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Committed, with a job.
    Accepted {
        /// The event.
        event_id: EventId,
        /// Its job.
        job_id: JobId,
        /// Its ticket.
        ticket_id: TicketId,
    },
    /// Committed for a person to look at.
    Quarantined {
        /// The event.
        event_id: EventId,
    },
    /// It stood there before; these are the first one's ids.
    Duplicate {
        /// The first event.
        event_id: EventId,
        /// Its job, unless it was quarantined.
        job_id: Option<JobId>,
        /// Its ticket, unless it was quarantined.
        ticket_id: Option<TicketId>,
        /// Whether the body was the same, too.
        same_body: bool,
    },
}

/// Why an event could not be committed. The sender has to send it again.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IntakeError {
    /// More events wait than the database takes.
    #[error("too many events wait to be written")]
    Overloaded,
    /// The database did not commit in time. It may still do so: a repeated delivery is a duplicate then.
    #[error("the database did not commit the event within {0:?}")]
    TooSlow(Duration),
    /// The database refused.
    #[error("the event could not be written: {0}")]
    Refused(String),
}

struct Pending {
    event: NewEvent,
    /// Its share of the bytes that may wait; free again when it is written or dropped.
    room: OwnedSemaphorePermit,
    receipt: oneshot::Sender<Result<Receipt, IntakeError>>,
}

/// The way into the database for events.
#[derive(Clone, Debug)]
pub struct Intake {
    sender: mpsc::Sender<Pending>,
    room: Arc<Semaphore>,
    patience: Duration,
}

impl Intake {
    /// Starts the task. It ends, everything written, when the last [`Intake`] is dropped.
    #[must_use]
    pub fn start(
        pool: PgPool,
        template: JobTemplate,
        wake: Wake,
        patience: Duration,
    ) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(BACKLOG_MAX);
        let writer = Writer { pool, template, wake };
        let room = Arc::new(Semaphore::new(BACKLOG_KIB_MAX));
        (Self { sender, room, patience }, tokio::spawn(writer.run(receiver)))
    }

    /// Hands in an event and waits for its commit, at most for the patience set at the start.
    ///
    /// # Errors
    /// [`IntakeError`]: the sender has to send it again.
    ///
    /// # Cancellation safety
    /// Dropped, the event may be written all the same; a repeated delivery is a duplicate then.
    pub async fn submit(&self, event: NewEvent) -> Result<Receipt, IntakeError> {
        let (receipt, answer) = oneshot::channel();
        let kibibytes = u32::try_from(event.body.len() / 1024 + 1).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(kibibytes);
        let room = room.map_err(|_| IntakeError::Overloaded)?;
        self.sender.try_send(Pending { event, room, receipt }).map_err(|_| IntakeError::Overloaded)?;
        match tokio::time::timeout(self.patience, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_closed)) => Err(IntakeError::Overloaded),
            Err(_) => Err(IntakeError::TooSlow(self.patience)),
        }
    }
}

struct Writer {
    pool: PgPool,
    template: JobTemplate,
    wake: Wake,
}

impl Writer {
    async fn run(self, mut receiver: mpsc::Receiver<Pending>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
            // Whoever gave up waiting is told to send again; writing it would only add load.
            let waited_for = batch.drain(..).filter(|pending| !pending.receipt.is_closed());
            for part in in_parts(waited_for) {
                self.write(part).await;
            }
        }
    }

    /// Writes a batch. A batch that the database refuses is halved until the culprit is alone.
    async fn write(&self, batch: Vec<Pending>) {
        let mut todo = vec![batch];
        let mut deadlocks_left = DEADLOCKS_MAX;
        while let Some(batch) = todo.pop() {
            let (events, waiting): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|pending| (pending.event, (pending.room, pending.receipt))).unzip();
            if events.is_empty() {
                continue;
            }
            match self.write_once(&events).await {
                Ok(results) => {
                    waiting
                        .into_iter()
                        .zip(results)
                        .for_each(|((_, receipt), result)| _ = receipt.send(Ok(result)));
                }
                Err(fault) if is_data_fault(&fault) && events.len() > 1 => {
                    let half = events.len() / 2;
                    let mut pending = rejoin(events, waiting);
                    let first = pending.by_ref().take(half).collect();
                    todo.extend([pending.collect(), first]);
                }
                Err(fault) if is_deadlock(&fault) && deadlocks_left > 0 => {
                    deadlocks_left -= 1;
                    todo.push(rejoin(events, waiting).collect());
                }
                Err(fault) => {
                    tracing::error!(error = %fault, events = events.len(), "events could not be written");
                    let refused = IntakeError::Refused(fault.to_string());
                    waiting.into_iter().for_each(|(_, receipt)| _ = receipt.send(Err(refused.clone())));
                }
            }
        }
    }

    async fn write_once(&self, events: &[NewEvent]) -> Result<Vec<Receipt>, sqlx::Error> {
        let written = write::write_events(&self.pool, self.template, events).await?;
        if written.iter().any(|one| matches!(one, Written::Accepted { .. })) {
            self.wake.ring(self.template.queue);
        }
        let mut receipts = Vec::with_capacity(events.len());
        for (event, one) in events.iter().zip(written) {
            receipts.push(self.receipt(event, one).await?);
        }
        Ok(receipts)
    }

    async fn receipt(&self, event: &NewEvent, written: Written) -> Result<Receipt, sqlx::Error> {
        let event_id = event.event_id;
        match written {
            Written::Accepted { job_id, ticket_id } => Ok(Receipt::Accepted { event_id, job_id, ticket_id }),
            Written::Quarantined => Ok(Receipt::Quarantined { event_id }),
            Written::Known => {
                let known = write::find_known(&self.pool, event).await?.ok_or(sqlx::Error::RowNotFound)?;
                Ok(Receipt::Duplicate {
                    event_id: known.event_id,
                    job_id: known.job_id,
                    ticket_id: known.ticket_id,
                    same_body: known.same_body,
                })
            }
        }
    }
}

/// What an event leaves behind while it is written: its room, and where its receipt goes.
type Waiting = (OwnedSemaphorePermit, oneshot::Sender<Result<Receipt, IntakeError>>);

fn rejoin(events: Vec<NewEvent>, waiting: Vec<Waiting>) -> impl Iterator<Item = Pending> {
    events.into_iter().zip(waiting).map(|(event, (room, receipt))| Pending { event, room, receipt })
}

/// Cuts a batch so that no part holds more than [`BATCH_BYTES_MAX`], or one event.
fn in_parts(batch: impl Iterator<Item = Pending>) -> Vec<Vec<Pending>> {
    let mut parts: Vec<Vec<Pending>> = Vec::new();
    let mut bytes = 0;
    for pending in batch {
        bytes += pending.event.body.len();
        match parts.last_mut() {
            Some(part) if bytes <= BATCH_BYTES_MAX => part.push(pending),
            _ => {
                bytes = pending.event.body.len();
                parts.push(vec![pending]);
            }
        }
    }
    parts
}

/// SQLSTATE 40P01 (deadlock detected), PostgreSQL documentation, appendix A: nothing is wrong with
/// the batch, and whoever it met has gone on by now.
fn is_deadlock(fault: &sqlx::Error) -> bool {
    fault.as_database_error().and_then(|database| database.code()).is_some_and(|code| code == "40P01")
}
