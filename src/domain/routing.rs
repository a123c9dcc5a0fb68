//! Routing rules: the first rule that matches a verdict names where it goes.

use std::fmt;

use super::{Priority, Verdict};

/// The name of a destination: 1 to 64 characters of a-z, 0-9, `-` and `_`.
///
/// It is part of delivery ids, in which Standard Webhooks allows no full stop, so it has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationName(String);

impl DestinationName {
    /// Checks a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        ((1..=64).contains(&name.len()) && name.chars().all(allowed)).then(|| Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DestinationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One rule. An empty list and an absent bound match everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Keys of the taxonomy.
    pub categories: Vec<String>,
    /// Priorities.
    pub priorities: Vec<Priority>,
    /// Names of sources.
    pub sources: Vec<String>,
    /// BCP 47 primary subtags.
    pub languages: Vec<String>,
    /// Only verdicts that do, or do not, ask for a person.
    pub needs_review: Option<bool>,
    /// Lowest confidence, 0 to 1.
    pub confidence_min: Option<f64>,
    /// Where a matching verdict goes.
    pub destination: DestinationName,
}

/// The rules in order, and where a verdict goes that none of them matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSet {
    /// Tried from the top; the first match decides.
    pub rules: Vec<Rule>,
    /// Where the rest goes; `None` records the verdict and sends nothing.
    pub fallback: Option<DestinationName>,
}

impl RuleSet {
    /// Where a verdict about a ticket of `source` goes.
    #[must_use]
    pub fn destination(&self, source: &str, verdict: &Verdict) -> Option<&DestinationName> {
        let matched = self.rules.iter().find(|rule| rule.matches(source, verdict));
        matched.map(|rule| &rule.destination).or(self.fallback.as_ref())
    }
}

impl Rule {
    fn matches(&self, source: &str, verdict: &Verdict) -> bool {
        let category_fits = self.categories.is_empty()
            || verdict.category.as_ref().is_some_and(|category| self.categories.contains(category));
        category_fits
            && (self.priorities.is_empty() || self.priorities.contains(&verdict.priority))
            && (self.sources.is_empty() || self.sources.iter().any(|name| name == source))
            && (self.languages.is_empty() || self.languages.contains(&verdict.language))
            && self.needs_review.is_none_or(|wanted| wanted == verdict.needs_review())
            && self.confidence_min.is_none_or(|min| verdict.confidence >= min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ReviewReason, Sentiment};

    fn rule(destination: &str) -> Rule {
        Rule {
            categories: vec![],
            priorities: vec![],
            sources: vec![],
            languages: vec![],
            needs_review: None,
            confidence_min: None,
            destination: DestinationName::parse(destination).expect("a valid name"),
        }
    }

    fn verdict() -> Verdict {
        Verdict {
            category: Some("billing".into()),
            priority: Priority::Normal,
            sentiment: Some(Sentiment::Neutral),
            language: "en".into(),
            summary: String::new(),
            confidence: 0.8,
            reasons: vec![],
            review: vec![],
        }
    }

    fn rules() -> RuleSet {
        RuleSet {
            rules: vec![
                Rule { needs_review: Some(true), ..rule("people") },
                Rule { priorities: vec![Priority::Urgent], ..rule("on-call") },
                Rule { categories: vec!["billing".into()], confidence_min: Some(0.7), ..rule("finance") },
            ],
            fallback: DestinationName::parse("support"),
        }
    }

    fn goes_to(verdict: &Verdict) -> String {
        rules().destination("github", verdict).map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn the_first_matching_rule_decides() {
        assert_eq!(goes_to(&verdict()), "finance");
        assert_eq!(goes_to(&Verdict { priority: Priority::Urgent, ..verdict() }), "on-call");
        let doubted =
            Verdict { review: vec![ReviewReason::LowConfidence], priority: Priority::Urgent, ..verdict() };
        assert_eq!(goes_to(&doubted), "people");
    }

    #[test]
    fn a_verdict_that_no_rule_matches_goes_to_the_fallback() {
        assert_eq!(goes_to(&Verdict { confidence: 0.5, ..verdict() }), "support");
        assert_eq!(RuleSet::default().destination("github", &verdict()), None);
    }

    #[test]
    fn a_name_that_would_break_an_idempotency_key_is_no_name() {
        for bad in ["", "a.b", "A", "a b", &"x".repeat(65)] {
            assert_eq!(DestinationName::parse(bad), None, "{bad:?}");
        }
    }
}
