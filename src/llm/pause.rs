//! The hold on a lane: why it waits, until when, and who waits with it.
//!
//! A pause ends by itself. A park waits for a person, but probes now and then, because accounts
//! are topped up and keys are mended elsewhere. A stop was asked for by an operator and ends only
//! by one. When the time of a hold is over the lane is on *probation*: calls may go again, the
//! first success ends the hold for good, and a new failure makes the next hold longer.
//!
//! **Invariants**
//! - A hold is never shortened by a later failure or by a call that began before it.
//! - Calls in flight that fail together lengthen the growing delay once, not once each.
//!
//! **Not here:** holds shared by several processes (`store`), the alert itself.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// First delay where the provider names none, and its cap.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_CAP: Duration = Duration::from_secs(60);
/// First delay of a parked lane before it probes, and its cap.
const PROBE_FIRST: Duration = Duration::from_secs(30);
const PROBE_CAP: Duration = Duration::from_secs(10 * 60);
/// Jitter is added on top of a delay, so that replicas do not come back in step: this share of
/// it, and never more than this long.
const JITTER_SHARE: f64 = 0.1;
const JITTER_CAP: Duration = Duration::from_secs(5);

/// What kind of hold it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldKind {
    /// A rate limit, an overload or an outage: ends by itself.
    Paused,
    /// Money, credential or configuration: a person has to act.
    Parked,
    /// An operator stopped the lane.
    Stopped,
}

impl HoldKind {
    /// The word used in metrics and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Parked => "parked",
            Self::Stopped => "stopped",
        }
    }
}

/// Why and until when a lane waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What kind of hold.
    pub kind: HoldKind,
    /// When calls may go again; `None` waits for an operator.
    pub until: Option<Instant>,
    /// The ground, safe to show.
    pub reason: String,
}

impl Hold {
    /// How long it still lasts at `now`: nothing when it is over, `None` when it has no end.
    #[must_use]
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now))
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The state of one lane's hold, shared by every worker in the process.
#[derive(Debug)]
pub struct Pause {
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    hold: Option<Hold>,
    /// Holds since the last success, which is how delays grow.
    in_a_row: u32,
}

impl Default for Pause {
    fn default() -> Self {
        Self { state: watch::Sender::new(State::default()) }
    }
}

impl Pause {
    /// Pauses the lane: for `at_least`, or for the growing delay where the provider names none.
    ///
    /// `jitter` is a random share between 0 and 1. Says whether this began a new hold.
    pub fn pause(&self, at_least: Option<Duration>, reason: &str, now: Instant, jitter: f64) -> bool {
        self.hold(HoldKind::Paused, at_least, reason, now, jitter)
    }

    /// Parks the lane until a probe succeeds; no probe goes before `at_least` is over.
    ///
    /// `jitter` is a random share between 0 and 1. Says whether this began a new hold.
    pub fn park(&self, at_least: Option<Duration>, reason: &str, now: Instant, jitter: f64) -> bool {
        self.hold(HoldKind::Parked, at_least, reason, now, jitter)
    }

    /// Stops the lane until [`Pause::clear`].
    pub fn stop(&self, reason: &str) {
        let hold = Hold { kind: HoldKind::Stopped, until: None, reason: reason.to_owned() };
        self.state.send_modify(|state| state.hold = Some(hold));
    }

    /// Ends the hold whatever it is: an operator says that the cause is mended.
    pub fn clear(&self) {
        self.state.send_modify(|state| *state = State::default());
    }

    /// Takes note of a success: it ends a hold whose time is over. A call that began before the
    /// hold says nothing about it. Says whether a hold was ended.
    pub fn succeeded(&self, now: Instant) -> bool {
        let mut ended = false;
        self.state.send_if_modified(|state| {
            let is_running = state.hold.as_ref().is_some_and(|hold| !hold.is_over(now));
            if is_running {
                return false;
            }
            ended = state.hold.is_some();
            let changes = ended || state.in_a_row > 0;
            *state = State::default();
            changes
        });
        ended
    }

    /// The hold, also while it is on probation.
    #[must_use]
    pub fn current(&self) -> Option<Hold> {
        self.state.borrow().hold.clone()
    }

    /// The hold that keeps calls back at `now`.
    #[must_use]
    pub fn holding(&self, now: Instant) -> Option<Hold> {
        self.state.borrow().hold.as_ref().filter(|hold| !hold.is_over(now)).cloned()
    }

    /// Resolves when calls may go. Cancel safe.
    pub async fn resumed(&self) {
        let mut changes = self.state.subscribe();
        loop {
            let hold = changes.borrow_and_update().hold.clone();
            let Some(hold) = hold.filter(|hold| !hold.is_over(Instant::now())) else { return };
            let over = async {
                match hold.until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => {}
                // The sender lives as long as `self`, so this only ends by a change.
                _ = changes.changed() => {}
            }
        }
    }

    fn hold(
        &self,
        kind: HoldKind,
        at_least: Option<Duration>,
        reason: &str,
        now: Instant,
        jitter: f64,
    ) -> bool {
        let mut is_new = false;
        self.state.send_modify(|state| {
            let running = state.hold.as_ref().filter(|hold| !hold.is_over(now));
            is_new = running.is_none();
            if is_new {
                state.in_a_row = state.in_a_row.saturating_add(1);
            }
            let delay = delay(kind, at_least, state.in_a_row, jitter);
            let until = now + delay;
            state.hold = Some(match running {
                // An operator's stop and a longer or graver hold stay as they are.
                Some(old)
                    if old.until.is_none_or(|old| old >= until) && gravity(old.kind) >= gravity(kind) =>
                {
                    old.clone()
                }
                Some(old) => {
                    let until = old.until.map_or(until, |old| old.max(until));
                    Hold { kind, until: Some(until), reason: reason.to_owned() }
                }
                None => Hold { kind, until: Some(until), reason: reason.to_owned() },
            });
        });
        is_new
    }
}

