//! The taxonomy: the versioned set of labels that a ticket may get.

use thiserror::Error;

/// One label, described for the model as for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// The label itself: lower case, digits and underscores.
    pub key: String,
    /// What belongs in it, and what nearly does but goes elsewhere.
    pub description: String,
    /// Texts that belong in it, as customers write them.
    pub examples: Vec<String>,
}

/// A checked, non-empty set of categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taxonomy {
    version: String,
    categories: Vec<Category>,
}

/// Why a set of categories is no taxonomy.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TaxonomyFault {
    /// Nothing to choose from.
    #[error("a taxonomy needs at least two categories; add one with a key and a description")]
    TooFew,
    /// OpenAI's strict mode takes long enums only up to 250 labels (`docs/PROVIDERS.md`).
    #[error("a taxonomy takes at most 250 categories, this one has {0}; split it into two stages")]
    TooMany(usize),
    /// A key that would not survive prompts, tags and metrics.
    #[error("category key {0:?} must be 1 to 64 characters of a-z, 0-9 and _")]
    BadKey(String),
    /// The same key twice.
    #[error("category key {0:?} stands twice; keep one")]
    Repeated(String),
    /// The model cannot choose what nobody described.
    #[error("category {0:?} has no description; say what belongs in it")]
    Undescribed(String),
}

impl Taxonomy {
    /// Longest category key, in characters.
    pub const KEY_CHARS_MAX: usize = 64;
    /// Most categories; see [`TaxonomyFault::TooMany`].
    pub const CATEGORIES_MAX: usize = 250;

    /// Checks a set of categories.
    ///
    /// # Errors
    /// Every fault found, not only the first.
    pub fn new(version: impl Into<String>, categories: Vec<Category>) -> Result<Self, Vec<TaxonomyFault>> {
        let mut faults = Vec::new();
        if categories.len() < 2 {
            faults.push(TaxonomyFault::TooFew);
        }
        if categories.len() > Self::CATEGORIES_MAX {
            faults.push(TaxonomyFault::TooMany(categories.len()));
        }
        for (at, category) in categories.iter().enumerate() {
            let key = &category.key;
            if !is_key(key) {
                faults.push(TaxonomyFault::BadKey(key.clone()));
            }
            if categories[..at].iter().any(|earlier| earlier.key == *key) {
                faults.push(TaxonomyFault::Repeated(key.clone()));
            }
            if category.description.trim().is_empty() {
                faults.push(TaxonomyFault::Undescribed(key.clone()));
            }
        }
        if faults.is_empty() { Ok(Self { version: version.into(), categories }) } else { Err(faults) }
    }

    /// The version that every classification is stored with.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The categories in the order of the configuration.
    #[must_use]
    pub fn categories(&self) -> &[Category] {
        &self.categories
    }

    /// Finds the label that an answer means. Case and surrounding space are forgiven, nothing
    /// else: a near miss is a bad answer, not a guess.
    #[must_use]
    pub fn find(&self, answer: &str) -> Option<&Category> {
        let wanted = answer.trim();
        self.categories.iter().find(|category| category.key.eq_ignore_ascii_case(wanted))
    }
}

fn is_key(key: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (1..=Taxonomy::KEY_CHARS_MAX).contains(&key.len()) && key.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(key: &str) -> Category {
        Category { key: key.into(), description: "What belongs here.".into(), examples: vec![] }
    }

    #[test]
    fn all_faults_of_a_taxonomy_are_told_at_once() {
        let faults = Taxonomy::new("1", vec![category("Bad Key"), category("a"), category("a")]);
        assert_eq!(
            faults,
            Err(vec![TaxonomyFault::BadKey("Bad Key".into()), TaxonomyFault::Repeated("a".into())])
        );
    }

    #[test]
    fn an_answer_is_forgiven_case_and_space_but_is_never_guessed() -> Result<(), Vec<TaxonomyFault>> {
        let taxonomy = Taxonomy::new("1", vec![category("billing"), category("bug")])?;
        assert_eq!(taxonomy.find(" Billing\n").map(|c| c.key.as_str()), Some("billing"));
        assert_eq!(taxonomy.find("billings"), None);
        Ok(())
    }
}
