//! A classification: a completion that was checked against the taxonomy.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{Priority, Taxonomy, text};

/// How the requester feels, in three steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sentiment {
    /// Angry, frustrated or let down.
    Negative,
    /// Matter of fact.
    Neutral,
    /// Pleased or grateful.
    Positive,
}

impl Sentiment {
    /// Every sentiment.
    pub const ALL: [Self; 3] = [Self::Negative, Self::Neutral, Self::Positive];

    /// The word used in prompts, SQL and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::Neutral => "neutral",
            Self::Positive => "positive",
        }
    }
}

impl fmt::Display for Sentiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Sentiment {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|sentiment| sentiment.as_str() == text).ok_or(())
    }
}

/// What a lane answered, already typed but not yet believed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// The label that was chosen.
    pub category: String,
    /// The priority that was proposed.
    pub priority: String,
    /// The sentiment that was read.
    pub sentiment: String,
    /// BCP 47 primary subtag, such as `en`.
    pub language: String,
    /// One sentence.
    pub summary: String,
    /// 0 to 1.
    pub confidence: f64,
    /// Short grounds for the choice.
    pub reasons: Vec<String>,
}

/// A classification that may be acted on: every label exists, every text is clean and short.
#[derive(Clone, Debug, PartialEq)]
pub struct Classification {
    /// A key of the taxonomy.
    pub category: String,
    /// Proposed priority; rules may raise it.
    pub priority: Priority,
    /// Sentiment.
    pub sentiment: Sentiment,
    /// BCP 47 primary subtag, or `und` where it was not told.
    pub language: String,
    /// One sentence, on one line.
    pub summary: String,
    /// 0 to 1.
    pub confidence: f64,
    /// At most [`Classification::REASONS_MAX`] short grounds.
    pub reasons: Vec<String>,
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ClassificationFault {
    /// A label that the taxonomy does not have.
    #[error("category {0:?} is not in the taxonomy")]
    UnknownCategory(String),
    /// Not one of the four priorities.
    #[error("priority {0:?} is none of low, normal, high, urgent")]
    UnknownPriority(String),
    /// Not one of the three sentiments.
    #[error("sentiment {0:?} is none of negative, neutral, positive")]
    UnknownSentiment(String),
    /// Outside 0 to 1, or no number.
    #[error("confidence {0} is not between 0 and 1")]
    ConfidenceOutOfRange(f64),
}

impl Classification {
    /// Longest summary, in characters.
    pub const SUMMARY_CHARS_MAX: usize = 200;
    /// Most reasons kept.
    pub const REASONS_MAX: usize = 5;
    /// Longest reason, in characters.
    pub const REASON_CHARS_MAX: usize = 160;
    /// How much of a wrong label an error repeats, in characters.
    const ECHO_CHARS_MAX: usize = 40;

    /// Checks an answer against the taxonomy. Case and surrounding space of labels are forgiven.
    ///
    /// # Errors
    /// The first label that does not exist, or a confidence that is no share.
    pub fn check(candidate: &Candidate, taxonomy: &Taxonomy) -> Result<Self, ClassificationFault> {
        let echo = |value: &str| text::clean_line(value, Self::ECHO_CHARS_MAX);
        let label = |value: &str| value.trim().to_ascii_lowercase();
        let category = taxonomy
            .find(&candidate.category)
            .ok_or_else(|| ClassificationFault::UnknownCategory(echo(&candidate.category)))?;
        let priority = label(&candidate.priority)
            .parse()
            .map_err(|()| ClassificationFault::UnknownPriority(echo(&candidate.priority)))?;
        let sentiment = label(&candidate.sentiment)
            .parse()
            .map_err(|()| ClassificationFault::UnknownSentiment(echo(&candidate.sentiment)))?;
        if !(0.0..=1.0).contains(&candidate.confidence) {
            return Err(ClassificationFault::ConfidenceOutOfRange(candidate.confidence));
        }
        let reasons = candidate.reasons.iter().map(|reason| text::clean_line(reason, Self::REASON_CHARS_MAX));
        Ok(Self {
            category: category.key.clone(),
            priority,
            sentiment,
            language: language_subtag(&candidate.language),
            summary: text::clean_line(&candidate.summary, Self::SUMMARY_CHARS_MAX),
            confidence: candidate.confidence,
            reasons: reasons.filter(|reason| !reason.is_empty()).take(Self::REASONS_MAX).collect(),
        })
    }
}

/// The primary subtag of a BCP 47 tag, or `und` (undetermined, RFC 5646 section 4.1).
fn language_subtag(answer: &str) -> String {
    let primary = answer.trim().split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
    let is_subtag = (2..=3).contains(&primary.len()) && primary.chars().all(|c| c.is_ascii_lowercase());
    if is_subtag { primary } else { "und".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Category;

    fn taxonomy() -> Taxonomy {
        let category = |key: &str| Category { key: key.into(), description: "d".into(), examples: vec![] };
        Taxonomy::new("1", vec![category("billing"), category("bug")]).expect("two described categories")
    }

    fn candidate() -> Candidate {
        Candidate {
            category: " Billing ".into(),
            priority: "HIGH".into(),
            sentiment: "neutral".into(),
            language: "pt-BR".into(),
            summary: "Charged\ntwice\0.".into(),
            confidence: 0.9,
            reasons: vec!["says charged twice".into(), " ".into()],
        }
    }

    #[test]
    fn case_and_space_are_forgiven_and_texts_come_out_clean() -> Result<(), ClassificationFault> {
        let checked = Classification::check(&candidate(), &taxonomy())?;
        assert_eq!(checked.category, "billing");
        assert_eq!(checked.priority, Priority::High);
        assert_eq!(checked.language, "pt");
        assert_eq!(checked.summary, "Charged twice.");
        assert_eq!(checked.reasons, ["says charged twice"]);
        Ok(())
    }

    #[test]
    fn a_label_outside_the_taxonomy_is_refused() {
        let wrong = Candidate { category: "billing issue".into(), ..candidate() };
        let fault = Classification::check(&wrong, &taxonomy());
        assert_eq!(fault, Err(ClassificationFault::UnknownCategory("billing issue".into())));
    }

    #[test]
    fn a_confidence_that_is_no_share_is_refused() {
        for confidence in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let wrong = Candidate { confidence, ..candidate() };
            assert!(Classification::check(&wrong, &taxonomy()).is_err(), "{confidence}");
        }
    }

    #[test]
    fn a_language_that_is_no_subtag_is_undetermined() {
        for odd in ["", "English", "x", "12"] {
            assert_eq!(language_subtag(odd), "und");
        }
    }
}
