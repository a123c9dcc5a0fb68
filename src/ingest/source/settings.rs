//! From what configuration says of a source to a source, or to everything that is wrong with it.

use chrono::TimeDelta;
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use super::{EventFilter, FieldFault, FieldMap, Preset, Source};
use crate::ingest::signature::{KeyEncoding, Scheme, SchemeFault, SchemeSpec, SecretFault, Secrets};

/// What configuration hands over for one source.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Its name, which is also the last part of its path: `a-z`, `0-9` and `-`.
    pub name: String,
    /// What kind of sender it is.
    pub preset: Preset,
    /// The secret, or several with commas between them, as it stood in the environment or a file.
    /// Nothing means that none was found, and the source does not start.
    pub secret: Option<SecretString>,
    /// How the secret is written, where the sender does otherwise than the preset. For `generic`
    /// it stands in the scheme.
    pub key_encoding: Option<KeyEncoding>,
    /// The scheme; for `generic` only, and needed there.
    pub scheme: Option<SchemeSpec>,
    /// How old a signature may be, where the preset's limit does not fit.
    pub past_max: Option<TimeDelta>,
    /// How far ahead of our clock a signature may be, where the preset's limit does not fit.
    pub future_max: Option<TimeDelta>,
    /// The types of event that carry tickets, in place of the preset's.
    pub events: Option<Vec<String>>,
    /// Names of a ticket's parts and JSON pointers to them, in place of the defaults.
    pub fields: Vec<(String, String)>,
    /// A link to a ticket for payloads without one; `{id}` stands for the ticket's id. For example
    /// `https://acme.zendesk.com/agent/tickets/{id}`.
    pub ticket_url: Option<String>,
}

/// One thing that is wrong with a source.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SourceFault {
    /// The name would not work in a path.
    #[error("the name `{0}` must be 1 to 64 characters of `a-z`, `0-9` and `-`")]
    Name(String),
    /// There is no secret.
    #[error("there is no secret; make one with `{}` and give it to both sides", .0.recipe())]
    NoSecret(KeyEncoding),
    /// A secret that cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretFault),
    /// `generic` without a scheme.
    #[error("preset `generic` needs a `scheme`; the least is `scheme.header`")]
    NoScheme,
    /// A scheme beside a preset that has its own.
    #[error("preset `{0}` has its own scheme; leave `scheme` out, or use preset `generic`")]
    NeedlessScheme(Preset),
    /// The key encoding stands beside the scheme instead of in it.
    #[error("`key_encoding` of preset `generic` stands in its `scheme`")]
    MisplacedKeyEncoding,
    /// A fault in the scheme.
    #[error("scheme: {0}")]
    Scheme(#[from] SchemeFault),
    /// A limit below zero.
    #[error("a limit on the signed time cannot be below zero")]
    NegativeTolerance,
    /// A pattern of an event type that cannot match.
    #[error("the event type `{0}` has an empty part; write for example `ticket.created` or `ticket.*`")]
    Event(String),
    /// An allow-list without entries.
    #[error("`events` is empty, so no event would ever count; leave it out for the usual ones")]
    NoEvents,
    /// A fault in the field table.
    #[error("fields: {0}")]
    Field(#[from] FieldFault),
    /// A field table for a preset with a fixed shape.
    #[error("preset `github` knows where a ticket's parts stand; leave `fields` out")]
    NeedlessFields,
    /// A link that does not tell tickets apart, or is none.
    #[error("`ticket_url` is `{0}`; write an http or https address with `{{id}}` in it")]
    TicketUrl(String),
}

impl SourceSettings {
    /// Settings of a preset under its own name, with nothing changed.
    #[must_use]
    pub fn of_preset(preset: Preset, secret: SecretString) -> Self {
        Self {
            name: preset.as_str().to_owned(),
            preset,
            secret: Some(secret),
            key_encoding: None,
            scheme: None,
            past_max: None,
            future_max: None,
            events: None,
            fields: Vec::new(),
            ticket_url: None,
        }
    }

    /// The source.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, so that an operator can mend it in one go.
    pub fn build(&self) -> Result<Source, Vec<SourceFault>> {
        let mut faults = Vec::new();
        self.check_plain(&mut faults);
        let schemes = collect(self.schemes(), &mut faults);
        let secrets = collect(self.secrets(schemes.as_deref()), &mut faults);
        let events = collect(self.event_filter(), &mut faults);
        let fields = collect(self.field_map(), &mut faults);
        match (schemes, secrets, events, fields) {
            (Some(schemes), Some(secrets), Some(events), Some(fields)) if faults.is_empty() => Ok(Source {
                name: self.name.clone(),
                preset: self.preset,
                schemes,
                secrets,
                events,
                fields,
                ticket_url: self.ticket_url.clone(),
            }),
            _ => Err(faults),
        }
    }

    fn check_plain(&self, faults: &mut Vec<SourceFault>) {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=64).contains(&self.name.len()) || !self.name.bytes().all(plain) {
            faults.push(SourceFault::Name(self.name.clone()));
        }
        let limits = [self.past_max, self.future_max];
        if limits.into_iter().flatten().any(|limit| limit < TimeDelta::zero()) {
            faults.push(SourceFault::NegativeTolerance);
        }
        if let Some(url) = &self.ticket_url
            && !(url.contains("{id}") && (url.starts_with("https://") || url.starts_with("http://")))
        {
            faults.push(SourceFault::TicketUrl(url.clone()));
        }
    }

    fn schemes(&self) -> Result<Vec<Scheme>, Vec<SourceFault>> {
        let schemes = match (self.preset, &self.scheme) {
            (Preset::Generic, None) => return Err(vec![SourceFault::NoScheme]),
            (Preset::Generic, Some(_)) if self.key_encoding.is_some() => {
                return Err(vec![SourceFault::MisplacedKeyEncoding]);
            }
            (Preset::Generic, Some(spec)) => vec![spec.parse().map_err(wrap)?],
            (preset, Some(_)) => return Err(vec![SourceFault::NeedlessScheme(preset)]),
            (preset, None) => preset.schemes(),
        };
        Ok(schemes.into_iter().map(|scheme| scheme.with_tolerance(self.past_max, self.future_max)).collect())
    }

    fn secrets(&self, schemes: Option<&[Scheme]>) -> Result<Secrets, Vec<SourceFault>> {
        let of_scheme = schemes.and_then(<[Scheme]>::first).map(Scheme::key_encoding);
        let encoding = self.key_encoding.or(of_scheme).unwrap_or(self.preset.key_encoding());
        let secret = self.secret.as_ref().ok_or_else(|| vec![SourceFault::NoSecret(encoding)])?;
        Secrets::parse(secret.expose_secret(), encoding).map_err(wrap)
    }

    fn event_filter(&self) -> Result<EventFilter, Vec<SourceFault>> {
        match self.events.as_deref() {
            None => Ok(self.preset.default_events()),
            Some([]) => Err(vec![SourceFault::NoEvents]),
            Some(patterns) => {
                EventFilter::parse(patterns).map_err(|bad| bad.into_iter().map(SourceFault::Event).collect())
            }
        }
    }

    fn field_map(&self) -> Result<FieldMap, Vec<SourceFault>> {
        let defaults = match self.preset {
            Preset::Github if !self.fields.is_empty() => return Err(vec![SourceFault::NeedlessFields]),
            Preset::StandardWebhooks => FieldMap::under_data(),
            Preset::Github | Preset::Zendesk | Preset::Generic => FieldMap::under_data_or_top(),
        };
        defaults.with(&self.fields).map_err(wrap)
    }
}

