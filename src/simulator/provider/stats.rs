//! What the provider counts: calls, what became of them, and calls that came too early.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Burst, BurstLength};

/// Calls that were on their way when the refusal left cannot know of it.
const ON_THEIR_WAY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Stats {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: u64,
    early: u64,
    outcomes: BTreeMap<&'static str, u64>,
    /// From when until when no call should come.
    closed: Option<(Instant, Instant)>,
    burst_began: Option<Instant>,
}

impl Stats {
    /// Counts a call. Returns its number from 1, and the `Retry-After` if it falls into a burst.
    pub(super) fn begin(&self, now: Instant, burst: Option<&Burst>) -> (u64, Option<Duration>) {
        let mut counts = self.counts();
        counts.calls += 1;
        if counts.closed.is_some_and(|(from, until)| from <= now && now < until) {
            counts.early += 1;
        }
        let number = counts.calls;
        let Some(burst) = burst.filter(|burst| number > burst.after_calls) else { return (number, None) };
        let began = *counts.burst_began.get_or_insert(now);
        let is_on = match burst.lasts {
            BurstLength::Calls(calls) => number <= burst.after_calls.saturating_add(calls),
            BurstLength::Time(time) => now.duration_since(began) < time,
        };
        (number, is_on.then_some(burst.retry_after))
    }

    /// Counts what became of a call.
    pub(super) fn ended(&self, outcome: &'static str) {
        *self.counts().outcomes.entry(outcome).or_default() += 1;
    }

    /// A call was told to come back after `delay`; whoever comes before is early.
    pub(super) fn refused_until(&self, now: Instant, delay: Duration) {
        let mut counts = self.counts();
        let until = now + delay;
        counts.closed = Some(match counts.closed {
            Some((from, old)) if now < old => (from, old.max(until)),
            _ => (now + ON_THEIR_WAY, until),
        });
    }

    /// The counts as the statistics page shows them.
    pub(super) fn shown(&self) -> Value {
        let counts = self.counts();
        json!({"calls": counts.calls, "by_outcome": counts.outcomes, "early_calls": counts.early})
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_call_before_the_retry_after_is_over_is_early() {
        let (stats, now) = (Stats::default(), Instant::now());
        stats.begin(now, None);
        stats.refused_until(now, S(10));
        stats.begin(now + Duration::from_millis(50), None);
        assert_eq!(stats.shown()["early_calls"], 0);
        stats.begin(now + S(9), None);
        stats.begin(now + S(10), None);
        assert_eq!(stats.shown()["early_calls"], 1);
        assert_eq!(stats.shown()["calls"], 4);
    }

    #[test]
    fn a_burst_lasts_for_its_calls_or_for_its_time() {
        let now = Instant::now();
        let burst = Burst { after_calls: 2, lasts: BurstLength::Calls(2), retry_after: S(1) };
        let stats = Stats::default();
        let hit: Vec<bool> = (0..6).map(|_| stats.begin(now, Some(&burst)).1.is_some()).collect();
        assert_eq!(hit, [false, false, true, true, false, false]);

        let burst = Burst { lasts: BurstLength::Time(S(5)), ..burst };
        let stats = Stats::default();
        let at = |seconds| stats.begin(now + S(seconds), Some(&burst)).1.is_some();
        assert_eq!([at(0), at(0), at(1), at(5), at(6)], [false, false, true, true, false]);
    }
}
