//! Metrics: names, units and buckets. `docs/METRICS.md` has a line for each, by test.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Bounds of everything that takes milliseconds to seconds, in seconds.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Between two upkeeps: without them, histograms grow while nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

static HANDLE: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs the recorder, once a process, and returns what renders it.
///
/// # Errors
/// [`BuildError`] when another recorder is installed.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    // Held to the end, so that two that start at once do not install two.
    let mut installed = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?;
    let handle = builder.install_recorder()?;
    describe();
    // A counter that first appears with its first event hides that event from `rate()`.
    for name in ["hooktriage_jobs_reaped_total", "hooktriage_scrape_errors_total"] {
        metrics::counter!(name).increment(0);
    }
    Ok(installed.insert(handle).clone())
}

/// Keeps histograms small; run it for the life of the process.
pub async fn keep_up(handle: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    loop {
        ticks.tick().await;
        handle.run_upkeep();
    }
}

fn describe() {
    describe_counter!("hooktriage_deliveries_total", "Deliveries by source and outcome.");
    describe_counter!(
        "hooktriage_signature_refusals_total",
        "Deliveries refused for their signature, by reason."
    );
    describe_histogram!(
        "hooktriage_acknowledge_seconds",
        Unit::Seconds,
        "From the head of a delivery to its answer."
    );
    describe_counter!("hooktriage_attempts_total", "Attempts by queue and outcome.");
    describe_histogram!("hooktriage_triage_attempt_seconds", Unit::Seconds, "How long triage attempts take.");
    describe_counter!("hooktriage_dead_letters_total", "Jobs that became dead letters, by queue and reason.");
    describe_gauge!("hooktriage_dead_letters_open", "Open dead letters, counted up to 10,000.");
    describe_gauge!("hooktriage_jobs", "Jobs by queue and state: due, waiting or running.");
    describe_gauge!(
        "hooktriage_oldest_due_job_seconds",
        Unit::Seconds,
        "How long the oldest due job has been due."
    );
    describe_counter!("hooktriage_jobs_reaped_total", "Jobs taken back from lost workers.");
    describe_counter!("hooktriage_scrape_errors_total", "Scrapes that could not measure the queues.");
}
