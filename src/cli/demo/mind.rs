//! What thinks for the simulated provider: the sentence encoder of the offline classifier, so that
//! the demo's answers are real ones.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::domain::{Taxonomy, TicketDraft};
use crate::llm::{Lane, LaneKind, LaneSettings, Request};
use crate::simulator::provider::Mind;
use crate::triage::clean::{CleanLimits, clean};
use crate::triage::prompt;
use crate::triage::taxonomy::default_taxonomy;

struct Encoder {
    lane: Lane,
    taxonomy: Taxonomy,
}

/// The encoder, unless this binary was built without it.
pub(super) fn encoder() -> Option<Arc<dyn Mind>> {
    let lane = Lane::build(&LaneSettings::new("demo", LaneKind::Offline, "")).ok()?;
    Some(Arc::new(Encoder { lane, taxonomy: default_taxonomy() }))
}

impl Mind for Encoder {
    fn sort<'a>(&'a self, ticket: &'a str) -> BoxFuture<'a, Option<Value>> {
        async move {
            let (subject, body) = ticket.split_once('\n').unwrap_or((ticket, ""));
            let draft =
                TicketDraft { subject: subject.to_owned(), body: body.to_owned(), ..TicketDraft::default() };
            let text = clean(&draft, &CleanLimits::default());
            let rendered = prompt::render(&self.taxonomy, &text, "demo");
            let permit = self.lane.acquire(Duration::from_secs(5)).await.ok()?;
            let request = Request::new(text.as_text(), &self.taxonomy, &rendered);
            let answer = self.lane.classify(permit, request).await.ok()?;
            serde_json::from_str(&answer.completion).ok()
        }
        .boxed()
    }
}
