//! A lane: provider, model and credential, with their limits and their hold.
//!
//! The lane is where a hold belongs: a rate limit or an empty account concerns this credential
//! and no other. It takes note of every outcome itself, so that a caller cannot forget to.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use thiserror::Error;
use tokio::time::Instant;

use super::anthropic::{self, Anthropic};
use super::disposition::{Disposition, ParkCause, disposition};
use super::failure::Failure;
use super::guard::Guard;
use super::limits::{Limits, Permit, Wait};
use super::offline::Offline;
use super::openai::{self, OpenAi};
use super::pause::{Hold, HoldKind, Pause};
use super::request::{Answer, Request};
use super::settings::{LaneFault, LaneKind, LaneSettings, SchemaMode};

/// One of the three kinds, ready to be called.
#[derive(Debug)]
enum Classifier {
    OpenAi(OpenAi),
    Anthropic(Anthropic),
    Offline(Offline),
}

/// A call that failed, and what follows from it in the light of the lane's other calls.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{failure}")]
pub struct Setback {
    /// What happened.
    pub failure: Failure,
    /// What follows. The lane's own part of it (pause, park, step down) is already done.
    pub disposition: Disposition,
}

/// What a lane is doing, for people and for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneStatus {
    /// The hold, also while it is on probation.
    pub hold: Option<Hold>,
    /// Calls in flight.
    pub in_flight: u32,
    /// How many there may be at present.
    pub in_flight_allowed: u32,
    /// How the shape of the answer is asked for at present.
    pub schema_mode: SchemaMode,
}

/// A provider, a model and a credential.
#[derive(Debug)]
pub struct Lane {
    name: String,
    kind: LaneKind,
    model: String,
    classifier: Classifier,
    limits: Limits,
    pause: Pause,
    guard: Guard,
    schema_mode: Mutex<SchemaMode>,
    schema_step_down: bool,
}

impl Lane {
    /// Builds a lane. Nothing is called yet.
    ///
    /// # Errors
    /// A base URL, key, header or kind that cannot work.
    pub fn build(settings: &LaneSettings) -> Result<Self, LaneFault> {
        let base_url = settings.base_url.as_deref().or(settings.kind.default_base_url()).unwrap_or_default();
        if settings.kind != LaneKind::Offline && settings.model.trim().is_empty() {
            return Err(LaneFault::ModelMissing { lane: settings.name.clone() });
        }
        let classifier = match settings.kind {
            LaneKind::OpenAi => Classifier::OpenAi(OpenAi::build(settings, base_url)?),
            LaneKind::Anthropic => Classifier::Anthropic(Anthropic::build(settings, base_url)?),
            LaneKind::Offline => Classifier::Offline(Offline::build(&settings.name)?),
        };
        Ok(Self {
            name: settings.name.clone(),
            kind: settings.kind,
            model: settings.model.clone(),
            classifier,
            limits: Limits::new(settings.requests_per_minute, settings.in_flight_max),
            pause: Pause::default(),
            guard: Guard::default(),
            schema_mode: Mutex::new(settings.schema_mode),
            schema_step_down: settings.schema_step_down,
        })
    }

    /// The lane's name in configuration, metrics and the API.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dialect.
    #[must_use]
    pub fn kind(&self) -> LaneKind {
        self.kind
    }

    /// The configured model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Resolves when the lane is not held and has room for a call. A worker awaits this before it
    /// claims a job, so that a held lane leaves jobs where they are. Nothing is reserved.
    /// Cancel safe.
    pub async fn ready(&self) {
        loop {
            self.pause.resumed().await;
            self.limits.has_room().await;
            if self.pause.holding(Instant::now()).is_none() {
                return;
            }
        }
    }

    /// Waits for the right to make one call, at most for `max_wait`. Cancel safe.
    ///
    /// # Errors
    /// [`Wait`] with the time after which asking again makes sense: the job snoozes for so long.
    pub async fn acquire(&self, max_wait: Duration) -> Result<Permit, Wait> {
        let started = Instant::now();
        self.not_held()?;
        let permit = self.limits.acquire(max_wait.saturating_sub(started.elapsed())).await?;
        // The hold may have begun while we waited.
        self.not_held()?;
        Ok(permit)
    }

    /// Makes one call. At most one repetition follows at once, when a pooled connection turns out
    /// to have been closed before the answer began.
    ///
    /// Cancel safe in that dropping the future closes the connection and frees the permit; the
    /// provider may have been paid by then.
    ///
    /// # Errors
    /// [`Setback`]: what happened and what follows from it.
    pub async fn classify(&self, permit: Permit, request: Request<'_>) -> Result<Answer, Setback> {
        let started = Instant::now();
        let mode = self.schema_mode();
        let outcome = self.call(&request, mode, started).await;
        drop(permit);
        match outcome {
            Ok(answer) => {
                self.note_success(&answer, &request);
                Ok(answer)
            }
            Err(failure) => {
                let disposition = self.judge(&failure, &request, mode);
                Err(Setback { failure, disposition })
            }
        }
    }

    /// Stops the lane until [`Lane::resume`]. Calls in flight run to their end.
    pub fn stop(&self, reason: &str) {
        self.pause.stop(reason);
        tracing::warn!(lane = self.name, reason, "lane stopped by an operator");
    }