fn wrap<T: Into<SourceFault>>(faults: Vec<T>) -> Vec<SourceFault> {
    faults.into_iter().map(Into::into).collect()
}

fn collect<T>(result: Result<T, Vec<SourceFault>>, faults: &mut Vec<SourceFault>) -> Option<T> {
    result.map_err(|mut more| faults.append(&mut more)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(preset: Preset, secret: &str) -> SourceSettings {
        SourceSettings::of_preset(preset, secret.into())
    }

    #[test]
    fn a_preset_needs_nothing_but_a_secret() {
        let github = settings(Preset::Github, "0123456789abcdef0123\n").build().expect("valid");
        assert_eq!((github.name(), github.secrets().len()), ("github", 1));
        let svix = settings(Preset::StandardWebhooks, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").build();
        assert_eq!(svix.expect("valid").scheme().header(), "webhook-signature");
    }

    #[test]
    fn a_source_without_a_secret_does_not_start() {
        let missing = SourceSettings { secret: None, ..settings(Preset::Github, "") };
        assert_eq!(missing.build().expect_err("refused"), [SourceFault::NoSecret(KeyEncoding::Utf8)]);
        assert!(settings(Preset::Github, "").build().is_err());
        assert!(settings(Preset::StandardWebhooks, "whsec_").build().is_err());
        assert!(settings(Preset::Zendesk, "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==").build().is_err());
    }

    #[test]
    fn every_fault_of_a_source_is_reported_at_once() {
        let bad = SourceSettings {
            name: "Git Hub".into(),
            scheme: Some(SchemeSpec::default()),
            events: Some(vec!["issues.".into()]),
            fields: vec![("id".into(), "/x".into())],
            past_max: Some(TimeDelta::seconds(-1)),
            ticket_url: Some("https://x.example/".into()),
            ..settings(Preset::Github, "short,0123456789abcdef0123")
        };
        assert_eq!(bad.build().expect_err("refused").len(), 7);
        let generic = SourceSettings {
            scheme: Some(SchemeSpec::default()),
            fields: vec![("colour".into(), "/x".into())],
            events: Some(Vec::new()),
            ..settings(Preset::Generic, "0123456789abcdef0123")
        };
        let texts: Vec<String> =
            generic.build().expect_err("refused").iter().map(ToString::to_string).collect();
        assert!(texts[0].starts_with("scheme: `header` is missing") && texts.len() == 3, "{texts:?}");
    }

    #[test]
    fn a_key_encoding_can_be_overridden_for_senders_that_forgot_to_decode() {
        let text_key = SourceSettings {
            key_encoding: Some(KeyEncoding::Utf8),
            ..settings(Preset::StandardWebhooks, "whsec_not base64 at all")
        };
        assert!(text_key.build().is_ok());
    }

    #[test]
    fn nothing_of_the_settings_or_the_source_shows_a_secret() {
        let settings = settings(Preset::Github, "hunter2-hunter2-hunter2");
        let source = settings.build().expect("valid");
        assert!(!format!("{settings:?} {source:?}").contains("hunter2"));
    }
}
