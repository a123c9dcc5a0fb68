//! What a lane may do at once and in a minute.
//!
//! Calls are spread evenly: providers enforce a limit per minute over shorter windows (60 a minute
//! may act as 1 a second), so a burst is refused although the minute is not full. The calls in
//! flight adapt: one alone after a hold, one more with each success, so that a lane comes back as a
//! ramp and not as a stampede (a sharp ramp is a reason for a 429 by itself at OpenAI and
//! Anthropic).
//!
//! **Invariants**
//! - In any window of a minute no more calls leave than the limit allows.
//! - Permits are given in the order in which they were asked for.
//! - A dropped permit, or a dropped wait for one, gives its place back.
//!
//! **Not here:** the share of several processes in one limit (`store`).

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

/// No permit in time; ask again after this long.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the lane is at its limit; a permit should be free in {0:?}")]
pub struct Wait(pub Duration);

/// The right to make one call. Dropping it gives the place in flight back.
#[derive(Debug)]
pub struct Permit {
    slots: Arc<Slots>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.slots.release();
    }
}

/// The limits of one lane.
#[derive(Debug)]
pub struct Limits {
    slots: Arc<Slots>,
    rate: Option<Rate>,
    /// Held by whoever is next, so that permits are given in order.
    turn: tokio::sync::Mutex<()>,
}

struct Rate {
    limiter: DefaultDirectRateLimiter,
    clock: DefaultClock,
    period: Duration,
}

impl std::fmt::Debug for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rate").field("period", &self.period).finish_non_exhaustive()
    }
}

impl Limits {
    /// Limits of `per_minute` calls, spread evenly, and `in_flight_max` at once.
    #[must_use]
    pub fn new(per_minute: Option<NonZeroU32>, in_flight_max: NonZeroU32) -> Self {
        // Rounded up: a period that is too short by a nanosecond lets one call too many into a minute.
        let period = per_minute.map(|calls| Duration::from_secs(60) / calls.get() + Duration::from_nanos(1));
        let rate = period.and_then(|period| {
            // A burst of one: see the invariant about windows.
            let quota = Quota::with_period(period)?.allow_burst(NonZeroU32::MIN);
            let clock = DefaultClock::default();
            Some(Rate { limiter: RateLimiter::direct_with_clock(quota, clock.clone()), clock, period })
        });
        Self { slots: Arc::new(Slots::new(in_flight_max)), rate, turn: tokio::sync::Mutex::new(()) }
    }

    /// Waits for a permit, at most for `max_wait`.
    ///
    /// Cancel safe: a dropped wait gives its place back and uses up no part of the rate.
    ///
    /// # Errors
    /// [`Wait`] when none is free in time; nothing is used up.
    pub async fn acquire(&self, max_wait: Duration) -> Result<Permit, Wait> {
        let deadline = Instant::now() + max_wait;
        let period = self.rate.as_ref().map_or(Duration::from_millis(100), |rate| rate.period);
        let in_turn = async {
            let turn = self.turn.lock().await;
            let permit = self.slots.acquire().await;
            (turn, permit)
        };
        let Ok((_turn, permit)) = tokio::time::timeout_at(deadline, in_turn).await else {
            return Err(Wait(period));
        };
        let Some(rate) = &self.rate else { return Ok(permit) };
        while let Err(not_yet) = rate.limiter.check() {
            let wait = not_yet.wait_time_from(rate.clock.now());
            if Instant::now() + wait > deadline {
                return Err(Wait(wait));
            }
            tokio::time::sleep(wait).await;
        }
        Ok(permit)
    }

    /// Resolves when a place in flight is free. Nothing is reserved. Cancel safe.
    pub async fn has_room(&self) {
        self.slots.room().await;
    }

    /// The lane comes back from a hold: one call at a time until one succeeds.
    pub fn restart(&self) {
        self.slots.set_allowed(|_, _| 1);
    }

    /// A call succeeded: one more at once, up to the limit.
    pub fn grow(&self) {
        self.slots.set_allowed(|allowed, max| allowed.saturating_add(1).min(max));
    }

    /// Calls in flight, and how many there may be at present.
    #[must_use]
    pub fn in_flight(&self) -> (u32, u32) {
        let state = self.slots.state();
        (state.in_use, state.allowed)
    }
}

