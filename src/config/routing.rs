//! `[[destination]]`, `[[rule]]` and `[routing]`: where verdicts and alerts go.

use super::Env;
use super::document::Section;
use crate::domain::{DestinationName, Priority, Rule, RuleSet, Taxonomy};
use crate::http::API_SOURCE;
use crate::routing::{Destination, DestinationSettings};

#[derive(Default)]
pub(super) struct Routes {
    pub rules: RuleSet,
    pub destinations: Vec<DestinationSettings>,
    pub alerts: Option<DestinationName>,
}

pub(super) fn read(
    root: &Section<'_>,
    env: &Env<'_>,
    taxonomy: Option<&Taxonomy>,
    sources: &[String],
) -> Routes {
    let mut destinations: Vec<DestinationSettings> = Vec::new();
    for section in root.sections("destination") {
        if let Some(settings) = destination(&section, env) {
            let variable = Destination::secret_variable(&settings.name);
            let twin = destinations.iter().find(|one| Destination::secret_variable(&one.name) == variable);
            if let Some(twin) = twin {
                let problem = if twin.name == settings.name {
                    format!("two destinations are named {}; rename one", twin.name)
                } else {
                    format!("{} and {} share the variable {variable}; rename one", settings.name, twin.name)
                };
                section.fault("name", &problem);
            }
            destinations.push(settings);
        }
        section.finish();
    }
    let known: Vec<&DestinationName> = destinations.iter().map(|one| &one.name).collect();
    let names = Names { destinations: &known, taxonomy, sources };
    let rules = root.sections("rule").into_iter().filter_map(|section| rule(section, &names)).collect();
    let routing = root.section("routing");
    let fallback = names.destination(&routing, "fallback");
    let alerts = names.destination(&routing, "alerts");
    routing.finish();
    Routes { rules: RuleSet { rules, fallback }, destinations, alerts }
}

fn destination(section: &Section<'_>, env: &Env<'_>) -> Option<DestinationSettings> {
    let url = section.text("url");
    let allow_private = section.boolean("allow_private").unwrap_or(false);
    let name = name(section, "name");
    if url.is_none() {
        section.fault("url", "is missing; it is where verdicts are posted");
    }
    let (name, url) = (name?, url?);
    let secret = env.secret(&Destination::secret_variable(&name));
    let settings = DestinationSettings { name, url, secret, allow_private };
    if let Err(faults) = Destination::build(&settings) {
        faults
            .iter()
            .for_each(|fault| section.fault("url", &format!("destination {}: {fault}", settings.name)));
    }
    Some(settings)
}

fn name(section: &Section<'_>, key: &'static str) -> Option<DestinationName> {
    let text = section.text(key);
    let parsed = text.as_deref().and_then(DestinationName::parse);
    if parsed.is_none() {
        section.fault(key, "must be a name of 1 to 64 characters of a-z, 0-9, - and _");
    }
    parsed
}

struct Names<'a> {
    destinations: &'a [&'a DestinationName],
    taxonomy: Option<&'a Taxonomy>,
    sources: &'a [String],
}

impl Names<'_> {
    fn destination(&self, section: &Section<'_>, key: &'static str) -> Option<DestinationName> {
        let text = section.text(key)?;
        let found = self.destinations.iter().find(|name| name.as_str() == text).map(|name| (*name).clone());
        if found.is_none() {
            section
                .fault(key, &format!("names {text:?}, which is no destination; add it as [[destination]]"));
        }
        found
    }

    fn categories(&self, section: &Section<'_>) -> Vec<String> {
        let keys = section.texts("category").unwrap_or_default();
        let unknown =
            keys.iter().filter(|key| self.taxonomy.is_some_and(|taxonomy| taxonomy.find(key).is_none()));
        unknown.for_each(|key| section.fault("category", &format!("{key:?} is not in the taxonomy")));
        keys
    }

    fn sources(&self, section: &Section<'_>) -> Vec<String> {
        let names = section.texts("source").unwrap_or_default();
        let is_known = |name: &str| name == API_SOURCE || self.sources.iter().any(|source| source == name);
        let unknown = names.iter().filter(|name| !is_known(name));
        unknown.for_each(|name| section.fault("source", &format!("{name:?} is no source")));
        names
    }
}

/// Verdicts name languages by their BCP 47 primary subtag, so nothing else could ever match.
fn languages(section: &Section<'_>) -> Vec<String> {
    let tags = section.texts("language").unwrap_or_default();
    let is_subtag =
        |tag: &str| (2..=3).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_lowercase());
    for tag in tags.iter().filter(|tag| !is_subtag(tag)) {
        section.fault("language", &format!("{tag:?} is no language code; write for example en, de or pt"));
    }
    tags
}

fn rule(section: Section<'_>, names: &Names<'_>) -> Option<Rule> {
    let priorities = Priority::ALL.map(|priority| (priority.as_str(), priority));
    let categories = names.categories(&section);
    let priorities = section.words("priority", &priorities).unwrap_or_default();
    let sources = names.sources(&section);
    let languages = languages(&section);
    let needs_review = section.boolean("needs_review");
    let confidence_min = section.share("confidence_min");
    let destination = names.destination(&section, "to");
    if destination.is_none() && section.text("to").is_none() {
        section.fault("to", "is missing; name the destination");
    }
    section.finish();
    Some(Rule {
        categories,
        priorities,
        sources,
        languages,
        needs_review,
        confidence_min,
        destination: destination?,
    })
}
