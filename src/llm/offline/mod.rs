//! The `offline` kind: the nearest label by sentence embedding. No key, no network.
//!
//! It is the default, so that a first ticket is triaged within minutes of installing. It answers
//! as JSON text through the same parser as any model, so that nothing downstream knows the
//! difference, and the same text always gets the same answer. What it cannot do, and why this
//! crate, stands in `docs/adr/0004-offline-classifier.md`.
//!
//! **Not here:** the rules that raise a priority (`triage::signs`): the words read here are what a
//! model would propose.

#[cfg(feature = "offline-encoder")]
mod encoder;
#[cfg(feature = "offline-encoder")]
mod score;
#[cfg(feature = "offline-encoder")]
mod words;

#[cfg(feature = "offline-encoder")]
pub(super) use encoder::Offline;

#[cfg(not(feature = "offline-encoder"))]
pub(super) use missing::Offline;

/// What stands in for the encoder in a binary without it.
#[cfg(not(feature = "offline-encoder"))]
mod missing {
    use crate::llm::{Answer, Failure, LaneFault, Request};

    /// Cannot be made, so that a lane of this kind is refused at start.
    #[derive(Debug)]
    pub(crate) enum Offline {}

    impl Offline {
        pub(crate) fn build(lane: &str) -> Result<Self, LaneFault> {
            Err(LaneFault::EncoderMissing { lane: lane.to_owned() })
        }

        #[expect(clippy::unused_async, reason = "it stands in for one that is")]
        pub(crate) async fn classify(&self, _request: &Request<'_>) -> Result<Answer, Failure> {
            match *self {}
        }
    }
}

#[cfg(all(test, feature = "offline-encoder"))]
mod tests;
