//! What single words tell: a proposed priority, the sentiment, the language and a summary.

use std::collections::HashSet;

use crate::domain::{Classification, Priority, Sentiment, text};

/// Phrases that propose a priority, gravest first; within a step the first that occurs is named.
/// The rules of `triage::signs` may raise what is proposed here, never lower it.
const PRIORITY_PHRASES: [(Priority, &[&str]); 3] = [
    (
        Priority::Urgent,
        &[
            "production is down",
            "completely down",
            "site is down",
            "outage",
            "for everyone",
            "all users",
            "all our users",
            "all customers",
            "data loss",
            "breach",
            "hacked",
            "security incident",
            "alle kunden",
            "totalausfall",
            "en panne",
            "caído",
        ],
    ),
    (
        Priority::High,
        &[
            "urgent",
            "asap",
            "as soon as possible",
            "immediately",
            "critical",
            "blocked",
            "blocking",
            "cannot log in",
            "can't log in",
            "locked out",
            "charged twice",
            "double charged",
            "deadline",
            "escalate",
            "not working at all",
            "whole team",
            "dringend",
            "sofort",
            "urgente",
            "bloqué",
        ],
    ),
    (
        Priority::Low,
        &[
            "no rush",
            "no hurry",
            "not urgent",
            "low priority",
            "when you have time",
            "nice to have",
            "would be nice",
            "would be great",
            "feature request",
            "minor",
            "typo",
            "cosmetic",
            "just wondering",
            "out of curiosity",
            "keine eile",
        ],
    ),
];

const NEGATIVE: &[&str] = &[
    "angry",
    "annoyed",
    "annoying",
    "awful",
    "bad",
    "broken",
    "cancel",
    "complaint",
    "disappointed",
    "disappointing",
    "disgusted",
    "fed",
    "frustrated",
    "frustrating",
    "furious",
    "hate",
    "horrible",
    "incompetent",
    "joke",
    "nightmare",
    "outrageous",
    "pathetic",
    "poor",
    "ridiculous",
    "scam",
    "terrible",
    "unacceptable",
    "unhappy",
    "unusable",
    "upset",
    "useless",
    "worst",
    "worse",
    "ärgerlich",
    "enttäuscht",
    "schlecht",
    "furieux",
    "déçu",
    "inacceptable",
    "inaceptable",
    "pésimo",
];
const POSITIVE: &[&str] = &[
    "amazing",
    "appreciate",
    "awesome",
    "brilliant",
    "delighted",
    "excellent",
    "fantastic",
    "glad",
    "great",
    "happy",
    "helpful",
    "love",
    "loving",
    "perfect",
    "pleased",
    "superb",
    "thrilled",
    "wonderful",
    "danke",
    "super",
    "merci",
    "parfait",
    "excelente",
    "gracias",
];
const NEGATIONS: &[&str] = &["not", "no", "never", "isn't", "wasn't", "don't", "hardly", "nicht", "pas"];

/// The priority that the words propose, and the phrase that did it.
pub(super) fn priority(text: &str) -> (Priority, Option<&'static str>) {
    let lower = text.to_lowercase();
    let says = |phrase: &&'static str| contains_phrase(&lower, phrase);
    // "not urgent" holds "urgent": an explicit wish for less is heard before it.
    let low = PRIORITY_PHRASES[2].1.iter().copied().find(says);
    for (priority, phrases) in PRIORITY_PHRASES {
        if priority == Priority::High && low.is_some_and(|phrase| phrase.contains("urgent")) {
            continue;
        }
        if let Some(phrase) = phrases.iter().copied().find(says) {
            return (priority, Some(phrase));
        }
    }
    (Priority::Normal, None)
}

/// The sentiment by a count of words; a word after a negation counts for the other side.
pub(super) fn sentiment(text: &str) -> Sentiment {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let negative: HashSet<&str> = NEGATIVE.iter().copied().collect();
    let positive: HashSet<&str> = POSITIVE.iter().copied().collect();
    let mut balance = 0_i32;
    let mut is_negated = false;
    for word in lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()) {
        let weight = i32::from(positive.contains(word)) - i32::from(negative.contains(word));
        balance += if is_negated { -weight } else { weight };
        // A negation reaches over one word between, as in "not very helpful".
        is_negated = NEGATIONS.contains(&word) || (is_negated && weight == 0 && word.len() <= 4);
    }
    // Thanks at the end of a mail are manners, not a mood: two words are needed for a good one.
    match balance {
        ..=-1 => Sentiment::Negative,
        2.. => Sentiment::Positive,
        _ => Sentiment::Neutral,
    }
}

