//! `[queue]`: how many at once, how often, how long.

use std::time::Duration;

use super::Env;
use super::document::Section;
use crate::queue::{Backoff, WorkerPolicy};

/// The settings of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Of the worker.
    pub worker: WorkerPolicy,
    /// How often a job may be tried.
    pub attempts_max: i16,
}

const WORKERS_DEFAULT: usize = 8;
const WORKERS_MAX: usize = 1024;
/// Deliveries at once: they are short, and one slow destination must not hold up the others.
const ROUTING_SLOTS: usize = 16;
/// Deliveries are tried more often than models, and over hours: a receiver that is down for a while is
/// ordinary. 16 attempts up to an hour apart take two to three hours with full jitter.
const ROUTING_ATTEMPTS_MAX: i16 = 16;
const ROUTING_BACKOFF_CAP: Duration = Duration::from_secs(3600);

pub(super) fn read(section: Section<'_>, env: &Env<'_>) -> (QueueConfig, QueueConfig) {
    let seconds = |key, default: i64, max: i64| {
        let value = section.integer(key, 1..max + 1).unwrap_or(default);
        Duration::from_secs(u64::try_from(value).unwrap_or(1))
    };
    let backoff =
        Backoff { base: seconds("backoff_base_s", 1, 3600), cap: seconds("backoff_cap_s", 300, 86_400) };
    let age_max = seconds("age_max_s", 86_400, 30 * 86_400);
    let job_timeout = seconds("job_timeout_s", 120, 86_400);
    let attempts_max = section.integer("attempts_max", 1..101).unwrap_or(5);
    let slots = workers(&section, env);
    if backoff.base > backoff.cap {
        section.fault("backoff_base_s", "is longer than backoff_cap_s; make it shorter");
    }
    section.finish();
    let triage = QueueConfig {
        worker: WorkerPolicy { slots, job_timeout, age_max, backoff },
        attempts_max: i16::try_from(attempts_max).unwrap_or(i16::MAX),
    };
    let routing = QueueConfig {
        worker: WorkerPolicy {
            slots: ROUTING_SLOTS,
            job_timeout: Duration::from_secs(60),
            age_max,
            backoff: Backoff { cap: backoff.cap.max(ROUTING_BACKOFF_CAP), ..backoff },
        },
        attempts_max: ROUTING_ATTEMPTS_MAX,
    };
    (triage, routing)
}

fn workers(section: &Section<'_>, env: &Env<'_>) -> usize {
    let of_file = section.integer("workers", 1..1025).and_then(|count| usize::try_from(count).ok());
    let Some(text) = env.text("HOOKTRIAGE_WORKERS") else { return of_file.unwrap_or(WORKERS_DEFAULT) };
    match text.parse() {
        Ok(count) if (1..=WORKERS_MAX).contains(&count) => count,
        _ => {
            env.fault(
                "HOOKTRIAGE_WORKERS",
                format!("is {text:?}; it must be a whole number, 1 to {WORKERS_MAX}"),
            );
            WORKERS_DEFAULT
        }
    }
}