fn gravity(kind: HoldKind) -> u8 {
    match kind {
        HoldKind::Paused => 0,
        HoldKind::Parked => 1,
        HoldKind::Stopped => 2,
    }
}

/// The length of the `in_a_row`-th hold in a row.
fn delay(kind: HoldKind, at_least: Option<Duration>, in_a_row: u32, jitter: f64) -> Duration {
    let (first, cap) = match kind {
        HoldKind::Paused => (PAUSE_FIRST, PAUSE_CAP),
        HoldKind::Parked | HoldKind::Stopped => (PROBE_FIRST, PROBE_CAP),
    };
    let grown = first.saturating_mul(1 << in_a_row.saturating_sub(1).min(20)).min(cap);
    let base = match (kind, at_least) {
        // A provider that asks for little again and again is not asked every few milliseconds.
        (HoldKind::Paused, Some(asked)) if in_a_row <= 1 => asked,
        (_, Some(asked)) => asked.max(grown),
        (_, None) => grown,
    };
    base + base.mul_f64(JITTER_SHARE * jitter.clamp(0.0, 1.0)).min(JITTER_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn remaining(pause: &Pause, now: Instant) -> Option<Duration> {
        pause.holding(now).and_then(|hold| hold.remaining(now))
    }

    #[test]
    fn a_pause_lasts_as_long_as_the_provider_asks_and_a_little_more() {
        let (pause, now) = (Pause::default(), Instant::now());
        assert!(pause.pause(Some(S(30)), "rate_limited", now, 1.0));
        assert_eq!(remaining(&pause, now), Some(S(33)));
        assert_eq!(remaining(&pause, now + S(33)), None);
    }

    #[test]
    fn a_hold_is_never_shortened() {
        let (pause, now) = (Pause::default(), Instant::now());
        pause.pause(Some(S(60)), "long", now, 0.0);
        assert!(!pause.pause(Some(S(1)), "short", now, 0.0));
        assert_eq!(remaining(&pause, now), Some(S(60)));
        pause.park(None, "quota", now, 0.0);
        let hold = pause.current().expect("a hold");
        assert_eq!((hold.kind, hold.remaining(now)), (HoldKind::Parked, Some(S(60))));
        pause.pause(Some(S(5)), "rate_limited", now, 0.0);
        assert_eq!(pause.current().map(|hold| hold.kind), Some(HoldKind::Parked));
    }

    #[test]
    fn a_parked_lane_probes_after_a_growing_time_until_a_success() {
        let (pause, mut now) = (Pause::default(), Instant::now());
        for expected in [30, 60, 120, 240, 480, 600, 600] {
            assert!(pause.park(None, "quota", now, 0.0));
            // Those that were in flight with the probe change nothing.
            assert!(!pause.park(None, "quota", now, 0.0));
            assert_eq!(remaining(&pause, now), Some(S(expected)));
            now += S(expected);
            assert_eq!(remaining(&pause, now), None);
        }
        assert!(pause.succeeded(now));
        assert_eq!(pause.current(), None);
        pause.park(None, "quota", now, 0.0);
        assert_eq!(remaining(&pause, now), Some(S(30)));
    }

    #[test]
    fn a_short_delay_that_is_asked_for_again_and_again_grows() {
        let (pause, mut now) = (Pause::default(), Instant::now());
        let mut lasted = Vec::new();
        for _ in 0..4 {
            pause.pause(Some(Duration::from_millis(100)), "rate_limited", now, 0.0);
            let left = remaining(&pause, now).expect("a hold");
            lasted.push(left.as_millis());
            now += left;
        }
        assert_eq!(lasted, [100, 2_000, 4_000, 8_000]);
    }

    #[test]
    fn a_success_from_before_the_hold_does_not_end_it() {
        let (pause, now) = (Pause::default(), Instant::now());
        pause.pause(Some(S(10)), "rate_limited", now, 0.0);
        assert!(!pause.succeeded(now + S(9)));
        assert!(pause.holding(now + S(9)).is_some());
        assert!(pause.succeeded(now + S(10)));
    }

    #[test]
    fn only_an_operator_ends_what_an_operator_stopped() {
        let (pause, now) = (Pause::default(), Instant::now());
        pause.stop("maintenance");
        pause.pause(Some(S(1)), "rate_limited", now, 0.0);
        assert!(!pause.succeeded(now + S(100)));
        assert_eq!(pause.holding(now + S(100)).map(|hold| hold.kind), Some(HoldKind::Stopped));
        pause.clear();
        assert_eq!(pause.current(), None);
    }

    #[tokio::test]
    async fn every_waiter_resumes_when_the_hold_is_over_or_cleared() {
        let pause = Pause::default();
        pause.resumed().await;
        let now = Instant::now();
        pause.pause(Some(Duration::from_millis(20)), "rate_limited", now, 0.0);
        tokio::join!(pause.resumed(), pause.resumed());
        assert!(now.elapsed() >= Duration::from_millis(20), "{:?}", now.elapsed());

        pause.stop("maintenance");
        let cleared = async {
            tokio::task::yield_now().await;
            pause.clear();
        };
        tokio::join!(pause.resumed(), cleared);
    }
}
