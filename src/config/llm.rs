//! `[llm]`: the lane that classifies.

use std::num::NonZeroU32;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::Env;
use super::document::Section;
use crate::llm::{Lane, LaneKind, LaneSettings, SchemaMode};

/// What an attempt needs beside the call: the wait for a place at the lane, and reading.
const LANE_WAIT_MIN: Duration = Duration::from_secs(10);
/// The lane's name in metrics and verdicts.
const LANE_NAME: &str = "default";

pub(super) fn read(section: Section<'_>, env: &Env<'_>, job_timeout: Duration) -> Option<LaneSettings> {
    let settings = settings(&section, env);
    if settings.total_timeout + LANE_WAIT_MIN > job_timeout {
        let problem = "must be 10 s or more below queue.job_timeout_s, which also holds the wait for the lane; shorten it";
        section.fault("total_timeout_s", problem);
    }
    let built = Lane::build(&settings);
    if let Err(fault) = &built {
        env.fault("HOOKTRIAGE_LLM_*", fault.to_string());
    }
    section.finish();
    built.is_ok().then_some(settings)
}

fn settings(section: &Section<'_>, env: &Env<'_>) -> LaneSettings {
    let base_url = section.text("base_url");
    let base_url = env.text("HOOKTRIAGE_LLM_BASE_URL").or(base_url);
    let model = section.text("model");
    let model = env.text("HOOKTRIAGE_LLM_MODEL").or(model).unwrap_or_default();
    let api_key = env.secret("HOOKTRIAGE_LLM_API_KEY");
    let kind = kind(section, env).unwrap_or_else(|| implied_kind(base_url.is_some(), api_key.as_ref()));
    if kind == LaneKind::Offline && !model.is_empty() {
        let problem = "a model is named, but no provider: set HOOKTRIAGE_LLM_API_KEY, HOOKTRIAGE_LLM_BASE_URL or HOOKTRIAGE_LLM_KIND, or leave the model out";
        env.fault("HOOKTRIAGE_LLM_MODEL", problem);
    }
    let mut settings = LaneSettings::new(LANE_NAME, kind, model);
    settings.base_url = base_url;
    settings.api_key = api_key;
    settings.api_key_header = section.text("api_key_header");
    settings.requests_per_minute = count(section, "requests_per_minute", 1_000_000);
    settings.in_flight_max = count(section, "in_flight_max", 10_000).unwrap_or(settings.in_flight_max);
    settings.output_tokens_max =
        count(section, "output_tokens_max", 100_000).unwrap_or(settings.output_tokens_max);
    let modes = SchemaMode::ALL.map(|mode| (mode.as_str(), mode));
    settings.schema_mode = section.word("schema_mode", &modes).unwrap_or(settings.schema_mode);
    settings.use_proxy = section.boolean("use_proxy").unwrap_or(settings.use_proxy);
    let seconds = |key, default: Duration| {
        let value = section.integer(key, 1..3601).and_then(|value| u64::try_from(value).ok());
        value.map_or(default, Duration::from_secs)
    };
    settings.connect_timeout = seconds("connect_timeout_s", settings.connect_timeout);
    settings.read_timeout = seconds("read_timeout_s", settings.read_timeout);
    settings.total_timeout = seconds("total_timeout_s", settings.total_timeout);
    settings
}

/// The dialect when nobody names one. Anthropic's keys begin with `sk-ant-` (its documentation,
/// "API keys"); everything else that is remote most likely speaks the most copied dialect.
fn implied_kind(has_base_url: bool, api_key: Option<&SecretString>) -> LaneKind {
    let is_anthropic = api_key.is_some_and(|key| key.expose_secret().starts_with("sk-ant-"));
    match (has_base_url, api_key) {
        (false, None) => LaneKind::Offline,
        (false, Some(_)) if is_anthropic => LaneKind::Anthropic,
        _ => LaneKind::OpenAi,
    }
}

fn count(section: &Section<'_>, key: &'static str, max: i64) -> Option<NonZeroU32> {
    let value = section.integer(key, 1..max + 1)?;
    u32::try_from(value).ok().and_then(NonZeroU32::new)
}

fn kind(section: &Section<'_>, env: &Env<'_>) -> Option<LaneKind> {
    let kinds = LaneKind::ALL.map(|kind| (kind.as_str(), kind));
    let of_file = section.word("kind", &kinds);
    let Some(text) = env.text("HOOKTRIAGE_LLM_KIND") else { return of_file };
    let found = kinds.iter().find(|(word, _)| *word == text).map(|(_, kind)| *kind);
    if found.is_none() {
        let known = kinds.map(|(word, _)| word).join(", ");
        env.fault("HOOKTRIAGE_LLM_KIND", format!("is {text:?}; it must be one of {known}"));
    }
    found
}
