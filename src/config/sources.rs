//! `[[source]]`, and the sources that a secret in the environment switches on by itself.

use chrono::TimeDelta;

use super::Env;
use super::document::Section;
use crate::http::API_SOURCE;
use crate::ingest::signature::{KeyEncoding, SchemeSpec};
use crate::ingest::source::{Preset, Source, SourceSettings};

const SECRET_PREFIX: &str = "HOOKTRIAGE_SECRET_";

/// The sources, and the names of all that were meant, also of those with faults: what refers to
/// them is not at fault.
pub(super) fn read(sections: Vec<Section<'_>>, env: &Env<'_>) -> (Vec<Source>, Vec<String>) {
    let mut sources: Vec<Source> = Vec::new();
    let mut named: Vec<String> = Vec::new();
    for section in sections {
        let Some(settings) = settings(&section, env) else {
            named.extend(section.text("name"));
            section.finish();
            continue;
        };
        if named.contains(&settings.name) || settings.name == API_SOURCE {
            section.fault("name", &format!("{:?} is taken; choose another", settings.name));
        }
        named.push(settings.name.clone());
        match settings.build() {
            Ok(source) => sources.push(source),
            Err(faults) => {
                faults.iter().for_each(|fault| section.fault("name", &of_source(&settings.name, fault)))
            }
        }
        section.finish();
    }
    sources.extend(switched_on(env, &mut named));
    (sources, named)
}

fn of_source(name: &str, fault: &crate::ingest::source::SourceFault) -> String {
    format!("source {name:?} (secret in {}): {fault}", variable(name))
}

/// The variable that holds the secret of a source.
pub(super) fn variable(name: &str) -> String {
    format!("{SECRET_PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// `HOOKTRIAGE_SECRET_GITHUB` alone switches on `/webhooks/github`.
fn switched_on(env: &Env<'_>, named: &mut Vec<String>) -> Vec<Source> {
    let mut sources = Vec::new();
    for suffix in env.environment.suffixes(SECRET_PREFIX) {
        let name = suffix.to_ascii_lowercase().replace('_', "-");
        let variable = format!("{SECRET_PREFIX}{suffix}");
        if named.iter().any(|one| self::variable(one) == variable) {
            continue;
        }
        let Ok(preset) = name.parse::<Preset>() else {
            let presets = Preset::ALL.map(Preset::as_str).join(", ");
            let problem = format!(
                "no source is named {name:?} and no preset is; name it in [[source]], or use a preset: {presets}"
            );
            env.fault(&variable, problem);
            continue;
        };
        named.push(name);
        let Some(secret) = env.secret(&variable) else { continue };
        match SourceSettings::of_preset(preset, secret).build() {
            Ok(source) => sources.push(source),
            Err(faults) => faults.iter().for_each(|fault| env.fault(&variable, fault.to_string())),
        }
    }
    sources
}

fn settings(section: &Section<'_>, env: &Env<'_>) -> Option<SourceSettings> {
    let presets = Preset::ALL.map(|preset| (preset.as_str(), preset));
    let encodings = KeyEncoding::ALL.map(|encoding| (encoding.as_str(), encoding));
    let seconds = |key| section.integer(key, 0..86_401).map(TimeDelta::seconds);
    let (past_max, future_max) = (seconds("past_max_s"), seconds("future_max_s"));
    let key_encoding = section.word("key_encoding", &encodings);
    let (events, fields) = (section.texts("events"), section.pairs("fields"));
    let ticket_url = section.text("ticket_url");
    let scheme = scheme(section.section("scheme"));
    let name = section.text("name");
    if name.is_none() {
        section.fault("name", "is missing; it becomes the path /webhooks/NAME");
    }
    let of_name = || name.as_deref().and_then(|name| name.parse::<Preset>().ok());
    let preset = section.word("preset", &presets).or_else(of_name);
    if preset.is_none() {
        let known = presets.map(|(word, _)| word).join(", ");
        section.fault("preset", &format!("is missing; it must be one of {known}"));
    }
    let name = name?;
    Some(SourceSettings {
        secret: env.secret(&variable(&name)),
        preset: preset?,
        name,
        key_encoding,
        scheme,
        past_max,
        future_max,
        events,
        fields,
        ticket_url,
    })
}

fn scheme(section: Section<'_>) -> Option<SchemeSpec> {
    let present = section.is_present();
    let spec = SchemeSpec {
        header: section.text("header").unwrap_or_default(),
        prefix: section.text("prefix"),
        list: section.text("list"),
        version: section.text("version"),
        algorithm: section.text("algorithm"),
        encoding: section.text("encoding"),
        key_encoding: section.text("key_encoding"),
        template: section.text("template"),
        timestamp: section.text("timestamp"),
        timestamp_format: section.text("timestamp_format"),
        past_max: section.text("past_max"),
        future_max: section.text("future_max"),
        id: section.text("id"),
        public_url: section.text("public_url"),
    };
    section.finish();
    present.then_some(spec)
}