    /// Ends any hold: an operator says that the cause is mended.
    pub fn resume(&self) {
        self.pause.clear();
        self.guard.answered();
        tracing::info!(lane = self.name, "lane resumed by an operator");
    }

    /// What the lane is doing.
    #[must_use]
    pub fn status(&self) -> LaneStatus {
        let (in_flight, in_flight_allowed) = self.limits.in_flight();
        LaneStatus {
            hold: self.pause.current(),
            in_flight,
            in_flight_allowed,
            schema_mode: self.schema_mode(),
        }
    }

    async fn call(
        &self,
        request: &Request<'_>,
        mode: SchemaMode,
        started: Instant,
    ) -> Result<Answer, Failure> {
        let (raw, read): (_, fn(_, _) -> _) = match &self.classifier {
            Classifier::OpenAi(client) => (client.call(request, mode).await?, openai::read),
            Classifier::Anthropic(client) => (client.call(request, mode).await?, anthropic::read),
            Classifier::Offline(encoder) => return encoder.classify(request).await,
        };
        let (latency, request_id) = (started.elapsed(), raw.request_id());
        let content = read(raw, Utc::now())?;
        Ok(Answer {
            completion: content.completion,
            model: content.model.unwrap_or_else(|| self.model.clone()),
            usage: content.usage,
            latency,
            request_id,
        })
    }

    fn note_success(&self, answer: &Answer, request: &Request<'_>) {
        let now = Instant::now();
        self.guard.answered();
        if self.pause.succeeded(now) {
            tracing::info!(lane = self.name, "lane resumed: a call succeeded");
        }
        // A call from before a hold says nothing about how many may go after it.
        if self.pause.holding(now).is_none() {
            self.limits.grow();
        }
        if self.kind != LaneKind::Offline && answer.seems_cut_in_front(request.prompt) {
            tracing::warn!(
                lane = self.name,
                usage = ?answer.usage,
                "the server seems to cut prompts off in front: raise its context length"
            );
        }
    }

    /// Decides what follows from a failure and does the lane's own part of it.
    fn judge(&self, failure: &Failure, request: &Request<'_>, mode: SchemaMode) -> Disposition {
        let mut ticket = DefaultHasher::new();
        request.ticket.subject.hash(&mut ticket);
        request.ticket.body.hash(&mut ticket);
        let mut judged = self.guard.judge(disposition(failure), ticket.finish());
        if judged == Disposition::StepDown && !self.step_down(mode) {
            judged = Disposition::ParkLane { cause: ParkCause::Configuration, at_least: None };
        }
        let class = failure.class();
        match &judged {
            Disposition::PauseLane { at_least } => self.hold(HoldKind::Paused, *at_least, class, failure),
            Disposition::ParkLane { cause, at_least } => {
                let reason = format!("{}: {failure}", cause.as_str());
                self.hold(HoldKind::Parked, *at_least, &reason, failure);
            }
            Disposition::Retry { .. }
            | Disposition::StepDown
            | Disposition::ReAsk { .. }
            | Disposition::Review { .. }
            | Disposition::DeadLetter { .. } => {}
        }
        judged
    }

    fn hold(&self, kind: HoldKind, at_least: Option<Duration>, reason: &str, failure: &Failure) {
        let (now, jitter) = (Instant::now(), rand::random());
        let is_new = match kind {
            HoldKind::Parked => self.pause.park(at_least, reason, now, jitter),
            HoldKind::Paused | HoldKind::Stopped => self.pause.pause(at_least, reason, now, jitter),
        };
        if !is_new {
            return;
        }
        // Whatever pushed back, the lane comes back with one call at a time.
        self.limits.restart();
        let (lane, class) = (self.name.as_str(), failure.class());
        let held_for_s =
            self.pause.holding(now).and_then(|hold| hold.remaining(now)).map(|held| held.as_secs_f64());
        match kind {
            HoldKind::Parked => {
                tracing::error!(lane, class, held_for_s, %failure, "lane parked: a person has to act");
            }
            HoldKind::Paused | HoldKind::Stopped => {
                tracing::warn!(lane, class, held_for_s, %failure, "lane paused");
            }
        }
    }

    /// Takes the next weaker schema mode. Calls that were in flight together step down once.
    fn step_down(&self, used: SchemaMode) -> bool {
        if !self.schema_step_down || self.kind == LaneKind::Offline {
            return false;
        }
        let mut mode = self.schema_mode.lock().unwrap_or_else(PoisonError::into_inner);
        if *mode != used {
            return true;
        }
        let Some(weaker) = used.weaker() else { return false };
        *mode = weaker;
        tracing::warn!(
            lane = self.name,
            from = used.as_str(),
            to = weaker.as_str(),
            "the provider refuses the schema: asking in a weaker mode; set `schema_mode` to silence this"
        );
        true
    }

    fn schema_mode(&self) -> SchemaMode {
        *self.schema_mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_held(&self) -> Result<(), Wait> {
        /// How long a job snoozes at a lane that waits for an operator.
        const UNTIL_AN_OPERATOR: Duration = Duration::from_secs(60);
        let now = Instant::now();
        match self.pause.holding(now) {
            None => Ok(()),
            Some(hold) => Err(Wait(hold.remaining(now).unwrap_or(UNTIL_AN_OPERATOR))),
        }
    }
}

#[cfg(test)]
mod tests;
