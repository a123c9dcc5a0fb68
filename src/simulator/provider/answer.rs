//! A plausible answer: the label whose words the ticket shares, and what single words tell.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// A label with every text that describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The key.
    pub(super) key: String,
    /// Its description and examples, as far as the prompt gives them.
    pub(super) text: String,
}

/// Classifies a ticket. The same ticket and labels always give the same answer.
pub(super) fn classify(ticket: &str, labels: &[Label]) -> Value {
    let words = words(ticket);
    let documents: Vec<BTreeSet<String>> = labels
        .iter()
        .map(|label| words_of(&format!("{} {}", label.key.replace('_', " "), label.text)))
        .collect();
    let mut spread: BTreeMap<&str, f64> = BTreeMap::new();
    for word in documents.iter().flatten() {
        *spread.entry(word).or_default() += 1.0;
    }
    // A word that only one label uses says more than one that all of them use.
    let score = |document: &BTreeSet<String>| -> f64 {
        words.iter().filter(|word| document.contains(*word)).map(|word| 1.0 / spread[word.as_str()]).sum()
    };
    let scores: Vec<f64> = documents.iter().map(score).collect();
    // The last label is by custom the one for the rest, and takes what shares no word with any.
    let mut best = labels.len().saturating_sub(1);
    for (at, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = at;
        }
    }
    let total: f64 = scores.iter().sum();
    let share = if total > 0.0 { scores[best] / total } else { 0.0 };
    let category = labels.get(best).map(|label| label.key.as_str()).unwrap_or_default();
    let lower = ticket.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    let priority = if says(&["outage", "is down", "breach", "everyone"]) {
        "urgent"
    } else if says(&["urgent", "asap", "twice", "cannot", "can't", "blocked"]) {
        "high"
    } else if says(&["would be nice", "suggestion", "no rush", "typo"]) {
        "low"
    } else {
        "normal"
    };
    let sentiment = if says(&["angry", "unacceptable", "terrible", "frustrat", "worst"]) {
        "negative"
    } else if says(&["love", "wonderful", "thank you so much"]) {
        "positive"
    } else {
        "neutral"
    };
    json!({
        "category": category,
        "priority": priority,
        "sentiment": sentiment,
        "language": "en",
        "summary": ticket.split_whitespace().take(20).collect::<Vec<_>>().join(" "),
        "confidence": ((0.4 + 0.55 * share) * 100.0).round() / 100.0,
        "reasons": [format!("shares the most words with {category}")],
    })
}

/// The longer words of a text, in lower case and without a plural s, in order of first use.
fn words(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    let stems = all.map(|word| word.strip_suffix('s').map(str::to_owned).unwrap_or(word));
    stems.filter(|word| word.chars().count() > 3 && seen.insert(word.clone())).collect()
}

fn words_of(text: &str) -> BTreeSet<String> {
    words(text).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(key: &str, text: &str) -> Label {
        Label { key: key.into(), text: text.into() }
    }

    #[test]
    fn the_label_that_shares_the_most_telling_words_wins() {
        let labels = [
            label("billing", "invoices and charges"),
            label("bug", "errors and crashes"),
            label("other", ""),
        ];
        assert_eq!(classify("There is an error, it crashes", &labels)["category"], "bug");
        assert_eq!(classify("My invoice is wrong", &labels)["category"], "billing");
        assert_eq!(classify("Lorem ipsum", &labels)["category"], "other");
    }

    #[test]
    fn nothing_to_choose_from_is_no_reason_to_fall_over() {
        assert_eq!(classify("x", &[])["category"], "");
    }
}
