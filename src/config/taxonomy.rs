//! `[taxonomy]`: the labels, and how sure one has to be.

use super::document::Section;
use crate::domain::{Category, Taxonomy, VerdictPolicy};
use crate::triage::taxonomy::default_taxonomy;

/// Confidence below this goes to a person when nobody says otherwise.
const CONFIDENCE_MIN_DEFAULT: f64 = 0.5;

pub(super) fn read(section: Section<'_>) -> (Option<Taxonomy>, VerdictPolicy) {
    let confidence_min = section.share("confidence_min").unwrap_or(CONFIDENCE_MIN_DEFAULT);
    let version = section.text("version");
    let categories = section.sections("category");
    let taxonomy = if categories.is_empty() {
        if version.is_some() {
            section.fault("version", "stands without categories; add [[taxonomy.category]] or leave it out");
        }
        Some(default_taxonomy())
    } else {
        let read: Vec<Category> = categories.into_iter().map(category).collect();
        let checked = Taxonomy::new(version.unwrap_or_else(|| "1".to_owned()), read);
        checked
            .map_err(|faults| faults.iter().for_each(|fault| section.fault("category", &fault.to_string())))
            .ok()
    };
    section.finish();
    (taxonomy, VerdictPolicy { confidence_min })
}

fn category(section: Section<'_>) -> Category {
    let category = Category {
        key: section.text("key").unwrap_or_default(),
        description: section.text("description").unwrap_or_default(),
        examples: section.texts("examples").unwrap_or_default(),
    };
    section.finish();
    category
}
