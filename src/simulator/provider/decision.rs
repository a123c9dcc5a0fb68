//! What happens to a call: a pure function of the settings and the call's number.

use std::time::Duration;

use super::{ProviderSettings, RefusalKind};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Decision {
    /// A good answer.
    Answered,
    /// 429 with this `Retry-After`.
    RateLimited(Duration),
    /// 500.
    Failed,
    /// No answer at all.
    Hung,
    /// An answer that is cut off.
    Truncated,
    /// An answer that is no usable classification.
    Malformed,
    /// 400.
    Refused(RefusalKind),
}

impl Decision {
    /// The word in the statistics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::RateLimited(_) => "rate_limited",
            Self::Failed => "failed",
            Self::Hung => "hung",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::Refused(_) => "refused",
        }
    }
}

/// Decides about the call with this number, counted from 1.
pub(super) fn decide(settings: &ProviderSettings, number: u64) -> Decision {
    let drawn = share(settings.seed, number, 0);
    let table = [
        (settings.rate_limited, Decision::RateLimited(settings.retry_after)),
        (settings.failing, Decision::Failed),
        (settings.hanging, Decision::Hung),
        (settings.truncated, Decision::Truncated),
        (settings.malformed, Decision::Malformed),
    ];
    let mut up_to = 0.0;
    for (share, decision) in table {
        up_to += share;
        if drawn < up_to {
            return decision;
        }
    }
    Decision::Answered
}

/// The time before the answer to this call.
pub(super) fn latency(settings: &ProviderSettings, number: u64) -> Duration {
    settings.latency + settings.jitter.mul_f64(share(settings.seed, number, 1))
}

/// A number from 0 up to 1 that looks random: SplitMix64 over seed, call and purpose.
fn share(seed: u64, number: u64, purpose: u64) -> f64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let step = number.wrapping_mul(2).wrapping_add(purpose).wrapping_add(1);
    let mut mixed = seed.wrapping_add(GOLDEN.wrapping_mul(step));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    // 53 bits fill the fraction of an f64 exactly.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let high = (mixed >> 11) as f64;
    high / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_number_always_decide_the_same() {
        let settings = ProviderSettings { failing: 0.5, seed: 7, ..ProviderSettings::default() };
        let other = ProviderSettings { seed: 8, ..settings.clone() };
        let run = |settings: &ProviderSettings| (1..=64).map(|n| decide(settings, n)).collect::<Vec<_>>();
        assert_eq!(run(&settings), run(&settings));
        assert_ne!(run(&settings), run(&other));
    }

    #[test]
    fn shares_come_out_as_they_were_set() {
        let settings = ProviderSettings {
            rate_limited: 0.2,
            failing: 0.1,
            truncated: 0.05,
            ..ProviderSettings::default()
        };
        let count = |wanted: &str| (1..=10_000).filter(|n| decide(&settings, *n).as_str() == wanted).count();
        for (word, expected) in [("rate_limited", 2_000), ("failed", 1_000), ("truncated", 500), ("hung", 0)]
        {
            assert!(count(word).abs_diff(expected) < 150, "{word}: {}", count(word));
        }
    }

    #[test]
    fn latency_stays_between_its_bounds() {
        let (low, more) = (Duration::from_millis(100), Duration::from_millis(50));
        let settings = ProviderSettings { latency: low, jitter: more, ..ProviderSettings::default() };
        assert!((1..100).all(|n| (low..=low + more).contains(&latency(&settings, n))));
    }
}
