//! How long a failed job waits: exponential, full jitter, a server's word as a floor.
//!
//! Full jitter (a uniform draw between zero and the step) keeps a fleet that failed together from
//! coming back together: Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

use std::time::Duration;

use rand::RngExt;

/// The schedule of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The step after the first failure; doubles with every further one.
    pub base: Duration,
    /// No step is longer.
    pub cap: Duration,
}

impl Backoff {
    /// The longest wait after `attempt` failures (from 1), before jitter.
    #[must_use]
    pub fn step(&self, attempt: i16) -> Duration {
        let doublings = u32::try_from(attempt.max(1) - 1).unwrap_or(0).min(31);
        self.base.saturating_mul(1 << doublings).min(self.cap)
    }

    /// A wait after `attempt` failures (from 1): uniform in zero to [`Backoff::step`], never
    /// shorter than `floor`. Above a floor the jitter is added on top, so that jobs that were
    /// told the same Retry-After do not come back in the same instant either.
    #[must_use]
    pub fn delay(&self, attempt: i16, floor: Option<Duration>) -> Duration {
        let jitter = self.step(attempt).mul_f64(rand::rng().random_range(0.0..1.0));
        match floor {
            Some(floor) => floor.saturating_add(jitter.min(floor.max(self.base))),
            None => jitter,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(60) };

    #[test]
    fn steps_double_up_to_the_cap() {
        let steps: Vec<u64> = (1..=8).map(|attempt| BACKOFF.step(attempt).as_secs()).collect();
        assert_eq!(steps, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(BACKOFF.step(i16::MAX).as_secs(), 60);
    }

    #[test]
    fn a_fleet_does_not_come_back_in_lockstep() {
        let delays: std::collections::HashSet<Duration> = (0..100).map(|_| BACKOFF.delay(5, None)).collect();
        assert!(delays.len() > 90, "only {} different delays of 100", delays.len());
    }

    proptest! {
        #[test]
        fn a_delay_keeps_within_its_step_and_above_its_floor(attempt in 1_i16..40, floor_s in 0_u64..7200) {
            prop_assert!(BACKOFF.delay(attempt, None) <= BACKOFF.step(attempt));
            let floor = Duration::from_secs(floor_s);
            prop_assert!(BACKOFF.delay(attempt, Some(floor)) >= floor);
        }
    }
}
