//! Sources: who may send, and how their deliveries are read.
//!
//! A preset is data (a scheme, the words for its events, the places of a ticket's parts) and one
//! short function that reads a body. A source is a preset with a name, live secrets and what the
//! operator changed about it.
//!
//! **Not here:** the verification itself (`signature`) and the order of the steps (`receive`).

mod events;
mod fields;
mod generic;
mod github;
mod reading;
mod settings;
mod standard_webhooks;
mod zendesk;

use std::fmt;
use std::str::FromStr;

use http::HeaderMap;

use super::signature::{KeyEncoding, Scheme, Secrets};

pub use events::EventFilter;
pub use fields::{FieldFault, FieldMap};
pub use settings::{SourceFault, SourceSettings};

pub(super) use reading::{ReadEvent, Reading};

/// The kinds of sender that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// GitHub's `issues` webhook.
    Github,
    /// Zendesk: event subscriptions, and trigger webhooks with a body of one's own.
    Zendesk,
    /// Anything that follows Standard Webhooks 1.0.0, Svix included.
    StandardWebhooks,
    /// A scheme and a mapping spelled out in configuration.
    Generic,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 4] = [Self::Github, Self::Zendesk, Self::StandardWebhooks, Self::Generic];

    /// The word used in configuration, in paths and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Zendesk => "zendesk",
            Self::StandardWebhooks => "standard-webhooks",
            Self::Generic => "generic",
        }
    }

    /// The schemes that the preset accepts, the usual one first; none for `generic`, whose scheme
    /// is configured.
    #[must_use]
    pub fn schemes(self) -> Vec<Scheme> {
        match self {
            Self::Github => vec![github::scheme()],
            Self::Zendesk => vec![zendesk::scheme()],
            Self::StandardWebhooks => standard_webhooks::schemes(),
            Self::Generic => Vec::new(),
        }
    }

    /// How the preset's secrets are written, unless configuration says otherwise.
    #[must_use]
    pub fn key_encoding(self) -> KeyEncoding {
        match self {
            Self::StandardWebhooks => KeyEncoding::Whsec,
            Self::Github | Self::Zendesk | Self::Generic => KeyEncoding::Utf8,
        }
    }

    /// The types of event that carry tickets, unless configuration says otherwise.
    #[must_use]
    pub fn default_events(self) -> EventFilter {
        match self {
            Self::Github => EventFilter::of(github::EVENTS),
            Self::Zendesk => EventFilter::of(zendesk::EVENTS),
            Self::StandardWebhooks | Self::Generic => EventFilter::tickets(),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == text).ok_or(())
    }
}

/// A configured sender, ready to receive from. Made by [`SourceSettings::build`].
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    preset: Preset,
    schemes: Vec<Scheme>,
    secrets: Secrets,
    events: EventFilter,
    fields: FieldMap,
    ticket_url: Option<String>,
}

impl Source {
    /// Its name: the last part of its path, and a label in metrics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What kind of sender it is.
    #[must_use]
    pub fn preset(&self) -> Preset {
        self.preset
    }

    /// The live secrets.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The scheme to sign with when a delivery to this source is to be made: the usual one.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.schemes[0]
    }

    /// The scheme whose signature header is there, else the usual one, which then says what is
    /// missing. Schemes are never mixed: each reads its own headers alone.
    pub(super) fn scheme_for(&self, headers: &HeaderMap) -> &Scheme {
        let present = |scheme: &&Scheme| headers.contains_key(scheme.header());
        self.schemes.iter().find(present).unwrap_or(self.scheme())
    }

    /// What the verified body says, by the preset's rules.
    pub(super) fn read(&self, headers: &HeaderMap, body: &[u8]) -> Reading {
        let reading = match self.preset {
            Preset::Github => github::read(headers, body, &self.events),
            Preset::Zendesk => zendesk::read(body, &self.events, &self.fields),
            Preset::StandardWebhooks => standard_webhooks::read(body, &self.events, &self.fields),
            Preset::Generic => generic::read(body, &self.events, &self.fields),
        };
        reading.with_ticket_url(self.ticket_url.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_written_and_read_by_the_same_word() {
        for preset in Preset::ALL {
            assert_eq!(preset.as_str().parse(), Ok(preset));
        }
        assert_eq!("intercom".parse::<Preset>(), Err(()));
    }
}
