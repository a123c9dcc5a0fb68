//! The verdict: what *we* decide from a classification. The model gives facts, rules decide.

use std::fmt;

use super::{Classification, Priority, Sentiment, text};

/// Why a person should look before anything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewReason {
    /// The lane was not sure enough.
    LowConfidence,
    /// The text tries to tell the model what to answer.
    InjectionSign,
    /// The model refused or a filter blocked the text.
    Refused,
    /// The answer could not be used, even when asked again.
    UnusableAnswer,
}

impl ReviewReason {
    /// The word used in SQL, the API and metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::LowConfidence => "low_confidence",
            Self::InjectionSign => "injection_sign",
            Self::Refused => "refused",
            Self::UnusableAnswer => "unusable_answer",
        }
    }
}

impl fmt::Display for ReviewReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was decided about a ticket.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// A key of the taxonomy; `None` when no usable answer came.
    pub category: Option<String>,
    /// After the rules.
    pub priority: Priority,
    /// `None` when no usable answer came.
    pub sentiment: Option<Sentiment>,
    /// BCP 47 primary subtag, or `und`.
    pub language: String,
    /// One sentence, empty when no usable answer came.
    pub summary: String,
    /// 0 to 1; 0 when no usable answer came.
    pub confidence: f64,
    /// Grounds for the category and for every raise of the priority.
    pub reasons: Vec<String>,
    /// Why a person should look; empty means that the verdict routes by itself.
    pub review: Vec<ReviewReason>,
}

/// What the rules found in the ticket's own text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSigns {
    /// Lowest priority that the text allows, with the ground for it.
    pub priority_floor: Option<(Priority, String)>,
    /// The text speaks to the model.
    pub injection: bool,
}

/// The settings of the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerdictPolicy {
    /// Confidence below this goes to review, 0 to 1.
    pub confidence_min: f64,
}

impl VerdictPolicy {
    /// Decides. A floor only raises the priority, a sign of injection only adds a review.
    #[must_use]
    pub fn decide(&self, classification: Classification, signs: &TextSigns) -> Verdict {
        let mut review = Vec::new();
        if classification.confidence < self.confidence_min {
            review.push(ReviewReason::LowConfidence);
        }
        if signs.injection {
            review.push(ReviewReason::InjectionSign);
        }
        let mut reasons = classification.reasons;
        let priority = raise(classification.priority, signs, &mut reasons);
        Verdict {
            category: Some(classification.category),
            priority,
            sentiment: Some(classification.sentiment),
            language: classification.language,
            summary: classification.summary,
            confidence: classification.confidence,
            reasons,
            review,
        }
    }

    /// The verdict when no usable answer came: a person looks, the rules still set the priority.
    #[must_use]
    pub fn review_only(&self, reason: ReviewReason, detail: String, signs: &TextSigns) -> Verdict {
        let mut reasons = vec![text::clean_line(&detail, Classification::REASON_CHARS_MAX)];
        let priority = raise(Priority::Normal, signs, &mut reasons);
        Verdict {
            category: None,
            priority,
            sentiment: None,
            language: "und".to_owned(),
            summary: String::new(),
            confidence: 0.0,
            reasons,
            review: vec![reason],
        }
    }
}

impl Verdict {
    /// Whether a person should look before anything happens.
    #[must_use]
    pub fn needs_review(&self) -> bool {
        !self.review.is_empty()
    }
}

fn raise(proposed: Priority, signs: &TextSigns, reasons: &mut Vec<String>) -> Priority {
    match &signs.priority_floor {
        Some((floor, ground)) if *floor > proposed => {
            reasons.push(format!("priority raised to {floor}: {ground}"));
            *floor
        }
        _ => proposed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classification(priority: Priority, confidence: f64) -> Classification {
        Classification {
            category: "bug".into(),
            priority,
            sentiment: Sentiment::Neutral,
            language: "en".into(),
            summary: "It breaks.".into(),
            confidence,
            reasons: vec![],
        }
    }

    const POLICY: VerdictPolicy = VerdictPolicy { confidence_min: 0.5 };

    fn outage() -> TextSigns {
        TextSigns {
            priority_floor: Some((Priority::Urgent, "the text speaks of an outage".into())),
            injection: false,
        }
    }

    #[test]
    fn a_floor_raises_the_priority_and_says_why() {
        let verdict = POLICY.decide(classification(Priority::Low, 0.9), &outage());
        assert_eq!(verdict.priority, Priority::Urgent);
        assert_eq!(verdict.reasons, ["priority raised to urgent: the text speaks of an outage"]);
    }

    #[test]
    fn a_floor_never_lowers_the_priority() {
        let low = TextSigns { priority_floor: Some((Priority::Low, "x".into())), injection: false };
        assert_eq!(POLICY.decide(classification(Priority::High, 0.9), &low).priority, Priority::High);
    }

    #[test]
    fn low_confidence_and_injection_each_ask_for_a_person() {
        let signs = TextSigns { injection: true, ..TextSigns::default() };
        let verdict = POLICY.decide(classification(Priority::Low, 0.4), &signs);
        assert_eq!(verdict.review, [ReviewReason::LowConfidence, ReviewReason::InjectionSign]);
        assert!(verdict.needs_review());
    }

    #[test]
    fn a_ticket_without_a_usable_answer_keeps_its_floor() {
        let verdict = POLICY.review_only(ReviewReason::Refused, "model refused".into(), &outage());
        assert_eq!((verdict.priority, verdict.category.as_ref()), (Priority::Urgent, None));
    }
}