/// ISO 639-1 code of the language where it is told with some certainty, else `und`.
pub(super) fn language(text: &str) -> &'static str {
    // A subject of three words says little: trigrams need a sentence.
    const CHARS_MIN: usize = 20;
    if text.trim().chars().count() < CHARS_MIN {
        return "und";
    }
    match whatlang::detect(text).filter(|found| found.is_reliable() || found.confidence() > 0.5) {
        Some(found) => two_letters(found.lang()),
        None => "und",
    }
}

/// The subject, or the first sentence of the body where there is none.
pub(super) fn summary(subject: &str, body: &str) -> String {
    let subject = text::clean_line(subject, Classification::SUMMARY_CHARS_MAX);
    if subject.chars().count() >= 8 {
        return subject;
    }
    let line = body.lines().map(str::trim).find(|line| line.chars().count() >= 8).unwrap_or(body);
    let end = line.match_indices(['.', '!', '?', '。']).find(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        rest.is_empty() || rest.starts_with(char::is_whitespace)
    });
    let sentence = end.map_or(line, |(at, mark)| &line[..at + mark.len()]);
    let sentence = text::clean_line(sentence, Classification::SUMMARY_CHARS_MAX);
    if sentence.is_empty() { subject } else { sentence }
}

fn contains_phrase(lower: &str, phrase: &str) -> bool {
    lower.match_indices(phrase).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + phrase.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// The common languages by their two-letter codes (ISO 639-1); whatlang speaks ISO 639-3.
fn two_letters(lang: whatlang::Lang) -> &'static str {
    use whatlang::Lang;
    match lang {
        Lang::Eng => "en",
        Lang::Deu => "de",
        Lang::Fra => "fr",
        Lang::Spa => "es",
        Lang::Por => "pt",
        Lang::Ita => "it",
        Lang::Nld => "nl",
        Lang::Pol => "pl",
        Lang::Swe => "sv",
        Lang::Dan => "da",
        Lang::Nob => "nb",
        Lang::Fin => "fi",
        Lang::Ces => "cs",
        Lang::Slk => "sk",
        Lang::Hun => "hu",
        Lang::Ron => "ro",
        Lang::Ell => "el",
        Lang::Tur => "tr",
        Lang::Rus => "ru",
        Lang::Ukr => "uk",
        Lang::Bul => "bg",
        Lang::Heb => "he",
        Lang::Ara => "ar",
        Lang::Hin => "hi",
        Lang::Tha => "th",
        Lang::Vie => "vi",
        Lang::Ind => "id",
        Lang::Cmn => "zh",
        Lang::Jpn => "ja",
        Lang::Kor => "ko",
        other => other.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_phrase_proposes_the_priority_and_is_named() {
        assert_eq!(priority("Our site is down, urgent!"), (Priority::Urgent, Some("site is down")));
        assert_eq!(priority("I was charged twice"), (Priority::High, Some("charged twice")));
        assert_eq!(priority("Not urgent, just a typo"), (Priority::Low, Some("not urgent")));
        assert_eq!(priority("How do I export?"), (Priority::Normal, None));
        // A phrase counts as words, not as a part of one.
        assert_eq!(priority("insurgents and minority"), (Priority::Normal, None));
    }

    #[test]
    fn sentiment_hears_negations_and_ignores_manners() {
        assert_eq!(sentiment("This is unacceptable, I am furious."), Sentiment::Negative);
        assert_eq!(sentiment("I love it, works great!"), Sentiment::Positive);
        assert_eq!(sentiment("Great, thanks in advance."), Sentiment::Neutral);
        assert_eq!(sentiment("That was not very helpful."), Sentiment::Negative);
        assert_eq!(sentiment("How do I change my address?"), Sentiment::Neutral);
    }

    #[test]
    fn the_language_is_told_or_left_open() {
        assert_eq!(language("How can I change the address on my invoices?"), "en");
        assert_eq!(language("Ich kann mich seit gestern nicht mehr anmelden, bitte helfen Sie mir."), "de");
        assert_eq!(language("Je ne peux plus me connecter à mon compte depuis hier."), "fr");
        assert_eq!(language("help"), "und");
    }

    #[test]
    fn the_summary_is_the_subject_or_the_first_sentence() {
        assert_eq!(summary("Cannot log in", "x"), "Cannot log in");
        assert_eq!(summary("Hi", "Hello\nVersion 1.2 fails. It said so."), "Version 1.2 fails.");
        assert_eq!(summary("", ""), "");
    }
}