/// A semaphore whose size changes while it is in use.
#[derive(Debug)]
struct Slots {
    state: Mutex<SlotState>,
    max: u32,
    freed: Notify,
}

#[derive(Debug)]
struct SlotState {
    in_use: u32,
    allowed: u32,
}

impl Slots {
    fn new(max: NonZeroU32) -> Self {
        let state = Mutex::new(SlotState { in_use: 0, allowed: max.get() });
        Self { state, max: max.get(), freed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn acquire(self: &Arc<Self>) -> Permit {
        loop {
            let freed = self.freed.notified();
            {
                let mut state = self.state();
                if state.in_use < state.allowed {
                    state.in_use += 1;
                    return Permit { slots: Arc::clone(self) };
                }
            }
            freed.await;
        }
    }

    async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            {
                let state = self.state();
                if state.in_use < state.allowed {
                    return;
                }
            }
            freed.await;
        }
    }

    fn release(&self) {
        self.state().in_use -= 1;
        self.freed.notify_waiters();
    }

    fn set_allowed(&self, change: impl FnOnce(u32, u32) -> u32) {
        {
            let mut state = self.state();
            state.allowed = change(state.allowed, self.max);
        }
        self.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn limits(per_minute: Option<u32>, in_flight: u32) -> Limits {
        let in_flight = NonZeroU32::new(in_flight).expect("not zero");
        Limits::new(per_minute.and_then(NonZeroU32::new), in_flight)
    }

    #[tokio::test]
    async fn calls_are_spread_evenly_without_a_burst() -> Result<(), Wait> {
        // 3,000 a minute is one every 20 ms.
        let limits = limits(Some(3_000), 100);
        let started = Instant::now();
        for _ in 0..6 {
            limits.acquire(MS(1_000)).await?;
        }
        // The first is free, the other five are 20 ms apart; the clock's grain is forgiven.
        assert!(started.elapsed() >= MS(98), "{:?}", started.elapsed());
        Ok(())
    }

    #[tokio::test]
    async fn a_wait_that_is_too_long_is_told_at_once_and_uses_nothing_up() {
        let limits = limits(Some(6), 2);
        let first = limits.acquire(MS(0)).await;
        assert!(first.is_ok());
        let started = Instant::now();
        let Err(Wait(wait)) = limits.acquire(MS(50)).await else { panic!("the second must wait 10 s") };
        assert!(wait > MS(9_000) && wait <= MS(10_000), "{wait:?}");
        assert!(started.elapsed() < MS(1_000));
        assert_eq!(limits.in_flight().0, 1);
    }

    #[tokio::test]
    async fn no_more_calls_are_in_flight_than_allowed_and_a_dropped_permit_frees_its_place() {
        let limits = limits(None, 2);
        let one = limits.acquire(MS(0)).await;
        let two = limits.acquire(MS(0)).await;
        assert!(one.is_ok() && two.is_ok());
        assert!(limits.acquire(MS(10)).await.is_err());
        let (third, ()) = tokio::join!(limits.acquire(MS(5_000)), async { drop(one) });
        assert!(third.is_ok());
        assert_eq!(limits.in_flight(), (2, 2));
    }

    #[tokio::test]
    async fn a_cancelled_wait_gives_its_turn_back() {
        let limits = limits(None, 1);
        let held = limits.acquire(MS(0)).await;
        {
            let waiting = limits.acquire(MS(60_000));
            tokio::pin!(waiting);
            assert!(tokio::time::timeout(MS(5), &mut waiting).await.is_err());
        }
        drop(held);
        assert!(limits.acquire(MS(1_000)).await.is_ok());
    }

    #[tokio::test]
    async fn a_lane_restarts_with_one_call_and_grows_with_each_success() {
        let limits = limits(None, 8);
        limits.restart();
        assert_eq!(limits.in_flight(), (0, 1));
        let probe = limits.acquire(MS(0)).await;
        assert!(probe.is_ok() && limits.acquire(MS(5)).await.is_err());
        for _ in 0..20 {
            limits.grow();
        }
        assert_eq!(limits.in_flight(), (1, 8));
    }
}
