//! Waiting for something to become true, with a deadline. The only place in the tests that sleeps.

use std::time::{Duration, Instant};

/// Asks until the answer is `Some`, every few milliseconds.
///
/// # Panics
/// When there was none before the deadline, at the line of the caller.
#[track_caller]
pub(crate) fn eventually<T, Answer>(
    deadline: Duration,
    mut ask: impl FnMut() -> Answer,
) -> impl Future<Output = T>
where
    Answer: Future<Output = Option<T>>,
{
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(start.elapsed() < deadline, "still not so after {deadline:?}, asked at {caller}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
